"""The time-expanded model against every set of promises, places and starts that give way, on tiny worlds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.ahead import promised_claims
from solver.board import Board
from solver.booking import book, read
from solver.foresee import carried_out
from solver.holds import CERTAINTY, LEAST_LEFT_S, hold_price, worth
from solver.lpfile import write_lp
from solver.outlook import Outlook, outlook_of
from solver.shares import UNALLOCATED, WITHIN
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import order_of, places, subsets, waiting
from tests.solver.seeded import back_end

BACK_ENDS = ("highs", "cp-sat")

Turn = tuple[int, int, tuple[int, ...]]
"""A gang, when it begins, and its replicas on each node."""


class Oracle:
    """The best of an outlook's question, by trying everything."""

    def __init__(self, outlook: Outlook) -> None:
        self.o, self.board = outlook, outlook.board
        self.state, self.w = outlook.board.state, outlook.board.state.workloads
        self.claims = promised_claims(outlook.board)
        self.gpus = self.state.nodes.gpus.tolist()

    def best(self) -> float:
        """Return the greatest worth, in the model's own terms."""
        found = -np.inf
        for gone in subsets(list(self.o.yielding)):
            lost = sum(self.start_worth(i, NOW_S) for i in gone)
            turns = [[None, *self.turns(j, gone)] for j in self.o.gangs]
            for chosen in itertools.product(*turns):
                begun = [t for t in chosen if t is not None]
                if self.lawful(begun, gone):
                    found = max(found, sum(self.value(t) for t in begun) - lost)
        return self.board.objective()[self.o.tier] + found

    def turns(self, j: int, gone: tuple[int, ...]) -> Iterator[Turn]:
        for time_s in self.o.times_s.tolist():
            if j in self.board.starts and (j not in gone or time_s == NOW_S):
                continue
            room = [int(self.gpus[n]) // int(self.w.gpus_per_replica[j]) for n in range(len(self.gpus))]
            for counts in places(self.state, j, room):
                if self.fits([(j, time_s, counts)], gone, time_s):
                    yield j, time_s, counts

    def lawful(self, begun: list[Turn], gone: tuple[int, ...]) -> bool:
        if sum(time_s > NOW_S for _, time_s, _ in begun) > self.o.most:
            return False
        return all(self.fits(begun, gone, time_s) for _, time_s, _ in begun)

    def fits(self, begun: list[Turn], gone: tuple[int, ...], at_s: int) -> bool:
        load = [0] * len(self.gpus)
        for r in np.flatnonzero(self.board.standing).tolist():
            until_s = int(self.w.protected_until_s[r])
            if r in self.board.starts:
                until_s = 0 if r in gone else NOW_S + int(self.w.min_runtime_s[r])
            if until_s > at_s or (at_s == NOW_S and r not in gone):
                for n, k in self.board.parts(r):
                    load[n] += k * int(self.w.gpus_per_replica[r])
        for j, time_s, counts in begun:
            if time_s <= at_s < time_s + int(self.w.min_runtime_s[j]):
                for n, k in enumerate(counts):
                    load[n] += k * int(self.w.gpus_per_replica[j])
        return all(have <= most for have, most in zip(load, self.gpus, strict=True))

    def start_worth(self, j: int, time_s: int) -> float:
        price, gpus = self.board.order.price[j], self.w.gpus[j]
        left_s = max(8 * HOUR_S - (time_s - NOW_S), LEAST_LEFT_S)
        return float(price * gpus * left_s / HOUR_S) * (CERTAINTY if time_s > NOW_S else 1)

    def value(self, turn: Turn) -> float:
        j, time_s, counts = turn
        out = self.start_worth(j, time_s)
        left_h = max(8 * HOUR_S - (time_s - NOW_S), 0) / HOUR_S
        for n, k in enumerate(counts):
            if k and time_s > NOW_S:
                fit = self.slots(j, n, time_s)
                ends = [e for e, at in self._ends() if at == n and e <= time_s]
                idle_h = (time_s - max(ends, default=NOW_S)) / HOUR_S
                out -= hold_price(self.board, j) * self.gpus[n] * k / fit * idle_h
                out -= k * int(self.w.gpus_per_replica[j]) * self.rate(n, time_s) * left_h
                out -= k * int(self.w.gpus_per_replica[j]) * self.restarts(n, time_s)
        return out

    def restarts(self, n: int, time_s: int) -> float:
        held = 0.0
        for r in np.flatnonzero(self.board.standing).tolist():
            until_s = int(self.w.protected_until_s[r])
            if r in self.board.starts:
                until_s = NOW_S + int(self.w.min_runtime_s[r])
            weight = 3 if self.o.tier < self.board.order.tier[r] < UNALLOCATED else 1
            here = sum(k for at, k in self.board.parts(r) if at == n) * int(self.w.gpus_per_replica[r])
            held += weight * here * (until_s <= time_s)
        return held / self.gpus[n] * self.state.policy.restart_cost_s / HOUR_S

    def slots(self, j: int, n: int, time_s: int) -> int:
        stays = sum(
            k * int(self.w.gpus_per_replica[r])
            for r in np.flatnonzero(self.board.standing & self.w.running).tolist()
            for at, k in self.board.parts(r)
            if at == n and self.w.protected_until_s[r] > time_s
        )
        return min((self.gpus[n] - stays) // int(self.w.gpus_per_replica[j]), int(self.w.replicas[j]))

    def rate(self, n: int, time_s: int) -> float:
        here = [
            float(self.board.order.price[i]) * k * int(self.w.gpus_per_replica[i])
            for i, parts in self.board.starts.items()
            for at, k in parts
            if at == n and NOW_S + self.w.min_runtime_s[i] <= time_s
        ]
        return sum(here) / self.gpus[n]

    def _ends(self) -> Iterator[tuple[int, int]]:
        yield from zip(self.claims.ends_s.tolist(), self.claims.node.tolist(), strict=True)


hours = st.sampled_from([0.5, 1, 2, 4])


@st.composite
def worlds(draw, size: st.SearchStrategy[int]) -> Board:
    """Draw a round with some starts on the board, and gangs that wait."""
    nodes = [node(4, leaf=f"l{k // 2}") for k in range(draw(st.integers(2, 4)))]
    asks, starts = [], []
    free = [4] * len(nodes)
    for n in range(len(nodes)):
        if draw(st.booleans()):
            gpus = draw(size)
            free[n] -= gpus
            asks.append(running(gpus, [n], min_runtime_h=draw(hours) + 1, started_h_ago=1, leaf_budget="b"))
        elif draw(st.booleans()):
            free[n] = 0
            asks.append(running(4, [n], allocated=False, leaf_budget="b"))
    for n in range(len(nodes)):
        gpus = draw(size)
        if free[n] >= gpus and draw(st.booleans()):
            starts.append((len(asks), n, draw(st.sampled_from([1, 1, 2])) if free[n] >= 2 * gpus else 1))
            asks.append(
                pending(
                    gpus, starts[-1][2], min_runtime_h=draw(hours), leaf_budget=draw(st.sampled_from("ab"))
                )
            )
    for _ in range(draw(st.integers(1, 2))):
        level = draw(st.sampled_from([None, None, "leaf"]))
        ask = {"min_runtime_h": draw(hours), "leaf_budget": "a", "required": level}
        asks.append(pending(draw(size), 2, submitted_h_ago=draw(st.integers(1, 9)), **ask))
    world = state(nodes, asks, reservations=2, usage_gpu_h={"a": draw(st.sampled_from([1.0, 50.0]))})
    board = Board(world, order_of(world))
    for j, n, k in starts:
        board.start(j, [(n, k)])
    return board


def outlook_on(board: Board) -> Outlook | None:
    js = waiting(board, WITHIN)
    return outlook_of(board, WITHIN, js)


def best_by_model(outlook: Outlook, name: str) -> float:
    model, columns = book(outlook)
    if not len(columns.take):
        return model.offset
    solution = back_end(name)(model, 20.0, 1e-9)
    assert solution.status == "optimal"
    return solution.objective


@pytest.mark.parametrize("name", BACK_ENDS)
@settings(max_examples=60)
@given(worlds(size=st.just(4)))
def test_whole_nodes_are_promised_as_well_as_trying_everything_finds(name, board):
    outlook = outlook_on(board)
    if outlook is not None:
        assert best_by_model(outlook, name) == pytest.approx(Oracle(outlook).best())


@pytest.mark.parametrize("name", BACK_ENDS)
@settings(max_examples=40)
@given(worlds(size=st.sampled_from([2, 4])))
def test_parts_of_nodes_are_promised_as_well_as_trying_everything_finds(name, board):
    outlook = outlook_on(board)
    if outlook is not None:
        assert best_by_model(outlook, name) == pytest.approx(Oracle(outlook).best())


# --- the answer on the nodes ------------------------------------------------------------------------------


@settings(max_examples=60)
@given(worlds(size=st.just(4)))
def test_the_nodes_given_out_are_worth_what_the_model_says(board):
    outlook = outlook_on(board)
    if outlook is None:
        return
    model, columns = book(outlook)
    if len(columns.take):
        solution = back_end("highs")(model, 20.0, 1e-9)
        begins, yields = read(columns, solution.x)
        out = carried_out(outlook, begins, yields)
        assert worth(out)[WITHIN] >= solution.objective - 1e-6 * abs(solution.objective)


def both_kinds() -> Board:
    """A world with every family of rows: a leaf required, segments, two starts on a node, and a limit."""
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2")]
    work = [
        running(8, [0], min_runtime_h=2, started_h_ago=1, leaf_budget="b"),
        running(8, [2], min_runtime_h=3, started_h_ago=1, leaf_budget="b"),
        pending(2, min_runtime_h=4, leaf_budget="b"),
        pending(4, min_runtime_h=0.5, leaf_budget="b"),
        pending(8, 2, min_runtime_h=1, leaf_budget="a", required="leaf", priority=1),
        pending(2, 4, min_runtime_h=1, leaf_budget="a", required="leaf", segment=2),
    ]
    world = state(nodes, work, reservations=2, limits={"a": 20}, usage_gpu_h={"a": 50.0, "b": 100.0})
    board = Board(world, order_of(world))
    board.start(2, [(1, 1)])
    board.start(3, [(1, 1)])
    return board


def test_the_model_of_promises_reads_as_its_golden_file(golden):
    model, _ = book(outlook_on(both_kinds()))
    shown = {block.family for block in model.rows if len(block.labels)}
    assert shown == {
        "once", "most", "begins", "together", "section", "cleared", "goes", "room", "ceiling",
    }  # fmt: skip
    golden("promises.lp", write_lp(model))
