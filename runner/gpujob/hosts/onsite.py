"""Look at the machine this runs on, and print what it is as one line of JSON.

It is sent there as it stands and runs under whatever Python that machine has: nothing but the standard library, and
nothing that is newer than Python 3.6. What cannot be found out is left out. The one argument is the question, as JSON.
"""

# ruff: noqa: T201, UP022
# mypy: disable-error-code="no-untyped-def, no-untyped-call, arg-type, union-attr, var-annotated"

import fcntl
import http.client
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from email.utils import parsedate_to_datetime
from pathlib import Path

MARK = "gpujob-survey "
PROGRAM_SECONDS = 15
NETWORK_SECONDS = 10

ABOUT_PYTHON = """
import importlib.util, json, os, re, sys
def has(name):
    return importlib.util.find_spec(name)
def of_torch(pattern):
    found = re.search(pattern, said, re.MULTILINE)
    return found.group(1) if found else ""
sys.path[:] = [each for each in sys.path if each]
torch, said = has("torch"), ""
if torch and torch.origin:
    path = os.path.join(os.path.dirname(torch.origin), "version.py")
    said = open(path).read() if os.path.exists(path) else "__version__ = 'unknown'"
print(json.dumps({
    "path": sys.executable, "prefix": sys.prefix, "version": ".".join(map(str, sys.version_info[:3])),
    "pip": bool(has("pip")), "torch": of_torch("^__version__ = '([^']*)'"), "cuda": of_torch("^cuda.* = '([^']*)'"),
}))
"""


def look(question):
    """Answer everything at once; what fails or has no answer is not in the result."""
    clock, began = time.time(), time.monotonic()
    root = Path(question["root"] or Path.home() / ".gpujob")
    asked = [
        (about_system, ()),
        (about_memory, ()),
        (about_root, (root,)),
        (about_jobs, (root, question["jobs"], question["agents"])),
        (about_pythons, (question["pythons"],)),
        (about_gpus, ()),
        (about_cuda, ()),
        (about_engines, ()),
        (about_store, (question["store"],)),
        (about_sudo, ()),
    ]
    answer = {"clock": clock}
    with ThreadPoolExecutor(len(asked)) as pool:
        for part in [pool.submit(one, *words) for one, words in asked]:
            try:
                answer.update(part.result())
            except Exception as error:
                print(repr(error), file=sys.stderr)
    answer["seconds"] = time.monotonic() - began
    return answer


def about_system():
    """Say what kind of machine it is."""
    marks = ("/.dockerenv", "/run/.containerenv")
    inside = re.search("docker|kubepods|containerd|lxc|libpod", read("/proc/1/cgroup"))
    overlay = re.search("^overlay / ", read("/proc/mounts"), re.MULTILINE)
    return {
        "system": platform.system(),
        "release": name_of_release(),
        "arch": platform.machine(),
        "libc": name_of_libc(),
        "hostname": platform.node(),
        "boot_id": read("/proc/sys/kernel/random/boot_id").strip(),
        "uid": os.getuid(),
        "cpus": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "container": bool(inside or overlay or any(Path(each).exists() for each in marks)),
        "uv": bool(shutil.which("uv") or Path("~/.local/bin/uv").expanduser().exists()),
    }


def name_of_release():
    """Give the distribution's name."""
    found = re.search('^PRETTY_NAME="?([^"\n]*)', read("/etc/os-release"), re.MULTILINE)
    return found.group(1) if found else platform.release()


def name_of_libc():
    """Give `glibc 2.36` or `musl`."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION")
    except (ValueError, OSError):
        return "musl" if any(Path("/lib").glob("ld-musl-*")) else ""


def about_memory():
    """Give the machine's memory, and what this process may have of it."""
    total = int(re.search(r"^MemTotal:\s*(\d+) kB", read("/proc/meminfo"), re.MULTILINE).group(1)) * 1024
    found = re.search("^0::(/.*)$", read("/proc/self/cgroup"), re.MULTILINE)
    files = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"]
    if found:
        files.append("/sys/fs/cgroup" + found.group(1).rstrip("/") + "/memory.max")
    limits = [int(text) for text in (read(path).strip() for path in files) if text.isdigit()]
    return {"ram": total, "memory_limit": min([each for each in limits if each < total], default=None)}


def about_root(root):
    """Really write a file there, or where its folder will be made, then measure."""
    folder = next(each for each in (root, *root.parents) if each.exists())
    probe = folder / f".gpujob-tmp-probe-{os.getpid()}"
    try:
        try:
            with probe.open("wb") as file:
                file.write(os.urandom(1 << 20))
                file.flush()
                os.fsync(file.fileno())
            disk = os.statvfs(str(folder))
        finally:
            if probe.exists():
                probe.unlink()
    except OSError as error:
        return {"root": str(root), "root_error": error.strerror or str(error)}
    inodes = disk.f_favail if disk.f_files else None
    return {"root": str(root), "disk_free": disk.f_bavail * disk.f_frsize, "inodes_free": inodes}


def about_jobs(root, jobs, agents):
    """List the jobs that have a folder here, and how many of their agents live: those hold a lock."""
    folders = sorted(Path(root, jobs).glob("*"))[:100]
    return {"jobs": [{"job_id": each.name, "agents": sum(map(is_held, each.glob(agents)))} for each in folders]}


