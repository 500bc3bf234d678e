"""One simulation from its inputs to its folder: it can be stopped at any time, and resumed."""

from __future__ import annotations

import hashlib
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from planner.atomic import writing
from planner.errors import InputError
from planner.model.site import Site
from planner.rights import unreadable
from planner.simulation.engine import Engine, Options, Outages
from planner.simulation.trace import Trace

CHECKPOINT = "checkpoint.pickle"
CHECKPOINT_EVERY_S = 60.0
"""Wall seconds between two checkpoints of a long run: what a crash may cost."""


@dataclass(frozen=True)
class Case:
    """What a simulation is made of.

    Attributes
    ----------
    digest : str
        Of all inputs: a checkpoint of other inputs is not resumed.
    """

    site: Site
    trace: Trace
    options: Options
    outages: Outages
    digest: str


def digest_of(files: list[Path], *more: object) -> str:
    """Return a digest of the contents of files and of the options beside them."""
    found = hashlib.sha256()
    for path in files:
        found.update(hashlib.sha256(path.read_bytes()).digest())
    found.update(repr(more).encode())
    return found.hexdigest()


def simulate(
    case: Case,
    folder: Path | None,
    *,
    resume: bool = False,
    go_on: Callable[[int], bool] | None = None,
) -> tuple[Engine, bool]:
    """Run a case to its end, or until `go_on` says no; return the engine and whether it is at the end.

    Either way a checkpoint is left behind, for whatever may end us while results are written: see `forget`.

    Parameters
    ----------
    folder : Path or None
        Where checkpoints are kept; None = none are.
    resume : bool
        Go on from the checkpoint in `folder`, if there is one.
    go_on : callable or None
        Asked after every round, with the simulated time; False stops.

    Raises
    ------
    InputError
        The checkpoint is of other inputs, or cannot be read or written.
    """
    kept = None if folder is None else folder / CHECKPOINT
    if kept is not None and kept.exists() and not kept.is_file():
        raise InputError([f"{kept}: is no file, move it away or name another folder for the results"])
    engine = _resumed(case, kept) if resume and kept is not None and kept.exists() else None
    engine = engine or Engine(case.site, case.trace, case.options, case.outages)
    saved_at = time.monotonic()

    def after_round(now_s: int) -> bool:
        nonlocal saved_at
        if kept is not None and time.monotonic() - saved_at > CHECKPOINT_EVERY_S:
            _save(case, engine, kept)
            saved_at = time.monotonic()
        return go_on is None or go_on(now_s)

    over = engine.run(go_on=after_round)
    if kept is not None:
        _save(case, engine, kept)
    return engine, over


def forget(folder: Path) -> None:
    """Remove the checkpoint of a simulation whose results are written."""
    (folder / CHECKPOINT).unlink(missing_ok=True)


def _save(case: Case, engine: Engine, path: Path) -> None:
    """Write a checkpoint: the digest in its first line, then the engine, which is nothing but arrays."""
    with writing(path) as file:
        file.write(case.digest.encode() + b"\n")
        pickle.dump(engine, file, protocol=5)


def _resumed(case: Case, path: Path) -> Engine:
    try:
        digest, _, body = path.read_bytes().partition(b"\n")
    except OSError as error:
        raise InputError([f"{path}: {unreadable(error)}"]) from None
    if digest.decode(errors="replace") != case.digest:
        fix = "remove it to begin anew or give what it was made with"
        raise InputError([f"{path}: is of other inputs or of another version of gangplan, {fix}"])
    try:
        engine = pickle.loads(body)  # noqa: S301 - our own file, of our own digest
    except Exception as error:  # whatever half a pickle or one of another version raises
        raise InputError([f"{path}: is damaged ({error}), remove it to begin anew"]) from None
    if not isinstance(engine, Engine):
        raise InputError([f"{path}: holds no simulation, remove it to begin anew"])
    return engine
