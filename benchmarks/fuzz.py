"""Inputs that nobody should write, each read or refused: `python -m benchmarks.fuzz site --inputs 100000`.

Targets are what reads files: `site`, `snapshot`, `plan`, `workload` (of `place` and `explain`), `ledger` (a
CSV import), and `round`, which plans what can be read and checks the plan. What must hold for each input is
in `benchmarks.targets`; besides, none may take more time than --limit or more memory than --memory. The
damage is done by `benchmarks.mutate`. Atheris (`pip install gangplan[fuzz]`) measures the code that an
input reaches, and goes on from those that reach more; with --blind nothing is measured, and nothing needs
to be installed.

The same seed gives the same inputs; the digest in the last line shows it. Each kind of fault is printed
once and, with --faults, kept in a folder of its own with the files that show it. Exit code 1 if there is
any.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from benchmarks.claims import OverrunError, kind_of

if TYPE_CHECKING:
    from benchmarks.targets import Target

TARGETS = ("site", "snapshot", "plan", "workload", "ledger", "round")
MEASURED = {"round": ["solver"]}
"""Packages that guide the search where `planner` does not: a world is worth what the solver makes of it."""

MAX_BYTES = 1 << 16
"""Of one input."""

POOL = 200
"""Inputs that a blind run goes on from."""


class Session:
    """One run: it takes inputs, counts them, and keeps what is wrong.

    Attributes
    ----------
    inputs, read : int
        Inputs taken, and those of them that were not refused.
    digest : int
        CRC-32 of all inputs.
    faults : Counter of str
        How often each kind was seen.
    """

    def __init__(self, target: Target, options: argparse.Namespace, folder: Path) -> None:
        self.target, self.options, self.folder = target, options, folder / "input"
        self.folder.mkdir()
        self.inputs = self.read = self.digest = 0
        self.faults: Counter[str] = Counter()
        self.began_s = time.process_time()

    @property
    def over(self) -> bool:
        """Whether there were inputs, or seconds, enough."""
        seconds = time.process_time() - self.began_s
        return bool(self.inputs >= self.options.inputs or seconds >= self.options.seconds)

    def take(self, data: bytes) -> bool:
        """Try one input; return whether it was read."""
        self.inputs += 1
        self.digest = zlib.crc32(data, self.digest)
        files, read = self.target.files(data, self.folder), False
        try:
            signal.setitimer(signal.ITIMER_PROF, self.options.limit)
            try:
                read = self.target.check(*files)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        except (Exception, OverrunError) as error:
            self._note(error)
        self.read += read
        return read

    def _note(self, error: BaseException) -> None:
        """Count a fault; print and keep the first of its kind."""
        kind = kind_of(error)
        self.faults[kind] += 1
        if self.faults[kind] == 1:
            text = "".join(traceback.format_exception(error))
            print(f"{self.options.target}: input {self.inputs}: {kind}\n{text}", flush=True)
            keep(self.options, f"{self.options.target}-{len(self.faults)}", self.folder, text)

    def line(self, edges: int | None) -> str:
        """Return the line that sums up."""
        seconds = time.process_time() - self.began_s
        covered = "coverage not measured" if edges is None else f"{edges} edges covered"
        return (
            f"{self.options.target}: {self.inputs} inputs ({self.read} read, the others refused; digest "
            f"{self.digest:08x}), seed {self.options.seed}, {seconds:.0f} s of CPU, {covered}, "
            f"{len(self.faults)} faults found"
        )


def keep(options: argparse.Namespace, name: str, folder: Path, text: str) -> None:
    """Write a fault, and the files of the input that shows it, to a folder under --faults."""
    if options.faults is None:
        return
    place = options.faults / name
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    (place / "fault.txt").write_text(text)


@contextlib.contextmanager
def limits(memory_mib: int) -> Iterator[None]:
    """Let an input that takes too much memory or time fail with an error that can be reported."""

    def overrun(*_: object) -> None:
        raise OverrunError

    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, overrun)
    resource.setrlimit(resource.RLIMIT_AS, (size + (memory_mib << 20), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


# -- two ways to find inputs -------------------------------------------------------------------------


def blind(session: Session) -> None:
    """Go on from inputs drawn by chance among those that were read."""
    rng, pool = Random(session.options.seed), list(session.target.seeds)
    seeds = len(pool)
    with limits(session.options.memory):
        for data in session.target.seeds[: session.options.inputs]:
            session.take(data)
        while not session.over:
            data = rng.choice(pool)
            for _ in range(rng.choice((1, 1, 2, 3))):
                data = session.target.mutator(data, MAX_BYTES, rng.getrandbits(32))
            if session.take(data) or rng.random() < 0.01:
                pool.append(data)
                if len(pool) > POOL:
                    pool.pop(rng.randrange(seeds, POOL))


def guided(options: argparse.Namespace, folder: Path) -> None:
    """Go on from inputs that reach new code; ends the process."""
    import atheris

    with atheris.instrument_imports(include=MEASURED.get(options.target, ["planner"])):
        session = begin(options, folder)

    def take(data: bytes) -> None:
        session.take(data)
        if session.over:
            found = re.findall(r"cov: (\d+)", (folder / "log").read_text(errors="replace"))
            print(session.line(int(found[-1]) if found else None), flush=True)
            os._exit(bool(session.faults))  # libFuzzer takes every other way to end for a crash

    seeds = [folder / f"seed-{i:02}" for i in range(len(session.target.seeds))]
    for path, data in zip(seeds, session.target.seeds, strict=True):
        path.write_bytes(data)
    flags = {
        "seed": options.seed,
        "seed_inputs": ",".join(map(str, seeds)),
        "max_len": MAX_BYTES,
        "mutate_depth": 2,  # damage on damage is soon beyond reading
        "cross_over": 0,  # and so are two halves
        "timeout": 600,
        "rss_limit_mb": 0,
        "artifact_prefix": f"{folder}/",
    }
    with limits(options.memory):
        arguments = ["fuzz", *(f"-{name}={value}" for name, value in flags.items())]
        atheris.Setup(arguments, take, custom_mutator=session.target.mutator)
        atheris.Fuzz()


def begin(options: argparse.Namespace, folder: Path) -> Session:
    """Return a session; what is to be measured is imported here, and not before."""
    targets = importlib.import_module("benchmarks.targets")
    outside = None
    if options.checker is not None:
        outside = importlib.import_module("benchmarks.stress").outside(options.checker)
    return Session(targets.target(options.target, folder, outside), options, folder)


def guarded(options: argparse.Namespace, folder: Path) -> int:
    """Run the guided search in a process of its own, and keep the input that ends it before its time."""
    command = [sys.executable, "-m", "benchmarks.fuzz", *sys.argv[1:], "--work", str(folder)]
    with (folder / "log").open("w") as log:
        code = subprocess.call(command, stderr=log, env={**os.environ, "PYTHONHASHSEED": "0"})
    if code not in (0, 1):
        text = (folder / "log").read_text(errors="replace")[-5_000:]
        keep(options, f"{options.target}-end", folder / "input", text)
        print(f"{text}\n{options.target}: the process ended with {code}, 1 fault found")
    return int(code != 0)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("target", choices=TARGETS)
    ap.add_argument("--inputs", type=int, default=100_000, help="end after so many inputs")
    ap.add_argument("--seconds", type=float, default=600, help="or after so many seconds of CPU")
    ap.add_argument("--seed", type=int, default=1)
    ap.add_argument("--limit", type=float, default=10, help="seconds of CPU that one input may take")
    ap.add_argument(
        "--memory", type=int, default=1024, help="MiB that may be taken beyond those at the start"
    )
    ap.add_argument("--faults", type=Path, help="folder for what is found")
    ap.add_argument("--checker", type=Path, help="an outside checker to ask about the plans of `round`")
    ap.add_argument("--blind", action="store_true", help="do without atheris")
    ap.add_argument("--work", type=Path, help=argparse.SUPPRESS)  # in the process that does the work
    return ap.parse_args()


def main() -> int:
    """Run one target; print each kind of fault and one line that sums up."""
    options = arguments()
    if options.work is not None:
        guided(options, options.work)
    if not options.blind and importlib.util.find_spec("atheris") is None:
        print("atheris is not installed: install gangplan[fuzz], or use --blind", file=sys.stderr)
        return 2
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # every input is written to files
    with tempfile.TemporaryDirectory(prefix="gangplan-fuzz-", dir=memory) as name:
        folder = Path(name)
        if not options.blind:
            return guarded(options, folder)
        session = begin(options, folder)
        blind(session)
        print(session.line(None))
        return int(bool(session.faults))


if __name__ == "__main__":
    sys.exit(main())
