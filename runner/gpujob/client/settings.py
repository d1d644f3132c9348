"""What the client is told by its environment, read once."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpujob.core.errors import UsageError
from gpujob.core.layout import HomePaths

HOME = "GPUJOB_HOME"
POLL_SECONDS = "GPUJOB_POLL_SECONDS"
BEAT_SECONDS = "GPUJOB_BEAT_SECONDS"

_POLL = 1.0
_BEAT = 5.0


@dataclass(frozen=True, slots=True)
class Settings:
    """The client's settings, checked at birth."""

    home: HomePaths
    """Where the journal lies: $GPUJOB_HOME, else the user's data folder."""
    poll_seconds: float = _POLL
    """How often the supervisor looks at a machine ($GPUJOB_POLL_SECONDS)."""
    beat_seconds: float = _BEAT
    """How often an agent beats, and the supervisor reads the store ($GPUJOB_BEAT_SECONDS)."""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The whole environment; secrets and store credentials of a submit are taken from it, and nothing else is."""

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Settings:
        """Take the settings from an environment; raises UsageError for a value that cannot be one."""
        root = environ.get(HOME)
        return cls(
            home=HomePaths(Path(root).expanduser().absolute() if root else _data_folder(environ)),
            poll_seconds=_seconds(environ, POLL_SECONDS, _POLL),
            beat_seconds=_seconds(environ, BEAT_SECONDS, _BEAT),
            environ=dict(environ),
        )

    def exported(self) -> dict[str, str]:
        """Give the variables that make another process read the same settings."""
        return {
            HOME: str(self.home.root),
            POLL_SECONDS: str(self.poll_seconds),
            BEAT_SECONDS: str(self.beat_seconds),
        }


def _data_folder(environ: Mapping[str, str]) -> Path:
    user = Path(environ.get("HOME") or Path.home())
    if sys.platform == "darwin":
        return user / "Library" / "Application Support" / "gpujob"
    return Path(environ.get("XDG_DATA_HOME") or user / ".local" / "share") / "gpujob"


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name)
    try:
        value = float(text) if text else default
    except ValueError:
        value = 0.0
    if not 0 < value < 3600:
        raise UsageError("use", f"{name}={text!r}", "it must be a number of seconds above 0 and below 3600")
    return value
