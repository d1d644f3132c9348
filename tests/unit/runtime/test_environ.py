from __future__ import annotations

import pytest

from gpujob.runtime.environ import machine_environ


@pytest.mark.parametrize(
    "name",
    ["PATH", "HOME", "LC_ALL", "HF_HOME", "HF_ENDPOINT", "CUDA_VISIBLE_DEVICES", "https_proxy", "SSL_CERT_FILE",
     "OMP_NUM_THREADS", "PYTORCH_CUDA_ALLOC_CONF", "TOKENIZERS_PARALLELISM"],
)  # fmt: skip
def test_what_a_program_needs_is_passed_on(name):
    assert machine_environ({name: "x"}) == {name: "x"}


@pytest.mark.parametrize(
    "name",
    ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "WANDB_API_KEY", "HF_API_KEY", "CUDA_PASSWORD",
     "SSH_AUTH_SOCK", "PYTHONPATH", "GPUJOB_HOME", "GPUJOB_ID", "HF_MY_SECRET", "TORCH_CREDENTIALS", "NCCL_ACCESSKEY"],
)  # fmt: skip
def test_secrets_and_strangers_are_not(name):
    assert machine_environ({name: "x"}) == {}
