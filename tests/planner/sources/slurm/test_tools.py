"""Slurm's commands are called as lists, with little environment, and always come to an end."""

from __future__ import annotations

from pathlib import Path

import pytest

from planner.errors import SourceError
from planner.sources.slurm.tools import Answer, Commands, complaint, read_json, read_text


def program(folder: Path, name: str, script: str) -> None:
    """Write a program."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def tools(tmp_path: Path) -> Commands:
    program(tmp_path, "show", 'for a in "$@"; do printf "[%s]" "$a"; done')
    program(tmp_path, "env", "/usr/bin/env")
    program(tmp_path, "cat", "exec /bin/cat")
    program(tmp_path, "fail", "echo one >&2; echo one >&2; printf 'two\\033[2J' >&2; exit 3")
    program(tmp_path, "slow", "exec /bin/sleep 30")
    env = {"PATH": "/usr/bin:/bin", "SQUEUE_FORMAT": "%i", "SECRET": "x", "SLURM_CONF": "/a"}
    return Commands(str(tmp_path), None, 1, env)


def test_arguments_arrive_as_they_are(tools: Commands) -> None:
    words = ["$(id)", "; rm -rf /", "a b", "`x`", "--x=1"]
    assert read_text(tools, "show", *words) == "".join(f"[{w}]" for w in words)


def test_commands_see_no_environment_that_changes_what_they_print(tools: Commands) -> None:
    seen = dict(line.partition("=")[::2] for line in read_text(tools, "env").splitlines())
    assert {"SQUEUE_FORMAT", "SECRET"} & seen.keys() == set()
    assert (seen["TZ"], seen["SLURM_TIME_FORMAT"], seen["SLURM_CONF"]) == ("UTC", "%s", "/a")


def test_a_site_may_name_another_slurm_conf(tools: Commands) -> None:
    other = Commands(tools.folder, "/b", 1, tools.env)
    assert "SLURM_CONF=/b" in read_text(other, "env").splitlines()


def test_text_is_put_on_their_input(tools: Commands) -> None:
    assert tools(["cat"], "update JobId=1\n").out == "update JobId=1\n"


def test_a_failure_is_told_once_and_on_one_line(tools: Commands) -> None:
    with pytest.raises(SourceError, match=r"^fail: one; two\\x1b\[2J$"):
        read_text(tools, "fail")
    assert complaint(Answer(7, "", "")) == "exit code 7"


def test_a_command_that_hangs_is_ended(tools: Commands) -> None:
    with pytest.raises(SourceError, match="no answer in 1 s"):
        read_text(tools, "slow")


def test_a_command_that_is_not_there_is_told_with_what_to_do(tools: Commands) -> None:
    with pytest.raises(SourceError, match=r"name their folder as source\.bin"):
        read_text(tools, "nothing")


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "[" * 100_000])
def test_what_is_no_json_object_is_told(text: str) -> None:
    with pytest.raises(SourceError, match="printed no JSON object"):
        read_json(lambda *_, **__: Answer(0, text, ""), "squeue", "--json")


def test_an_answer_with_errors_is_none_though_it_ends_well() -> None:
    away = '{"errors": [{"description": "Failed while looking for jobs"}], "jobs": []}'
    with pytest.raises(SourceError, match=r"see whether slurmctld runs, it says .*Failed while looking"):
        read_json(lambda *_, **__: Answer(0, away, ""), "squeue", "--json")
