from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpujob.trainer.endings import Ended
from gpujob.trainer.rows import read_rows

USER, ASSISTANT = {"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}


def write(folder: Path, *rows: Any) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("row", "messages"),
    [
        ({"instruction": "i", "output": "o"}, [("user", "i"), ("assistant", "o")]),
        ({"instruction": "i", "input": "", "output": "o"}, [("user", "i"), ("assistant", "o")]),
        ({"instruction": "i", "input": "in", "output": "o"}, [("user", "i\n\nin"), ("assistant", "o")]),
        ({"prompt": "p", "completion": "c", "id": 7}, [("user", "p"), ("assistant", "c")]),
        ({"prompt": [USER], "completion": [ASSISTANT]}, [("user", "u"), ("assistant", "a")]),
        ({"messages": [USER, ASSISTANT, USER, ASSISTANT]}, [("user", "u"), ("assistant", "a")] * 2),
    ],
)
def test_every_format_becomes_a_conversation(row: Any, messages: list[tuple[str, str]], tmp_path: Path) -> None:
    (read,) = read_rows(write(tmp_path, row), "rows.jsonl")
    assert [(message["role"], message["content"]) for message in read.messages] == messages


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ("{", "rows.jsonl:2: is not JSON"),
        ("[1]", "rows.jsonl:2: a row is a JSON object, not a list"),
        ({"text": "x"}, "rows.jsonl:2: a row has either"),
        ({"prompt": "p", "completion": "c", "messages": [USER]}, "rows.jsonl:2: a row has either"),
        ({"prompt": "p", "completion": 3}, "rows.jsonl:2: completion: must be of the prompt's kind"),
        ({"messages": []}, "rows.jsonl:2: messages: must be a list of messages, not an empty list"),
        ({"messages": [USER]}, "rows.jsonl:2: messages: the last message must be the assistant's, not the user's"),
        ({"messages": [USER, {"role": "assistant", "content": None}]}, "rows.jsonl:2: messages[1].content: must be a"),
        ({"messages": ["hello"]}, "rows.jsonl:2: messages[0]: a message is"),
        ({"instruction": "i", "output": None}, "rows.jsonl:2: output: must be a text, not nothing"),
    ],
)
def test_a_mistake_is_named_with_file_line_and_field(row: Any, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(Ended) as ended:
        read_rows(write(tmp_path, "", row), "rows.jsonl")
    assert ended.value.verdict.reason.value == "BAD_DATA"
    assert ended.value.verdict.sentence.startswith(sentence)


def test_one_file_has_one_format(tmp_path: Path) -> None:
    path = write(tmp_path, {"prompt": "p", "completion": "c"}, {"messages": [USER, ASSISTANT]})
    with pytest.raises(Ended, match=r"rows.jsonl:2: this row has messages, unlike line 1"):
        read_rows(path, "rows.jsonl")


def test_bytes_that_are_no_text_and_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "p", "completion": "c"}\n{"prompt": "\xff"}')
    with pytest.raises(Ended, match=r"rows.jsonl:2: byte 13 is not UTF-8"):
        read_rows(path, "rows.jsonl")
    with pytest.raises(Ended, match=r"nowhere.jsonl: cannot be read: No such file"):
        read_rows(tmp_path / "nowhere.jsonl", "nowhere.jsonl")
    with pytest.raises(Ended, match="there are no rows in it"):
        read_rows(write(tmp_path, "", " "), "rows.jsonl")


def test_the_digest_is_of_the_content(tmp_path: Path) -> None:
    rows = [
        '{"prompt": "p", "completion": "c"}',
        '{"completion":"c","prompt":"p"}',
        '{"prompt": "q", "completion": "c"}',
    ]
    one, same, other = read_rows(write(tmp_path, *rows), "rows.jsonl")
    assert one.digest == same.digest != other.digest
