"""What is said when something went wrong that nobody foresaw."""

from __future__ import annotations

import errno
import traceback
from collections.abc import Mapping
from contextlib import suppress

from gpujob.core.errors import GpujobError

_OF_THIS_MACHINE = {
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM", "EIO", "EMFILE", "ENFILE", "ENOMEM")
    if hasattr(errno, name)
}


def explain(error: Exception, environ: Mapping[str, str]) -> GpujobError:
    """Give a sentence for an error that is no GpujobError: this machine's disk, or a bug of ours.

    A bug's traceback goes into a file of the client's folder, which only its owner can read, and with GPUJOB_DEBUG
    set to standard error as well.
    """
    if environ.get("GPUJOB_DEBUG"):
        traceback.print_exception(error)
    if isinstance(error, OSError) and error.errno in _OF_THIS_MACHINE:
        return GpujobError("use", str(error.filename or "this machine"), (error.strerror or str(error)).lower())
    where = _keep("".join(traceback.format_exception(error)), environ)
    hint = f"please report it with {where}" if where else "run it again with GPUJOB_DEBUG=1 and report what it prints"
    return GpujobError("go on after", type(error).__name__, "this is a bug of gpujob's, not yours", hint)


def _keep(text: str, environ: Mapping[str, str]) -> str:
    """Write the traceback down; give the path, empty where that fails too."""
    with suppress(Exception):
        from gpujob import files
        from gpujob.client.settings import Settings

        path = Settings.read(environ).home.bug_log
        files.write(path, text.encode("utf-8", "backslashreplace"), mode=0o600)
        return str(path)
    return ""
