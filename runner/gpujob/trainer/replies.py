"""Ask the model, and leave no trace: the training's random numbers are as if nobody had asked."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from transformers import GenerationConfig

MAX_NEW_TOKENS = 64


@contextmanager
def untouched_randomness() -> Iterator[None]:
    """Put every random number generator back to where it was."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else []
    states = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        numpy.random.set_state(states[1])
        torch.set_rng_state(states[2])
        if cuda:
            torch.cuda.set_rng_state_all(cuda)


def ask(model: Any, tokenizer: Any, prompts: Sequence[str]) -> tuple[str, ...]:
    """Give the model's most likely reply to each prompt, asked as the rows ask it."""
    was_training = model.training
    model.eval()
    try:
        with untouched_randomness(), torch.no_grad():
            return tuple(_reply(model, tokenizer, prompt) for prompt in prompts)
    finally:
        model.train(was_training)


def _reply(model: Any, tokenizer: Any, prompt: str) -> str:
    if tokenizer.chat_template:
        said = [{"role": "user", "content": prompt}]
        prompt = tokenizer.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
    inputs = tokenizer(prompt, add_special_tokens=not tokenizer.chat_template, return_tensors="pt")
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    how = GenerationConfig(
        max_new_tokens=MAX_NEW_TOKENS,
        do_sample=False,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=sorted({tokenizer.eos_token_id, *(end for end in ends if end is not None)}),
    )
    asked = inputs["input_ids"].to(model.device)
    mask = inputs["attention_mask"].to(model.device)
    given = model.generate(input_ids=asked, attention_mask=mask, generation_config=how)
    return str(tokenizer.decode(given[0, asked.shape[1] :], skip_special_tokens=True)).strip()
