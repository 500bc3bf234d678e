"""One look at Slurm, put into the planner's terms: inventory, workloads, what is loose, what has ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from planner.errors import SourceError
from planner.hostlist import fold
from planner.model.cluster import Cluster, Node
from planner.model.workload import Placement, Workload, WorkloadState
from planner.schema.slurm import SlurmEntry
from planner.sources.base import NodeFacts, Run, World
from planner.sources.slurm.contract import JobContract, contract_of
from planner.sources.slurm.jobs import Job
from planner.sources.slurm.nodes import MARK, MIB, Reserved, SlurmNode, islands
from planner.sources.slurm.shape import Shape, UnplannableError, running_shape, shape_of
from planner.units import format_time

FOREVER_S = 366 * 86_400
"""How far a job without a time limit reaches."""


@dataclass(frozen=True)
class Look:
    """What Slurm printed, read.

    Attributes
    ----------
    partitions : dict of str to set of node names
    levels, places : level names, outermost first, and the switches above each node
    counts_memory : bool
        Whether Slurm gives out memory.
    """

    time_s: int
    cluster: str
    jobs: Sequence[Job]
    nodes: Sequence[SlurmNode]
    partitions: Mapping[str, frozenset[str]]
    levels: tuple[str, ...]
    places: Mapping[str, tuple[str, ...]]
    reserved: Sequence[Reserved] = ()
    counts_memory: bool = True


def world_of(look: Look, settings: SlurmEntry) -> World:
    """Return the world that a look shows."""
    return _Reader(look, settings).world()


@dataclass
class _Reader:
    """A look on its way into a world."""

    look: Look
    settings: SlurmEntry
    warnings: list[str] = field(default_factory=list)
    unplanned: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        managed = self.settings.partitions or sorted(self.look.partitions)
        nodes = {p: self.look.partitions.get(p, frozenset()) for p in managed}
        self.warnings += [f"partition {p} is not there" for p in managed if p not in self.look.partitions]
        self.nodes_of = {p: names for p, names in nodes.items() if names}
        homes = islands(self.nodes_of)
        single = len(set(homes.values())) == 1
        self.home = {p: self.look.cluster if single else at for p, at in homes.items()}
        whole: defaultdict[str, set[str]] = defaultdict(set)
        for partition, names in self.nodes_of.items():
            whole[self.home[partition]] |= names
        self.narrow = {p for p, names in self.nodes_of.items() if names != whole[self.home[p]]}
        self.owner = {node: cluster for cluster, names in whole.items() for node in names}
        self.clusters = sorted(whole)
        self.known = {n.name: n for n in self.look.nodes}
        waiting = [j for j in self.look.jobs if j.state == "pending" and self._planned(j)]
        limits = [FOREVER_S if j.time_limit_s is None else j.time_limit_s for j in waiting]
        self.reach_s = max(limits, default=0)
        self.of_cluster = {c: [n for n in self.look.nodes if self.owner.get(n.name) == c] for c in whole}

    def world(self) -> World:
        """Put everything together; SourceError where Slurm is not ready."""
        self._counted()
        planned = [j for j in self.look.jobs if self._planned(j)]
        waiting = list(self._waiting(planned))
        standing = list(filter(None, map(self._standing, planned)))
        held = Counter(node for j in self.look.jobs if j.state != "ended" for node, _ in j.held)
        facts = {n.name: self._facts(n, held[n.name] > 0) for n in self.look.nodes}
        foreign = [j for j in self.look.jobs if j.state != "ended" and j.held and not self._planned(j)]
        return World(
            time_s=max([self.look.time_s, *(_stamped_s(j) for j in planned)]),
            clusters=tuple(self._clusters(facts, foreign)),
            workloads=tuple(waiting + standing),
            loose=tuple(j.key for j in planned if j.state == "pending" and j.priority > 0),
            ended=tuple(run for j in planned for run in self._ended(j)),
            unplanned=self.unplanned,
            nodes={name: f for name, f in facts.items() if name in self.owner},
            warnings=tuple(self.warnings),
        )

    def _planned(self, job: Job) -> bool:
        """Whether a job is gangplan's; one that uses a reservation of Slurm's is its owner's."""
        return self._partition(job) is not None and not job.reservation and not job.part_of_many

    def _partition(self, job: Job) -> str | None:
        """Return the partition of a job that gangplan plans, if it has one."""
        return next((p for p in job.partition.split(",") if p in self.nodes_of), None)

    # -- workloads -----------------------------------------------------------------------------------

    def _waiting(self, jobs: Sequence[Job]) -> Iterator[Workload]:
        """Yield what waits and may start; what cannot be planned is noted."""
        running = Counter(j.array for j in jobs if j.array and j.state in ("running", "leaving"))
        for job in jobs:
            if job.state != "pending" or job.dependency or self._not_yet(job):
                continue
            if job.array_limit and running[job.array] >= job.array_limit:
                continue
            running[job.array] += 1
            try:
                shape = self._shape(job)
            except UnplannableError as error:
                self.unplanned[job.key] = str(error)
                continue
            contract = contract_of(job, self.settings)
            self.warnings += [f"{job.key}: comment: {fault}" for fault in contract.faults]
            yield self._workload(job, shape, contract)

    def _shape(self, job: Job) -> Shape:
        """Return the gang that a waiting job is."""
        partition = self._partition(job)
        assert partition is not None
        if job.wants:
            raise UnplannableError(f"asks for {', '.join(job.wants)}, submit it without")
        if partition in self.narrow:
            fault = f"partition {partition} is only some nodes of the partitions that it overlaps"
            raise UnplannableError(f"{fault}, submit it to one that has all of them")
        return shape_of(job, self.of_cluster[self.home[partition]], self.look.counts_memory)

    def _not_yet(self, job: Job) -> bool:
        """Whether a job asked to begin later; after a requeue it is Slurm that puts the start off."""
        return not job.restarts and job.begin_s > self.look.time_s

    def _standing(self, job: Job) -> Workload | None:
        """Return a job that holds nodes."""
        held = tuple((node, gpus) for node, gpus in job.held if node in self.owner)
        if job.state not in ("running", "leaving", "clearing") or not held:
            return None
        here = replace(job, held=held)
        shape = running_shape(here, self.known, self.look.counts_memory)
        parts = tuple(Placement(node, gpus) for node, gpus in held if gpus or not shape.gpus)
        state: WorkloadState = "running" if job.state == "running" else "stopping"
        workload = self._workload(job, shape, contract_of(job, self.settings))
        began_s = job.start_s
        if state == "stopping":  # of a job that is leaving Slurm tells no start, or when it was requeued
            began_s = min(job.start_s or self.look.time_s, self.look.time_s)
        return replace(workload, state=state, started_s=began_s, placement=parts)

    def _workload(self, job: Job, shape: Shape, contract: JobContract) -> Workload:
        partition = self._partition(job)
        assert partition is not None
        return Workload(
            id=job.key,
            allocation=contract.allocation,
            replicas=shape.replicas,
            gpus_per_replica=shape.gpus,
            submitted_s=job.submit_s,
            state="pending",
            min_runtime_s=contract.min_runtime_s,
            time_limit_s=job.time_limit_s,
            resumable=contract.resumable,
            priority=contract.priority,
            cpus_milli_per_replica=shape.cpus_milli,
            memory_bytes_per_replica=shape.memory_bytes,
            gpu_types=shape.gpu_types,
            clusters=(self.home[partition],) if len(self.clusters) > 1 else (),
            topology=contract.topology,
        )

    def _ended(self, job: Job) -> Iterator[Run]:
        """Yield the run of a job that is over."""
        over = job.state in ("ended", "clearing") and 0 < job.start_s < job.end_s <= self.look.time_s
        if not over or not job.held:
            return
        gpus = Counter[tuple[str, str]]()
        for node, many in job.held:
            if node in self.owner:
                gpus[self.owner[node], self.known[node].gpu_type or ""] += many
        shape = Shape(1, sum(gpus.values()), (), 0, 0)
        workload = self._workload(job, shape, contract_of(job, self.settings))
        yield Run(
            workload, job.start_s, job.end_s, tuple((c, t, n) for (c, t), n in sorted(gpus.items()) if n)
        )

    # -- nodes ---------------------------------------------------------------------------------------

    def _clusters(self, facts: Mapping[str, NodeFacts], foreign: Sequence[Job]) -> Iterator[Cluster]:
        """Yield the inventory, without what others than gangplan's jobs hold."""
        gpus, cpus, memory = self._leaked(), Counter[str](), Counter[str]()
        for job in foreign:
            each = -(-job.cpus // len(job.held))
            for node, many in job.held:
                gpus[node] += many
                cpus[node] += each
                memory[node] += MIB * (job.memory_mib or job.per_cpu_mib * each)
        for cluster in self.clusters:
            nodes = []
            for n in self.of_cluster[cluster]:
                counts = self.look.counts_memory and n.memory_bytes > 0
                nodes.append(
                    Node(
                        name=n.name,
                        gpus=max(n.gpus - gpus[n.name], 0),
                        gpu_type=n.gpu_type,
                        location=self.look.places.get(n.name, ()),
                        state="draining" if n.health == "up" and self._kept(n, now=True) else n.health,
                        cpus_milli=max(1000 * (n.cpus - cpus[n.name]), 1),
                        memory_bytes=max(n.memory_bytes - memory[n.name], 1) if counts else 0,
                    )
                )
            yield Cluster(cluster, self.look.levels, tuple(nodes))

    def _counted(self) -> None:
        """Make sure that Slurm has counted its GPUs: after a restart those used count twice for seconds."""
        odd = sorted(n.name for n in self.look.nodes if n.gpus_used > n.gpus)
        if odd:
            fault = f"Slurm is not ready: it counts more GPUs as used than there are on {fold(odd)}"
            raise SourceError(f"{fault}, as it does for seconds after slurmctld was restarted, try again")

    def _leaked(self) -> Counter[str]:
        """Return the GPUs that Slurm counts as used though no job holds them: it will not give them out.

        That is seen when a node dies and is back while a job that it ran has started elsewhere.
        """
        held = Counter[str]()
        for job in self.look.jobs:
            if job.state != "ended":
                held.update(dict(job.held))
        leaked = Counter({n.name: n.gpus_used - held[n.name] for n in self.look.nodes})
        for name, many in sorted((+leaked).items()):
            fix = "restart slurmctld to get them back"
            self.warnings.append(f"{name}: Slurm counts {many} GPUs as used that no job holds, {fix}")
        return +leaked

    def _facts(self, node: SlurmNode, busy: bool) -> NodeFacts:
        """Return what else is known of a node."""
        if node.mixed and node.name in self.owner:
            self.warnings.append(f"{node.name} has GPUs of several types, only {node.gpu_type} are planned")
        kept = self._kept(node, now=False)
        reason = node.reason if node.health != "up" else ""
        if node.shaky:
            reason = "does not answer"
        elif node.later:
            reason = "is not there yet"
        elif kept and not reason:
            reason = f"reserved as {kept.name} from {format_time(kept.begin_s)}"
        failing = node.shaky or node.health == "down"
        return NodeFacts(reason, node.reason.startswith(MARK), busy, failing, node.later or kept is not None)

    def _kept(self, node: SlurmNode, now: bool) -> Reserved | None:
        """Return the reservation that keeps work from a node: maintenance now, or anything within reach.

        Slurm starts no job that could run into a reservation, so the longest that waits says how far to look.
        """
        time_s = self.look.time_s
        reach_s = 0 if now else self.reach_s
        for r in self.look.reserved:
            if node.name in r.nodes and r.begin_s <= time_s + reach_s and time_s < r.end_s:
                if now and not r.maintenance:
                    continue
                return r
        return None


def _stamped_s(job: Job) -> int:
    """Return the newest time at which Slurm says that something happened to a job."""
    return max(job.submit_s, job.start_s if job.state == "running" else 0)
