"""One attempt of the built-in trainer, from the task to the result, top to bottom."""

from __future__ import annotations

import platform
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import torch
import transformers

from gpujob import files
from gpujob.core.errors import ResumeRefused
from gpujob.core.reasons import Reason
from gpujob.core.records import TrainTask
from gpujob.core.spec import Adapter, Method
from gpujob.trainer.commit import Checkpoints
from gpujob.trainer.config import make_config
from gpujob.trainer.contract import Contract
from gpujob.trainer.data import Encoded, encode, split
from gpujob.trainer.endings import Ended, bad_spec
from gpujob.trainer.identity import Leg, Note, changed_versions, new_note, read_note
from gpujob.trainer.loop import Loop
from gpujob.trainer.metrics import MetricsLog, evaluated, step_lines
from gpujob.trainer.model import (
    attach,
    choose_device,
    choose_precision,
    count_parameters,
    first_line,
    load_model,
    load_tokenizer,
)
from gpujob.trainer.pace import Cadence, FirstStep, Pace
from gpujob.trainer.replies import ask
from gpujob.trainer.result import Summary, count_rows, pair_replies, totals, write_result
from gpujob.trainer.rows import read_rows
from gpujob.trainer.stop import Stop

Say = Callable[[str], None]


def run(contract: Contract, say: Say) -> int:
    """Train, and give the process's exit code; a verdict is left wherever the reason of an early end is known."""
    try:
        _train(contract, say)
        return 0
    except Ended as ended:
        return _give_up(ended, contract, say)
    except ResumeRefused as refused:
        return _give_up(bad_spec(str(refused).replace("\n  ", "; ")), contract, say)
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        traceback.print_exc()
        return _give_up(_out_of_memory(contract.task, error), contract, say)


def _train(contract: Contract, say: Say) -> None:
    task, train, resume = contract.task, contract.task.train, contract.resume_from
    if train.method is not Method.SFT or train.adapter is Adapter.QLORA:
        raise bad_spec(f"method {train.method.value} with adapter {train.adapter.value} is not built in yet")
    stop = Stop()
    stop.install()
    _be_quiet_and_deterministic()

    note = _begin_leg(contract, say)
    tokenizer = load_tokenizer(task.model, train.model)
    rows, validation = _load_rows(task, tokenizer, say)
    device = choose_device()
    precision = choose_precision(train, device)
    say(f"loading {train.model} as {precision} on {device}")
    model = load_model(task.model, train.model, precision, device)
    stop.check()

    if train.prompts and not note.before:
        note = note.model_copy(update={"before": ask(model, tokenizer, train.prompts)})
    model = attach(model, train)
    trained, total = count_parameters(model)
    say(f"{trained:,} of {total:,} parameters are trained")

    checkpoints, cadence = Checkpoints(contract.checkpoints), Cadence(task.interval)
    pace = Pace(cadence, stop, train.eval_steps, evaluates=validation is not None)
    config = make_config(train, checkpoints.saving, precision, cpu=device.type == "cpu")
    try:
        loop = Loop(
            model=model,
            args=config,
            train_dataset=rows.dataset(),
            eval_dataset=validation and validation.dataset(),
            processing_class=tokenizer,
            callbacks=[pace, FirstStep(), MetricsLog(contract.metrics, say)],
            checkpoints=checkpoints,
            cadence=cadence,
            stop=stop,
            note=note,
            say=say,
        )
    except (ValueError, TypeError) as error:
        raise bad_spec(f"train: {first_line(error)}") from error
    loop.remove_callback(transformers.PrinterCallback)
    stop.check()

    _run_or_load(loop, pace, resume)
    step, steps = loop.state.global_step, loop.state.max_steps
    if step < steps:
        assert stop.wanted, f"the loop ended at step {step} of {steps}"
        raise Ended(Reason.PREEMPTED, f"told to stop: step {step} of {steps} is done and saved")

    stop.ignore()
    if pace.evaluation_due(step, steps) and not evaluated(loop.state.log_history, step):
        loop.evaluate()
    lines = step_lines(loop.state.log_history, steps)
    summary = Summary(
        model=train.model,
        trainable_parameters=trained,
        total_parameters=total,
        rows=count_rows(rows),
        validation_rows=count_rows(validation),
        attempts=note.legs,
        device=torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu",
        precision=str(precision),
        versions=note.versions,
        replies=pair_replies(train.prompts, note.before, ask(loop.model, tokenizer, train.prompts)),
        **totals(lines),
    )
    write_result(contract.output, loop.model, tokenizer, lines, summary, note)
    say(f"done: {summary.steps} steps, loss {summary.train_loss:.4f} over the last of them")


