"""A program of the attempt, with everything it starts, from its first process to the proof that none is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from gpujob import processes

_SUBREAPER = 36
_KILL_SECONDS = 20.0

# Runs in the new process before the program takes its place. (A preexec_fn would run Python between fork and exec of
# a process with threads.) The kernel then kills the program with the agent; Python's own ignoring of SIGPIPE ends here.
_TIE = """
import os, signal, sys
try:
    import ctypes
    ctypes.CDLL(None).prctl(1, ctypes.c_ulong(signal.SIGKILL))
except (ImportError, AttributeError, OSError):
    pass
if os.getppid() != int(sys.argv[1]):
    sys.exit("the agent is gone")
for number in (signal.SIGPIPE, signal.SIGXFSZ):
    signal.signal(number, signal.SIG_DFL)
os.execvp(sys.argv[2], sys.argv[2:])
"""


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends, where Linux has that."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_SUBREAPER, ctypes.c_ulong(1))


class Child:
    """Started by the main thread (its death signal follows the thread), in a session of its own.

    `output` is the reading end of a pipe with all it prints; whoever reads it closes it.
    """

    def __init__(self, argv: Sequence[str], environ: Mapping[str, str], folder: Path, agent_environ: Mapping[str, str]):
        self._job_id, self._attempt = environ[processes.ID_COOKIE], int(environ[processes.ATTEMPT_COOKIE])
        self._guard = self._start_guard(agent_environ)
        self.output, writer = os.pipe()
        try:
            self._process = subprocess.Popen(
                [*_tied(), *argv],
                env=dict(environ),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=writer,
                stderr=writer,
                start_new_session=True,
            )
        finally:
            os.close(writer)

    @property
    def code(self) -> int | None:
        """How the program itself ended (below zero: minus the signal), None while it runs."""
        self._reap()
        return self._process.returncode

    def ask(self) -> None:
        """Tell the whole group to save and end (SIGTERM)."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)

    def group_lives(self) -> bool:
        """Say whether anything of the group is left: a shell dies of SIGTERM while its program is still saving."""
        self._reap()
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def kill(self) -> None:
        """Kill what is left of the attempt, down to the last process; raises HostError naming those that stay."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        # Before the others: whoever waits for them would take the program's exit code away.
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)
        processes.kill_job(self._job_id, self._attempt)
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def _reap(self) -> None:
        for each in (self._process, self._guard):
            each.poll()
        if sys.platform != "linux":
            return  # no orphan comes to us there
        # Orphans that came to us: as zombies they would look like a group that lives.
        with suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                if ended.si_pid in (self._process.pid, self._guard.pid):
                    return
                os.waitpid(ended.si_pid, 0)

    def _start_guard(self, agent_environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
        environ = {
            **agent_environ,
            processes.ID_COOKIE: self._job_id,
            processes.ATTEMPT_COOKIE: str(self._attempt),
        }
        argv = [sys.executable, "-m", "gpujob.agent.guard", self._job_id, str(self._attempt)]
        return subprocess.Popen(argv, env=environ, stdin=subprocess.PIPE, start_new_session=True)


def _tied() -> list[str]:
    return [sys.executable, "-I", "-S", "-c", _TIE, str(os.getpid())] if sys.platform == "linux" else []
