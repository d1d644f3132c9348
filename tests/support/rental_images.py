"""What the rentals of the tests are made of: the base image, an sshd, the field's Python libraries, an engine.

Torch and its friends are gigabytes: an image holds symbolic links to them, and whoever runs it mounts this
interpreter's site-packages where those point. Of gpujob, and of what its agent needs, there is nothing.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from gpujob import files, locks
from support.engine import Engine, base_tar, unavailable

CONTAINER, VM, INNER = "gpujob-tests/container", "gpujob-tests/vm", "gpujob-tests/trainer"
"""The images of the two kinds of rental; the one that a VM's own engine has, with Python and torch in it."""

PACKAGES = ["--volume", f"{sysconfig.get_path('purelib')}:/opt/site-packages:ro"]
ENGINE = ["--cap-add", "SYS_ADMIN", "--cap-add", "NET_ADMIN", "--security-opt", "seccomp=unconfined"]
ENGINE += ["--security-opt", "apparmor=unconfined", "--volume", "/sys/fs/cgroup:/sys/fs/cgroup:rw"]
"""Arguments of `docker run`: what a rental needs, and what one with an engine inside needs besides."""

_PARTS = Path(__file__).with_name("rental")
_INNER_VOLUME = "gpujob-tests-inner"
_FIELD = ("torch", "transformers", "peft", "trl", "accelerate", "datasets", "bitsandbytes", "matplotlib")
_ADD_ENGINE = """
touch /new
apt-get update -qq
apt-get install -qq -y --no-install-recommends docker.io iptables iproute2 > /dev/null 2>&1
apt-get clean
find / -xdev -cnewer /new ! -type d ! -path '/tmp/*' ! -path '/var/lib/apt/*' ! -path '/out/*' -print0 > /tmp/list
tar --create --file /out/"$1" --null --no-recursion --files-from /tmp/list 2> /dev/null
"""
_FILL_INNER = f"""
dockerd > /var/log/dockerd.log 2>&1 &
until docker version > /dev/null 2>&1; do sleep 0.1; done
docker load -q
docker tag {CONTAINER} {INNER}
kill $!
wait
"""


@dataclass(frozen=True)
class RentalImages:
    """The images, each made when it is first asked for."""

    engine: Engine
    folder: Path

    @cached_property
    def container(self) -> str:
        """An image for a rental that is a container."""
        stack = self.folder / "stack"
        stack.mkdir()
        for name in sorted(set(_top_names(_with_dependencies(_FIELD)))):
            (stack / name).symlink_to(f"/opt/site-packages/{name}")
        return self._build(CONTAINER, "container")

    @cached_property
    def vm(self) -> str:
        """An image for a rental with an engine inside."""
        assert self.container
        shutil.copy(_engine_tar(self.engine), self.folder / "engine.tar")
        return self._build(VM, "vm")

    @cached_property
    def inner(self) -> Path:
        """The disk of an engine that has the image INNER; to be copied."""
        saved = self.engine.docker("save", self.container).stdout
        command = ["run", "--rm", "-i", *ENGINE, "--volume", f"{_INNER_VOLUME}:/var/lib/docker", self.vm]
        self.engine.docker(*command, "sh", "-c", _FILL_INNER, input=saved)
        return Path(self.engine.text("volume", "inspect", "--format", "{{.Mountpoint}}", _INNER_VOLUME))

    def _build(self, tag: str, target: str) -> str:
        for path in _PARTS.iterdir():
            shutil.copy(path, self.folder)
        self.engine.docker("build", "--quiet", "--tag", tag, "--target", target, str(self.folder))
        return tag


@pytest.fixture(scope="session")
def rental_images(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> RentalImages:
    """The images of the rentals."""
    if sys.version_info[:2] != (3, 11):
        unavailable("the rentals run Debian 12's Python 3.11, and this interpreter's torch does not fit that")
    return RentalImages(engine, tmp_path_factory.mktemp("images"))


def _engine_tar(engine: Engine) -> Path:
    """Give what an engine adds to the base image, fetched once on this machine and kept beside the base."""
    base = base_tar()
    tar = base.with_name(f"engine-{hashlib.sha256((base.name + _ADD_ENGINE).encode()).hexdigest()[:12]}.tar")
    with locks.locked(tar.with_suffix(".lock")):
        if not tar.exists():
            with files.replacing(tar) as temp:
                command = ["run", "--rm", "--volume", f"{temp.parent}:/out", engine.base]
                engine.docker(*command, "sh", "-ec", _ADD_ENGINE, "sh", temp.name)
    return tar


def _with_dependencies(names: tuple[str, ...]) -> Iterator[metadata.Distribution]:
    """Give what is installed of some distributions and of all that they need."""
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        found = metadata.distribution(name)
        yield found
        needs = map(Requirement, found.requires or ())
        todo += [each.name for each in needs if each.marker is None or each.marker.evaluate({"extra": ""})]


def _top_names(distributions: Iterator[metadata.Distribution]) -> Iterator[str]:
    for each in distributions:
        assert each.files, each.name
        yield from {path.parts[0] for path in each.files} - {"..", "__pycache__"}
