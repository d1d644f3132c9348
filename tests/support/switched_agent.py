"""`python -m support.switched_agent`: a real agent whose store does not answer while a file `down` lies beside it.

Its clock runs $CLOCK_SPEED times as fast.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from gpujob.agent.child import adopt_orphans
from gpujob.agent.clock import Clock
from gpujob.agent.run import run
from gpujob.core.errors import StoreUnavailable
from gpujob.core.records import Launch
from gpujob.store.open import open_store
from gpujob.store.protocol import Store


class Switched:
    """Passes every call on, or says that the store is away."""

    def __init__(self, store: Store, switch: Path) -> None:
        self._store, self._switch = store, switch

    def __getattr__(self, name: str) -> Any:
        if self._switch.exists() and name not in ("url", "capabilities"):
            raise StoreUnavailable(name, "the store", "it is switched off")
        return getattr(self._store, name)


def main() -> None:
    launch = Launch.decode(sys.stdin.buffer.read())
    adopt_orphans()
    store = Switched(open_store(launch.store), Path(launch.root).parent / "down")
    speed = float(os.environ.get("CLOCK_SPEED", "1"))
    clock = Clock(monotonic=lambda: time.monotonic() * speed)
    left = run(launch, store, dict(os.environ), clock)  # type: ignore[arg-type]
    os._exit(0 if left else 1)


if __name__ == "__main__":
    main()
