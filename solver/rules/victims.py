"""Rules of preemption: who may be evicted, for whom, and whether it had to be."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from solver.rules import Broken
from solver.rules.world import Parts, World, amounts, ask, does, slots, standing, total
from solver.state import Action, Bools, Ints, Level, NodeState


def protected(world: World) -> Iterator[Broken]:
    """Nobody is preempted inside its min runtime, unless one of its nodes is down."""
    state = world.state
    spared = state.protected & (world.health != int(NodeState.DOWN))
    for j in np.flatnonzero(does(world.plan, Action.PREEMPT) & spared).tolist():
        left_s = state.workloads.protected_until_s[j] - state.now_s
        yield Broken("protected", j, -1, f"preempted {left_s} s before its min runtime ends")


def victim(world: World) -> Iterator[Broken]:
    """Everybody preempted makes room for someone who starts there now, or before the next round."""
    state, plan = world.state, world.plan
    w = state.workloads
    due = plan.promised[plan.promised_start_s <= state.now_s + state.policy.due_s]
    gains = {*_starting(world), *due.tolist()}
    named = np.array(list(plan.victims_for), dtype=np.int64)
    for v in named[~does(plan, Action.PREEMPT)[named]].tolist():
        yield Broken("victim", v, -1, f"makes room, and its action is {plan.action[v]}")
    for v in world.victims:
        nodes = w.placement.node[w.placement.part(v)].tolist()
        if not world.gainers(v):
            yield Broken("victim", v, -1, "preempted for nobody")
        for g in world.gainers(v):
            if g not in gains:
                yield Broken(
                    "victim", v, -1, f"for {{w{g}}}, which starts neither now nor in {state.policy.due_s} s"
                )
            elif world.seats.get(g, set()).isdisjoint(nodes) and not _meets_limit(
                world, v, world.limits_above(g)
            ):
                yield Broken("victim", v, -1, f"for {{w{g}}}, which uses none of its nodes")


def unallocated(world: World) -> Iterator[Broken]:
    """Unallocated work preempts nobody."""
    free = set(np.flatnonzero(~world.state.workloads.allocated).tolist())
    for v in world.victims:
        for g in filter(free.__contains__, world.gainers(v)):
            yield Broken("unallocated", v, -1, f"preempted for {{w{g}}}, which is unallocated")


def share(world: World) -> Iterator[Broken]:
    """Work within its share does not yield to work beyond its own, debug lane and old promises apart.

    Only what is certain is reported: the victim's leaf counts all its running work as committed in advance,
    the gainer's leaf nothing.
    """
    w, b, policy = world.state.workloads, world.state.budgets, world.state.policy
    if not world.victims:
        return
    surely_within, surely_beyond = _within_share(world)
    promised = set(world.state.promises.workload.tolist())
    lane: dict[int, int] = {}  # the debug workload that alone excuses each victim
    for v in world.victims:
        gainers = world.gainers(v)
        if not surely_within[v] or not gainers:
            continue
        if any(g in promised or not surely_beyond[g] for g in gainers):
            continue
        debug = [g for g in gainers if w.debug[g]]
        if debug:
            lane[v] = debug[0]
            continue
        names = ", ".join(f"{{w{g}}}" for g in gainers)
        ratios = f"{{b{w.leaf[v]}}} used {b.usage[w.leaf[v]]} of {b.entitled[w.leaf[v]]}"
        yield Broken("share", v, -1, f"within its share ({ratios}), preempted for {names}")
    taken_gpus = sum(int(w.gpus[g]) for g in set(lane.values()))
    if taken_gpus > policy.lane_gpus:
        for v, g in lane.items():
            numbers = f"{taken_gpus} GPUs in a debug lane of {policy.lane_gpus}"
            yield Broken("share", v, -1, f"within its share, preempted for {{w{g}}}: {numbers}")


def _within_share(world: World) -> tuple[Bools, Bools]:
    """Tell which workloads are certainly within their leaf's share, as allocated work, and which beyond."""
    state = world.state
    w, b, policy = state.workloads, state.budgets, state.policy
    known = w.leaf >= 0
    runs = standing(state, w.running & w.allocated & known)
    committed = runs.gpus * policy.commitment_s * policy.charge_micro[state.nodes.pool[runs.node]]
    most = b.usage + total(w.leaf[runs.workload], committed, b.count)
    within = known & w.allocated & (most <= b.entitled)[w.leaf]
    beyond = ~known | (b.usage > b.entitled)[w.leaf]
    return within, beyond


