"""The source `slurm` put together: it looks by four commands, and acts by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from planner.errors import InputError, SourceError
from planner.model.site import Site
from planner.model.workload import Workload
from planner.schema.slurm import SlurmEntry
from planner.sources.base import Run, Start, Started, World
from planner.sources.slurm import accounts
from planner.sources.slurm.encoding import fields, nodes_of, number
from planner.sources.slurm.jobs import Job, read_jobs
from planner.sources.slurm.look import Look, world_of
from planner.sources.slurm.nodes import islands, locate, read_nodes, read_reservations, read_topology
from planner.sources.slurm.steps import Steps
from planner.sources.slurm.tools import Commands, Tools, read_json, read_text
from planner.words import printable


def settings_of(site: Site) -> SlurmEntry:
    """Return what the site says of its Slurm; InputError where its source is another."""
    if not site.source or site.source.get("type") != "slurm":
        raise InputError(["source.type: is not slurm, write `source: {type: slurm}`"])
    return SlurmEntry.model_validate(site.source)


def commands_of(settings: SlurmEntry) -> Commands:
    """Return Slurm's commands as the site wants them called."""
    return Commands(settings.bin, settings.conf, settings.command_timeout)


def source_of(site: Site) -> SlurmSource:
    """Return the source that a site describes."""
    settings = settings_of(site)
    return SlurmSource(site, settings, commands_of(settings))


def config_of(tools: Tools) -> dict[str, str]:
    """Return slurm.conf as slurmctld holds it."""
    pairs = (line.partition("=") for line in read_text(tools, "scontrol", "show", "config").splitlines())
    return {key.strip(): value.strip() for key, mark, value in pairs if mark}


class SlurmSource:
    """A Slurm cluster; keeps to `planner.sources.base.Source`."""

    name = "slurm"

    def __init__(
        self,
        site: Site,
        settings: SlurmEntry,
        tools: Tools,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.site, self.settings, self.tools, self.clock = site, settings, tools, clock
        self.types: dict[str, str | None] = {}
        self.owner: dict[str, tuple[str, str]] = {}
        self.equal: set[str] = set()
        self.bound: set[str] = set()
        self.steps = Steps(tools, self._jobs, settings.start_timeout, sleep=sleep, clock=clock)

    @cached_property
    def config(self) -> dict[str, str]:
        """slurm.conf; asked for once."""
        return config_of(self.tools)

    def complaints(self) -> Sequence[str]:
        """Return what commands have complained of since this was last asked."""
        said, self.steps.said = tuple(map(printable, self.steps.said)), []
        return said

    def observe(self) -> World:
        """Look at jobs, nodes, topology, partitions and reservations."""
        time_s = int(self.clock())
        raw_jobs = read_json(self.tools, "squeue", "--json")
        nodes = read_nodes(self._nodes(raw_jobs))
        switches = read_topology(self._topology())
        levels, places = locate(switches, self.settings.levels, self.site.clusters)
        partitions = self._partitions()
        jobs = read_jobs(raw_jobs)
        look = Look(
            time_s=time_s,
            cluster=self.config.get("ClusterName", "slurm"),
            jobs=jobs,
            nodes=nodes,
            partitions=partitions,
            levels=levels,
            places=places,
            reserved=read_reservations(read_text(self.tools, "scontrol", "-o", "show", "reservation")),
            counts_memory="MEMORY" in self.config.get("SelectTypeParameters", "MEMORY").upper(),
        )
        world = world_of(look, self.settings)
        self._note(world, partitions)
        self.equal = {j.key for j in jobs if j.gpus_per_job}
        self.bound = {j.key for j in jobs if j.bound and j.restarts}
        return world

    def ended_since(self, since_s: int) -> Sequence[Run]:
        """Return the runs that accounts say have ended since; none where Slurm keeps no accounts."""
        if not self.settings.accounting or not self.keeps_accounts:
            return ()
        return self.history(since_s)

    @property
    def keeps_accounts(self) -> bool:
        """Whether Slurm has a database of what ran."""
        return "slurmdbd" in self.config.get("AccountingStorageType", "")

    def history(self, since_s: int, until_s: int | None = None) -> Sequence[Run]:
        """Return the runs that accounts know of a time."""
        if not self.owner:
            self.observe()
        data = accounts.ask(self.tools, since_s, until_s)
        return list(accounts.read_runs(data, self.settings, self.owner))

    def hold(self, workloads: Sequence[str]) -> None:
        """Hold pending jobs, and let go of the nodes of those that lost them."""
        self.steps.hold(workloads)
        self.steps.unbind([key for key in workloads if key in self.bound])

    def preempt(self, workloads: Sequence[Workload]) -> Mapping[str, int]:
        """Requeue runs, held."""
        return self.steps.preempt(workloads)

    def start(self, starts: Sequence[Start]) -> Started:
        """Start jobs on exactly these nodes."""
        self.steps.kill_wait_s = _leading_number(self.config.get("KillWait", "")) + self.steps.start_timeout_s
        equal = {s.workload.id for s in starts if s.workload.replicas > 1} & self.equal
        return self.steps.start(starts, self.types, equal)

    def drain(self, reasons: Mapping[str, str]) -> None:
        """Drain nodes."""
        self.steps.drain(reasons)

    def resume(self, nodes: Iterable[str]) -> None:
        """Bring nodes back."""
        self.steps.resume(nodes)

    def _jobs(self) -> dict[str, Job]:
        return {j.key: j for j in read_jobs(read_json(self.tools, "squeue", "--json"))}

    def _nodes(self, raw_jobs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the nodes one by one: from 23.02 on sinfo shows them in groups, and scontrol speaks JSON."""
        if _version(raw_jobs) < (23, 2):
            return read_json(self.tools, "sinfo", "--json")
        return read_json(self.tools, "scontrol", "show", "nodes", "--json")

    def _topology(self) -> str:
        """Return the switches; nothing where Slurm has no topology."""
        try:
            return read_text(self.tools, "scontrol", "show", "topology")
        except SourceError:
            return ""

    def _partitions(self) -> dict[str, frozenset[str]]:
        lines = read_text(self.tools, "scontrol", "-o", "show", "partition").splitlines()
        return {
            said["PartitionName"]: frozenset(nodes_of(said.get("Nodes", "")))
            for said in map(fields, lines)
            if "PartitionName" in said
        }

    def _note(self, world: World, partitions: Mapping[str, frozenset[str]]) -> None:
        """Remember which GPUs stand where."""
        self.types = {n.name: n.gpu_type for c in world.clusters for n in c.nodes}
        where = {n.name: c.name for c in world.clusters for n in c.nodes}
        single = len(world.clusters) == 1
        self.owner = {}
        for partition, home in islands(partitions).items():
            there = sorted(n for n in partitions[partition] if n in where)
            if there:
                cluster = world.clusters[0].name if single else home
                self.owner[partition] = (cluster, self.types[there[0]] or "")


def _version(data: Mapping[str, Any]) -> tuple[int, int]:
    """Return Slurm's version, as the meta data of its JSON gives it."""
    meta = data.get("meta") or {}
    version = (meta.get("Slurm") or meta.get("slurm") or {}).get("version") or {}
    parts = (version.get("major"), version.get("minor"))
    major, minor = (number(int(p)) if isinstance(p, str) and p.isdigit() else number(p) for p in parts)
    return major or 0, minor or 0


def _leading_number(text: str) -> int:
    word = text.split(" ")[0]
    return int(word) if word.isdigit() else 30
