"""What would fit if work could be placed anew: moves, cluster compaction and workload inflation.

Borg's measures (Verma et al., CLUSTER'14), for gangs with topology: the standing work is packed by our own
greedy round, the largest first, as if it were all of one allocation. What the round can place, fits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from planner.reports.frames.obstacles import TEN, in_the_way, losses, rooms
from planner.reports.frames.scene import Scene
from solver.decide import decide
from solver.fragmentation import measure
from solver.plan import Decisions
from solver.shares import losses_gpu_s
from solver.state import (
    FOREVER_S,
    Action,
    Bools,
    Ints,
    NodeState,
    Policy,
    Promises,
    SolveParams,
    Spread,
    State,
    Status,
    Workloads,
)

TRIES = 6
"""Places that are tried for each gang besides the one that the plan advises, the cheapest first."""

SEEDS = (1, 2, 3)
"""Orders in which nodes are taken away, or copies drawn: the middle one of the results is told."""

GREEDY = SolveParams("greedy")

WEIGHTS = (0.0, 1.0, 10.0)
"""Of keeping nodes and domains whole; 1 is what rounds use."""

EXACT_S = 4.0
"""Seconds for each of the exact rounds."""


@dataclass(frozen=True)
class Packed:
    """What the allocated work that stands needs when it is packed anew; GPUs, medians over `SEEDS`.

    Attributes
    ----------
    there_gpus, held_gpus : int
        Of healthy nodes; of these held by allocated work now.
    compact_gpus : int
        Of the fewest nodes that still take all standing work.
    inflated_gpus : int
        Copies of standing work that would fit beside it.
    """

    there_gpus: int
    held_gpus: int
    compact_gpus: int
    inflated_gpus: int

    @property
    def spare_gpus(self) -> int:
        """GPUs that would not have had to be bought for the work that stands."""
        return self.there_gpus - self.compact_gpus


def moves(scene: Scene) -> pd.DataFrame:
    """Return for each of the largest pending gangs what would have to move so that it starts now.

    Whole workloads move, protected ones too, and unallocated work stops where it is in the way; `fits` says
    whether all that moves, placed anew, has room beside the gang. Of the places tried, the one that the plan
    advises among them, the one that throws least work away.
    """
    scene = scene.allocated_only()
    names = scene.encoded.names
    rows = []
    for j in scene.waiting[:TEN]:
        best = next((moved for moved in _tried(scene, j) if _fits_after(scene, j, moved)), None)
        w = names.workloads[j]
        rows.append(
            {
                "workload": w.id,
                "gpus": w.gpus,
                "fits": best is not None,
                "moved_workloads": None if best is None else len(best),
                "moved_gpus": None if best is None else int(scene.state.workloads.gpus[best].sum()),
                "lost_gpu_hours": None if best is None else _lost_gpu_hours(scene, best),
                "moved": None if best is None else ", ".join(names.workloads[i].id for i in best),
            }
        )
    return pd.DataFrame(rows, columns=MOVED)


MOVED = ["workload", "gpus", "fits", "moved_workloads", "moved_gpus", "lost_gpu_hours", "moved"]


def _tried(scene: Scene, j: int) -> list[list[int]]:
    """Return sets of workloads that could make room for gang `j`, the cheapest first."""
    names, loss = scene.encoded.names, losses(scene)
    allocated = scene.state.workloads.allocated
    tried = [in_the_way(scene, room) for room in rooms(scene, j, by_loss=True)[:TRIES]]
    for advice in scene.plan.defragmentation:
        if advice.workload == names.workloads[j].id:
            advised = [names.index[move.workload] for move in advice.moves]
            tried.append([i for i in advised if allocated[i]])
    return sorted(tried, key=lambda moved: (int(loss[moved].sum()), [names.workloads[i].id for i in moved]))


def pack(scene: Scene) -> Packed:
    """Return what the allocated work that stands needs when it is packed anew."""
    scene = scene.allocated_only()
    there, held = int(scene.state.nodes.gpus[scene.up].sum()), int(scene.held_gpus[scene.up].sum())
    standing = np.unique(scene.part_workload[scene.up[scene.part_node]])
    compact = [_compacted(scene, standing, np.random.default_rng(seed)) for seed in SEEDS]
    inflated = [_inflated(scene, standing, np.random.default_rng(seed)) for seed in SEEDS]
    return Packed(there, held, int(np.median(compact)), int(np.median(inflated)))


def places_all(state: State, js: Ints) -> bool:
    """Tell whether the greedy round starts all of these pending workloads of a state."""
    if not len(js):
        return True
    action = decide(state, GREEDY).decisions.action
    return bool((action[js] == Action.START).all())


def loosened(scene: Scene, js: Ints, first: int = -1) -> State:
    """Return the state in which `js` are to be placed, all else stands still, and nobody else waits.

    `first` is placed first, then the largest of the rest. One allocation, no limits, no promises, no lane.
    """
    state = scene.state
    w, kept = state.workloads, np.ones(state.workloads.count, dtype=bool)
    kept[js] = False
    stands = np.zeros(w.count, dtype=bool)
    stands[scene.part_workload] = True
    status = np.where(stands & kept, int(Status.RUNNING), int(Status.PENDING))
    priority = w.gpus.copy()
    priority[first if first >= 0 else []] = int(w.gpus.max(initial=0)) + 1
    loose = replace(
        w,
        leaf=np.full(w.count, int(np.flatnonzero(state.budgets.is_leaf)[0])),
        allocated=np.ones(w.count, dtype=bool),
        debug=np.zeros(w.count, dtype=bool),
        min_runtime_s=np.full(w.count, 3600),
        submitted_s=np.full(w.count, state.now_s),
        started_s=np.where(status == Status.RUNNING, state.now_s, 0),
        protected_until_s=np.where(status == Status.RUNNING, FOREVER_S, 0),
        priority=priority,
        status=status,
        pool_ok=w.pool_ok & (stands & kept | ~kept)[:, None],
        placement=_standing(scene, stands & kept),
    )
    return _plain(state, loose)


def _plain(state: State, workloads: Workloads) -> State:
    """Return a state in which these workloads are all that matters."""
    b = state.budgets
    ample = np.full(b.count, 10**12)
    budgets = replace(b, usage=np.zeros_like(ample), entitled=ample, share_ppb=np.full(b.count, 10**9))
    budgets = replace(budgets, limit_gpus=np.full(b.count, -1))
    none = np.zeros(0, dtype=np.int64)
    policy = Policy(charge_micro=state.policy.charge_micro)
    return replace(
        state,
        workloads=workloads,
        budgets=budgets,
        promises=Promises(none, none, Spread.of([])),
        policy=policy,
    )


def _standing(scene: Scene, kept: Bools) -> Spread:
    """Return where the kept workloads stand."""
    w = scene.state.workloads
    parts: list[list[tuple[int, int, int]]] = [[] for _ in range(w.count)]
    gangs = zip(scene.part_workload.tolist(), scene.part_node.tolist(), scene.part_gpus.tolist(), strict=True)
    for j, n, gpus in gangs:
        if kept[j]:
            size = int(w.gpus_per_replica[j])
            parts[j].append((n, gpus, gpus // size if size else 1))
    return Spread.of(parts)


def _lost_gpu_hours(scene: Scene, js: list[int]) -> float:
    return float(losses_gpu_s(scene.state)[js].sum()) / 3600


def _fits_after(scene: Scene, j: int, moved: list[int]) -> bool:
    js = np.array([j, *moved], dtype=np.int64)
    return places_all(loosened(scene, js, j), js)


def _compacted(scene: Scene, standing: Ints, luck: np.random.Generator) -> int:
    """Return the GPUs of the fewest nodes that take all standing work, when nodes go in a drawn order."""
    state = loosened(scene, standing)
    up = luck.permutation(np.flatnonzero(scene.up))

    def fits_without(count: int) -> bool:
        health = state.nodes.state.copy()
        health[up[:count]] = NodeState.DOWN
        return places_all(replace(state, nodes=replace(state.nodes, state=health)), standing)

    gone = _most(fits_without, len(up))
    return int(state.nodes.gpus[up[gone:]].sum())


def _inflated(scene: Scene, standing: Ints, luck: np.random.Generator) -> int:
    """Return the GPUs of the drawn copies of standing work that fit beside it, when all is packed anew."""
    if not len(standing):
        return 0
    spare = int(scene.free_gpus.sum())
    gpus = scene.state.workloads.gpus
    size = max(1, int(np.median(gpus[standing])))
    drawn = luck.choice(standing, size=max(1, spare // size + len(standing)))
    drawn = drawn[np.cumsum(gpus[drawn]) <= spare]

    def fits_with(count: int) -> bool:
        state, js = _copied(scene, standing, drawn[:count])
        return places_all(state, js)

    return int(gpus[drawn[: _most(fits_with, len(drawn))]].sum())


def _copied(scene: Scene, standing: Ints, copies: Ints) -> tuple[State, Ints]:
    """Return a state in which the standing work and copies are to be placed, and their indices in it."""
    state = loosened(scene, standing)
    rows = np.concatenate([standing, copies])
    w = state.workloads
    columns = {
        name: value[rows]
        for name, value in vars(w).items()
        if isinstance(value, np.ndarray) and name in _ROWS
    }
    copied = Workloads(**columns, placement=Spread.of([[] for _ in rows]))
    return replace(state, workloads=copied), np.arange(len(rows))


_ROWS = frozenset(Workloads.__dataclass_fields__) - {"placement"}


def _most(works: Callable[[int], bool], highest: int) -> int:
    """Return the largest count up to `highest` that works, by halving; 0 where none does."""
    low, high = 0, highest
    while low < high:
        middle = (low + high + 1) // 2
        if works(middle):
            low = middle
        else:
            high = middle - 1
    return low


def weights(scene: Scene) -> pd.DataFrame:
    """Return how the room would lie, had the exact round weighed its fragmentation terms otherwise.

    Room is what no allocated work holds. Who starts and who makes room is settled before these terms count,
    so only places differ.
    """
    rows = []
    for weight in WEIGHTS:
        state = replace(scene.state, policy=replace(scene.state.policy, keep_whole=weight))
        found = decide(state, SolveParams(time_limit_s=EXACT_S))
        left = measure(state, _room_after(state, found.decisions), scene.demand)
        largest = {f"largest_gpus_{scene.levels[m.level]}": m.largest_gang_gpus for m in left.levels}
        rows.append(
            {"weight": weight, "room_gpus": left.free_gpus, "broken_nodes": left.sliver_nodes, **largest}
        )
    return pd.DataFrame(rows)


def _room_after(state: State, decisions: Decisions) -> Ints:
    """Return the GPUs of each node that no allocated work holds once the decisions are carried out."""
    w, room = state.workloads, state.nodes.gpus.copy()
    for spread, action in ((w.placement, Action.KEEP), (decisions.placement, Action.START)):
        owner = np.repeat(np.arange(w.count), np.diff(spread.ptr))
        held = (w.allocated & (decisions.action == action))[owner]
        np.subtract.at(room, spread.node[held], spread.gpus[held])
    return room
