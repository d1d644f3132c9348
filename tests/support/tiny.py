"""A model, a tokenizer and rows so small that real training takes moments. Built when a test asks, out of nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
_WORDS = ("red", "green", "blue", "one", "two", "three", "four", "small", "large", "round", "cube", "ball", "box")


def tiny_rows(folder: Path, n: int) -> Path:
    """Write `n` different prompt/completion rows into folder/train.jsonl; give its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in _rows(n)))
    return path


def _rows(n: int) -> list[dict[str, str]]:
    size = len(_WORDS)
    words = [[_WORDS[(row * step + row // size) % size] for step in (1, 2, 3, 7)] for row in range(n)]
    return [
        {"prompt": f"What is {a} and {b}, row {row}?", "completion": f"It is {c} {d} {a} number {row}."}
        for row, (a, b, c, d) in enumerate(words)
    ]


def tiny_tokenizer(folder: Path, *, chat: bool = True) -> Path:
    """Write a byte-level tokenizer of 384 tokens, with a chat template unless told otherwise."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=384, special_tokens=special, initial_alphabet=alphabet)
    tokenizer.train_from_iterator((" ".join(row.values()) for row in _rows(200)), trainer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|im_end|>", unk_token="<|endoftext|>"
    )
    fast.chat_template = CHAT_TEMPLATE if chat else None
    fast.save_pretrained(folder)
    return folder


def tiny_model_dir(folder: Path, *, dropout: float = 0.1) -> Path:
    """Write a Llama of two layers and 200 thousand parameters with its tokenizer; always the same bytes."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=384,
        hidden_size=80,
        intermediate_size=192,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        attention_dropout=dropout,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=2,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        LlamaForCausalLM(config).save_pretrained(folder)
    return tiny_tokenizer(folder)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny model, built once for the whole run; nobody writes into it."""
    return tiny_model_dir(tmp_path_factory.mktemp("tiny") / "model")
