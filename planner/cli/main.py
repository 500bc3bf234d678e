"""The command group: subcommands are imported when they are called, errors end in one line each."""

from __future__ import annotations

import errno
import importlib
import os
import sys
from typing import Any

import click

from planner.errors import GangplanError, InputError

COMMANDS = {
    "plan": "Plan one round; nothing is applied.",
    "run": "The cron entry: read a cluster, plan, and carry the plan out.",
    "slurm": "Check a Slurm cluster's set-up, look at it, import its history.",
    "verify": "Check a plan against its snapshot.",
    "place": "Place one new workload beside a standing plan, without a solver.",
    "explain": "Say why a workload waits, or when a new one would start.",
    "shares": "Show the allocations: share, usage, ratio, owed and delivered.",
    "simulate": "Run days of work through a policy, in seconds.",
    "compare": "Run the same work under several policies, side by side.",
    "snapshot": "Cut a snapshot out of a simulated moment.",
    "trace": "Import, combine, make and show traces, the input of simulations.",
    "report": "Draw what happened or is planned, as pages that open from disk.",
    "ledger": "Show, import, export and prune the record of who used what.",
    "check": "Validate a site file, and a snapshot against it.",
    "schema": "Print the JSON Schema of a site file, a snapshot or a plan.",
}
"""What there is, with the help that `gangplan --help` shows: listing must not load every command."""


class _Lazy(click.Group):
    """Imports a subcommand when it is called: `gangplan check` must not wait for a solver to load."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"planner.cli.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of our pipe (head, less) has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(0)
        except OSError as error:  # files are written by code that names them: a full disk here is stdout's
            if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EIO):
                raise
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise InputError([f"stdout: cannot be written ({error.strerror or error})"]) from None


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gangplan")
def group() -> None:
    """Plan a GPU cluster by budget: who starts now, who makes room, and why the others wait."""


def main() -> None:
    """Run the command line; exit codes are those of `planner.errors`."""
    try:
        group(standalone_mode=False)
    except (click.exceptions.Abort, KeyboardInterrupt):
        sys.exit(130)
    except click.ClickException as e:
        e.show()
        sys.exit(e.exit_code)
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except GangplanError as e:
        click.echo(str(e), err=True)
        sys.exit(e.exit_code)
