"""The command as a whole: help, exit codes, streams, and no solver where none is needed."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

from planner import errors
from planner.cli.main import COMMANDS, group
from tests.planner.cli.calling import gangplan, refused

PLAN = ("plan", "--site", "site.yaml", "--snapshot", "snapshot.yaml")
ROOT = Path(__file__).resolve().parents[3]


def process(*args: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, check=False, **options)


# --- help


def test_alone_it_shows_every_command_with_what_it_does():
    called = gangplan()
    for name in COMMANDS:
        assert re.search(rf"^  {name}  +\w.*\.$", called.out + called.err, re.MULTILINE)


@pytest.mark.parametrize("option", ["-h", "--help"])
@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS)])
def test_help_is_a_result(command: tuple[str, ...], option: str):
    called = gangplan(*command, option)
    assert (called.code, called.err) == (0, "")
    assert called.out.startswith("Usage: ")


def test_every_option_of_every_command_is_explained():
    for name in COMMANDS:
        command = group.get_command(click.Context(group), name)
        assert command is not None
        for parameter in command.params:
            assert isinstance(parameter, click.Argument) or parameter.help, (name, parameter.name)


def test_it_says_its_version():
    called = gangplan("--version")
    assert (called.code, called.err) == (0, "")
    assert importlib.metadata.version("gangplan") in called.out


# --- mistakes


@pytest.mark.parametrize(
    ("args", "word"),
    [
        (("nonsense",), "nonsense"),
        (("plan",), "--site"),
        ((*PLAN, "--wat"), "--wat"),
        ((*PLAN, "--backend", "abacus"), "abacus"),
        ((*PLAN, "-o", "xml"), "xml"),
        ((*PLAN, "--now", "yesterday"), '--now: "yesterday"'),
        ((*PLAN, "--now", "2026-10-09T12:00:00"), "time zone"),
        (("plan", "--site", "gone.yaml", "--snapshot", "snapshot.yaml"), "gone.yaml"),
        (("plan", "--site", "site.yaml", "--snapshot", "gone.json"), "gone.json"),
        (("plan", "--site", ".", "--snapshot", "snapshot.yaml"), "directory"),
        (("plan", "--site", "site.yaml/x", "--snapshot", "snapshot.yaml"), "site.yaml/x"),
        (("check", "--site", "bytes"), "UTF-8"),
        (("check", "--site", "empty"), "is empty"),
        (("verify", "--snapshot", "snapshot.yaml", "--plan", "bytes"), "UTF-8"),
        (("verify", "--snapshot", "snapshot.yaml", "--plan", "prose"), "prose:1:"),
        (("explain",), "--plan"),
        (("explain", "101"), "--plan"),
        (("explain", "999", "--plan", "plan.json"), "'999'"),
        (("explain", "--workload", "site.yaml"), "--site"),
        (("schema", "cluster"), "cluster"),
    ],
)
def test_a_mistake_is_said_on_stderr_alone_with_code_2(folder: Path, args: tuple[str, ...], word: str):
    (folder / "bytes").write_bytes(bytes(range(256)))
    (folder / "empty").touch()
    (folder / "prose").write_text("this is no plan\n")
    assert word in "\n".join(refused(gangplan(*args)))


def leaves(command: click.Command) -> Iterator[click.Command]:
    """Give every command that is no group."""
    if not isinstance(command, click.Group):
        yield command
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from leaves(below)


def test_no_path_of_any_command_may_be_empty():
    paths = [p for c in leaves(group) for p in c.params if isinstance(p.type, click.Path)]
    assert len(paths) > len(COMMANDS)
    for path in paths:
        with pytest.raises(click.BadParameter, match="is empty, write a path"):
            path.type.convert("", path, None)


def test_an_empty_folder_is_not_the_current_one(folder: Path):
    before = sorted(folder.iterdir())
    call = ("simulate", "--site", "site.yaml", "--trace", "snapshot.yaml", "--policy", "fifo", "--out", "")
    assert any("'--out': is empty, write a path" in line for line in refused(gangplan(*call)))
    assert sorted(folder.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(folder: Path):
    (folder / "site.yaml").chmod(0)
    assert "site.yaml" in refused(gangplan("check", "--site", "site.yaml"))[0]


def test_every_fault_of_a_file_has_a_line_with_its_place(folder: Path):
    (folder / "site.yaml").write_text("budgets:\n  - {name: a, weight: -1}\n  - {nme: b}\nsolver: {gap: 2}\n")
    lines = refused(gangplan("check", "--site", "site.yaml"))
    assert len(lines) >= 4
    assert all(re.match(r"site\.yaml:\d+:\d+: ", line) for line in lines)


@pytest.mark.parametrize(
    ("error", "code", "lines"),
    [
        (errors.InputError(["one", "two"]), 2, ["one", "two"]),
        (errors.PlanRejectedError(["x: protected", "y: gang"]), 3, ["x: protected", "y: gang"]),
        (errors.SourceError("no answer"), 4, ["no answer"]),
        (errors.LockedError("busy"), 75, ["busy"]),
    ],
)
def test_each_kind_of_error_has_its_exit_code(monkeypatch, error: Exception, code: int, lines: list[str]):
    assert refused(raising(monkeypatch, error), code) == lines


def test_an_interrupt_is_no_error_of_ours(monkeypatch):
    assert raising(monkeypatch, KeyboardInterrupt()).code == 130


INTERRUPTED = """
import sys

