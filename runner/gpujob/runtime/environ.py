"""What an agent's environment holds: what a program needs of its machine, and no secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

PASSED = frozenset(
    {
        # the machine and its user
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LANG", "LANGUAGE", "LD_LIBRARY_PATH",
        "XDG_CACHE_HOME",
        # the network
        "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
        "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "PIP_INDEX_URL",
        # compute
        "TOKENIZERS_PARALLELISM", "VECLIB_MAXIMUM_THREADS", "NUMEXPR_NUM_THREADS",
    }
)  # fmt: skip
"""Variables that are passed on."""

PREFIXES = ("LC_", "HF_", "CUDA_", "NVIDIA_", "NCCL_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "OPENBLAS_", "TRITON_")
"""Beginnings of variables that are passed on."""

_SECRET = re.compile(
    r"TOKEN(?!IZERS)|SECRET|PASSWORD|PASSWD|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY", re.IGNORECASE
)


def machine_environ(environ: Mapping[str, str]) -> dict[str, str]:
    """Give the part of an environment an agent gets."""
    return {
        name: value
        for name, value in environ.items()
        if (name in PASSED or name.startswith(PREFIXES)) and not _SECRET.search(name)
    }
