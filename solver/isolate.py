"""A function in a child process with a hard deadline: whatever it does, the parent lives and goes on.

Solvers abort, overrun their time limits, fill the memory and print; no `except` catches an abort.
The child is forked, so it costs milliseconds, inherits its arguments without a copy, and finds imported
what the parent has imported. POSIX only (macOS from Python 3.13 on).

Fork copies the calling thread alone. That is safe from any thread, and after CP-SAT or HiGHS ran in the
parent (threads that HiGHS left there are missing in the child, so `solver.milp` starts its own).
"""

from __future__ import annotations

import os
import pickle
import resource
import select
import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

T = TypeVar("T")

_HEADER = struct.Struct("!Q")
"""Length of the pickle that follows: half an answer is none, and nobody else's copy of the pipe delays us."""

_TICK_S = 0.05
"""How often to look whether the child has died without closing the pipe."""

_ORPHAN_S = 1.0
"""A child that its parent has not killed by now has none any more, and ends by its own alarm."""

_MEMORY_SHARE = 0.5
"""Of the memory there is, for one child: a limit that is hit is an error in the child, and costs one answer;
memory that is used up is the kernel's business, which may end the round, or the scheduler beside it."""

_EXIT_UNFIT = 70
"""Exit code of a child that could not set itself up, or could not answer."""

_OUT_OF_MEMORY = pickle.dumps((False, "out of memory"))
"""Made in advance, as there is no memory left to make it when it is needed."""


@dataclass(frozen=True)
class Outcome(Generic[T]):
    """What became of the child: a value, or a note that says in one sentence why there is none."""

    value: T | None
    note: str
    seconds: float


def run(
    function: Callable[..., T],
    arguments: tuple[Any, ...],
    deadline_s: float,
    memory_bytes: int | None = None,
) -> Outcome[T]:
    """Call `function(*arguments)` in a child process and return its answer, or why there is none.

    The child has its own process group, which dies with it (solvers that PuLP starts are in it), and its own
    scratch directory, removed afterwards, as working directory and TMPDIR. Its standard input and output are
    /dev/null; its standard error is the parent's. If the parent is told to end (SIGINT, SIGTERM), the child
    and its scratch directory go first; if it is killed, the child ends soon after its deadline.

    Parameters
    ----------
    function : callable
        Its answer must pickle; the function and its arguments need not.
    deadline_s : float, seconds
        Then the child is killed.
    memory_bytes : int, optional
        Address space that the child may take on top of what it inherits (Linux); half of the memory that
        there is, if not given.
    """
    began = time.monotonic()
    call = partial(function, *arguments)
    try:
        with (
            _ending_tidily(),
            tempfile.TemporaryDirectory(prefix="gangplan-", ignore_cleanup_errors=True) as scratch,
        ):
            payload, note = _attended(call, scratch, deadline_s, memory_bytes or _fair_bytes())
    except OSError as error:
        payload, note = None, f"no child process: {error}"
    seconds = time.monotonic() - began
    return Outcome(None, note, seconds) if payload is None else _outcome(payload, seconds)


@contextmanager
def _ending_tidily() -> Iterator[None]:
    """Let a SIGTERM that nobody handles end this process the way an exception does: child and scratch go."""
    mine = threading.current_thread() is threading.main_thread()
    if not mine or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _leave(number: int, _frame: object) -> NoReturn:
    signal.signal(number, signal.SIG_IGN)  # once is enough
    sys.exit(128 + number)


def _fair_bytes() -> int:
    """Return the share of the memory of this machine, or of its container, that one child may take."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    with suppress(OSError, ValueError):  # not Linux, or "max"
        limits.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return int(_MEMORY_SHARE * min(limits))


def _attended(
    call: Callable[[], Any], scratch: str, deadline_s: float, memory_bytes: int
) -> tuple[bytes | None, str]:
    """Fork, wait, bury: return the child's answer, or None and a note."""
    deadline = time.monotonic() + deadline_s
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb", 0), os.fdopen(write_end, "wb", 0) as writer:
        pid = os.fork()
        if pid == 0:
            _child(call, write_end, scratch, deadline_s, memory_bytes)
        try:
            writer.close()  # so that the child's end of the pipe is the only one
            payload = _receive(read_end, pid, deadline)
            died = payload is None and _has_died(pid, deadline)
        finally:
            status = _end(pid)
    return payload, _epitaph(status) if died else f"no answer within {deadline_s:.1f} s"


