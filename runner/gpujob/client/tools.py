"""What it takes to act for one job: its store, its hosts, its runtime, its secrets and a clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpujob.client import secrets
from gpujob.client.secrets import JobSecrets
from gpujob.client.settings import Settings
from gpujob.core.plan import Plan
from gpujob.hosts.endpoint import endpoint
from gpujob.hosts.needs import Needs
from gpujob.hosts.open import open_host
from gpujob.hosts.protocol import Host, Rental
from gpujob.runtime.bare import Bare
from gpujob.runtime.protocol import Runtime
from gpujob.runtime.remote import Remote
from gpujob.store.open import credentials, open_store
from gpujob.store.protocol import Store
from gpujob.transport.open import open_transport

Clock = Callable[[], float]
"""Gives the seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The peers of one job's client."""

    settings: Settings
    plan: Plan
    store: Store
    hosts: tuple[Host, ...]
    runtimes: tuple[Runtime, ...]
    secrets: JobSecrets
    clock: Clock

    def host(self, rental: Rental) -> Host:
        """Give the host a rental came from."""
        return self.hosts[rental.host]

    def rented(self, rental: Rental) -> bool:
        """Say whether a rental is another machine than this one."""
        return self.plan.hosts[rental.host].ssh is not None

    def runtime(self, rental: Rental) -> Runtime:
        """Give the way agents start on a rental."""
        return self.runtimes[rental.host]


def open_tools(settings: Settings, plan: Plan, clock: Clock) -> Tools:
    """Get the tools of one job; raises StoreError, UsageError or Damaged when they cannot be had."""
    known = secrets.load(settings.home, plan.job_id)
    store = open_job_store(settings, plan)
    ways = [open_transport(host, settings.home, settings.environ) for host in plan.hosts]
    needs = Needs(store=endpoint(plan.store, known.store_env), train=plan.spec.train is not None)
    return Tools(
        settings=settings,
        plan=plan,
        store=store,
        hosts=tuple(open_host(host, settings.home, way, needs) for host, way in zip(plan.hosts, ways, strict=True)),
        runtimes=tuple(
            Remote(way, settings.home) if host.ssh else Bare(store, known.machine_env)
            for host, way in zip(plan.hosts, ways, strict=True)
        ),
        secrets=known,
        clock=clock,
    )


def open_job_store(settings: Settings, plan: Plan) -> Store:
    """Open a job's store with the credentials it was submitted with, else with those of the environment."""
    known = secrets.load(settings.home, plan.job_id)
    return open_store(plan.store, known.store_env or credentials(plan.store, settings.environ))
