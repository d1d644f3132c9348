"""From an entry of job.yaml's `hosts` to the host it names."""

from __future__ import annotations

from gpujob.core.errors import UsageError
from gpujob.core.layout import HomePaths
from gpujob.core.spec import Host as HostSpec
from gpujob.hosts.local import LocalHost
from gpujob.hosts.protocol import Host


def open_host(spec: HostSpec, home: HomePaths) -> Host:
    """Give the host an entry names; raises UsageError for a kind this version cannot reach."""
    if spec.ssh is not None:
        hint = "leave `hosts` out to run on this machine"
        raise UsageError("use", f"the host ssh: {spec.ssh}", "this version runs jobs on this machine only", hint)
    return LocalHost(home, spec.price_per_hour)
