"""Options that several commands share, and how results are printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from planner.yamltext import to_yaml

Decorator = Callable[[Callable[..., None]], Callable[..., None]]


class NamedPath(click.Path):
    """The path of a file or folder; an empty one, as of an unset variable, would be the current folder."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path."""
        if value == "":
            self.fail("is empty, write a path", param, ctx)
        return super().convert(value, param, ctx)


PATH = NamedPath()

site = click.option("--site", "site_path", type=PATH, required=True, help="Site file (YAML).")
snapshot = click.option(
    "--snapshot", "snapshot_path", type=PATH, required=True, help="Snapshot (JSON or YAML)."
)
plan = click.option("--plan", "plan_path", type=PATH, required=True, help="Plan (JSON).")
ledger = click.option(
    "--ledger", "ledger_url", help="Take usage from this ledger (a database URL) and not from the snapshot."
)
output = click.option(
    "-o",
    "output",
    type=click.Choice(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="How to print the result on stdout.",
)


def show(data: Any, output: str, table: Callable[[], str]) -> None:
    """Print a result: as JSON, as YAML, or as the table that `table` makes."""
    if output == "json":
        click.echo(json.dumps(data, indent=1, ensure_ascii=False))
    elif output == "yaml":
        click.echo(to_yaml(data), nl=False)
    else:
        click.echo(table())


def refuse_one_file(out: Path, site_out: Path | None) -> None:
    """Raise UsageError where a trace and its site would be written over each other."""
    if site_out is not None and site_out.absolute() == out.absolute():
        raise click.UsageError("--out and --site-out are one file, write two names")
