"""What the tests of `bundle` ship through: a store that counts, and folders to compare."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpujob import bundle
from gpujob.bundle import blobs
from gpujob.core.errors import StoreError
from gpujob.store.local import LocalStore
from gpujob.store.memory import MemoryStore
from gpujob.store.protocol import Capabilities, ObjectInfo, Progress, Store


class Counted:
    """A store that remembers what moved; with `conditional=False` it is one that honours no conditions."""

    def __init__(self, inner: Store | None = None, conditional: bool = True) -> None:
        self._inner = inner or MemoryStore()
        self.url, self.capabilities = self._inner.url, Capabilities(conditional)
        self.sent: dict[str, int] = {}
        self.fetched: list[str] = []

    def forget(self) -> None:
        """Count from nothing again."""
        self.sent.clear()
        self.fetched.clear()

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        self.fetched.append(key)
        return self._inner.get(key, start=start, length=length)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        if not self.capabilities.conditional and (if_absent or if_match):
            raise StoreError("write", key, "this store honours no conditions")
        etag = self._inner.put(key, data, if_absent=if_absent, if_match=if_match)
        self.sent[key] = len(data)
        return etag

    def put_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        self._inner.put_file(key, path, progress)
        self.sent[key] = path.stat().st_size

    def get_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        self.fetched.append(key)
        self._inner.get_file(key, path, progress)

    def head(self, key: str) -> ObjectInfo:
        return self._inner.head(key)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        return self._inner.list(prefix)

    def delete(self, key: str) -> None:
        self._inner.delete(key)


def ship_code(root: Path, limit: int) -> None:
    """Ship `root`/code into `root`/store; files of more than `limit` bytes count as big."""
    blobs.IN_MEMORY = limit
    bundle.ship(LocalStore(root / "store"), "job", bundle.pack({"code": root / "code"}))


def fetch_code(root: Path, limit: int) -> None:
    """Fetch the code of `root`/store into `root`/target; files of more than `limit` bytes count as big."""
    blobs.IN_MEMORY = limit
    store = LocalStore(root / "store")
    bundle.fetch(store, bundle.read(store, "job").parts["code"], root / "target")


def plant(root: Path, files: dict[str, bytes], executable: tuple[str, ...] = ()) -> Path:
    """Write files below `root`, which is made even when there are none."""
    root.mkdir(parents=True, exist_ok=True)
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)
        (root / name).chmod(0o755 if name in executable else 0o644)
    return root


def tree(root: Path) -> dict[str, bytes]:
    """Read back what is below `root`: files by content, links by where they lead."""
    return {
        path.relative_to(root).as_posix(): bytes(path.readlink()) if path.is_symlink() else path.read_bytes()
        for path in root.rglob("*")
        if path.is_symlink() or path.is_file()
    }
