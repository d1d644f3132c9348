"""A machine one has already, reached over a transport: a rental is a job's folder there, with its name in it.

The machine is a stranger. Of what it answers only the name of a rental and the user's home are used; where we write and
what we delete is decided here.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gpujob.core.errors import HostDenied, HostError, HostUnreachable
from gpujob.core.layout import HostPaths, MachinePaths
from gpujob.core.spec import Host as HostSpec
from gpujob.hosts.needs import Needs, refusals
from gpujob.hosts.probe import probe
from gpujob.hosts.protocol import Presence, Rental
from gpujob.hosts.survey import Survey
from gpujob.transport.protocol import Completed, Transport

_REF = 200
_RELEASE_SECONDS = 300.0

# The name appears whole and once (a link fails where there is one); only what is nobody's is replaced.
_CLAIM = r"""
umask 077
mkdir -p "$1" && cd "$1" || exit 1
new=.gpujob-tmp-$3
trap 'rm -f "$new"' EXIT
cat > "$new" || exit 1
if [ "$4" = replace ]; then mv -f "$new" "$2"
else ln "$new" "$2" 2>/dev/null || [ -e "$2" ] || [ -L "$2" ] || mv "$new" "$2"
fi && cat "$2"
"""

_READ = """
if [ -L "$1" ]; then echo; else LC_ALL=C exec cat "$1"; fi
"""

# The name goes last: a release that was cut short is seen as such and done again.
_RELEASE = r"""
if [ -f "$2" ]; then sh "$2" release "$3" "$4" || exit; fi
[ -d "$1" ] || exit 0
find "$1" -mindepth 1 -maxdepth 1 ! -path "$5" -exec rm -rf {} + && rm -rf "$1"
"""


@dataclass(frozen=True, slots=True)
class SshHost:
    """One machine of one's own. `needs` is what the job needs of it."""

    spec: HostSpec
    transport: Transport
    needs: Needs

    def check(self) -> Survey:
        """Look at the machine; raises HostError when a job could not start there."""
        survey = self._look()
        self._refuse(survey)
        return survey

    def acquire(self, job_id: str) -> Rental:
        """Claim the machine for a job, or give the rental the job has there; raises HostError when it will not do."""
        survey = self._look()
        paths = self._paths(survey, job_id)
        # Before any refusal: a disk that the job itself has filled must not hide that the job is there.
        there = self._read(paths)
        if isinstance(there, Rental):
            return self._rental(paths, there.ref)
        self._refuse(survey)
        mine = self._rental(paths, f"{self.transport.name} ({secrets.token_hex(4)})")
        return self._rental(paths, self._claim(paths, mine, replace=there is Presence.UNREACHABLE))

    def look(self, rental: Rental) -> Presence:
        """Say whether the job's folder is still that rental's. A key that changed proves nothing about the job."""
        try:
            return self._presence(rental)
        except (HostUnreachable, HostDenied):
            return Presence.UNREACHABLE

    def release(self, job_id: str, rental: Rental, last_attempt: int) -> None:
        """End what runs of the attempts and delete the folder, unless it is another rental's by now."""
        paths = HostPaths(Path(rental.root))
        if paths != paths.machine.job(job_id) or ".." in paths.root.parts or not paths.root.is_absolute():
            raise HostError("delete", rental.root, f"it is not a folder of the job {job_id}")
        if self._presence(rental) is Presence.GONE:
            return
        words = (paths.root, paths.onhost, job_id, last_attempt, paths.rental)
        done = self.transport.run(["sh", "-c", _RELEASE, "gpujob", *map(str, words)], timeout=_RELEASE_SECONDS)
        hint = f"stop what runs there and delete {rental.root} by hand"
        done.check("release", self.transport.name, hint)
        if self._presence(rental) is not Presence.GONE:
            raise HostError("release", self.transport.name, f"{rental.root} is still there", hint)

    def _look(self) -> Survey:
        return probe(self.transport, self.spec.root, self.needs.store)

    def _refuse(self, survey: Survey) -> None:
        if found := refusals(survey, self.needs):
            raise HostError("use", self.transport.name, "; ".join(found))

    def _paths(self, survey: Survey, job_id: str) -> HostPaths:
        if survey.root is None:
            self._refuse(survey)
            raise HostError("use", self.transport.name, "it does not say where its user's home is")
        return MachinePaths(Path(survey.root)).job(job_id)

    def _rental(self, paths: HostPaths, ref: str) -> Rental:
        return Rental(ref=ref, root=str(paths.root), price_per_hour=self.spec.price_per_hour)

    def _presence(self, rental: Rental) -> Presence:
        there = self._read(HostPaths(Path(rental.root)))
        if isinstance(there, Rental):
            return Presence.HERE if there.ref == rental.ref else Presence.GONE
        return there

    def _read(self, paths: HostPaths) -> Rental | Presence:
        """Read whose folder it is: GONE when nobody's name is there, UNREACHABLE when that cannot be told."""
        return _name(self.transport.run(["sh", "-c", _READ, "gpujob", str(paths.rental)]))

    def _claim(self, paths: HostPaths, rental: Rental, *, replace: bool) -> str:
        """Write the rental's name, unless another is there; give the one that is there then."""
        words = (paths.root, paths.rental.name, secrets.token_hex(6), "replace" if replace else "claim")
        done = self.transport.run(["sh", "-c", _CLAIM, "gpujob", *map(str, words)], input=rental.encode())
        there = _name(done.check("make", str(paths.root), "is the disk full?"))
        if not isinstance(there, Rental):
            raise HostError("claim", str(paths.root), "what was written there is not there", "look at it by hand")
        return there.ref


def _name(done: Completed) -> Rental | Presence:
    if done.exit:
        missing = done.stderr.rstrip().endswith((b"No such file or directory", b"Not a directory"))
        return Presence.GONE if missing else Presence.UNREACHABLE
    try:
        rental = Rental.decode(done.stdout)
    except ValidationError:
        return Presence.UNREACHABLE
    return rental if rental.ref.isprintable() and len(rental.ref) <= _REF else Presence.UNREACHABLE
