"""From an entry of job.yaml's `hosts` to the host it names."""

from __future__ import annotations

from gpujob.core.layout import HomePaths
from gpujob.core.spec import Host as HostSpec
from gpujob.hosts.local import LocalHost
from gpujob.hosts.needs import Needs
from gpujob.hosts.protocol import Host
from gpujob.hosts.ssh import SshHost
from gpujob.transport.protocol import Transport


def open_host(spec: HostSpec, home: HomePaths, transport: Transport | None = None, needs: Needs | None = None) -> Host:
    """Give the host an entry names; one that is elsewhere takes a way there, and what the job needs of it."""
    if spec.ssh is None:
        return LocalHost(home, spec.price_per_hour)
    assert transport is not None, "a machine elsewhere has a way to it"
    return SshHost(spec, transport, needs or Needs())