def _begin_leg(contract: Contract, say: Say) -> Note:
    """Give the note to go on with; raises ResumeRefused when the checkpoint is another training's."""
    task, resume = contract.task, contract.resume_from
    note = read_note(resume, task) if resume else new_note(task)
    for change in changed_versions(note):
        say(f"warning: {change} since the checkpoint: the numbers may differ in the last bits")
    leg = Leg(attempt=contract.attempt, from_step=note.step)
    if resume:
        say(f"going on from step {note.step}")
    return note.model_copy(update={"legs": (*note.legs, leg), "versions": new_note(task).versions})


def _load_rows(task: TrainTask, tokenizer: Any, say: Say) -> tuple[Encoded, Encoded | None]:
    """Read, split and tokenise the rows, and say what became of each."""
    data, longest = task.train.data, task.train.max_length
    rows = read_rows(Path(task.data), data.path)
    held_out = []
    if task.validation is not None:
        held_out = read_rows(Path(task.validation), str(data.validation))
    elif isinstance(data.validation, float):
        rows, held_out = split(rows, data.validation)
    training = encode(tokenizer, rows, data.path, longest)
    say(training.report(longest))
    if not held_out:
        return training, None
    name = str(data.validation) if task.validation is not None else f"{data.path}, held out"
    validation = encode(tokenizer, held_out, name, longest)
    say(validation.report(longest))
    return training, validation


def _run_or_load(loop: Loop, pace: Pace, resume: Path | None) -> None:
    """Train on from the checkpoint; where it is the last one, only load it, or it would train one step too many."""
    if resume is None:
        loop.train()
        return
    state = transformers.TrainerState.load_from_json(str(resume / "trainer_state.json"))
    step, steps = state.global_step, state.max_steps
    if step >= steps:
        loop.load(str(resume))
        return
    # Told to stop, the attempt before left this evaluation to us.
    loop.args.eval_on_start = pace.evaluation_due(step, steps) and not evaluated(state.log_history, step)
    loop.train(resume_from_checkpoint=str(resume))


def _be_quiet_and_deterministic() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.backends.cudnn.benchmark = False
    # Advice to those who write libraries, once in every attempt's log.
    warnings.filterwarnings("ignore", category=FutureWarning)
    datasets.disable_progress_bars()
    transformers.utils.logging.disable_progress_bar()


def _is_out_of_memory(error: Exception) -> bool:
    if isinstance(error, (MemoryError, torch.cuda.OutOfMemoryError)):
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def _out_of_memory(task: TrainTask, error: Exception) -> Ended:
    train = task.train
    rows, passes = train.per_device_train_batch_size, train.gradient_accumulation_steps
    way_out = "a smaller max_length or gradient_checkpointing: true needs less"
    if rows > 1:
        smaller = f"per_device_train_batch_size: {rows // 2} with gradient_accumulation_steps: {passes * 2}"
        way_out = f"{smaller} needs less and trains on as many rows a step"
    size = f"{rows} row{'s' if rows > 1 else ''} of up to {train.max_length} tokens at once"
    return Ended(Reason.OOM, f"memory ran out with {size} ({first_line(error)}); {way_out}")


def _give_up(ended: Ended, contract: Contract, say: Say) -> int:
    say(ended.verdict.sentence)
    if contract.verdict:
        files.write(contract.verdict, ended.verdict.encode())
    return ended.exit_code
