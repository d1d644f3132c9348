"""What of a job lies on this computer only, until the agent on its machine has put it into the store."""

from __future__ import annotations

from pathlib import Path

from pydantic import ValidationError

from gpujob import bundle, files
from gpujob.core.errors import Damaged, NotFound
from gpujob.core.layout import APP, IMAGE, HomePaths
from gpujob.core.plan import Plan
from gpujob.core.records import Bundle, Record
from gpujob.hosts.protocol import Rental
from gpujob.runtime.protocol import Cargo
from gpujob.store.protocol import Store


class Outbox(Record):
    """What travels, and a file of this computer for each digest of it."""

    bundle: Bundle
    sources: dict[str, str]


def save(home: HomePaths, job_id: str, packed: bundle.Packed) -> None:
    """Note where everything lies."""
    path = home.outbox(job_id)
    files.make_folder(path.parent)
    sources = {digest: str(source) for digest, source in packed.sources.items()}
    files.write(path, Outbox(bundle=packed.bundle, sources=sources).encode(), mode=0o600)


def remove(home: HomePaths, job_id: str) -> None:
    """Forget a job's; none there is fine."""
    home.outbox(job_id).unlink(missing_ok=True)


def cargo(home: HomePaths, plan: Plan, store: Store, rental: Rental) -> Cargo:
    """Give what a machine has to be brought: all of it, or only gpujob once the store has the rest.

    Raises Damaged when the files are in neither place, StoreError.
    """
    image = Path(plan.local_parts[IMAGE]) if IMAGE in plan.local_parts else None
    try:
        travels = bundle.read(store, plan.job_id)
    except NotFound:
        known = _load(home, plan.job_id)
        sources = {digest: Path(source) for digest, source in known.sources.items()}
        return Cargo(plan.job_id, rental.root, bundle.app_part().parent, image, known.bundle, sources)
    remove(home, plan.job_id)
    return Cargo(plan.job_id, rental.root, _fetched(home, store, travels, APP), image)


def _fetched(home: HomePaths, store: Store, travels: Bundle, part: str) -> Path:
    """Give a part as the job has it, which may be another version's than this client's own."""
    entries = travels.parts[part]
    digest = files.digest_bytes("\n".join(f"{each.path} {each.blake3}" for each in entries).encode())
    folder = home.part(digest[:16])
    bundle.fetch(store, entries, folder)
    return folder


def _load(home: HomePaths, job_id: str) -> Outbox:
    path = home.outbox(job_id)
    try:
        return Outbox.decode(path.read_bytes())
    except FileNotFoundError:
        hint = "submit the job again from the computer that has its files"
        raise Damaged(
            "send", f"the files of job {job_id}", "neither the store nor this computer has them", hint
        ) from None
    except ValidationError:
        raise Damaged("read", str(path), "it is not a list of files", "submit the job again") from None
