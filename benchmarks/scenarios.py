"""The worlds in which policies are compared: each one's site file and traces, made by gangplan's commands."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from planner.yamltext import to_yaml

SITE, TRACE = "site.yaml", "work-{seed}.csv"
"""Names of the files in a scenario's folder; every seed has its own trace."""

ITP_FROM_DAY = 26
GANG_TEAMS = ("pretraining-a", "pretraining-b")
GANG_SHARE = 0.1
"""Of the cluster, to each of the two teams that the wide gangs belong to."""
KALOS_GPUS, HERE_GPUS = 2416, 256


Make = Callable[[Path, int, int, Path | None], None]


@dataclass(frozen=True)
class Scenario:
    """One world.

    Attributes
    ----------
    title : str
        What it is, as a heading.
    make : callable
        Makes the files for one seed, given the folder, the days, the seed and the folder of the public logs.
    seeds : tuple of int
        Those that the committed tables are made of.
    """

    title: str
    make: Make
    seeds: tuple[int, ...]


def gangplan(*arguments: object) -> str:
    """Run a command of gangplan, show it on stderr, and return what it prints."""
    words = [str(a) for a in arguments]
    print("gangplan", shlex.join(words), file=sys.stderr, flush=True)
    command = [str(Path(sys.executable).with_name("gangplan")), *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def trace_of(folder: Path, seed: int) -> Path:
    """Return where a seed's trace is."""
    return folder / TRACE.format(seed=seed)


def _synthetic(*options: str) -> Make:
    def make(folder: Path, days: int, seed: int, logs: Path | None) -> None:
        site = () if (folder / SITE).exists() else ("--site-out", folder / SITE)  # the same for every seed
        more = ("--days", days, "--seed", seed, "--out", trace_of(folder, seed), *site)
        gangplan("trace", "synth", "--preset", "ai2", *options, *more)

    return make


def _logs(folder: Path | None) -> Path:
    if folder is None:
        sys.exit("this scenario is made of public logs: say where they are with --logs")
    return folder


def _itp(folder: Path, days: int, seed: int, logs: Path | None) -> None:
    """Cluster 04 of ITP as one team, and the gangs of Kalos."""
    jobs = folder / f"jobs-{seed}.csv"
    window = ("--from", f"{ITP_FROM_DAY}d", "--days", days, "--seed", seed)
    log = _logs(logs) / "itp_elasticflow" / "cluster04.csv.gz"
    gangplan("trace", "import", "itp", log, *window, "--out", jobs, *_site_of(folder))
    _overlay_gangs(folder, jobs, seed, logs)


def _site_of(folder: Path) -> tuple[object, ...]:
    """Have an import also write the site file, the same for every seed."""
    return () if (folder / SITE).exists() else ("--site-out", folder / SITE, "--nodes", HERE_GPUS // 8)


def _overlay_gangs(folder: Path, jobs: Path, seed: int, logs: Path | None) -> None:
    """Lay Kalos' pretraining, scaled to this cluster, over jobs, as the work of two more teams."""
    gangs = folder / f"gangs-{seed}.csv"
    log = _logs(logs) / "acme_kalos_converted" / "kalos_completed_decoded.csv"
    gangplan("trace", "import", "kalos", log, "--seed", seed, "--out", gangs)
    whose = [word for team in GANG_TEAMS for word in ("--allocation", team)]
    scale = ("--of", "Pretrain", "--scale-gpus", f"{HERE_GPUS}/{KALOS_GPUS}")
    _add_teams(folder / SITE)
    gangplan("trace", "overlay", jobs, gangs, *scale, *whose, "--out", trace_of(folder, seed))


def _add_teams(path: Path) -> None:
    """Give the teams of the gangs their budgets, beside those of the site file."""
    site = yaml.safe_load(path.read_text(encoding="utf-8"))
    if GANG_TEAMS[0] in {budget["name"] for budget in site["budgets"]}:
        return
    given = sum(budget["weight"] for budget in site["budgets"])
    rest = 1 - GANG_SHARE * len(GANG_TEAMS)
    site["budgets"] += [{"name": team, "weight": given * GANG_SHARE / rest} for team in GANG_TEAMS]
    path.write_text(to_yaml(site), encoding="utf-8")


def _philly(*drawn: object) -> Make:
    """Return what makes Philly, with options for what the log does not say."""

    def make(folder: Path, days: int, seed: int, logs: Path | None) -> None:
        _import_philly(folder, days, seed, logs, trace_of(folder, seed), *drawn)

    return make


def _import_philly(folder: Path, days: int, seed: int, logs: Path | None, out: Path, *drawn: object) -> None:
    window = ("--from", "2017-09-28T00:00:00Z", "--days", days, "--seed", seed)
    quota = ("--quota", _logs(logs) / "philly_vc" / "philly_vc_quota.csv") if _site_of(folder) else ()
    log = _logs(logs) / "philly_vc" / "philly.csv.gz"
    gangplan("trace", "import", "philly", log, *window, *drawn, "--out", out, *_site_of(folder), *quota)


def _philly_gangs(folder: Path, days: int, seed: int, logs: Path | None) -> None:
    """Philly, and the gangs of Kalos."""
    jobs = folder / f"jobs-{seed}.csv"
    _import_philly(folder, days, seed, logs, jobs)
    _overlay_gangs(folder, jobs, seed, logs)


SCENARIOS = {
    "ai2": Scenario("the ai2 preset, 1,024 GPUs", _synthetic(), (1, 2, 3)),
    "saturated": Scenario("the saturated ai2 preset, 1,024 GPUs", _synthetic("--saturated"), (1, 2, 3)),
    "itp": Scenario("ITP cluster 04 with the gangs of Kalos, 256 GPUs", _itp, (1, 2, 3)),
    "philly": Scenario("Philly from 2017-09-28, 256 GPUs", _philly(), (1,)),
    "philly-resumable": Scenario(
        "Philly if four fifths of all jobs could be resumed, 256 GPUs",
        _philly("--resumable-rest", "80%"),
        (1,),
    ),
    "philly-gangs": Scenario("Philly with the gangs of Kalos, 256 GPUs", _philly_gangs, (1, 2, 3)),
}


def prepare(name: str, folder: Path, days: int, seeds: Sequence[int], logs: Path | None) -> Path:
    """Make what is not there yet of a scenario's site file and traces; return its folder."""
    home = folder / f"{name}-{days}d"
    home.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        if not trace_of(home, seed).exists():
            SCENARIOS[name].make(home, days, seed, logs)
    return home
