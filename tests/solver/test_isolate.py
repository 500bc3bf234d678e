import ctypes
import faulthandler
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from solver import isolate


def gone(pid):
    """Tell whether the process has ended; one that waits to be reaped by its new parent has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def soon(condition, within_s=3.0):
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def hang(pid_file=None):
    if pid_file is not None:
        Path(pid_file).write_text(str(os.getpid()))
    time.sleep(60)


def abort():
    faulthandler.disable()  # pytest's report of it is not what these tests are about
    os.abort()


def fail():
    raise ValueError("the reason")


def print_everywhere():
    print("stray", flush=True)  # noqa: T201
    os.write(1, b"stray")
    libc = ctypes.CDLL(None)
    libc.puts(b"stray")
    libc.fflush(None)
    subprocess.run(["echo", "stray"], check=True)


class Unreadable:
    def __reduce__(self):
        return (fail, ())


@pytest.fixture(autouse=True)
def no_child_is_left():
    before = psutil.Process().children()  # other tests of this process may have workers that idle
    yield
    assert set(psutil.Process().children()) <= set(before)


def test_the_value_comes_back_with_arguments_that_no_pickle_could_carry():
    outcome = isolate.run(lambda function, x: function(x), (lambda x: x + 1, 41), 5)
    assert (outcome.value, outcome.note) == (42, "")


@pytest.mark.parametrize("value", [None, False, 0, "", np.arange(3)])
def test_an_empty_value_is_a_value(value):
    outcome = isolate.run(lambda: value, (), 5)
    assert np.array_equal(outcome.value, value)
    assert outcome.note == ""


def test_the_child_is_another_process_in_a_group_of_its_own():
    pid, group, session = isolate.run(lambda: (os.getpid(), os.getpgid(0), os.getsid(0)), (), 5).value
    assert pid != os.getpid()
    assert pid == group == session


def test_an_answer_larger_than_any_pipe_arrives_whole():
    outcome = isolate.run(lambda: np.arange(4_000_000), (), 20)
    assert np.array_equal(outcome.value, np.arange(4_000_000))


@pytest.mark.parametrize(
    ("function", "note"),
    [
        (abort, "killed by signal 6"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL), "killed by signal 9"),
        (lambda: os._exit(3), "ended with exit code 3 and no answer"),
        (lambda: os._exit(0), "ended with exit code 0 and no answer"),
        (fail, "ValueError: the reason"),
        (lambda: sys.exit("bye"), "SystemExit: bye"),
    ],
)
def test_the_note_says_how_the_child_ended(function, note):
    outcome = isolate.run(function, (), 5)
    assert (outcome.value, outcome.note) == (None, note)
    assert outcome.seconds < 4


@pytest.mark.parametrize("answer", [lambda: 0, Unreadable()])
def test_an_answer_that_does_not_survive_the_journey_is_a_note(answer):
    outcome = isolate.run(lambda: answer, (), 5)
    assert outcome.value is None
    assert "Error" in outcome.note


def test_half_an_answer_is_none(monkeypatch):
    def send_half(pipe, payload):
        os.write(pipe, len(payload).to_bytes(8, "big") + payload[: len(payload) // 2])

    monkeypatch.setattr(isolate, "_send", send_half)
    outcome = isolate.run(int, (), 5)
    assert (outcome.value, outcome.note) == (None, "ended with exit code 0 and no answer")


def test_a_system_without_room_for_another_process_is_a_note(monkeypatch):
    def refuse():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    monkeypatch.setattr(os, "fork", refuse)
    outcome = isolate.run(int, (), 5)
    assert outcome.value is None
    assert outcome.note.startswith("no child process: ")
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_child_that_hangs_is_killed_at_the_deadline(tmp_path):
    outcome = isolate.run(hang, (tmp_path / "pid",), 0.3)
    assert (outcome.value, outcome.note) == (None, "no answer within 0.3 s")
    assert outcome.seconds < 1.5
    assert gone((tmp_path / "pid").read_text())


def test_a_child_that_ignores_signals_and_closes_its_pipe_is_killed_too():
    def stubborn():
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM):
            signal.signal(number, signal.SIG_IGN)
        os.closerange(3, 256)
        time.sleep(60)

    assert isolate.run(stubborn, (), 0.3).note == "no answer within 0.3 s"


def test_what_the_child_has_started_dies_with_it():
    pid = isolate.run(lambda: subprocess.Popen(["sleep", "60"]).pid, (), 5).value
    assert soon(lambda: gone(pid))


def test_a_grandchild_that_holds_the_pipe_open_delays_nothing():
    def die_leaving_a_fork_behind():
        if os.fork() == 0:
            time.sleep(60)
        abort()

    outcome = isolate.run(die_leaving_a_fork_behind, (), 10)
    assert outcome.note == "killed by signal 6"
    assert outcome.seconds < 2


def test_memory_beyond_the_limit_is_refused_and_below_it_granted():
    assert isolate.run(bytearray, (1 << 30,), 10, memory_bytes=1 << 28).note == "out of memory"
    assert isolate.run(lambda: len(bytearray(1 << 26)), (), 10, memory_bytes=1 << 28).value == 1 << 26


def test_nothing_the_child_prints_reaches_stdout(capfd):
    sys.stdout.write("before ")
    isolate.run(print_everywhere, (), 5)
    sys.stdout.write("after")
    sys.stdout.flush()
    assert capfd.readouterr().out == "before after"


def test_the_child_works_in_a_scratch_directory_that_disappears():
    def make_files():
        Path("here.log").touch()
        (Path(os.environ["TMPDIR"]) / "there.tmp").touch()
        return sorted(p.name for p in Path.cwd().iterdir()), str(Path.cwd())

    here = Path.cwd()
    files, scratch = isolate.run(make_files, (), 5).value
    assert files == ["here.log", "there.tmp"]
    assert not Path(scratch).exists()
    assert Path.cwd() == here


def test_any_thread_may_run_a_child_and_a_slow_one_holds_up_no_other():
    outcomes = {}

    def keep(name, function, deadline_s):
        outcomes[name] = isolate.run(function, (), deadline_s)

    slow = threading.Thread(target=keep, args=("slow", hang, 2.0))
    slow.start()
    quick = [
        threading.Thread(target=keep, args=(i, lambda i=i: abort() if i % 2 else i, 10.0)) for i in range(6)
    ]
    for thread in quick:
        thread.start()
    for thread in [*quick, slow]:
        thread.join()
    assert [outcomes[i].value for i in range(0, 6, 2)] == [0, 2, 4]
    assert {outcomes[i].note for i in range(1, 6, 2)} == {"killed by signal 6"}
    assert max(outcomes[i].seconds for i in range(6)) < 1.9
    assert outcomes["slow"].note == "no answer within 2.0 s"


def script(pid_file, deadline_s):
    return f"""
