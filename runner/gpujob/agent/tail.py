"""Reading a file that another process is still writing."""

from __future__ import annotations

from pathlib import Path


class Tail:
    """Gives what was appended since the last call, in whole lines of at most `most` bytes; longer ones are dropped.

    A file that shrank is read from its start again; one that cannot be read is empty, since it is another's.
    """

    def __init__(self, path: Path, most: int) -> None:
        self.path, self._most = path, most
        self._offset = 0
        self._skipping = False

    def read(self, *, torn: bool = False) -> bytes:
        """Give new bytes, at most `most`; nothing when there is no whole new line. `torn` makes the last one count."""
        while data := self._more():
            whole = data.rfind(b"\n") + 1
            if whole == 0 and len(data) == self._most:
                self._offset += len(data)
                self._skipping = True
                continue
            if torn and len(data) < self._most:
                whole = len(data)
            self._offset += whole
            lines, skipping = data[:whole], self._skipping and whole > 0
            if skipping:
                lines, self._skipping = lines.partition(b"\n")[2], False
            if lines or not skipping:
                return lines
        return b""

    def _more(self) -> bytes:
        try:
            with self.path.open("rb") as file:
                if file.seek(0, 2) < self._offset:
                    self._offset, self._skipping = 0, False
                file.seek(self._offset)
                return file.read(self._most)
        except OSError:
            return b""
