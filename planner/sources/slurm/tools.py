"""Slurm's commands: arguments as lists, no shell, no environment of ours that changes what they print."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from planner.errors import SourceError
from planner.words import printable

LONGEST = 300
"""Characters of what a command complained that a message shows."""

PASSED_ON = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "SLURM_CONF", "SLURM_JWT")
"""Variables that commands get to see: `SQUEUE_FORMAT` and its like would change what they print."""


@dataclass(frozen=True)
class Answer:
    """What a command said; `code` is not 0 where any part of it failed."""

    code: int
    out: str
    err: str


class Tools(Protocol):
    """Runs one command of Slurm to its end."""

    def __call__(self, args: Sequence[str], text: str = "", times: str = "%s") -> Answer:
        """Run `args` (the program first), with `text` on its input; `times`: how it prints times."""
        ...


@dataclass(frozen=True)
class Commands:
    """The commands that are installed.

    Attributes
    ----------
    folder : str or None
        Where they are; None = on the PATH.
    conf : str or None
        The slurm.conf they take; None = their own choice.
    timeout_s : int, seconds
    """

    folder: str | None = None
    conf: str | None = None
    timeout_s: int = 30
    env: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))

    def __call__(self, args: Sequence[str], text: str = "", times: str = "%s") -> Answer:
        """Run one command; SourceError where it is not there or does not answer."""
        env = {key: self.env[key] for key in PASSED_ON if key in self.env} | {"TZ": "UTC"}
        if times:
            env["SLURM_TIME_FORMAT"] = times
        if self.conf:
            env["SLURM_CONF"] = self.conf
        program = str(Path(self.folder) / args[0]) if self.folder else args[0]
        try:
            done = subprocess.run(  # noqa: S603 - a list of arguments, checked by who makes it
                [program, *args[1:]],
                input=text,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                env=env,
                timeout=self.timeout_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise SourceError(
                f"{args[0]}: no answer in {self.timeout_s} s, see whether slurmctld runs"
            ) from None
        except OSError as error:
            fix = "install Slurm's commands, or name their folder as source.bin"
            raise SourceError(f"{program}: cannot be run ({error.strerror}), {fix}") from None
        return Answer(done.returncode, done.stdout, done.stderr)


def complaint(answer: Answer) -> str:
    """Return what a command complained, on one line."""
    lines = [line.strip() for line in answer.err.splitlines() if line.strip()]
    return printable("; ".join(dict.fromkeys(lines)))[:LONGEST] or f"exit code {answer.code}"


def read_text(tools: Tools, *args: str) -> str:
    """Return what a command prints; SourceError where it fails."""
    answer = tools(args)
    if answer.code:
        raise SourceError(f"{' '.join(args)}: {complaint(answer)}")
    return answer.out


def read_json(tools: Tools, *args: str, times: str = "%s") -> dict[str, Any]:
    """Return the JSON that a command prints; SourceError where it fails or prints anything else.

    Without a slurmctld `squeue --json` ends well and shows no jobs: its `errors` alone say what is wrong.
    """
    answer = tools(args, times=times)
    if answer.code:
        raise SourceError(f"{' '.join(args)}: {complaint(answer)}")
    try:
        data = json.loads(answer.out)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise SourceError(
            f"{' '.join(args)}: printed no JSON object, see whether Slurm's JSON plugin is there"
        )
    if data.get("errors"):
        why = printable(json.dumps(data["errors"], ensure_ascii=False))[:LONGEST]
        raise SourceError(f"{' '.join(args)}: see whether slurmctld runs, it says {why}")
    return data
