"""A few seconds of real work for a machine's GPU, under a Python there that has torch."""

from __future__ import annotations

import json

from pydantic import ValidationError

from gpujob.core.errors import HostError
from gpujob.core.records import Record
from gpujob.hosts.survey import Duration, Said
from gpujob.transport.protocol import Transport

_SECONDS = 180.0
"""Loading torch from a cold network disk takes minutes on some rentals."""

_MATMUL = r"""
import json, sys, time
sys.path[:] = [each for each in sys.path if each]
import torch
device, size, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
wait = torch.cuda.synchronize if device == "cuda" else (lambda: None)
left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
for _ in range(3):
    product = left @ right
wait()
began, count = time.monotonic(), 0
while time.monotonic() - began < seconds:
    for _ in range(10):
        product = left @ right
    wait()
    count += 10
took = time.monotonic() - began
exact = left[:8].double() @ right.double()
error = ((product[:8].double() - exact).abs().max() / exact.abs().max()).item()
name = torch.cuda.get_device_name() if device == "cuda" else "cpu"
print(json.dumps({"device": name, "teraflops": 2 * size**3 * count / took / 1e12, "error": error}))
"""


class Trial(Record):
    """How fast a device multiplied bfloat16 matrices, and its largest error, as a share of the largest value."""

    device: Said
    teraflops: Duration
    error: Duration

    @property
    def right(self) -> bool:
        """Say whether the result is as exact as bfloat16 (8 bits) allows."""
        return self.error < 2**-7


def matmul(transport: Transport, python: str, device: str = "cuda", size: int = 4096, seconds: float = 2.0) -> Trial:
    """Multiply matrices there; raises HostError when the device cannot."""
    words = [python, "-c", _MATMUL, device, str(size), str(seconds)]
    done = transport.run(words, timeout=_SECONDS).check("multiply matrices on", transport.name, _HINT)
    try:
        return Trial.model_validate(json.loads(done.text.rpartition("\n")[2]))
    except (ValidationError, ValueError) as error:
        raise HostError("multiply matrices on", transport.name, "its answer cannot be used", _HINT) from error


_HINT = "torch and the driver do not go together there: choose another image or machine"
