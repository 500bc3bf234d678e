"""`gangplan schema`: JSON Schema for editors."""

from __future__ import annotations

import json

import click


@click.command(name="schema")
@click.argument("kind", type=click.Choice(["site", "snapshot", "plan"]))
def command(kind: str) -> None:
    """Print the JSON Schema of a site file, a snapshot or a plan."""
    from planner import planfile, site, snapshot

    schemas = {"site": site.schema, "snapshot": snapshot.schema, "plan": planfile.schema}
    click.echo(json.dumps(schemas[kind](), indent=1))
