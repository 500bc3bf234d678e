"""Random tiny worlds, and a planner too simple to be wrong: first fit, nobody evicted but from sick nodes."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np
from hypothesis import strategies as st

from solver.state import Level, NodeState, Spread, State, Status
from tests.solver.factories import node, pending, promise, running, state, stopping

BUDGETS = ("t/a", "t/b", "c")

CONTRACT = {
    "leaf_budget": st.sampled_from(BUDGETS),
    "min_runtime_h": st.sampled_from([0, 1, 4]),
    "cpus": st.sampled_from([0, 1, 2]),
    "debug": st.booleans(),
}

waiting = st.builds(
    pending,
    gpus=st.sampled_from([0, 1, 2, 4, 8]),
    replicas=st.integers(1, 4),
    required=st.sampled_from([None, None, "leaf", "node"]),
    segment=st.sampled_from([0, 0, 1, 2]),
    gpu_types=st.sampled_from([None, None, ("h100",)]),
    **CONTRACT,
)


@st.composite
def standing(draw, nodes, free):
    """Draw a gang that runs, or stops, on what is free in one pool, and take it; none where nothing is."""
    gpus, cpus = draw(st.sampled_from([1, 2, 4])), draw(CONTRACT["cpus"])
    pools = defaultdict(list)
    for i, (free_gpus, free_cpus) in enumerate(free):
        if free_gpus >= gpus and free_cpus >= cpus:
            pools[nodes[i].cluster, nodes[i].gpu_type].append(i)
    if not pools:
        return []
    at = draw(st.sampled_from(list(pools.values())))[: draw(st.integers(1, 2))]
    for i in at:
        free[i] = (free[i][0] - gpus, free[i][1] - cpus)
    kind = draw(st.sampled_from([running, running, stopping]))
    rest = {name: draw(value) for name, value in CONTRACT.items() if name != "cpus"}
    return [kind(gpus, at, cpus=cpus, started_h_ago=draw(st.sampled_from([0.5, 2])), **rest)]


@st.composite
def worlds(draw) -> State:
    """Draw a world of a few nodes in two clusters, where all that runs is where it may be."""
    nodes = [
        node(
            gpus=draw(st.sampled_from([2, 4, 8])),
            cluster=draw(st.sampled_from(["c1", "c1", "c2"])),
            gpu_type=draw(st.sampled_from(["h100", "h100", "b200"])),
            state=draw(st.sampled_from(["up", "up", "up", "draining", "down"])),
            cpus=draw(st.sampled_from([0, 4, 8])),
            **draw(st.sampled_from([{"leaf": "l1"}, {"leaf": "l2"}, {}])),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]
    free = [(n.gpus, n.cpus or 99) for n in nodes]
    there = [w for _ in range(draw(st.integers(0, 3))) for w in draw(standing(nodes, free))]
    queue = draw(st.lists(waiting, max_size=4))
    old = [promise(len(there), draw(st.sampled_from([1, 9])), [0])] if queue and draw(st.booleans()) else []
    return state(
        nodes=nodes,
        workloads=there + queue,
        shares={"t/a": 0.4, "t/b": 0.4, "c": 0.2},
        ratios={b: draw(st.sampled_from([0.0, 0.9, 1.0, 1.5])) for b in BUDGETS},
        limits={"t": draw(st.sampled_from([4, 8, 16]))} if draw(st.booleans()) else {},
        levels=["leaf"],
        promises=old,
        max_preempted_gpus=draw(st.sampled_from([-1, -1, 4])),
        lane_gpus=draw(st.sampled_from([0, 4])),
    )


def first_fit(world: State) -> dict:
    """Return a legal plan, as keywords of `decisions`."""
    n, w, limits = world.nodes, world.workloads, world.budgets.limit_gpus
    there = {j: seat(w.placement, j) for j in range(w.count) if w.status[j] != Status.PENDING}
    worst = {j: max(int(n.state[i]) for i in at) for j, at in there.items()}
    leaves = [
        j
        for j in there
        if w.status[j] == Status.RUNNING
        and (worst[j] == NodeState.DOWN or (worst[j] == NodeState.DRAINING and not world.protected[j]))
    ]
    stays = {j: at for j, at in there.items() if j not in leaves}
    free = empty(world)
    for j, at in stays.items():
        take(free, world, j, at)
    before, after = held(world, there), held(world, stays)
    start, later = {}, {}
    for j in np.flatnonzero(w.status == Status.PENDING).tolist():
        at, gpus, above = place(world, free, j), int(w.gpus[j]), world.budgets.path(int(w.leaf[j]))
        if not all(limits[v] < 0 or max(before[v], after[v] + gpus) <= limits[v] for v in above):
            continue
        if at:
            start[j] = at
            take(free, world, j, at)
        elif not later and (at := place(world, empty(world), j)):
            later[j] = (9, at)  # no protection is left by then
        after.update(dict.fromkeys(above if at else (), gpus))
    return {"start": start, "preempt": {j: [] for j in leaves}, "reject": [], "promised": later}


def empty(world: State) -> list[list[int]]:
    """Return the GPUs and the thousandths of a CPU of each node."""
    n = world.nodes
    return [[int(n.gpus[i]), int(n.cpus_milli[i]) or 10**9] for i in range(n.count)]


def seat(spread: Spread, j: int) -> list[int]:
    """Return the node of each replica."""
    part = spread.part(j)
    return np.repeat(spread.node[part], spread.replicas[part]).tolist()


def take(free: list[list[int]], world: State, j: int, at: list[int]) -> None:
    """Take what a gang needs from what is free."""
    for i in at:
        free[i][0] -= int(world.workloads.gpus_per_replica[j])
        free[i][1] -= int(world.workloads.cpus_milli[j])


def held(world: State, seats: dict[int, list[int]]) -> Counter:
    """Return the GPUs that these gangs hold under each budget tree node."""
    out = Counter()
    for j, at in seats.items():
        path = world.budgets.path(int(world.workloads.leaf[j]))
        out.update(dict.fromkeys(path, len(at) * int(world.workloads.gpus_per_replica[j])))
    return out


def place(world: State, free: list[list[int]], j: int) -> list[int] | None:
    """Return a legal place in what is free, domain by domain; None where there is none."""
    n, w = world.nodes, world.workloads
    segment, want = int(w.segment[j]), int(w.replicas[j])
    cells = defaultdict(list)  # the nodes of each pool and domain, once for each replica that they take
    for i in range(n.count):
        domain = domain_at(world, j, i)
        if n.state[i] == NodeState.UP and w.pool_ok[j, n.pool[i]] and domain is not None:
            cells[int(n.pool[i]), domain] += [i] * slots(world, free[i], j)
    if w.required[j] == Level.NONE or not segment:
        return next((cell[:want] for cell in cells.values() if len(cell) >= want), None)
    for pool in {p for p, _ in cells}:
        whole = [cell[: len(cell) // segment * segment] for (p, _), cell in cells.items() if p == pool]
        if want % segment == 0 and sum(map(len, whole)) >= want:
            return [i for cell in whole for i in cell][:want]
    return None


def domain_at(world: State, j: int, i: int) -> int | None:
    """Return the domain of node `i` that counts for gang `j`; None where it may not stand."""
    level = int(world.workloads.required[j])
    if level in (Level.NONE, Level.NODE):
        return 0 if level == Level.NONE else i
    domain = int(world.nodes.domain[level, i])
    return None if domain < 0 else domain


def slots(world: State, free: list[int], j: int) -> int:
    """Return how many replicas fit these GPUs and thousandths of a CPU, a few where nothing is asked."""
    w = world.workloads
    room = [
        have // int(ask)
        for have, ask in zip(free, (w.gpus_per_replica[j], w.cpus_milli[j]), strict=True)
        if ask
    ]
    return min(room, default=9)
