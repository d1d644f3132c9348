"""Evidence that the kernel ran out of memory: an exit by SIGKILL alone proves nothing."""

from __future__ import annotations

from pathlib import Path

_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
"""The container's own counter where there is one, else the machine's; both have a line `oom_kill <count>`."""


def oom_kills(counters: tuple[Path, ...] = _COUNTERS) -> int:
    """Give how many processes the kernel has killed for want of memory so far; 0 where that cannot be known."""
    for path in counters:
        try:
            lines = path.read_text().splitlines()
        except OSError:
            continue
        for line in lines:
            name, _, count = line.partition(" ")
            if name == "oom_kill" and count.strip().isdigit():
                return int(count)
    return 0
