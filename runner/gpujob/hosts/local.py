"""This machine as a host: a rental is a folder, and the host is gone when the folder is."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from gpujob import files, processes
from gpujob.core.errors import HostError
from gpujob.core.layout import HomePaths, HostPaths
from gpujob.hosts.protocol import Presence, Rental
from gpujob.hosts.survey import Survey


@dataclass(frozen=True, slots=True)
class LocalHost:
    """Rent out folders below the client's home. Every rental has a name of its own: a new one in the place of a
    deleted one is another machine.
    """

    home: HomePaths
    price_per_hour: float = 0.0

    def check(self) -> Survey:
        """Find nothing: whoever asks runs here."""
        return Survey()

    def acquire(self, job_id: str) -> Rental:
        """Make the job's folder, or give the one it has; raises HostError when the disk refuses."""
        paths = HostPaths(self.home.rental(job_id))
        try:
            rental = _read(paths)
            if rental is None:
                rental = Rental(
                    ref=f"this machine ({secrets.token_hex(4)})",
                    root=str(paths.root),
                    price_per_hour=self.price_per_hour,
                )
                files.write(paths.rental, rental.encode())
        except OSError as error:
            raise HostError("make", str(paths.root), error.strerror or str(error), "is the disk full?") from error
        return rental

    def look(self, rental: Rental) -> Presence:
        """Say whether the folder is still that rental's."""
        try:
            there = _read(HostPaths(Path(rental.root)))
        except OSError:
            return Presence.UNREACHABLE
        return Presence.HERE if there and there.ref == rental.ref else Presence.GONE

    def release(self, job_id: str, rental: Rental, last_attempt: int) -> None:
        """End what is left of the attempts and delete the folder, unless it is another rental's by now."""
        processes.kill_job(job_id, last_attempt)
        if self.look(rental) is Presence.GONE:
            return
        try:
            # The name goes last: a release that was cut short is seen as such and done again.
            paths = HostPaths(Path(rental.root))
            for path in paths.root.iterdir():
                if path != paths.rental:
                    _remove(path)
            files.remove_tree(paths.root)
        except OSError as error:
            raise HostError("delete", rental.root, error.strerror or str(error), "delete it by hand") from error


def _read(paths: HostPaths) -> Rental | None:
    """Read whose folder it is; a damaged name is nobody's."""
    try:
        return Rental.decode(paths.rental.read_bytes())
    except (FileNotFoundError, NotADirectoryError, ValidationError):
        return None


def _remove(path: Path) -> None:
    if path.is_dir():
        files.remove_tree(path)
    else:
        path.unlink()
