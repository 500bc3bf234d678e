"""Commands of the site that a round calls: arguments as lists, never a shell, always an end."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

from planner.words import printable

ON_EMPTY_TIMEOUT_S = 30


def sick_nodes(command: Sequence[str], timeout_s: int) -> tuple[dict[str, str], str | None]:
    """Return the unhealthy nodes that a command prints, each with why; and what went wrong, if anything.

    A line is a node, and after a blank the reason. A command that fails says nothing: a broken check must not
    empty a cluster.
    """
    if not command:
        return {}, None
    out, fault = _called(command, timeout_s)
    if fault is not None:
        return {}, fault
    lines = (line.strip().partition(" ") for line in out.splitlines() if line.strip())
    return {node: printable(why.strip()) or "unhealthy" for node, _, why in lines}, None


def call_repair(command: Sequence[str], node: str, reason: str) -> str | None:
    """Call for the repair of a node that has become empty; return what went wrong, if anything."""
    return _called([*command, node, reason], ON_EMPTY_TIMEOUT_S)[1]


def _called(command: Sequence[str], timeout_s: int) -> tuple[str, str | None]:
    """Return what a command prints, and what went wrong with it."""
    try:
        done = subprocess.run(  # noqa: S603 - the site's own command, given as a list
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "", f"{command[0]}: no answer in {timeout_s} s"
    except OSError as error:
        return "", f"{command[0]}: cannot be run ({error.strerror})"
    if done.returncode:
        said = printable(" ".join(done.stderr.split()))[:200]
        return "", f"{command[0]}: exit code {done.returncode}" + (f" ({said})" if said else "")
    return done.stdout, None
