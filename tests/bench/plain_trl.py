"""The yardstick: the same training by TRL alone, with its own saving. Prints one JSON document."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from datasets import Dataset
from peft import LoraConfig
from transformers import AutoModelForCausalLM, AutoTokenizer, TrainerCallback
from trl import SFTConfig, SFTTrainer


class Clock(TrainerCallback):
    """Note when every step ended."""

    def __init__(self) -> None:
        self.at: list[float] = []

    def on_step_end(self, *args: Any, **kwargs: Any) -> None:
        self.at.append(time.time())


def as_turns(row: dict[str, str]) -> dict[str, Any]:
    """Write a row as gpujob renders it where the tokenizer has a chat template, so that both see the same tokens."""
    return {
        "prompt": [{"role": "user", "content": row["prompt"]}],
        "completion": [{"role": "assistant", "content": row["completion"]}],
    }


def main(task: dict[str, Any], out: Path) -> None:
    """Train as `task` says (the train section of a spec) and print when each step ended."""
    tokenizer = AutoTokenizer.from_pretrained(task["model"])
    model = AutoModelForCausalLM.from_pretrained(task["model"])
    rows = [json.loads(line) for line in Path(task["data"]).read_text().splitlines()]
    dataset = Dataset.from_list([as_turns(row) for row in rows])
    clock = Clock()
    config = SFTConfig(
        output_dir=str(out),
        max_steps=task["max_steps"],
        per_device_train_batch_size=task["per_device_train_batch_size"],
        gradient_accumulation_steps=task["gradient_accumulation_steps"],
        learning_rate=task["learning_rate"],
        max_length=task["max_length"],
        save_steps=task["save_steps"],
        save_total_limit=2,
        logging_steps=1,
        report_to="none",
        bf16=False,
        use_cpu=True,
        gradient_checkpointing=False,
        disable_tqdm=True,
    )
    lora = LoraConfig(r=task["lora"]["r"], lora_alpha=task["lora"]["alpha"], target_modules="all-linear")
    trainer = SFTTrainer(
        model=model,
        args=config,
        train_dataset=dataset,
        processing_class=tokenizer,
        peft_config=lora,
        callbacks=[clock],
    )
    trainer.train()
    (out / "clock.json").write_text(json.dumps(clock.at))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
