"""A comparison: the same work under all combinations of policies, knobs and seeds, side by side."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from planner.atomic import writing
from planner.errors import InputError
from planner.simulation.cases import CASE, STOP, Case, name_of, program, read_world
from planner.simulation.engine import Options
from planner.simulation.knobs import Knob
from planner.simulation.output import SCHEMA, SCHEMA_KEY, read_summary
from planner.simulation.tracefile import read_trace

TABLE = "compare"
"""Name of the files with one row for each case."""

SEED = "{seed}"
"""Stands in the name of a trace for the seed: each seed has its own trace."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Comparison:
    """What is compared, and how.

    Attributes
    ----------
    trace : str
        Path of the trace; `{seed}` in it stands for the seed.
    knobs : tuple of tuple of Knob
        Combinations of settings of the site file.
    options : Options
        What all cases share; its policy and seed do not matter.
    events_path, failures
        As in `Case`.
    folder : Path
        Of the comparison; each case gets a folder in it.
    """

    site_path: Path
    trace: str
    policies: tuple[str, ...]
    seeds: tuple[int, ...]
    knobs: tuple[tuple[Knob, ...], ...]
    options: Options
    events_path: Path | None
    failures: tuple[int, int] | None
    folder: Path


def cases_of(c: Comparison) -> list[Case]:
    """Return every case once, policy by policy; InputError with the faults of all inputs."""
    cases = {}
    for policy, knobs, seed in product(c.policies, c.knobs, c.seeds):
        name = name_of(policy, knobs, seed)
        cases[name] = Case(
            c.site_path.absolute(),
            Path(c.trace.replace(SEED, str(seed))).absolute(),
            knobs,
            replace(c.options, policy=policy, seed=seed),
            None if c.events_path is None else c.events_path.absolute(),
            c.failures,
            c.folder.absolute() / name,
            program(),
        )
    _check(cases.values())
    return list(cases.values())


def _check(cases: Iterable[Case]) -> None:
    """Read every site and every trace once, so that what is wrong is said before anything runs."""
    sites = {tuple(map(str, case.knobs)): case for case in cases}
    traces = dict.fromkeys(case.trace_path for case in cases)
    reads: list[Callable[[], object]] = [
        *(partial(read_world, case) for case in sites.values()),
        *(partial(read_trace, t) for t in traces),
    ]
    faults: list[str] = []
    for read in reads:
        try:
            read()
        except InputError as error:
            faults += error.messages
    if faults:
        raise InputError(list(dict.fromkeys(faults)))


# -- what came of it ---------------------------------------------------------------------------------


def rows_of(cases: Iterable[Case]) -> list[Row]:
    """Return a row for each case: its name, what tells it from the others, and its figures."""
    return [
        {
            "case": case.name,
            "policy": case.options.policy,
            "seed": case.options.seed,
            **{knob.key: knob.said for knob in case.knobs},
            **_figures(read_summary(case.folder)),
        }
        for case in cases
    ]


def means_of(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """Return a row for each combination of `keys`: over how many seeds, and the mean of every figure.

    A seed that has nothing to say on a figure does not count for it.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [
        {
            **dict(zip(keys, values, strict=True)),
            "seeds": len(group),
            **{
                name: _mean([row[name] for row in group]) for name in group[0] if name not in _TELLS | {*keys}
            },
        }
        for values, group in groups.items()
    ]


def is_compared(folder: Path) -> bool:
    """Tell whether a folder is that of a comparison, whole or begun, or of one of its cases."""
    return (folder / CASE).exists() or any(map(Path.exists, (*_files(folder), *folder.glob(f"*/{CASE}"))))


def make_way(folder: Path) -> None:
    """Make the folder of a comparison, and take away the table of an older one and its wish to stop."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in (*_files(folder), folder / STOP):
            path.unlink(missing_ok=True)
    except OSError as error:
        why = f"cannot be written to ({error.strerror}), name a folder that you may write to"
        raise InputError([f"{folder}: {why}"]) from None


def write_rows(rows: Sequence[Row], folder: Path) -> None:
    """Write the table of a comparison, as Parquet and CSV."""
    table = pa.Table.from_pylist(list(rows))
    fields = [f.with_type(pa.float64()) if pa.types.is_null(f.type) else f for f in table.schema]
    table = table.cast(pa.schema(fields, metadata={SCHEMA_KEY: str(SCHEMA)}))
    parquet, text = _files(folder)
    with writing(parquet) as file:
        pyarrow.parquet.write_table(table, file)
    with writing(text) as file:
        pyarrow.csv.write_csv(table, file)


_TELLS = {"case", "policy", "seed"}


def _files(folder: Path) -> tuple[Path, Path]:
    return folder / f"{TABLE}.parquet", folder / f"{TABLE}.csv"


def _figures(summary: Row) -> Row:
    """Return what of a summary can be compared; None is a figure that the case has nothing to say on."""
    return {
        name: value
        for name, value in summary.items()
        if name != "schema" and (value is None or isinstance(value, int | float))
    }


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None
