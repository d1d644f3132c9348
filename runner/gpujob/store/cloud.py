"""S3, Google and Azure through obstore.

Three clients of one bucket, because what is right for a small request is wrong for a large file. A small request is
short and is never repeated here: the retry wrapper does that, and knows that a conditional put must not be. A large
file's parts are repeated by the client, or one lost packet would send gigabytes again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, cast

import obstore
from obstore.exceptions import BaseError

from gpujob import files
from gpujob.core.errors import NotFound, StoreDenied, StoreError, StoreUnavailable
from gpujob.store import urls
from gpujob.store.answers import asking, is_beyond_end, may_be_missing
from gpujob.store.connect import Connection
from gpujob.store.failures import already_exists, another_version, no_such_object
from gpujob.store.keys import check_conditions, check_key, check_prefix
from gpujob.store.protocol import Capabilities, ObjectInfo, Progress

_PART = 16 << 20
_PARALLEL_PARTS = 8
_MAX_PARTS = 10_000
_STREAM_CHUNK = 8 << 20
_PART_RETRIES = 6


class CloudStore:
    """Objects below a prefix of a bucket."""

    capabilities = Capabilities(conditional=True)

    def __init__(self, url: str, env: Mapping[str, str]) -> None:
        self.url, self._env = urls.without_credentials(url), env
        # Google swaps by an object's generation, everybody else by its etag.
        self._tag = "version" if urls.scheme(url) in urls.GCS else "e_tag"

    def get(self, key: str, *, start: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a range of it."""
        check_key(key)
        if length == 0:
            self.head(key)
            return b""
        with self._there_or_not(key), asking("read", key):
            if start == 0 and length is None:
                return bytes(obstore.get(self._requests, key).bytes())
            span: Any = {"offset": start} if length is None else (start, start + length)
            try:
                return bytes(obstore.get(self._requests, key, options={"range": span}).bytes())
            except BaseError as error:
                if is_beyond_end(error):
                    return b""
                raise

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write an object in one plain request, if the condition holds; give its etag."""
        check_key(key)
        check_conditions(if_absent, if_match)
        mode: Any = "create" if if_absent else "overwrite" if if_match is None else {self._tag: if_match}
        conflict = already_exists(key) if if_absent else None if if_match is None else another_version(key)
        with asking("write", key, conflict=conflict):
            result: Any = obstore.put(self._requests, key, data, mode=mode, use_multipart=False)
        return result[self._tag] or self.head(key).etag

    def put_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Upload a file, a large one in parts side by side. Progress runs ahead by the parts that are on their way."""
        check_key(key)
        file, size = path.open("rb"), path.stat().st_size
        part = max(_PART, -(-size // _MAX_PARTS))
        watched = _Watched(file, progress)
        with file, watched.owning_up(), asking("upload", key):
            obstore.put(
                self._uploads,
                key,
                cast(Any, watched),
                use_multipart=size > part,
                chunk_size=part,
                max_concurrency=_PARALLEL_PARTS,
            )
        arrived = self.head(key).size
        if arrived != size:
            raise StoreUnavailable("upload", key, f"{arrived} of {size} bytes arrived, or the file changed meanwhile")

    def get_file(self, key: str, path: Path, progress: Progress | None = None) -> None:
        """Download an object in one stream."""
        check_key(key)
        with self._there_or_not(key), asking("read", key):
            answer = obstore.get(self._downloads, key)
            expected, chunks = answer.meta["size"], iter(answer.stream(min_chunk_size=_STREAM_CHUNK))
        with files.replacing(path) as temp, temp.open("wb") as writer:
            while chunk := _next(chunks, key):
                writer.write(chunk)
                if progress:
                    progress(len(chunk))
            if writer.tell() != expected:
                raise StoreUnavailable("read", key, f"{writer.tell()} of {expected} bytes arrived")

    def head(self, key: str) -> ObjectInfo:
        """Describe an object."""
        check_key(key)
        with self._there_or_not(key), asking("find", key):
            return self._info(obstore.head(self._requests, key))

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        """List the objects there are now. Sorted here: not every server lists in the order of keys."""
        folder = check_prefix(prefix)
        with asking("list", prefix):
            pages = obstore.list(self._requests, folder or None, chunk_size=1000)
            found = [self._info(meta) for page in pages for meta in page if meta["path"].startswith(prefix)]
        return iter(sorted(found, key=lambda info: info.key))

    def delete(self, key: str) -> None:
        """Delete an object."""
        check_key(key)
        with suppress(NotFound), asking("delete", key):
            obstore.delete(self._requests, key)

    @contextmanager
    def _there_or_not(self, key: str) -> Iterator[None]:
        """Tell "not there" from "not allowed": S3 says 403 to both where only some prefixes may be listed."""
        try:
            yield
        except StoreDenied as denied:
            if may_be_missing(denied) and self._is_absent(key):
                raise no_such_object(denied.operation, key) from None
            raise

    def _is_absent(self, key: str) -> bool:
        with suppress(StoreError):
            return all(info.key != key for info in self.list(key))
        return False

    @cached_property
    def _connection(self) -> Connection:
        return Connection.plan(self.url, self._env)

    @cached_property
    def _requests(self) -> Any:
        return self._connection.client(retries=0, timeout="60s")

    @cached_property
    def _uploads(self) -> Any:
        # The time is that of one part: eight at once get through a line of 1 Mbit/s.
        return self._connection.client(retries=_PART_RETRIES, timeout="20m")

    @cached_property
    def _downloads(self) -> Any:
        # One request for a whole file, which may take as long as bytes keep coming.
        return self._connection.client(retries=_PART_RETRIES, timeout="7days", read_timeout="60s")

    def _info(self, meta: Any) -> ObjectInfo:
        return ObjectInfo(meta["path"], meta["size"], meta[self._tag] or "", meta["last_modified"].timestamp())


class _Watched:
    """A file that tells how much of it has been read; obstore wants no more of a file than this."""

    def __init__(self, file: BinaryIO, progress: Progress | None) -> None:
        self._file, self._progress = file, progress
        self._failure: BaseException | None = None
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        """Read on."""
        try:
            data = self._file.read(size)
            if self._progress and data:
                self._progress(len(data))
        except BaseException as error:
            self._failure = error
            raise
        return data

    @contextmanager
    def owning_up(self) -> Iterator[None]:
        """Raise what went wrong on this side, which obstore would make an error of the server's."""
        try:
            yield
        except StoreError:
            if self._failure is not None:
                raise self._failure from None
            raise


def _next(chunks: Iterator[Any], key: str) -> Any:
    with asking("read", key):
        return next(chunks, None)
