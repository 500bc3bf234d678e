"""Answers found by trying everything, on worlds small enough for that, and the random worlds to try them on.

Nothing here uses buddy rows, domains, classes or seating: only nodes, pieces and the rules in plain words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace

import numpy as np
from hypothesis import strategies as st

from solver.ahead import Claims
from solver.board import Board
from solver.shares import ALLOCATED_VICTIM, BEYOND, UNALLOCATED, Order, rank
from solver.state import FOREVER_S, Level, Spread, State, Status
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state

CHAINS = ((1, 2, 4, 8), (1, 3, 6), (2, 4), (1, 4, 8))
"""Sizes of pieces that divide each other."""

MIXED = (1, 2, 3, 4, 5, 6)


# --- packing ----------------------------------------------------------------------------------------------


def packs(free: Sequence[int], pieces: Sequence[int]) -> bool:
    """Tell whether pieces fit into nodes with so much free, trying every node for every piece."""
    if not pieces:
        return True
    piece, *rest = sorted(pieces, reverse=True)
    tried = set()
    for n, room in enumerate(free):
        if room >= piece and room not in tried:
            tried.add(room)
            if packs([*free[:n], room - piece, *free[n + 1 :]], rest):
                return True
    return False


# --- one gang ---------------------------------------------------------------------------------------------


def shares_of(total: int, most: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every way to divide `total` replicas among nodes that take at most so many each."""
    if len(most) == 1:
        if total <= most[0]:
            yield (total,)
        return
    for k in range(min(total, most[0]) + 1):
        for rest in shares_of(total - k, most[1:]):
            yield (k, *rest)


def lawful(world: State, j: int, counts: Sequence[int]) -> bool:
    """Tell whether a gang may stand with so many replicas on each node, capacity and health apart."""
    n, w = world.nodes, world.workloads
    used = [i for i, k in enumerate(counts) if k]
    pools = {int(n.pool[i]) for i in used}
    if len(pools) > 1 or not all(w.pool_ok[j, p] for p in pools):
        return False
    level = int(w.required[j])
    if level in (Level.NONE, Level.UNKNOWN):
        return level == Level.NONE
    together = int(w.segment[j]) or int(w.replicas[j])
    domains = {i: i if level == Level.NODE else int(n.domain[level, i]) for i in used}
    inside = {d: sum(counts[i] for i in used if domains[i] == d) for d in domains.values()}
    return -1 not in inside and all(k % together == 0 for k in inside.values())


