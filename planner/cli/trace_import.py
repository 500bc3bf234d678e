"""`gangplan trace import`: a trace, and a site for it, from a log of another system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from planner.cli import options
from planner.errors import InputError
from planner.simulation.tracefile import write_trace
from planner.traces.convert import Converted, Wishes, begin_of, convert
from planner.traces.fillin import Rule, parse_weights
from planner.traces.formats import FORMATS, read_log
from planner.traces.quota import is_quota, read_quota, write_changes
from planner.traces.sitefile import perturbed, site_beside, site_data
from planner.traces.summary import gang_gpus, offered_gpus, window_days
from planner.units import format_duration, format_time, parse_duration, parse_percent
from planner.words import count

WEIGHTS = "0s:20,1h:25,2h:25,4h:15,8h:15"


class Parsed(click.ParamType[Any]):
    """What one of the readers of `planner` makes of the text of an option."""

    def __init__(self, name: str, parse: Callable[[str], object]) -> None:
        self.name = name
        self.parse = parse

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the text says."""
        try:
            return self.parse(value) if isinstance(value, str) else value
        except ValueError as fault:
            self.fail(str(fault), param, ctx)


@dataclass(frozen=True)
class SiteWishes:
    """What site file is to be written beside the trace, if any."""

    path: Path | None
    nodes: int | None
    quota: Path | None
    perturb: float | None
    gpus_per_node: int
    seed: int

    def check(self, nodes_known: bool = False) -> None:
        """Raise InputError where the options do not go together."""
        if self.path is None and (self.nodes, self.quota, self.perturb) != (None, None, None):
            raise InputError(["--nodes, --quota and --perturb are of the site, name its file by --site-out"])
        if self.path is not None and self.nodes is None and not nodes_known:
            raise InputError(["--site-out: a site has nodes, write how many as --nodes 32"])


def option(name: str, kind: click.ParamType[Any], default: str, text: str) -> Callable[[Any], Any]:
    """Return an option whose default is shown."""
    return click.option(*name.split(), type=kind, default=default, show_default=True, help=text)


DURATION = Parsed("duration", parse_duration)
PERCENT = Parsed("percentage", lambda text: float(parse_percent(text)))
seed_option = click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Of all that is drawn."
)


@click.command(name="import")
@click.argument("form", metavar="FORMAT", type=click.Choice(list(FORMATS)))
@click.argument("files", nargs=-1, required=True, type=options.PATH)
@click.option("--out", type=options.PATH, required=True, help="Trace to write (.csv or .parquet).")
@click.option("--from", "begin", help="Window: begins so long after the log does (26d), or at this time.")
@click.option("--days", type=click.IntRange(1, 10_000), help="Window: its length; default: all.")
@click.option("--allocation-from", help="Column that names the allocation, as vc, user or cluster.")
@option("--gpus-per-node", click.IntRange(1, 1024), "8", "GPUs of a replica of what is larger.")
@click.option("--keep-types", is_flag=True, help="The GPU types that were asked for bind.")
@seed_option
@option("--short short_s", DURATION, "15m", "Up to this run time, it is the min runtime.")
@option("--min-runtimes", Parsed("weights", parse_weights), WEIGHTS, "Above, one is drawn by these weights.")
@option("--long long_s", DURATION, "8h", "Above this run time, work is long.")
@option("--resumable long_resumable", PERCENT, "80%", "Chance that long work is resumable.")
@option("--resumable-rest resumable", PERCENT, "0%", "Chance that other work is resumable.")
@click.option("--site-out", type=options.PATH, help="Also write a site file: a budget for each allocation.")
@click.option("--nodes", type=click.IntRange(1, 100_000), help="Nodes of the site, eight to a leaf.")
@click.option(
    "--quota", type=options.PATH, help="Weights of the site from this table; default: what is offered."
)
@click.option("--perturb", type=click.FloatRange(0, 100), help="Move weights by up to 1 + this factor.")
def command(
    form: str,
    files: tuple[Path, ...],
    out: Path,
    begin: str | None,
    days: int | None,
    allocation_from: str | None,
    gpus_per_node: int,
    keep_types: bool,
    seed: int,
    short_s: int,
    min_runtimes: tuple[tuple[int, ...], tuple[float, ...]],
    long_s: int,
    long_resumable: float,
    resumable: float,
    site_out: Path | None,
    nodes: int | None,
    quota: Path | None,
    perturb: float | None,
) -> None:
    """Make a trace of the log of another system; files may be gzipped.

    What a log lacks of the contract is drawn by a rule, from the seed and the workload's id. A table of
    quotas, given as helios, becomes weights over time and a site.
    """
    options.refuse_one_file(out, site_out)
    site = SiteWishes(site_out, nodes, quota, perturb, gpus_per_node, seed)
    if form == "helios" and len(files) == 1 and is_quota(files[0]):
        _import_quota(files[0], out, begin, days, site)
        return
    site.check()
    rule = Rule(short_s, *min_runtimes, long_s, long_resumable, resumable)
    wishes = Wishes(allocation_from, begin, days, gpus_per_node, keep_types, rule, seed)
    log = read_log(form, files)
    found = convert(log, wishes)
    span = days or window_days(found.trace)
    told: list[str] = []
    with ExitStack() as outputs:
        if site_out is not None:
            since = (
                format_time(found.begin_s)
                if log.calendar
                else f"{format_duration(found.begin_s)} into the log"
            )
            told = outputs.enter_context(_site_for(found, span, site, form, since))
        write_trace(found.trace, out)
    offered = sum(offered_gpus(found.trace, span).values())
    click.echo(
        f"{out}: {count(found.trace.count, 'workload')}, {count(span, 'day')}, {offered:.1f} GPUs offered"
    )
    for note, times in found.notes.items():
        click.echo(f"  {note}: {times}")
    click.echo(f"  drawn with seed {seed}: {rule}")
    for line in told:
        click.echo(line)


