"""Outlives an agent that was killed, just long enough to end what it left running.

The kernel kills the program itself with its agent, but not what the program started: a GPU would stay busy, and paid
for, past every limit. The agent holds the other end of this process's standard input and never writes to it.
"""

from __future__ import annotations

import signal
import sys

from gpujob import processes


def main(job_id: str, attempt: int) -> None:
    """Wait for the agent's end, then kill everything of its attempt and of earlier ones."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    processes.kill_job(job_id, attempt)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