def is_held(path):
    """Say whether somebody holds the lock of a file."""
    handle = os.open(str(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def about_pythons(names):
    """Ask every Python there is, in this order, about itself; one that has several names once."""
    paths = [path for path in (shutil.which(str(Path(name).expanduser())) for name in names) if path]
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(lambda path: run(path, "-c", ABOUT_PYTHON), dict.fromkeys(paths)))
    found = {}
    for exit_code, out, _ in said:
        if exit_code == 0:
            one = json.loads(out)
            found.setdefault(one["prefix"], one)
    return {"pythons": list(found.values())}


def about_gpus():
    """Ask the driver's own tool for the cards."""
    tool = shutil.which("nvidia-smi") or shutil.which("/usr/lib/wsl/lib/nvidia-smi")
    if not tool:
        return {"gpus": []}
    exit_code, out, error = run(tool, "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
    if exit_code:
        return {"gpus": [], "gpu_error": last_line(error or out)}
    rows = [[word.strip() for word in line.rsplit(",", 2)] for line in out.splitlines() if line.count(",") >= 2]
    return {"gpus": [{"name": name, "memory": mebibytes(size), "driver": driver} for name, size, driver in rows]}


def mebibytes(text):
    """Give bytes; some cards have no memory of their own, and say so in words."""
    return int(text) << 20 if text.isdigit() else None


def about_cuda():
    """Ask the driver for the newest CUDA it can run."""
    import ctypes  # not every Python is built with it

    number = ctypes.c_int()
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(number))
    except (OSError, AttributeError):
        return {}
    return {"cuda": f"{number.value // 1000}.{number.value % 1000 // 10}"} if number.value else {}


def about_engines():
    """Ask each container engine whether it works for this user."""
    found = [(name, shutil.which(name)) for name in ("docker", "podman")]
    return {"engines": [about_engine(name, path) for name, path in found if path]}


def about_engine(name, path):
    """Say what an engine answers, and whether it can give a container the GPUs."""
    info, said = engine_info(path)
    by_sudo = not info and os.getuid() != 0 and bool(engine_info("sudo", "-n", path)[0])
    hook = shutil.which("nvidia-container-runtime-hook") or shutil.which("nvidia-container-runtime")
    specs = [spec for folder in ("/etc/cdi", "/var/run/cdi") for spec in Path(folder).glob("*nvidia*")]
    folder = info.get("DockerRootDir") or info.get("store", {}).get("graphRoot")
    return {
        "name": name,
        "path": path,
        "version": info.get("ServerVersion") or info.get("version", {}).get("Version") or "",
        "answers": bool(info),
        "by_sudo": by_sudo,
        "said": said,
        "nvidia": bool(hook or specs or "nvidia" in (info.get("Runtimes") or {})),
        "disk_free": free_bytes(folder),
    }


def engine_info(*command):
    """Give what the engine says about itself, and its complaint when it does not answer."""
    exit_code, out, error = run(*command, "info", "--format", "{{json .}}")
    try:
        info = json.loads(out)
    except ValueError:
        info = {}
    works = exit_code == 0 and (info.get("ServerVersion") or info.get("store"))
    return (info, "") if works else ({}, last_line(error) or "; ".join(info.get("ServerErrors") or []))


def free_bytes(folder):
    """Give the free bytes where a folder lies."""
    try:
        disk = os.statvfs(folder)
    except (OSError, TypeError):
        return None
    return disk.f_bavail * disk.f_frsize


def about_store(url):
    """Connect to the store's address and ask it anything: also a refusal proves the way there, and tells its time."""
    if not url:
        return {}
    import ssl  # not every Python is built with it

    reach = {"url": url, "error": ""}
    try:
        reach["connect"] = connect_seconds(url)
        try:
            reach.update(ask(url, ssl.create_default_context()))
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ssl.SSLError):
                raise
            # No secret is sent: its clock and its distance can be had from whoever answers.
            reach["distrust"] = str(error.reason)
            reach.update(ask(url, ssl._create_unverified_context()))
    except (OSError, http.client.HTTPException, ValueError) as error:
        cause = getattr(error, "reason", error)
        reach["error"] = getattr(cause, "strerror", None) or str(cause) or repr(cause)
    return {"store": reach}


def connect_seconds(url):
    """Give how long a connection takes; None where the way leads through a proxy."""
    split = urllib.parse.urlsplit(url)
    if split.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(split.hostname):
        return None
    began = time.monotonic()
    port = split.port or (443 if split.scheme == "https" else 80)
    socket.create_connection((split.hostname, port), NETWORK_SECONDS).close()
    return time.monotonic() - began


def ask(url, context):
    """Give how long an answer takes, and how far this clock is ahead of the one that answers."""
    began = time.monotonic()
    try:
        with urllib.request.urlopen(url, timeout=NETWORK_SECONDS, context=context) as answer:
            date = answer.headers.get("Date")
    except urllib.error.HTTPError as error:
        date = error.headers.get("Date")
    seconds = time.monotonic() - began
    # The header has whole seconds: its moment lies half a second later in the mean.
    ahead = time.time() - seconds / 2 - parsedate_to_datetime(date).timestamp() - 0.5 if date else None
    return {"answer": seconds, "ahead": ahead}


def about_sudo():
    """Say whether commands can be run as root without a password."""
    return {"sudo": os.getuid() == 0 or run("sudo", "-n", "true")[0] == 0}


def run(*argv):
    """Run a program; give its exit code, output and errors. One that hangs counts as failed."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=PROGRAM_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return 1, "", "it does not answer" if isinstance(error, subprocess.TimeoutExpired) else str(error)
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def read(path):
    """Give a small text file; empty when there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def last_line(text):
    """Give the last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


if __name__ == "__main__":
    print(f"\n{MARK}{json.dumps(look(json.loads(sys.argv[1])))}")