def needless(world: World) -> Iterator[Broken]:
    """No victim could stay: its place is needed, and its one gainer has nowhere else to go."""
    state, plan = world.state, world.plan
    w = state.workloads
    if not world.victims:
        return
    chosen = np.zeros(w.count, dtype=bool)
    chosen[world.victims] = True
    back = standing(state, chosen)
    taken = (world.load[:, back.node] + amounts(state, back) > world.size[:, back.node]).any(axis=0)
    needed = np.zeros(w.count, dtype=bool)
    needed[back.workload[taken]] = True
    starting = _starting(world)
    waits = set(plan.promised.tolist()) - starting
    room = _Elsewhere(world)
    for v in world.victims:
        gainers = world.gainers(v)
        if not waits.isdisjoint(gainers) or _meets_limit(world, v, world.limits_above(v)):
            continue  # the room is for a promise, or under a limit
        if not needed[v]:
            yield Broken("needless", v, -1, f"its {w.gpus[v]} GPUs are still free")
            continue
        starts = starting.intersection(gainers)
        if len(starts) == 1 and room.suffices(v, *starts):
            yield Broken("needless", v, -1, f"{{w{min(starts)}}} fits on free nodes")


class _Elsewhere:
    """Free places in the pool of a gainer, on nodes that nobody is promised."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.room: dict[tuple[int, ...], Ints] = {}

    def suffices(self, v: int, g: int) -> bool:
        """Tell whether `g` could leave the nodes of victim `v` for free ones, and `v` stay on them."""
        world, w, places = self.world, self.world.state.workloads, self.world.plan.placement
        if w.required[g] != Level.NONE or not w.gpus_per_replica[g] or places.ptr[g] == places.ptr[g + 1]:
            return False
        back, seat = w.placement.part(v), places.part(g)
        node = w.placement.node[back]
        leaves = total(places.node[seat], places.replicas[seat], world.state.nodes.count)[node]
        free = self._slots(g, int(world.state.nodes.pool[places.node[seat][0]]))
        if free.sum() - free[node].sum() < leaves.sum():
            return False
        stay = Parts(np.full(len(node), v), node, w.placement.gpus[back], w.placement.replicas[back])
        gone = np.outer(ask(world.state, g), leaves)
        load = world.load[:, node] + amounts(world.state, stay) - gone
        return bool((load <= world.size[:, node]).all())

    def _slots(self, g: int, pool: int) -> Ints:
        world, wanted = self.world, ask(self.world.state, g)
        key = (pool, *wanted)
        if key not in self.room:
            n = world.state.nodes
            free = slots(world.size - world.load, wanted)
            free[(n.pool != pool) | ~n.up] = 0
            free[world.promised.node] = 0
            self.room[key] = free
        return self.room[key]


def brake(world: World) -> Iterator[Broken]:
    """No more GPUs are preempted, on healthy nodes, than the site allows in a round."""
    most_gpus = world.state.policy.max_preempted_gpus
    gpus = int(world.state.workloads.gpus[world.victims].sum())
    if 0 <= most_gpus < gpus:
        yield Broken("brake", -1, -1, f"{gpus} GPUs preempted, {most_gpus} allowed")


def _starting(world: World) -> set[int]:
    """Return the workloads that start."""
    return set(np.flatnonzero(world.starting).tolist())


def _meets_limit(world: World, v: int, among: set[int]) -> bool:
    """Tell whether giving victim `v` back would exceed one of its limits among these budget tree nodes."""
    limits, gpus = world.state.budgets.limit_gpus, int(world.state.workloads.gpus[v])
    return any(limits[b] < world.held[b] + gpus for b in world.limits_above(v) & among)