def places(world: State, j: int, slots: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every lawful way to stand, as replicas per node, where each node takes so many."""
    w = world.workloads
    for counts in shares_of(int(w.replicas[j]), [min(int(k), int(w.replicas[j])) for k in slots]):
        if lawful(world, j, counts):
            yield counts


def fits_somewhere(world: State, j: int, slots: Sequence[int]) -> bool:
    """Tell whether there is any lawful place."""
    return any(True for _ in places(world, j, slots))


def room_at(board: Board, j: int, claims: Claims, time_s: int) -> list[int]:
    """Return how many replicas of `j` each healthy node takes at a time, claim by claim."""
    n, w = board.state.nodes, board.state.workloads
    out = []
    for i in range(n.count):
        mine = [k for k in range(len(claims.node)) if claims.node[k] == i and claims.ends_s[k] > time_s]
        slots = int(w.replicas[j]) if n.state[i] == 0 else 0
        for size, each in (
            (n.gpus, w.gpus_per_replica),
            (n.cpus_milli, w.cpus_milli),
            (n.memory_bytes, w.memory_bytes),
        ):
            if each[j] and (size[i] or each is w.gpus_per_replica):
                left = int(size[i]) - sum(int(claims.replicas[k] * each[claims.workload[k]]) for k in mine)
                slots = min(slots, max(left, 0) // int(each[j]))
        out.append(slots)
    return out


# --- one tier ---------------------------------------------------------------------------------------------


class TierOracle:
    """The best of one tier's question, by every set of victims, every set of starts and every place.

    A piece of a band may use what is free or given up by victims of later bands; gangs, limits, the brake,
    holds, CPUs and memory as the rules say. Worth: what of this tier starts or goes on, less weighted
    restarts, in GPU-hours.
    """

    def __init__(self, board: Board, tier: int, js: Sequence[int]) -> None:
        self.board, self.tier, self.js = board, tier, [int(j) for j in js]
        self.world, self.order = board.state, board.order
        w = self.world.workloads
        may = (
            board.standing & (w.status == Status.RUNNING) & ~self.world.protected & (self.order.tier >= tier)
        )
        self.victims = [r for r in np.flatnonzero(may).tolist() if self.order.band[r] > self._first_band()]
        self.bands = sorted({int(self.order.band[j]) for j in self.js})

    def best(self) -> float:
        """Return the greatest worth."""
        best = -np.inf
        for gone in subsets(self.victims):
            gpus = sum(int(self.world.workloads.gpus[r]) for r in gone)
            if gpus > self.board.brake_room():
                continue
            rooms = self._rooms(gone)
            for starts in subsets(self.js):
                value = self._worth(starts, gone)
                if value > best + 1e-12 and self._limits_hold(starts, gone) and self._stand(starts, rooms):
                    best = value
        return best

    def _first_band(self) -> int:
        return min((int(self.order.band[j]) for j in self.js), default=99)

    def _worth(self, starts: Sequence[int], gone: Sequence[int]) -> float:
        w, policy, order = self.world.workloads, self.world.policy, self.order
        stands = self.board.standing & (w.status == Status.RUNNING) & ~self.world.protected
        counted = [r for r in np.flatnonzero(stands & (order.tier == self.tier)).tolist() if r not in gone]
        worth = sum(order.price[j] * w.gpus[j] for j in (*starts, *counted)) * policy.worth_s / HOUR_S
        weight = {r: ALLOCATED_VICTIM if self.tier < order.tier[r] < UNALLOCATED else 1 for r in gone}
        return float(worth - sum(weight[r] * w.gpus[r] for r in gone) * policy.restart_cost_s / HOUR_S)

    def _limits_hold(self, starts: Sequence[int], gone: Sequence[int]) -> bool:
        b, w, band = self.world.budgets, self.world.workloads, self.order.band
        for v in np.flatnonzero(b.limit_gpus >= 0).tolist():
            mine = [j for j in starts if v in b.path(int(w.leaf[j]))]
            theirs = [r for r in gone if v in b.path(int(w.leaf[r]))]
            if not mine:
                continue
            if self.board.held_before[v] > b.limit_gpus[v]:
                return False
            for at in self.bands:
                taken = sum(int(w.gpus[j]) for j in mine if band[j] >= at)
                freed = sum(int(w.gpus[r]) for r in theirs if band[r] > at)
                if taken > b.limit_gpus[v] - self.board.held_gpus[v] + freed:
                    return False
        return True

    def _rooms(self, gone: Sequence[int]) -> list[list[int]]:
        """Return what is free on each node for each band, then CPUs and memory."""
        board, w, band = self.board, self.world.workloads, self.order.band
        p = w.placement
        rooms = [board.free_gpus.tolist() for _ in self.bands]
        rooms += [board.free_cpus.tolist(), board.free_memory.tolist()]
        for r in gone:
            part = p.part(r)
            for i, gpus, k in zip(p.node[part], p.gpus[part], p.replicas[part], strict=True):
                for b, at in enumerate(self.bands):
                    rooms[b][i] += int(gpus) if band[r] > at else 0
                rooms[-2][i] += int(k * w.cpus_milli[r])
                rooms[-1][i] += int(k * w.memory_bytes[r])
        return rooms

    def _takes(self, j: int) -> list[int]:
        """Return what a replica takes of each of the rooms."""
        w = self.world.workloads
        gpus = [int(w.gpus_per_replica[j]) if self.order.band[j] >= at else 0 for at in self.bands]
        return [*gpus, int(w.cpus_milli[j]), int(w.memory_bytes[j])]

    def _stand(self, starts: Sequence[int], rooms: list[list[int]]) -> bool:
        gangs = sorted(starts, key=lambda j: -int(self.world.workloads.gpus_per_replica[j]))
        return self._stand_from(gangs, tuple(map(tuple, rooms)), set())

    def _stand_from(self, gangs: list[int], rooms: tuple[tuple[int, ...], ...], failed: set) -> bool:
        if not gangs:
            return True
        if (len(gangs), rooms) in failed:
            return False
        j, *rest = gangs
        takes, open_ = self._takes(j), self._open(j)
        slots = [
            min(room[i] // take for room, take in zip(rooms, takes, strict=True) if take) if open_[i] else 0
            for i in range(self.world.nodes.count)
        ]
        for counts in places(self.world, j, slots):
            after = tuple(
                tuple(have - k * take for have, k in zip(room, counts, strict=True))
                for room, take in zip(rooms, takes, strict=True)
            )
            if self._stand_from(rest, after, failed):
                return True
        failed.add((len(gangs), rooms))
        return False

    def _open(self, j: int) -> list[bool]:
        ends_s = self.world.now_s + int(self.world.workloads.min_runtime_s[j])
        healthy = self.world.nodes.state == 0
        return [bool(healthy[i] and ends_s <= self.board.hold_s[i]) for i in range(self.world.nodes.count)]


def subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield every subset, the largest first."""
    for k in range(len(items), -1, -1):
        yield from itertools.combinations(items, k)


# --- the same world in other words ------------------------------------------------------------------------


def permuted(world: State, turn: Sequence[int]) -> State:
    """Return the same world with its workloads in another order: new workload i is old `turn[i]`."""
    w, p, promises = world.workloads, world.workloads.placement, world.promises
    flat = (p.node, p.gpus, p.replicas)
    parts = [list(zip(*(x[p.part(j)].tolist() for x in flat), strict=True)) for j in turn]
    arrays = {f.name: getattr(w, f.name)[list(turn)] for f in fields(w) if f.name != "placement"}
    return replace(
        world,
        workloads=replace(w, **arrays, placement=Spread.of(parts)),
        promises=replace(promises, workload=np.argsort(turn)[promises.workload]),
    )


# --- tiny random worlds -----------------------------------------------------------------------------------

RATIOS = {"t/a": (0.1, 0.3, 0.95), "t/b": (0.6, 0.97, 1.1), "c": (0.3, 1.2, 1.6), "d": (0.97, 1.8, 3.0)}
"""Use over entitlement of each allocation, so that work of many bands and both tiers meets."""


def order_of(world: State) -> Order:
    """Rank all that may be ranked, as if everything could be placed."""
    w = world.workloads
    wants = w.allocated & (w.status != Status.STOPPING) & ~world.protected
    return rank(world, np.flatnonzero(wants), np.ones(w.count, dtype=bool))


def waiting(board: Board, tier: int) -> np.ndarray:
    """Return pending allocated work of a tier, in order."""
    w, sequence = board.state.workloads, board.order.sequence
    mine = (w.status[sequence] == Status.PENDING) & (board.order.tier[sequence] == tier)
    return sequence[mine]


@st.composite
def standing(draw, free, sizes):
    """Draw a gang on one or two nodes that have room for it, and take it."""
    gpus = draw(st.sampled_from([s for s in sizes if s <= 4]))
    there = [i for i, room in enumerate(free) if room >= gpus]
    if not there:
        return []
    at = draw(st.lists(st.sampled_from(there), min_size=1, max_size=2, unique=True))
    for i in at:
        free[i] -= gpus
    kind = draw(st.sampled_from(["free", "past", "past", "protected"]))
    age_h, min_runtime_h = (0.5, 2) if kind == "protected" else (5, 0 if kind == "free" else 1)
    return [
        running(
            gpus,
            at,
            leaf_budget=draw(st.sampled_from([*RATIOS])),
            min_runtime_h=min_runtime_h,
            started_h_ago=age_h,
            submitted_h_ago=draw(st.integers(6, 9)),
        )
    ]


@st.composite
def gangs(draw, sizes, *, levels=("leaf",), resources=False):
    """Draw a pending allocated gang."""
    required = draw(st.sampled_from([None, None, "node", *levels]))
    replicas = draw(st.sampled_from([1, 1, 2, 3] if required is None else [1, 2, 4, 4]))
    parts = [k for k in range(1, replicas) if replicas % k == 0]
    return pending(
        draw(st.sampled_from(sizes)),
        replicas,
        leaf_budget=draw(st.sampled_from([*RATIOS])),
        min_runtime_h=draw(st.sampled_from([0.2, 1, 1, 4])),
        submitted_h_ago=draw(st.integers(1, 5)),
        required=required,
        segment=draw(st.sampled_from([0, *parts, *parts])) if required else 0,
        gpu_types=draw(st.sampled_from([None, None, None, ("h100",)])),
        cpus=draw(st.sampled_from([0, 1, 3])) if resources else 0,
        memory_gib=draw(st.sampled_from([0, 0, 2])) if resources else 0,
    )


@st.composite
def tier_worlds(draw, sizes=None, *, resources=False) -> Board:
    """Draw the board of a world of at most 4 nodes, 4 gangs that run and 5 that wait."""
    sizes = sizes or draw(st.sampled_from(CHAINS))
    nodes = [
        node(
            draw(st.sampled_from([4, 8, 8])),
            gpu_type=draw(st.sampled_from(["h100", "h100", "h100", "b200"])),
            state=draw(st.sampled_from(["up"] * 9 + ["draining"])),
            cpus=8 if resources else 0,
            memory_gib=8 if resources else 0,
            **draw(st.sampled_from([{"leaf": "l1"}, {"leaf": "l1"}, {"leaf": "l2"}, {}])),
        )
        for _ in range(draw(st.integers(1, 4)))
    ]
    free = [n.gpus if n.state == "up" else 0 for n in nodes]
    there = [w for _ in range(draw(st.integers(0, 4))) for w in draw(standing(free, sizes))]
    world = state(
        nodes,
        [*there, *draw(st.lists(gangs(sizes, resources=resources), min_size=1, max_size=5))],
        shares={"t/a": 0.25, "t/b": 0.25, "c": 0.3, "d": 0.2},
        ratios={leaf: draw(st.sampled_from(choices)) for leaf, choices in RATIOS.items()},
        entitled_gpu_h=dict.fromkeys(RATIOS, 200),
        limits={"t": draw(st.sampled_from([2, 6, 12]))} if draw(st.booleans()) else {},
        levels=["leaf"],
        max_preempted_gpus=draw(st.sampled_from([-1, -1, -1, 4])),
        restart_cost_s=draw(st.sampled_from([600, 600, 4 * HOUR_S])),
    )
    board = Board(world, order_of(world))
    if draw(st.booleans()):
        for i in range(len(nodes)):
            board.hold_s[i] = draw(
                st.sampled_from([FOREVER_S, FOREVER_S, NOW_S + HOUR_S // 2, NOW_S + HOUR_S])
            )
    return board


def between_bands() -> Board:
    """Two nodes of 2 GPUs, half of each held by one victim; `a` waits before it in the order, `b` after it.

    Only `a` may use what the victim gives up: a piece of 2 takes one node, so `b` finds one free GPU.
    """
    gang = running(1, [0, 1], leaf_budget="v", min_runtime_h=1, started_h_ago=5)
    small = [pending(1, leaf_budget="b", min_runtime_h=1) for _ in range(2)]
    world = state(
        [node(2), node(2)],
        [gang, pending(2, leaf_budget="a", min_runtime_h=1), *small],
        ratios={"a": 0.1, "v": 0.4, "b": 0.6},
        shares={"a": 0.3, "v": 0.3, "b": 0.4},
        entitled_gpu_h={"a": 1000, "v": 1000, "b": 1000},
    )
    return Board(world, order_of(world))


def is_exact(board: Board, tier: int) -> bool:
    """Tell whether the buddy rows are exact here: a divisor chain, and no victim between bands that wait.

    Where a victim ranks between two that wait, only one of them may use what it gives up, and pieces of
    both must share a node in ways that rows by domain do not see.
    """
    js, order = waiting(board, tier), board.order
    if not len(js):
        return True
    w = board.state.workloads
    sizes = np.unique([_piece(board.state, j) for j in js.tolist()])
    chain = all(b % a == 0 for a, b in itertools.pairwise(sizes.tolist()))
    resources = bool(w.cpus_milli[js].any() or w.memory_bytes[js].any())
    low, high = order.band[js].min(), order.band[js].max()
    interruptible = np.flatnonzero(board.standing & board.interruptible & (order.tier >= tier))
    between = ((order.band[interruptible] > low) & (order.band[interruptible] <= high)).any()
    return chain and not resources and not between


def _piece(world: State, j: int) -> int:
    w = world.workloads
    together = int(w.segment[j]) or int(w.replicas[j])
    return int(w.gpus_per_replica[j]) * (together if w.required[j] == Level.NODE else 1)


TIERS = (0, BEYOND)