def _outcome(payload: bytes, seconds: float) -> Outcome[Any]:
    try:
        succeeded, answer = pickle.loads(payload)  # noqa: S301  (our own child wrote it)
    except Exception as error:  # unpickling runs the constructors of whatever the function returned
        return Outcome(None, f"unreadable answer: {type(error).__name__}: {error}", seconds)
    return Outcome(answer, "", seconds) if succeeded else Outcome(None, answer, seconds)


# In the child.


def _child(
    call: Callable[[], Any], pipe: int, scratch: str, deadline_s: float, memory_bytes: int
) -> NoReturn:
    """Answer and leave by os._exit: the parent's exit handlers and buffers are not ours to run and flush."""
    code = _EXIT_UNFIT
    try:
        _confine(scratch, deadline_s, memory_bytes)
        _send(pipe, _attempt(call))
        code = os.EX_OK
    finally:
        os._exit(code)


def _confine(scratch: str, deadline_s: float, memory_bytes: int) -> None:
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, max(0.0, deadline_s) + _ORPHAN_S)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 0)
    os.dup2(nowhere, 1)
    sys.stdout = os.fdopen(nowhere, "w")  # it need not be descriptor 1: in a notebook it is not
    os.chdir(scratch)
    os.environ.update(TMPDIR=scratch, TMP=scratch, TEMP=scratch)
    tempfile.tempdir = None
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ceiling = _address_space_bytes() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (ceiling, ceiling))


def _address_space_bytes() -> int:
    with suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return pages * resource.getpagesize()
    return 0


def _attempt(call: Callable[[], Any]) -> bytes:
    try:
        return pickle.dumps((True, call()), protocol=pickle.HIGHEST_PROTOCOL)
    except MemoryError:
        return _OUT_OF_MEMORY
    except BaseException as error:
        return pickle.dumps((False, f"{type(error).__name__}: {error}"))


def _send(pipe: int, payload: bytes) -> None:
    for part in (memoryview(_HEADER.pack(len(payload))), memoryview(payload)):
        sent = 0
        while sent < len(part):
            sent += os.write(pipe, part[sent:])


# In the parent.


def _receive(pipe: int, pid: int, deadline: float) -> bytes | None:
    """Return the whole answer, or None where the child died or the deadline came first."""
    received = bytearray()
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    while (left_s := deadline - time.monotonic()) > 0:
        dead = _is_dead(pid)  # before the look at the pipe: what a dead child wrote is all there
        if not poll.poll(1000 * min(_TICK_S, left_s)):
            if dead:
                return None
            continue
        data = os.read(pipe, 1 << 20)
        if not data:
            return None
        received += data
        if len(received) >= _HEADER.size:
            (size,) = _HEADER.unpack_from(received)
            if len(received) >= _HEADER.size + size:
                return bytes(memoryview(received)[_HEADER.size : _HEADER.size + size])
    return None


def _has_died(pid: int, deadline: float) -> bool:
    """Wait for the end of a child that closed its pipe; False where it lives on until the deadline."""
    while not _is_dead(pid):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.001)
    return True


def _is_dead(pid: int) -> bool:
    """Tell without reaping: as long as its zombie stands, its numbers belong to nobody else."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # somebody ignores SIGCHLD, and the kernel reaps for him
        return True


def _end(pid: int) -> int | None:
    """Kill the child and its group, whatever is left of them; reap it and return its wait status."""
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    try:
        return os.waitpid(pid, 0)[1]
    except ChildProcessError:
        return None


def _epitaph(status: int | None) -> str:
    if status is None:
        return "ended without an answer"
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return f"killed by signal {-code}"
    return f"ended with exit code {code} and no answer"
