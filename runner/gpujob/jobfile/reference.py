"""The reference table of job.yaml, written from the models themselves."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

from pydantic.fields import FieldInfo

from gpujob.core.spec import Part
from gpujob.core.units import A_DURATION
from gpujob.jobfile.fields import EACH, fields, parts, words
from gpujob.jobfile.tree import Path

_UNITS = (("h", 3600), ("m", 60), ("s", 1))


def reference() -> str:
    """Give the keys of job.yaml as markdown tables, one for each group."""
    return "\n".join(line for group, keys in _groups().items() for line in _table(group, keys))


def _groups() -> dict[Path, dict[str, FieldInfo]]:
    groups: dict[Path, dict[str, FieldInfo]] = {}
    for path, info in fields().items():
        if path[:-1] != ("checkpoint", "interval"):  # its mapping form is the record's, not for people
            groups.setdefault(path[:-1], {})[str(path[-1])] = info
    return groups


def _table(group: Path, keys: dict[str, FieldInfo]) -> Iterator[str]:
    title = "At the top" if not group else f"`{'.'.join(str(step) for step in group if step != EACH)}`"
    yield f"### {title}{', for each item' if EACH in group else ''}\n"
    yield "| key | takes | left out | meaning |\n|---|---|---|---|"
    for name, info in keys.items():
        cells = (f"`{name}`", _takes(info), _default(info), info.description or "")
        yield "| " + " | ".join(cell.replace("\n", " ").replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _takes(info: FieldInfo) -> str:
    nested = any(True for _ in parts(info.annotation)) and words(info).startswith("keys of its own")
    return "keys of its own, below" if nested else words(info)


def _default(info: FieldInfo) -> str:
    if info.is_required():
        return "**required**"
    value = info.get_default(call_default_factory=True)
    if value is None or isinstance(value, Part) or any(isinstance(each, Part) for each in _items(value)):
        return ""
    return f"`{_written(value, A_DURATION in words(info))}`"


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()


def _written(value: Any, is_duration: bool) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, tuple):
        return "[" + ", ".join(map(str, value)) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if is_duration and isinstance(value, float):
        unit, size = next(each for each in _UNITS if value % each[1] == 0)
        return f"{value / size:g}{unit}"
    return f"{value:g}" if isinstance(value, float) else str(value)
