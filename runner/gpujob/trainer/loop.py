"""TRL's SFTTrainer, with these done our way: steps measured, deterministic gradients, evaluation, atomic saves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from peft import PeftModel
from transformers import Trainer, TrainerControl, TrainerState
from trl import SFTTrainer

from gpujob.trainer.commit import Checkpoints
from gpujob.trainer.data import IGNORED
from gpujob.trainer.identity import NOTE, Note
from gpujob.trainer.metrics import Meter
from gpujob.trainer.model import first_line
from gpujob.trainer.pace import Cadence
from gpujob.trainer.replies import untouched_randomness
from gpujob.trainer.stop import Stop


class Loop(SFTTrainer):  # type: ignore[misc]
    """The training loop. Whatever it needs to go on after a kill lies in the checkpoints it writes."""

    control: TrainerControl

    def __init__(
        self,
        *args: Any,
        checkpoints: Checkpoints,
        cadence: Cadence,
        stop: Stop,
        note: Note,
        say: Callable[[str], None],
        **kw: Any,
    ) -> None:
        self.checkpoints, self.cadence, self.stop, self.note, self.say = checkpoints, cadence, stop, note, say
        self.meter = Meter()
        self.strict = True
        super().__init__(*args, **kw)

    def get_batch_samples(self, *args: Any, **kw: Any) -> Any:
        """Fetch the micro-batches of one optimizer step, and measure them."""
        self.meter.begin()
        batches, items = super().get_batch_samples(*args, **kw)
        self.meter.see(batches)
        return batches, items

    def training_step(self, model: Any, *args: Any, **kw: Any) -> Any:
        """Compute one pass's gradients in the same way every time.

        With `warn_only` the attention kernels of a GPU stay non-deterministic, so it is strict here; a model with an
        operation that has no deterministic form shows it in its very first pass, and is then trained without.
        """
        torch.use_deterministic_algorithms(True, warn_only=not self.strict)
        try:
            return super().training_step(model, *args, **kw)
        except RuntimeError as error:
            if not self.strict or "deterministic" not in str(error):
                raise
            self.say(f"warning: an interrupted run may differ in the last bits: {first_line(error)}")
            self.strict = False
            model.zero_grad()
            return self.training_step(model, *args, **kw)
        finally:
            torch.use_deterministic_algorithms(True, warn_only=True)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Log, with our own measures where it is a step."""
        if "loss" in logs:
            logs.update(self.meter.read())
        logs["at"] = round(time.time(), 3)
        super().log(logs, start_time)

    def evaluate(self, *args: Any, **kw: Any) -> dict[str, float]:
        """Log the mean loss over all tokens of the validation rows, whatever the batch size.

        Takes no random number from the training. When told to stop it logs nothing and lets the loop save.
        """
        self.model.eval()
        total, tokens = 0.0, 0
        with untouched_randomness(), torch.no_grad():
            for batch in self.get_eval_dataloader():
                if self.stop.wanted:
                    self.control.should_save = self.control.should_training_stop = True
                    return {}
                total += float(self._summed_loss(self._prepare_inputs(batch)))
                tokens += int((batch["labels"][:, 1:] != IGNORED).sum())
        metrics = {"eval_loss": total / max(tokens, 1)}
        self.log(metrics)
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, metrics)
        return metrics

    def _summed_loss(self, batch: Any) -> torch.Tensor:
        one = torch.tensor(1, device=self.args.device)
        with self.compute_loss_context_manager(), self.accelerator.autocast():
            return torch.as_tensor(self.compute_loss(self.model, batch, num_items_in_batch=one))

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        step = self.state.global_step
        with self.checkpoints.commit(step) as folder:
            # Not TRL's own, which rewrites a model card each time.
            Trainer._save_checkpoint(self, model, trial)
            note = self.note.model_copy(update={"step": step})
            (folder / NOTE).write_bytes(note.encode())
        self.cadence.saved(self.checkpoints.save_seconds)

    def _save(self, output_dir: str | None = None, state_dict: Any = None) -> None:
        """Write the trained weights only: the tokenizer and the settings never change, and lie in the result."""
        save_weights(self.model, output_dir or self.args.output_dir)

    def load(self, folder: str) -> None:
        """Take weights and history of a checkpoint, without training on."""
        self._load_from_checkpoint(folder)
        self.accelerator.prepare_model(self.model, evaluation_mode=True)
        self.state = TrainerState.load_from_json(f"{folder}/trainer_state.json")
        self.callback_handler.on_train_begin(self.args, self.state, self.control)


def save_weights(model: Any, folder: str) -> None:
    """Write what is trained: an adapter, or the whole model."""
    # Asked to decide by itself, peft looks on the hub at every save whether the vocabulary grew. It never does here.
    options = {"save_embedding_layers": False} if isinstance(model, PeftModel) else {}
    model.save_pretrained(folder, **options)