from solver import isolate
from tests.solver.test_isolate import hang
print("start", flush=True)
isolate.run(hang, ({str(pid_file)!r},), {deadline_s})
"""


@pytest.mark.parametrize(
    ("number", "within_s"),
    [(signal.SIGINT, 1.0), (signal.SIGTERM, 1.0), (signal.SIGKILL, 3.0)],
    ids=["interrupted", "told to end", "killed"],
)
def test_a_child_does_not_outlive_its_parent(tmp_path, number, within_s):
    pid_file = tmp_path / "pid"
    deadline_s = 1.0 if number == signal.SIGKILL else 30.0
    parent = subprocess.Popen(
        [sys.executable, "-c", script(pid_file, deadline_s)],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    assert soon(lambda: pid_file.exists() and pid_file.read_text(), within_s=20)
    parent.send_signal(number)
    assert parent.wait(timeout=5) != 0
    assert soon(lambda: gone(pid_file.read_text()), within_s)
    if number != signal.SIGKILL:
        assert [p.name for p in tmp_path.iterdir()] == ["pid"]  # no scratch directory is left


def test_who_handles_sigterm_goes_on_handling_it():
    told = []
    before = signal.signal(signal.SIGTERM, lambda *_: told.append(True))
    try:
        outcome = isolate.run(os.kill, (os.getpid(), signal.SIGTERM), 5)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert (outcome.note, told) == ("", [True])


def test_sigterm_is_what_it_was_once_the_child_has_answered():
    assert isolate.run(int, (), 5).value == 0
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_child_may_take_half_of_the_memory_there_is():
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit = isolate.run(resource.getrlimit, (resource.RLIMIT_AS,), 5).value[0]
    assert 0 < limit <= total / 2 + (1 << 34)
