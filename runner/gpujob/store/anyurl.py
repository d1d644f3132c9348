"""Any other URL, through fsspec: users' data, and stores that cannot decide between writers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import fsspec
from fsspec.config import set_conf_env

from gpujob import files
from gpujob.core.errors import StoreDenied, StoreError, StoreUnavailable
from gpujob.store import urls
from gpujob.store.failures import no_such_object, without_conditions
from gpujob.store.keys import OWN, check_key, check_prefix
from gpujob.store.protocol import Capabilities, ObjectInfo, Progress

_CHUNK = 4 << 20
_PASSING = ("timeout", "connect", "disconnect", "unavailable", "throttl")
"""Every file system has its own errors; these words are in the names of those that may pass."""
_MODIFIED = ("mtime", "LastModified", "last_modified", "updated", "created")


class AnyUrlStore:
    """Objects as files of an fsspec file system. Its options come from the FSSPEC_<PROTOCOL>_<OPTION> variables."""

    capabilities = Capabilities(conditional=False)

    def __init__(self, url: str, env: Mapping[str, str]) -> None:
        self._given, self._env = url.rstrip("/"), env
        self.url = urls.without_credentials(self._given)

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a range of it."""
        path = self._path(key)
        if (start or length is not None) and (start >= self.head(key).size or length == 0):
            return b""
        with self._asking("read", key), self._fs.open(path, "rb") as file:
            file.seek(start)
            return bytes(file.read() if length is None else file.read(length))

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write an object; with a condition always an error."""
        check_key(key)
        if if_absent or if_match is not None:
            raise without_conditions(key)
        with self._writing("write", key) as write:
            write(data)
        return self.head(key).etag

    def put_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Upload a file in one stream."""
        check_key(key)
        with path.open("rb") as source:
            with self._writing("upload", key) as write:
                while chunk := source.read(_CHUNK):
                    write(chunk)
                    if progress:
                        progress(len(chunk))
            size, arrived = source.tell(), self.head(key).size
        if arrived != size:
            raise StoreUnavailable("upload", key, f"{arrived} of {size} bytes arrived")

    def get_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Download an object in one stream."""
        size, source = self.head(key).size, self._path(key)
        with self._asking("read", key):
            reader = self._fs.open(source, "rb")
        with reader, files.replacing(path) as temp, temp.open("wb") as writer:
            while chunk := self._next(reader, key):
                writer.write(chunk)
                if progress:
                    progress(len(chunk))
            if writer.tell() != size:
                raise StoreUnavailable("read", key, f"{writer.tell()} of {size} bytes arrived")

    def head(self, key: str) -> ObjectInfo:
        """Describe an object."""
        path = self._path(key)
        with self._asking("find", key):
            self._fs.invalidate_cache()
            info = self._fs.info(path)
        if info["type"] != "file":
            raise no_such_object("find", key)
        return _info(key, info)

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List the objects there are now."""
        folder, (fs, root) = check_prefix(prefix), self._opened
        below: dict[str, Any] = {}
        with self._asking("list", prefix), suppress(FileNotFoundError):
            fs.invalidate_cache()
            below = fs.find(f"{root}/{folder}".rstrip("/"), detail=True)
        infos = sorted((name.removeprefix(f"{root}/"), info) for name, info in below.items())
        return iter([_info(key, info) for key, info in infos if key.startswith(prefix) and f"/{OWN}" not in f"/{key}"])

    def delete(self, key: str) -> None:
        """Delete an object."""
        path = self._path(key)
        with self._asking("delete", key), suppress(FileNotFoundError):
            self._fs.rm_file(path)

    @contextmanager
    def _writing(self, operation: str, key: str) -> Iterator[Callable[[bytes], None]]:
        """Give what writes to a name beside the object's; at the end that takes the object's place."""
        path = self._path(key)
        parent = path.rpartition("/")[0]
        temp = f"{parent}/{OWN}tmp-{secrets.token_hex(6)}"
        with self._asking(operation, key):
            self._fs.makedirs(parent, exist_ok=True)
            file = self._fs.open(temp, "wb")

        def write(data: bytes) -> None:
            with self._asking(operation, key):
                file.write(data)

        try:
            yield write
            with self._asking(operation, key):
                file.close()
                self._fs.mv(temp, path)
        except BaseException:
            with suppress(Exception):
                file.close()
            with suppress(Exception):
                self._fs.rm_file(temp)
            raise

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        options: dict[str, dict[str, Any]] = {}
        set_conf_env(options, dict(self._env))
        with self._asking("open", self.url):
            fs, root = fsspec.core.url_to_fs(self._given, **options.get(urls.scheme(self._given), {}))
            return fs, root.rstrip("/")

    @property
    def _fs(self) -> Any:
        return self._opened[0]

    def _path(self, key: str) -> str:
        return f"{self._opened[1]}/{check_key(key)}"

    def _next(self, reader: BinaryIO, key: str) -> bytes:
        with self._asking("read", key):
            return reader.read(_CHUNK)

    @contextmanager
    def _asking(self, operation: str, key: str) -> Iterator[None]:
        """Turn what a file system raises into an error of the contract, without its text: that may quote a password."""
        try:
            yield
        except StoreError:
            raise
        except Exception as error:
            raise _explain(error, operation, key) from None


def _info(key: str, info: dict[str, Any]) -> ObjectInfo:
    tag = info.get("ETag") or info.get("etag") or fsspec.utils.tokenize(info)
    modified = next((info[name] for name in _MODIFIED if info.get(name)), 0.0)
    seconds = modified.timestamp() if hasattr(modified, "timestamp") else modified
    return ObjectInfo(key, int(info.get("size") or 0), str(tag), float(seconds))


def _explain(error: Exception, operation: str, key: str) -> StoreError:
    kind = type(error).__name__
    if operation in ("read", "find") and isinstance(error, (FileNotFoundError, NotADirectoryError, IsADirectoryError)):
        return no_such_object(operation, key)
    if isinstance(error, PermissionError):
        return StoreDenied(operation, key, "the server refuses", "check the credentials of this URL")
    if isinstance(error, (ConnectionError, TimeoutError)) or any(word in kind.lower() for word in _PASSING):
        return StoreUnavailable(operation, key, f"the server cannot be reached or broke off ({kind})")
    return StoreError(operation, key, f"the file system cannot do that ({kind})")
