"""The job.yaml that `gpujob init` writes."""

from __future__ import annotations

_TEMPLATE = """\
# A fine-tuning job for gpujob. Check it without running anything:  gpujob submit job.yaml --dry-run
# Every key: docs/job-yaml.md. Values may hold ${VAR} or ${VAR:-default} from your environment.
name: my-job                            # lower-case letters, digits, hyphens

# Where it runs. Left out: this machine.
# hosts:
#   - ssh: gpu-box                      # an alias of ~/.ssh/config, or user@host:port
#     price_per_hour: 0.44              # for limits.cost and the bill

train:                                  # the built-in trainer ...
  method: sft
  model: HuggingFaceTB/SmolLM2-135M     # a hub id, or a local folder such as ./models/my-model
  data:
    path: train.jsonl                   # JSON lines beside this file: alpaca, prompt/completion or messages rows
    validation: 5%                      # held out to evaluate on; or a file of its own
  adapter: lora                         # lora | none
  lora: {r: 16, alpha: 32, dropout: 0.05, target_modules: all-linear}
  learning_rate: 2e-4
  num_train_epochs: 3
  per_device_train_batch_size: 1
  gradient_accumulation_steps: 8
  max_length: 1024                      # tokens; longer rows are cut
  prompts: ["Hello, who are you?"]      # asked before and after training

# ... or any program. See jobs/hello for the environment variables it can count on.
# setup: pip install -r requirements.txt
# run: python train.py --out "$GPUJOB_CHECKPOINT_DIR" --resume "$GPUJOB_RESUME_FROM"

# store: s3://my-bucket/gpujob          # where checkpoints go. Left out: a folder of this machine

checkpoint: {interval: auto, keep: 3}   # or 10m, or 50 steps
recovery: {max_failures: 3, max_preemptions: unlimited}
limits:
  duration: 10h                         # paid time over all attempts
  stall: 15m                            # no new step for so long: the attempt has failed
  startup: 20m                          # from the start to the first step
  grace: 60s                            # to save in when told to stop

# env: {TOKENIZERS_PARALLELISM: "false"}
# secrets: [HF_TOKEN]                   # names only; the values come from your environment
"""


def template() -> str:
    """Give a commented job.yaml; it is valid beside a file `train.jsonl`."""
    return _TEMPLATE
