"""The independent check of a decided round; `solver.rules` holds the rules and the table of their codes."""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from solver.plan import Decisions
from solver.rules import Broken, places, promises, shape, victims
from solver.rules.world import apply
from solver.state import State

__all__ = ["Broken", "check"]


def check(state: State, decisions: Decisions, explained: AbstractSet[int] = frozenset()) -> list[Broken]:
    """Return every broken rule; empty when the plan holds.

    Parameters
    ----------
    explained : set of int
        Workloads whose promise falls or moves later for a reason that the plan states.
    """
    malformed = list(shape.malformed(state, decisions))
    if malformed:
        return malformed
    world = apply(state, decisions)
    return [
        *shape.action(world),
        *shape.reject(world),
        *places.capacity(world),
        *places.placement(state, world.starts),
        *places.placement(state, world.promised),
        *places.sick(world),
        *places.limit(world),
        *victims.protected(world),
        *victims.victim(world),
        *victims.unallocated(world),
        *victims.share(world),
        *victims.needless(world),
        *victims.brake(world),
        *promises.promise(world),
        *promises.promise_moved(world, explained),
    ]
