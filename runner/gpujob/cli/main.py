"""The entry point: finds the verb, runs it, and turns whatever it raises into a sentence and an exit code.

Nothing heavy is imported here: `gpujob --help` answers at once, and a verb's module is loaded when it is called.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import click

from gpujob import __version__
from gpujob.cli.call import Call
from gpujob.cli.exits import Exit, of_error
from gpujob.cli.output import Output
from gpujob.core.errors import GpujobError, UsageError

VERBS = {
    "init": "Write a commented job.yaml to start from.",
    "validate": "Check job.yaml and say everything that is wrong with it.",
    "submit": "Run a job: ship what it needs, start it, and see it through interruptions.",
    "ps": "List the jobs.",
    "status": "Show how one job stands.",
    "logs": "Print what a job's program printed.",
    "events": "Print what happened to a job: attempts, interruptions, checkpoints.",
    "wait": "Wait for jobs to end; the exit code tells how.",
    "cancel": "End a job; its last checkpoint stays.",
    "pull": "Download a job's result, or its newest checkpoint, verified byte by byte.",
    "store": "Prove that a bucket or folder can hold jobs, and say what is missing.",
    "host": "Look at a machine, and say whether jobs can run there.",
}
"""Every verb, in the order of a job's life, with the first line of its help; its module is cli/verbs/<verb>.py."""

_EPILOG = """\b
Examples:
  gpujob init                      write job.yaml
  gpujob submit job.yaml           run it and follow; Ctrl-C detaches, the job goes on
  gpujob ps                        what is running, at risk and spent
  gpujob pull support-bot result   get the result

ID is a job's id, the beginning of one, or a job's name (the newest of that name)."""


class _Verbs(click.Group):
    """A group whose verbs are loaded one at a time, when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = import_module(f"gpujob.cli.verbs.{name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in VERBS and not args[0].startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(args[0], VERBS, n=1)
            hint = f"did you mean `gpujob {near[0]}`?" if near else f"the verbs are {', '.join(VERBS)}"
            raise UsageError("run", f"`gpujob {args[0]}`", "there is no such verb", hint)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=_Verbs,
    epilog=_EPILOG,
    subcommand_metavar="VERB …",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="gpujob", message="%(prog)s %(version)s")
def cli() -> None:
    """Fine-tune on a rented GPU overnight: interrupted = uninterrupted."""


def run(
    argv: Sequence[str],
    environ: Mapping[str, str],
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run one command line; give its exit code."""
    output = Output(environ, json="--json" in argv)
    call = Call(environ, output, now, sleep)
    try:
        code = cli.main(list(argv) or ["--help"], prog_name="gpujob", standalone_mode=False, obj=call)
        return int(code or Exit.OK)
    except GpujobError as error:
        output.error(error)
        return of_error(error)
    except click.ClickException as error:
        output.error(_usage(error))
        return Exit.USAGE
    except click.Abort:
        output.note("interrupted")
        return Exit.INTERRUPTED
    except Exception as error:
        from gpujob.cli import bugs

        output.error(bugs.explain(error, environ))
        return Exit.UNEXPECTED


def main() -> None:
    """Run the command line of this process."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal or pipe without UTF-8 gets escapes instead of a crash.
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    sys.exit(run(sys.argv[1:], os.environ))


def _usage(error: click.ClickException) -> UsageError:
    context = getattr(error, "ctx", None)
    path = context.command_path if context else "gpujob"
    return UsageError("run", f"`{path}`", error.format_message(), f"`{path} --help` shows how it is called")


if __name__ == "__main__":
    main()
