"""What never leaves this machine, whatever an ignore file says."""

from __future__ import annotations

from pathlib import Path

from pathspec import GitIgnoreSpec

from gpujob.core.layout import HomePaths, JobKeys

HISTORY = GitIgnoreSpec.from_lines([".git", ".hg", ".svn", ".bzr", ".jj"])
"""Version control: left out of every part, without a word."""

CLUTTER = GitIgnoreSpec.from_lines(
    [
        *(".venv", "venv", "node_modules", "__pycache__", "*.pyc", "*.pyo", "*.egg-info", ".eggs", ".tox", ".nox"),
        *(".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis", ".import_linter_cache", ".ipynb_checkpoints"),
        *(".idea", ".ds_store", ".gpujob", ".gpujob-tmp-*"),
    ]
)
"""What tools make again by themselves: left out of code, without a word."""

SECRETS = GitIgnoreSpec.from_lines(
    [
        *(".env", ".env.*", ".envrc", ".netrc", "_netrc", ".pgpass", ".pypirc", ".npmrc", ".git-credentials"),
        *("*.pem", "*.key", "*.ppk", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.kdb", "*.tfstate"),
        *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".oci"),
        *("credentials*.json", "client_secret*.json", "service-account*.json", "service_account*.json"),
        *("application_default_credentials.json", "kaggle.json", "**/.docker/config.json", "**/.config/gcloud"),
        *("**/.huggingface/token", "**/huggingface/token", "**/huggingface/stored_tokens"),
        *(".vault-token", ".s3cfg", ".boto", "rclone.conf", ".runpod", ".vast_api_key", ".lambda_cloud"),
    ]
)
"""Files that hold credentials: left out of every part, and reported."""


def matches(spec: GitIgnoreSpec, name: str) -> bool:
    """Say whether `name`, or a folder above it, is one of `spec`'s; upper and lower case are the same here."""
    return spec.match_file(name.lower())


def is_our_store(folder: Path) -> bool:
    """Say whether `folder` is a store or a home of gpujob's: shipping it would ship every job before this one."""
    keys, home = JobKeys("*"), HomePaths(folder)
    return (
        any(folder.glob(keys.bundle))
        or any(folder.glob(keys.head))
        or (home.journal.is_dir() and (home.rentals.is_dir() or home.store.is_dir()))
    )
