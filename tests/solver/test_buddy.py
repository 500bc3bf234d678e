"""The slot fact against packing by trial, and what counts as alike."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from solver.board import Board
from solver.buddy import RUNTIME_BUCKETS_S, classes_of, domains_of, is_chain, row_slots, shapes
from solver.formulation import formulate
from solver.problem import problem_of
from solver.shares import WITHIN
from solver.state import Level
from tests.solver.factories import HOUR_S, NOW_S, node, pending, running, state
from tests.solver.oracles import CHAINS, MIXED, order_of, packs, waiting


def ints(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int64)


def board_of(nodes, workloads, **more) -> Board:
    world = state(nodes, workloads, **more)
    return Board(world, order_of(world))


# --- the fact ---------------------------------------------------------------------------------------------


def rows_admit(free: list[int], pieces: list[int]) -> bool:
    """Tell whether the model of one domain of nodes with so much free lets all these pieces start."""
    held = [
        running(8 - room, [i], leaf_budget="b", min_runtime_h=8) for i, room in enumerate(free) if room < 8
    ]
    asks = [pending(size, leaf_budget="a", min_runtime_h=1) for size in pieces]
    board = board_of([node(8) for _ in free], [*held, *asks], entitled_gpu_h={"a": 10**6, "b": 10**6})
    f = formulate(problem_of(board, WITHIN, waiting(board, WITHIN)))
    classes = f.problem.classes
    wanted = {c: len(members) for c, members in enumerate(classes.members)}
    if any(f.problem.caps[c].sum() < k for c, k in wanted.items()):
        return False
    x = np.zeros(len(f.model.objective))
    x[f.columns.start] = 1
    x[f.columns.place] = [wanted[c] for c in f.columns.place_class.tolist()]
    return f.model.violation(x) == 0


frees = st.lists(st.integers(0, 8), min_size=1, max_size=4)


@settings(max_examples=120)
@given(frees, st.sampled_from(CHAINS).flatmap(lambda chain: st.lists(st.sampled_from(chain), max_size=7)))
def test_on_a_divisor_chain_the_rows_admit_exactly_what_packs(free, pieces):
    assert rows_admit(free, pieces) == packs(free, pieces)


@settings(max_examples=120)
@given(frees, st.lists(st.sampled_from(MIXED), min_size=1, max_size=6))
def test_off_the_chain_the_rows_refuse_nothing_that_packs(free, pieces):
    assert rows_admit(free, pieces) or not packs(free, pieces)


@pytest.mark.parametrize(
    ("sizes", "chain"),
    [((), True), ((3,), True), ((1, 2, 4, 8), True), ((2, 6, 12), True), ((2, 3), False), ((1, 4, 6), False)],
)
def test_a_chain_is_sizes_that_divide_each_other(sizes, chain):
    assert is_chain(ints(*sizes)) == chain


def test_on_the_chain_every_size_has_a_row():
    assert row_slots(ints(8, 2, 2, 4)) == [(2, 1), (4, 1), (8, 1)]


def test_off_the_chain_single_gpus_and_fractions_of_sizes_have_rows():
    assert row_slots(ints(5, 2, 8)) == [(1, 1), (5, 4), (5, 3), (2, 1), (5, 2), (5, 1), (8, 1)]


# --- domains ----------------------------------------------------------------------------------------------


def grouped(board: Board, *apart: int):
    return domains_of(board, np.isin(np.arange(board.state.nodes.count), apart))


def test_nodes_are_alike_that_share_place_pool_shape_and_promise():
    nodes = [
        node(8, leaf="l1"),
        node(8, leaf="l1"),
        node(8, leaf="l2"),
        node(4, leaf="l1"),
        node(8, leaf="l1", gpu_type="b200"),
        node(8, leaf="l1", cpus=96),
        node(8, leaf="l1", memory_gib=9),
        node(8, leaf="l1"),
        node(8, leaf="l1", state="draining"),
        node(8, leaf="l1", state="down"),
        node(8),
    ]
    board = board_of(nodes, [])
    board.hold_s[7] = NOW_S + HOUR_S
    of_node = grouped(board).of_node.tolist()
    assert of_node[0] == of_node[1]
    assert of_node[8] == of_node[9] == -1
    assert len(set(of_node[1:8] + of_node[10:])) == grouped(board).count == 8


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([4, 8]), st.sampled_from(["up", "up", "down"]), st.sampled_from("xyz")),
        min_size=1,
        max_size=9,
    )
)
def test_domains_part_the_healthy_nodes_and_sums_over_them_are_exact(drawn):
    board = board_of([node(g, state=s, leaf=leaf) for g, s, leaf in drawn], [], levels=["leaf"])
    domains, n = grouped(board), board.state.nodes
    amounts = ints(*(2**40 + i for i in range(n.count)))
    for d in range(domains.count):
        members = np.flatnonzero(domains.of_node == d)
        assert domains.sum(amounts)[d] == amounts[members].sum()
        assert set(n.gpus[members]) == {n.gpus[domains.node[d]]}
        assert set(n.domain[0, members]) == {domains.level[0, d]}
    assert ((domains.of_node >= 0) == (n.state == 0)).all()


def test_no_healthy_node_makes_no_domain():
    assert grouped(board_of([node(8, state="down", leaf="l1")], [])).count == 0


def test_a_node_taken_apart_is_a_domain_of_its_own():
    board = board_of([node(8)] * 4, [])
    of_node = grouped(board, 1, 2).of_node
    assert grouped(board, 1, 2).count == 3
    assert of_node[0] == of_node[3]
    assert len(set(of_node.tolist())) == 3


# --- seas -------------------------------------------------------------------------------------------------


def test_a_sea_unites_domains_that_differ_in_topology_alone():
    nodes = [node(8, leaf=leaf) for leaf in ("l1", "l1", "l2", "l3")]
    board = board_of([*nodes, node(4, leaf="l1"), node(8, leaf="l3", state="down")], [])
    apart = np.arange(6) == 1
    domains = domains_of(board, apart, np.array([True]))
    assert domains.is_domain.sum() == 5
    sea = domains.sea[domains.of_node]
    assert sea[0] == sea[2] == sea[3]
    assert len({*sea[:5].tolist()}) == domains.is_sea.sum() == 3
    assert domains.nodes(int(sea[0])).tolist() == [0, 2, 3]
    assert domains.level[0, sea[0]] == -1


def test_where_no_level_matters_domains_are_seas():
    board = board_of([node(8, leaf="l1"), node(8, leaf="l2"), node(4, leaf="l1")], [])
    domains = domains_of(board, np.zeros(3, dtype=bool), np.array([False]))
    assert domains.is_sea.all()
    assert [domains.nodes(d).tolist() for d in domains.of_node] == [[0, 1], [0, 1], [2]]


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from([4, 8]), st.sampled_from("xyz")), min_size=1, max_size=9))
def test_a_sea_holds_what_its_domains_hold(drawn):
    board = board_of([node(g, leaf=leaf) for g, leaf in drawn], [], levels=["leaf"])
    domains = domains_of(board, np.zeros(len(drawn), dtype=bool), np.array([True]))
    sums = domains.sum(2 ** np.arange(len(drawn), dtype=np.int64))
    for d in range(domains.count):
        assert sums[d] == (2 ** domains.nodes(d)).sum()
        parts = np.flatnonzero((domains.sea == d) & domains.is_domain)
        assert not domains.is_sea[d] or sums[d] == sums[parts].sum()


# --- classes ----------------------------------------------------------------------------------------------

ALIKE = {"gpus": 2, "replicas": 2, "leaf_budget": "a", "min_runtime_h": 1}

OTHERS = {
    "size": {"gpus": 4},
    "replicas": {"replicas": 3},
    "cpus": {"cpus": 2},
    "memory": {"memory_gib": 1},
    "required": {"required": "leaf"},
    "segment": {"required": "leaf", "segment": 1},
    "one node": {"required": "node"},
    "type": {"gpu_types": ("h100",)},
    "band": {"leaf_budget": "b"},
    "hold": {"min_runtime_h": 3.5},
}
ONLY_WHO = {"limit": {"leaf_budget": "c"}}
ONLY_WHERE = {"preferred": {"preferred": "leaf"}, "runtime": {"min_runtime_h": 0.2}}


def classes(board: Board, *, places: bool, victim_bands=range(9)):
    return classes_of(board, waiting(board, WITHIN), ints(*victim_bands), places=places)


@pytest.mark.parametrize("places", [False, True])
@pytest.mark.parametrize("change", [*OTHERS, *ONLY_WHO, *ONLY_WHERE])
def test_workloads_are_alike_unless_they_differ_in_what_the_model_sees(change, places):
    other = (OTHERS | ONLY_WHO | ONLY_WHERE)[change]
    board = board_of(
        [node(8, leaf="l1"), node(8, leaf="l1", gpu_type="b200")],
        [pending(**ALIKE), pending(**ALIKE | other), pending(**ALIKE, priority=1, resumable=False)],
        shares={"a": 0.4, "b": 0.3, "c": 0.3},
        ratios={"a": 0.1, "b": 0.6, "c": 0.1},
        limits={"c": 64},
        entitled_gpu_h={"a": 10**6, "b": 10**6, "c": 10**6},
    )
    board.hold_s[0] = NOW_S + 3 * HOUR_S
    members = sorted(sorted(m.tolist()) for m in classes(board, places=places).members)
    seen = change in OTHERS or change in (ONLY_WHERE if places else ONLY_WHO)
    assert members == ([[0, 2], [1]] if seen else [[0, 1, 2]])


def test_bands_between_which_no_victim_ranks_are_one():
    board = board_of(
        [node(8)],
        [pending(**ALIKE | {"leaf_budget": leaf}) for leaf in ("a", "b")],
        ratios={"a": 0.1, "b": 0.6},
        entitled_gpu_h={"a": 10**6, "b": 10**6},
    )
    assert board.order.band[:2].tolist() == [0, 2]
    assert [classes(board, places=False, victim_bands=[b]).count for b in range(4)] == [1, 2, 2, 1]


def test_classes_alike_but_for_the_band_share_a_shape():
    board = board_of(
        [node(8)],
        [pending(**ALIKE), pending(**ALIKE | {"leaf_budget": "b"}), pending(**ALIKE | {"gpus": 1})],
        ratios={"a": 0.1, "b": 0.6},
        entitled_gpu_h={"a": 10**6, "b": 10**6},
    )
    found = classes(board, places=False)
    shape = {int(m[0]): s for m, s in zip(found.members, found.shape.tolist(), strict=True)}
    assert len(shape) == 3
    assert shape[0] == shape[1] != shape[2]


def test_members_stand_in_the_order_and_the_first_of_all_leads_the_first_class():
    asks = [pending(**ALIKE, submitted_h_ago=h) for h in (1, 7, 3)] + [pending(4, min_runtime_h=1)]
    board = board_of([node(8)], asks)
    found = classes(board, places=False)
    assert found.members[0].tolist() == [1, 2, 0]
    assert found.leader[0] == waiting(board, WITHIN)[0]


def test_protections_of_one_class_end_in_the_same_bucket_where_places_are_chosen():
    hours = (0.1, 0.2, 0.5, 0.9, 1.5, 3, 5)
    asks = [pending(2, min_runtime_h=h) for h in hours]
    board = board_of([node(8)], asks, entitled_gpu_h={"a": 10**6, "b": 1})
    for members in classes(board, places=True).members:
        seconds = board.state.workloads.min_runtime_s[members]
        for a, b in itertools.pairwise(sorted(seconds)):
            assert not any(a <= edge < b for edge in RUNTIME_BUCKETS_S)


@pytest.mark.parametrize(
    ("required", "segment", "expected"),
    [
        (None, 0, (2, 6, 6, Level.NONE)),
        (None, 3, (2, 6, 6, Level.NONE)),
        ("leaf", 0, (2, 6, 6, 0)),
        ("leaf", 3, (2, 6, 3, 0)),
        ("node", 0, (12, 1, 1, Level.NONE)),
        ("node", 2, (4, 3, 3, Level.NONE)),
    ],
)
def test_what_needs_a_single_node_is_one_piece(required, segment, expected):
    board = board_of([node(16, leaf="l1")], [pending(2, 6, required=required, segment=segment, cpus=1)])
    size, pieces, cpus, _, seg, level = shapes(board.state, ints(0))
    assert (size[0], pieces[0], seg[0], level[0]) == expected
    assert cpus[0] * pieces[0] == 6000
