"""From an entry of job.yaml's `hosts` to the way there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gpujob.core.layout import HomePaths
from gpujob.core.spec import Host
from gpujob.transport.hostkeys import Ask
from gpujob.transport.local import Local
from gpujob.transport.protocol import Transport
from gpujob.transport.ssh import Ssh


def open_transport(host: Host, home: HomePaths, environ: Mapping[str, str], ask: Ask | None = None) -> Transport:
    """Give the way to a machine; connects to nothing yet. `ask` is the person, where there is a terminal."""
    if host.ssh is None:
        return Local(dict(environ), home=Path(environ.get("HOME") or Path.home()))
    return Ssh(host.ssh, environ, home.known_hosts, host.host_key, ask)
