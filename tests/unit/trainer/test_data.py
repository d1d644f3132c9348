from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpujob.trainer.data import IGNORED, encode, split
from gpujob.trainer.endings import Ended
from gpujob.trainer.rows import Row
from support.tiny import tiny_tokenizer

USER, ASSISTANT = {"role": "user", "content": "one two"}, {"role": "assistant", "content": "red ball"}


def load(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def chat(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(tiny_tokenizer(tmp_path_factory.mktemp("chat")))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(tiny_tokenizer(tmp_path_factory.mktemp("plain"), chat=False))


def row(line: int = 1, *messages: dict[str, str], glue: str = "", digest: str = "") -> Row:
    return Row(line, messages or (USER, ASSISTANT), digest or str(line), glue)


def learned(tokenizer: Any, *rows: Row, max_length: int = 200) -> list[str]:
    """Give the text that the loss is taken on, row by row."""
    encoded = encode(tokenizer, rows, "rows", max_length)
    return [tokenizer.decode([token for token in labels if token != IGNORED]) for labels in encoded.labels]


def test_the_reply_and_its_end_are_learned_and_nothing_else(chat: Any, plain: Any) -> None:
    assert learned(chat, row()) == ["red ball<|im_end|>\n"]
    assert learned(plain, row()) == ["red ball<|im_end|>"]


def test_the_end_is_learned_where_a_template_writes_none(chat: Any) -> None:
    chat = load(Path(chat.name_or_path))
    chat.chat_template = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"
    assert learned(chat, row()) == ["red ball\n<|im_end|>"]


def test_every_turn_of_the_assistant_is_learned(chat: Any) -> None:
    second = {"role": "assistant", "content": "blue box"}
    assert learned(chat, row(1, USER, ASSISTANT, USER, second)) == ["red ball<|im_end|>\nblue box<|im_end|>\n"]


def test_a_turn_that_the_template_rewrites_later_is_not_learned(chat: Any) -> None:
    chat = load(Path(chat.name_or_path))
    chat.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'assistant' and not loop.last %}[cut]"
        "{% else %}{{ m['content'] }}{% endif %}<|im_end|>{% endfor %}"
    )
    assert learned(chat, row(1, USER, ASSISTANT, USER, ASSISTANT)) == ["red ball<|im_end|>"]


def test_the_model_sees_what_it_will_be_asked(chat: Any) -> None:
    encoded = encode(chat, [row()], "rows", 200)
    asked = chat.apply_chat_template([USER], add_generation_prompt=True, tokenize=False)
    assert chat.decode(encoded.input_ids[0]).startswith(asked + "red ball")
    assert encoded.labels[0][: len(chat(asked)["input_ids"])] == [IGNORED] * len(chat(asked)["input_ids"])


def test_plain_messages_are_paragraphs_and_plain_prompts_are_joined_as_they_are(plain: Any) -> None:
    texts = [encode(plain, [row(glue=glue)], "rows", 200).input_ids[0] for glue in ("\n\n", "")]
    assert [plain.decode(ids) for ids in texts] == ["one two\n\nred ball<|im_end|>", "one twored ball<|im_end|>"]


def test_rows_cut_and_rows_lost_are_counted_by_line(chat: Any) -> None:
    long = {"role": "user", "content": "three " * 50}
    wordy = {"role": "assistant", "content": "small " * 50}
    silent = {"role": "assistant", "content": ""}
    rows = [row(1), row(2, long, ASSISTANT), row(3, USER, wordy), row(4, USER, silent)]
    encoded = encode(chat, rows, "data.jsonl", 40)
    assert (encoded.cut, encoded.lost, len(encoded)) == ([2, 3], [2, 4], 2)
    assert max(map(len, encoded.input_ids)) == 40
    assert encoded.report(40) == (
        "data.jsonl: 2 rows; 2 cut at 40 tokens (lines 2, 3); "
        "2 left out, nothing to learn within 40 tokens (lines 2, 4)"
    )
    assert len(encoded.dataset()) == 2


def test_all_rows_lost_is_an_error(chat: Any) -> None:
    with pytest.raises(Ended, match=r"none of its 2 rows .* raise train.max_length"):
        encode(chat, [row(1), row(2)], "data.jsonl", 5)


def test_a_template_that_refuses_a_row_names_its_line(chat: Any) -> None:
    chat = load(Path(chat.name_or_path))
    chat.chat_template = "{{ raise_exception('no system role') }}"
    with pytest.raises(Ended, match=r"data.jsonl:7: .* refuses this row: no system role"):
        encode(chat, [row(7)], "data.jsonl", 99)


def test_the_split_goes_by_content() -> None:
    rows = [row(line, digest=f"{line * 7919 % 101:03}") for line in range(100)]
    train, held_out = split(rows, 0.05)
    assert (len(train), len(held_out)) == (95, 5)
    assert {each.digest for each in split(rows[::-1], 0.05)[1]} == {each.digest for each in held_out}
    assert len(split(rows[:4], 0.05)[1]) == 1


def test_equal_rows_are_not_torn_apart() -> None:
    rows = [row(line, digest="a") for line in range(10)] + [row(line, digest="b") for line in range(10)]
    train, held_out = split(rows, 0.05)
    assert ({each.digest for each in train}, {each.digest for each in held_out}) == ({"b"}, {"a"})
    with pytest.raises(Ended, match="10 rows, 1 of them different, cannot be split"):
        split(rows[:10], 0.5)
