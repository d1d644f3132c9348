"""Lines of a file -> conversations. Every mistake names file, line and field.

Formats, one per file
    messages            {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}
    prompt/completion   {"prompt": "…", "completion": "…"}, each a text or a list of messages
    alpaca              {"instruction": "…", "input": "…", "output": "…"}, `input` may be left out
Other keys of a row are ignored, but for `tools`, which goes to the chat template.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blake3 import blake3

from gpujob.trainer.endings import Ended, bad_data

Message = dict[str, Any]
PARAGRAPH = "\n\n"
"""Between the texts of a row where no chat template says how to join them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One conversation; the loss is on what the assistant says.

    `line` counts from 1; `glue` joins the messages where the tokenizer has no chat template; `digest` is of the line's
    content, whatever its order of keys and spacing.
    """

    line: int
    messages: tuple[Message, ...]
    digest: str
    glue: str = PARAGRAPH
    tools: Any = None


def read_rows(path: Path, name: str) -> list[Row]:
    """Read all rows of a file that a person knows as `name`; raises Ended (BAD_DATA) at the first mistake."""
    rows: list[Row] = []
    build = None
    for line in _lines(path, name):
        found = _format(line)
        if build not in (None, found):
            raise line.wrong("", f"this row has {_listed(line.row)}, unlike line {rows[0].line}: one format per file")
        build = found
        rows.append(build(line))
    if not rows:
        raise bad_data(f"{name}: there are no rows in it")
    return rows


@dataclass(frozen=True, slots=True)
class _Line:
    file: str
    number: int
    row: Mapping[str, Any]

    def wrong(self, field: str, what: str) -> Ended:
        return bad_data(f"{self.file}:{self.number}: {field + ': ' if field else ''}{what}")

    def text(self, field: str) -> str:
        value = self.row[field]
        if not isinstance(value, str):
            raise self.wrong(field, f"must be a text, not {_kind(value)}")
        return value

    def to_row(self, messages: Sequence[Message], glue: str = PARAGRAPH) -> Row:
        canonical = json.dumps(self.row, sort_keys=True, ensure_ascii=False)
        digest = blake3(canonical.encode(errors="surrogatepass")).hexdigest()
        return Row(self.number, tuple(messages), digest, glue, self.row.get("tools"))


def _lines(path: Path, name: str) -> Iterator[_Line]:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise bad_data(f"{name}: cannot be read: {error.strerror}") from None
    for number, raw in enumerate(content.removeprefix(b"\xef\xbb\xbf").split(b"\n"), 1):
        if not raw.strip():
            continue
        line = _Line(name, number, {})
        try:
            value = json.loads(raw.decode())
        except UnicodeDecodeError as error:
            raise line.wrong("", f"byte {error.start + 1} is not UTF-8") from None
        except json.JSONDecodeError as error:
            raise line.wrong("", f"is not JSON: {error.msg} at column {error.colno}") from None
        if not isinstance(value, dict):
            raise line.wrong("", f"a row is a JSON object, not {_kind(value)}")
        yield _Line(name, number, value)


def _format(line: _Line) -> Callable[[_Line], Row]:
    found = [build for keys, build in FORMATS.items() if set(keys) <= line.row.keys()]
    if len(found) != 1:
        raise line.wrong("", f"a row has {_ONE_OF}; this one has {_listed(line.row)}")
    return found[0]


def _alpaca(line: _Line) -> Row:
    asked = line.text("instruction")
    if line.row.get("input") not in (None, ""):
        asked += PARAGRAPH + line.text("input")
    return line.to_row([_said("user", asked), _said("assistant", line.text("output"))])


def _prompt_completion(line: _Line) -> Row:
    texts = [isinstance(line.row[field], str) for field in ("prompt", "completion")]
    if all(texts):
        # The texts are joined as they are: whoever wrote them also chose what stands between them.
        said = [_said("user", line.text("prompt")), _said("assistant", line.text("completion"))]
        return line.to_row(said, glue="")
    if any(texts):
        raise line.wrong("completion", "must be of the prompt's kind: both texts, or both lists of messages")
    return line.to_row(_ends_with_reply(line, "completion", [*_said_in(line, "prompt"), *_said_in(line, "completion")]))


def _messages(line: _Line) -> Row:
    return line.to_row(_ends_with_reply(line, "messages", _said_in(line, "messages")))


def _said(role: str, content: str) -> Message:
    return {"role": role, "content": content}


def _said_in(line: _Line, field: str) -> list[Message]:
    value = line.row[field]
    if not isinstance(value, list) or not value:
        raise line.wrong(field, f"must be a list of messages, not {_kind(value)}")
    for position, message in enumerate(value):
        where = f"{field}[{position}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise line.wrong(where, 'a message is {"role": "…", "content": "…"}')
        if not isinstance(message.get("content"), str) and not message.get("tool_calls"):
            raise line.wrong(f"{where}.content", f"must be a text, not {_kind(message.get('content'))}")
    return value


def _ends_with_reply(line: _Line, field: str, messages: list[Message]) -> list[Message]:
    if messages[-1]["role"] != "assistant":
        raise line.wrong(field, f"the last message must be the assistant's, not the {messages[-1]['role']}'s")
    return messages


def _kind(value: Any) -> str:
    if value is None:
        return "nothing"
    if value == []:
        return "an empty list"
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "a boolean"}
    return names.get(type(value), "a number")


def _listed(row: Mapping[str, Any]) -> str:
    return ", ".join(map(str, list(row)[:8])) or "nothing"


FORMATS: dict[tuple[str, ...], Callable[[_Line], Row]] = {
    ("messages",): _messages,
    ("prompt", "completion"): _prompt_completion,
    ("instruction", "output"): _alpaca,
}
_ONE_OF = "either `messages`, or `prompt` and `completion`, or `instruction` and `output`"