@contextmanager
def _site_for(found: Converted, days: int, site: SiteWishes, cluster: str, since: str) -> Iterator[list[str]]:
    """Write a site file beside its trace, which the block writes; yields lines that say how tight it is."""
    assert site.path is not None
    assert site.nodes is not None
    offered = offered_gpus(found.trace, days)
    weights = offered
    how = f"GPUs that each allocation asks for on average, {count(days, 'day')} from {since}"
    if site.quota is not None:
        given = read_quota(site.quota).at(found.begin_s)
        weights = {name: float(given.get(name, 0)) for name in {**given, **offered}}
        how = f"quotas of {site.quota.name}, 0 (unallocated only) for who has none there"
    if not any(weights.values()):
        raise InputError([f"{site.quota or '--site-out'}: gives no allocation of the trace a weight above 0"])
    if site.perturb:
        weights = perturbed(weights, site.perturb, site.seed)
        how += f", each times {1 / (1 + site.perturb):.2f} to {1 + site.perturb:.2f} (seed {site.seed})"
    gpus = site.nodes * site.gpus_per_node
    asked = sum(offered.values())
    tight = f"{gpus} GPUs for {asked:.1f} offered, {asked / gpus:.2f} times as many"
    told = [f"{site.path}: {count(len(weights), 'allocation')}, {tight}"]
    larger = int((gang_gpus(found.trace) > gpus).sum())
    if larger:
        told.append(f"  larger than the site, will never run there: {larger}")
    data = site_data(weights, cluster, site.nodes, site.gpus_per_node)
    comments = (f"A site for a trace ({cluster}).", f"Weights: {how}.", f"Nodes: {tight}.")
    with site_beside(site.path, data, comments):
        yield told


def _import_quota(path: Path, out: Path, begin: str | None, days: int | None, site: SiteWishes) -> None:
    """Write the weights that quotas gave over time, and a site with those of the first day."""
    site.check(nodes_known=True)
    if site.quota is not None:
        raise InputError([f"--quota: {path} is the table of quotas itself, leave the option out"])
    quota = read_quota(path)
    begin_s = begin_of(begin, quota.day_s[0], calendar=True)
    weights = {name: float(weight) for name, weight in quota.at(begin_s).items()}
    nodes = site.nodes or max(1, round(sum(weights.values()) / site.gpus_per_node))
    how = f"Weights: GPUs given to each on {format_time(begin_s)[:10]} by {path.name}."
    data, comments = site_data(weights, "helios", nodes, site.gpus_per_node), ("A site made of quotas.", how)
    with nullcontext() if site.path is None else site_beside(site.path, data, comments):
        rows = write_changes(out, quota, begin_s, days)
    click.echo(f"{out}: {count(rows, 'weight')} over time, as time_s, allocation, weight")
    if site.path is not None:
        click.echo(f"{site.path}: {count(len(weights), 'allocation')}, {nodes * site.gpus_per_node} GPUs")
