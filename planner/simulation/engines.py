"""Where the cases of a comparison run: in processes of this machine, or on the Dask cluster of the user."""

from __future__ import annotations

import importlib
import re
import signal
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from planner.errors import GangplanError, InputError
from planner.simulation.cases import Case, is_done, run_case

CONNECT_S = 20
"""How long to wait for a scheduler, and for its first worker."""

_ADDRESS = re.compile(r"(tcp|tls|ws|wss|ucx)://[^\s/]+:[0-9]{1,5}")
_LIKE = "tcp://10.0.0.1:8786"


@dataclass(frozen=True)
class Outcome:
    """What became of a case.

    Attributes
    ----------
    folder : Path or None
        Of its results; None: it failed, or was told to stop.
    fault : str
        Why it failed, in a sentence, or a traceback where the program is to blame; "" if it did not.
    exit_code : int
        That of its error.
    """

    case: Case
    folder: Path | None = None
    fault: str = ""
    exit_code: int = 0


def attempt(case: Case) -> Outcome:
    """Run a case; whatever it raises is its outcome and no other's."""
    try:
        return Outcome(case, run_case(case))
    except GangplanError as error:
        return Outcome(case, None, str(error), error.exit_code)
    except Exception:
        return Outcome(case, None, traceback.format_exc().rstrip(), GangplanError.exit_code)


def confirmed(outcome: Outcome) -> Outcome:
    """Return an outcome as it is seen from here: results that are not there are none."""
    if outcome.folder is None or is_done(outcome.case):
        return outcome
    why = "is done, but what it was made of has changed, or its folder is not seen from here: run it again"
    return Outcome(outcome.case, None, why, InputError.exit_code)


def run_local(cases: Sequence[Case], jobs: int | None = None) -> Iterator[Outcome]:
    """Run cases in processes of this machine, `jobs` at a time (None: one for each core), as they end.

    One process is one core: solvers have one thread, and those of array libraries are kept to one.
    """
    import joblib  # type: ignore[import-untyped]

    left = {case.name: case for case in cases}
    quiet = {"initializer": signal.signal, "initargs": (signal.SIGINT, signal.SIG_IGN)}  # Ctrl-C is for us
    with joblib.parallel_config("loky", inner_max_num_threads=1, **quiet):
        at_once = min(jobs or joblib.cpu_count(), max(len(cases), 2))  # idle ones are processes as well
        work = joblib.Parallel(at_once, return_as="generator_unordered", batch_size=1)
        try:
            for outcome in work(joblib.delayed(attempt)(case) for case in cases):
                del left[outcome.case.name]
                yield outcome
        except BrokenProcessPool:
            why = "a process died, perhaps for want of memory: run it again, with fewer --jobs"
            yield from (Outcome(case, None, why, GangplanError.exit_code) for case in left.values())


def run_dask(cases: Sequence[Case], scheduler: str) -> Iterator[Outcome]:
    """Run cases on the workers of a Dask scheduler, as they end.

    The workers have gangplan, and see the files and the folder of the comparison under the same paths.
    """
    try:
        distributed = importlib.import_module("distributed")
    except ImportError:
        raise InputError(
            ["--engine dask: Dask is not installed, write pip install 'gangplan[dask]'"]
        ) from None
    if not _ADDRESS.fullmatch(scheduler):
        raise InputError([f"--scheduler {scheduler}: is no address, write one such as {_LIKE}"])
    try:
        client = distributed.Client(scheduler, timeout=CONNECT_S, set_as_default=False)
    except OSError as error:
        why = f"cannot be reached ({error}), name a running scheduler such as {_LIKE}"
        raise InputError([f"--scheduler {scheduler}: {why}"]) from None
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError:
            raise InputError([f"--scheduler {scheduler}: has no workers, start some"]) from None
        futures = {client.submit(attempt, case, pure=False): case for case in cases}
        for future in distributed.as_completed(futures, loop=client.loop):
            lost = future.exception()
            if lost is None:
                yield future.result()
            else:
                why = f"its worker failed ({type(lost).__name__}: {lost})"
                yield Outcome(futures[future], None, why, GangplanError.exit_code)
