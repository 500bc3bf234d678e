"""For each family of rows a world so small that its whole model can be read as an LP file."""

from __future__ import annotations

import time

from solver import backends
from solver.board import Board
from solver.exact import exact
from solver.linear import LinearModel, Solution
from solver.state import State, Status
from tests.solver.factories import node, pending, running, state
from tests.solver.oracles import order_of

RATIOS = {"a": 0.3, "b": 0.6}
"""Work of `a` is of an earlier band than work of `b`, both within their share."""


def world(nodes, workloads, **more) -> State:
    return state(nodes, workloads, ratios=RATIOS, entitled_gpu_h={"a": 1000, "b": 1000}, **more)


def ask(gpus: int, replicas: int = 1, **more):
    return pending(gpus, replicas, **{"leaf_budget": "a", "min_runtime_h": 1, **more})


def past(gpus: int, at, leaf: str = "b", **more):
    """Running work past its protection."""
    return running(gpus, at, leaf_budget=leaf, min_runtime_h=1, started_h_ago=5, **more)


def free(gpus: int, at, **more):
    """Running unallocated work."""
    return running(gpus, at, leaf_budget="b", allocated=False, **more)


def held(gpus: int, at):
    """Protected work."""
    return running(gpus, at, leaf_budget="b", min_runtime_h=8)


TWO_LEAVES = [node(leaf="l1"), node(leaf="l2")]
COUNTED = node(8, cpus=16, memory_gib=64)

WORLDS: dict[str, State] = {
    "start": world([node(4)], [ask(4), ask(4, submitted_h_ago=3)]),
    "gang": world([node(8), node(4)], [ask(4, 3)]),
    "segment": world(
        [node(8, leaf="l1"), node(4, leaf="l1"), node(8, leaf="l2"), node(4, leaf="l2")],
        [ask(4, 4, required="leaf", segment=2)],
    ),
    "buddy": world([node(8), node(8)], [held(3, [0]), past(2, [1]), ask(4), ask(2), ask(1, leaf_budget="b")]),
    "spread": world(TWO_LEAVES, [ask(2, 2, required="leaf"), ask(4)]),
    "clear": world([node(8)], [free(3, [0]), free(3, [0]), free(2, [0]), ask(4)]),
    "stays": world([node(8), node(8)], [free(2, [0, 1]), free(3, [0]), ask(8)]),
    "extra": world([node(28)], [*(free(g, [0]) for g in range(1, 8)), ask(4)]),
    "cpus": world([COUNTED], [free(4, [0], cpus=8), ask(2, cpus=4), ask(4, cpus=8)]),
    "memory": world([COUNTED], [free(4, [0], memory_gib=32), ask(2, memory_gib=16)]),
    "limit": world(
        [node(8)],
        [past(2, [0]), ask(2), ask(4, leaf_budget="b"), ask(1, leaf_budget="b")],
        limits={"b": 5, "": 7},
    ),
    "brake": world([node(8)], [free(4, [0]), free(2, [0]), ask(4)], max_preempted_gpus=4),
    "split": world(TWO_LEAVES, [ask(4, 3, preferred="leaf")]),
    "broken_domain": world([*TWO_LEAVES, node(leaf="l2")], [held(2, [0]), ask(4)]),
    "broken_node": world([node(8), node(8)], [held(4, [0]), ask(2), ask(4)]),
    "settled": world([node(8)], [past(4, [0]), free(4, [0]), ask(8)]),
    "spared": world([node(8), node(8)], [free(8, [0]), past(8, [1], submitted_h_ago=9), ask(8)]),
    "seat": world([node(7), node(7)], [ask(3, 2), ask(2, 4)]),
}
"""By the family that each is for."""


def models_of(board: Board) -> list[LinearModel]:
    """Return every model that the exact rung makes on this board, in order."""
    models: list[LinearModel] = []

    def solve(model: LinearModel, time_limit_s: float, gap: float, start=None) -> Solution:
        models.append(model)
        return backends.solve(model, "highs", 10.0, 0.0, isolated=False)

    order, w = board.order, board.state.workloads
    waits = order.sequence[w.status[order.sequence] == Status.PENDING]
    exact(board, waits, solve, time.monotonic() + 60, 0.0)
    return models


def families_of(model: LinearModel) -> set[str]:
    """Return the families of rows that hold a row."""
    return {block.family for block in model.rows if len(block.labels)}


def model_for(family: str) -> LinearModel:
    """Return the first model of the family's own world that holds a row of it."""
    board = Board(WORLDS[family], order_of(WORLDS[family]))
    return next(model for model in models_of(board) if family in families_of(model))
