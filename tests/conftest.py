"""Options and fixtures every test may use."""

from __future__ import annotations

import random

import pytest

from support.engine import engine  # noqa: F401
from support.hostile import hostile_name  # noqa: F401
from support.moto import moto  # noqa: F401
from support.rental_images import rental_images  # noqa: F401
from support.rentals import rentals  # noqa: F401
from support.rig import make_rig  # noqa: F401
from support.s3 import bridge_s3, s3  # noqa: F401
from support.sshd import sshd  # noqa: F401
from support.sts import lender  # noqa: F401
from support.tiny import tiny_model  # noqa: F401
from support.training import nursery  # noqa: F401


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="seed of the tests that kill at random")
    parser.addoption("--kills", type=int, default=20, help="kills in the random-kill test")


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed of this run: --seed, else a new one; always printed, so that a failure can be run again."""
    given = request.config.getoption("--seed")
    value = random.SystemRandom().randrange(2**32) if given is None else int(given)
    print(f"seed {value}: run again with --seed {value}")
    return value
