"""Rows -> token ids and labels, so that no row is ever lost without being counted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from datasets import Dataset
from jinja2 import TemplateError

from gpujob.trainer.endings import bad_data
from gpujob.trainer.rows import Row

IGNORED = -100
"""The label of a token that no loss is taken on."""
_CHUNK = 1000
_LISTED = 8
_ENDING = 3
"""Behind its end of turn a template writes at most a line break or two."""


@dataclass(slots=True)
class Encoded:
    """Tokenised rows; `cut` and `lost` are the lines of those shortened, and of those with nothing left to learn."""

    name: str
    input_ids: list[list[int]] = field(default_factory=list)
    labels: list[list[int]] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    lost: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.input_ids)

    def dataset(self) -> Dataset:
        """Give the rows as a dataset in memory."""
        return Dataset.from_dict({"input_ids": self.input_ids, "labels": self.labels})

    def report(self, max_length: int) -> str:
        """Say in one line what became of the rows."""
        text = f"{self.name}: {len(self)} rows"
        if self.cut:
            text += f"; {len(self.cut)} cut at {max_length} tokens ({_some(self.cut)})"
        if self.lost:
            text += f"; {len(self.lost)} left out, nothing to learn within {max_length} tokens ({_some(self.lost)})"
        return text


def split(rows: Sequence[Row], share: float) -> tuple[list[Row], list[Row]]:
    """Hold out a share of the rows: at least one, never all, chosen by content so that equal rows stay together.

    The choice does not depend on the order of rows, and a new row moves at most one other across the border.
    """
    ranked = sorted(row.digest for row in rows)
    border = ranked[max(1, round(share * len(rows))) - 1]
    train = [row for row in rows if row.digest > border]
    if not train:
        raise bad_data(f"{len(rows)} rows, {len(set(ranked))} of them different, cannot be split: give more rows")
    return train, [row for row in rows if row.digest <= border]


def encode(tokenizer: Any, rows: Sequence[Row], name: str, max_length: int) -> Encoded:
    """Tokenise rows; the labels are those tokens that the assistant says, its end of turn among them.

    Raises Ended (BAD_DATA) when the chat template refuses a row, or when nothing is left to learn in any of them.
    """
    encoded = Encoded(name)
    for start in range(0, len(rows), _CHUNK):
        chunk = rows[start : start + _CHUNK]
        for row, (ids, labels) in zip(chunk, _tokenise(tokenizer, chunk, name), strict=True):
            if len(ids) > max_length:
                encoded.cut.append(row.line)
            # The first token is never predicted, so a label on it alone teaches nothing.
            if row.messages[-1].get("content") == "" or all(label == IGNORED for label in labels[1:max_length]):
                encoded.lost.append(row.line)
            else:
                encoded.input_ids.append(ids[:max_length])
                encoded.labels.append(labels[:max_length])
    if not len(encoded):
        longer = f"; within {max_length} tokens no completion begins: raise train.max_length" if encoded.cut else ""
        raise bad_data(f"{name}: none of its {len(rows)} rows has anything to learn{longer}")
    return encoded


@dataclass(frozen=True, slots=True)
class _Turn:
    """The texts before and after one thing the assistant says; `last` ends the row."""

    before: str
    after: str
    last: bool


def _tokenise(tokenizer: Any, rows: Sequence[Row], name: str) -> Iterator[tuple[list[int], list[int]]]:
    chat = bool(tokenizer.chat_template)
    turns = [_chat_turns(tokenizer, row, name) if chat else _plain_turns(row) for row in rows]
    texts = [text for row in turns for turn in row for text in (turn.before, turn.after)]
    # One call for many texts: a fast tokenizer works on all cores. A chat template writes the special tokens itself.
    ids = iter(tokenizer(texts, add_special_tokens=not chat)["input_ids"])
    # A template may end a turn with a token of its own; plain text has no end but the one we give it.
    special = (token for token, added in tokenizer.added_tokens_decoder.items() if added.special)
    stops = {tokenizer.eos_token_id, *special} if chat else set()
    for row in turns:
        spans = [_Span(next(ids), next(ids), turn.last) for turn in row]
        yield _label(spans if chat else [span.open_ended(tokenizer.eos_token_id) for span in spans], stops, tokenizer)


@dataclass(frozen=True, slots=True)
class _Span:
    """A turn in tokens."""

    before: list[int]
    after: list[int]
    last: bool

    def open_ended(self, eos: int) -> _Span:
        """Drop the end that some tokenizers put behind every text: behind a prompt it says that nothing follows."""
        before, after = (ids[:-1] if ids and ids[-1] == eos else ids for ids in (self.before, self.after))
        return _Span(before, after, self.last)


def _label(spans: list[_Span], stops: set[int], tokenizer: Any) -> tuple[list[int], list[int]]:
    whole = spans[-1].after
    labels = [IGNORED] * len(whole)
    for span in spans:
        start, end = _common(span.before, whole), _common(span.after, whole)
        # Some templates write an earlier turn differently once another follows. What the model would then see when
        # it is asked is not what stands here, so it is not trained on.
        if span.last or (start == len(span.before) and end == len(span.after)):
            labels[start:end] = whole[start:end]
    if stops.intersection(labels[-_ENDING:]):
        return whole, labels
    return [*whole, tokenizer.eos_token_id], [*labels, tokenizer.eos_token_id]


def _chat_turns(tokenizer: Any, row: Row, name: str) -> list[_Turn]:
    def text(count: int, ask: bool) -> str:
        said = list(row.messages[:count])
        if not said:
            return ""
        return str(tokenizer.apply_chat_template(said, tools=row.tools, add_generation_prompt=ask, tokenize=False))

    count = len(row.messages)
    replies = [position for position, message in enumerate(row.messages) if message["role"] == "assistant"]
    try:
        return [_Turn(text(place, True), text(place + 1, False), place + 1 == count) for place in replies]
    except TemplateError as error:
        raise bad_data(f"{name}:{row.line}: the model's chat template refuses this row: {error}") from None


def _plain_turns(row: Row) -> list[_Turn]:
    texts = [str(message.get("content") or "") for message in row.messages]
    before = row.glue.join([*texts[:-1], ""]) if texts[:-1] else ""
    return [_Turn(before, before + texts[-1], True)]


def _common(one: list[int], other: list[int]) -> int:
    """Count the tokens that both begin with."""
    pairs = zip(one, other)  # noqa: B905 - the shorter one ends it
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def _some(lines: Sequence[int]) -> str:
    more = f" and {len(lines) - _LISTED} more" if len(lines) > _LISTED else ""
    return f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines[:_LISTED]))}{more}"