class CtrlC:
    def find_spec(self, name, path=None, target=None):
        if name == module:
            raise KeyboardInterrupt

module = sys.argv.pop(1)
sys.meta_path.insert(0, CtrlC())
from planner.cli import main
main()
"""
"""Calls the command with Ctrl-C at the import of a module."""


@pytest.mark.parametrize("module", ["click", "planner.errors", "planner.cli.check", "planner.site"])
def test_an_interrupt_while_we_load_is_no_traceback(folder: Path, module: str):
    done = process("-c", INTERRUPTED, module, "check", "--site", "site.yaml", cwd=folder)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (130, "", "")


def test_a_bug_is_not_hidden(monkeypatch):
    with pytest.raises(ZeroDivisionError):
        raising(monkeypatch, ZeroDivisionError())


def raising(monkeypatch, error: BaseException):
    """Call a command that raises this."""

    @click.command
    def command() -> None:
        raise error

    monkeypatch.setattr(group, "get_command", lambda ctx, name: command)
    return gangplan("check")


# --- streams and start-up


CLOSED = (
    "import os, sys; r, w = os.pipe(); os.close(r); os.dup2(w, 1); sys.argv = ['gangplan', *sys.argv[1:]]"
)


@pytest.mark.parametrize(
    "args", [("schema", "snapshot"), (*PLAN, "-o", "json"), ("check", "--site", "site.yaml")]
)
def test_a_reader_that_has_seen_enough_is_no_error(folder: Path, args: tuple[str, ...]):
    done = process("-c", f"{CLOSED}; from planner.cli import main; main()", *args, cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")


LOADED = (
    "import sys; from planner.cli import main\ntry: main()\nfinally: print(*sys.modules, file=sys.stderr)"
)


@pytest.mark.parametrize(
    "args",
    [
        ("schema", "plan"),
        ("check", "--site", "site.yaml", "--snapshot", "snapshot.yaml"),
        ("shares", "--site", "site.yaml", "--snapshot", "snapshot.yaml"),
        ("verify", "--snapshot", "snapshot.yaml", "--plan", "plan.json"),
    ],
)
def test_nobody_waits_for_a_solver_that_is_not_used(folder: Path, args: tuple[str, ...]):
    done = process("-c", LOADED, *args, cwd=folder)
    assert done.returncode == 0
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "planner" in loaded
    assert not loaded & {"ortools", "highspy", "pulp", "pandas", "scipy"}


def test_the_installed_command_is_this_one():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="gangplan")
    main: Callable[[], None] = script.load()
    assert main.__module__ == "planner.cli.main"


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no device that is always full")
def test_a_full_disk_behind_stdout_is_one_line_and_no_traceback():
    with Path("/dev/full").open("w") as full:
        call = [sys.executable, "-c", "from planner.cli import main; main()", "schema", "site"]
        done = subprocess.run(call, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("stdout: cannot be written")
    assert done.stderr.count("\n") == 1
