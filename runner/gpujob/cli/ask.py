"""The person at the terminal, asked what only a person can answer."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpujob.cli.escape import safe


def person() -> Person | None:
    """Give the person at this terminal; None where there is none."""
    return Person() if sys.stdin.isatty() and sys.stderr.isatty() else None


class Person:
    """Asks on standard error: results alone go to standard output."""

    def accept_key(self, host: str, kind: str, fingerprint: str) -> bool:
        """Show a key that nobody knows yet, and ask whether it is the machine's own."""
        click.echo(f"Nobody knows the {safe(kind)} key of {safe(host)} yet:\n  {safe(fingerprint)}", err=True)
        return click.confirm("Is it what the machine's owner or provider says?", default=False, err=True)

    def passphrase(self, path: Path) -> str:
        """Ask for a private key's passphrase, without showing it."""
        return str(click.prompt(f"Passphrase of {safe(str(path))}", hide_input=True, err=True))
