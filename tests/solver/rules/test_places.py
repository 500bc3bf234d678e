"""Each rule of place, broken alone on an otherwise good plan."""

from dataclasses import replace

import pytest

from solver.check import check
from solver.state import Spread
from tests.solver.factories import decisions, node, pending, running, state, stopping


def broken(world, plan):
    return sorted({b.rule for b in check(world, plan)})


def starts(nodes, workloads, start, **more):
    """Return the codes of the rules that these starts break."""
    world = state(nodes, workloads, **more)
    return broken(world, decisions(world, start=start))


@pytest.mark.parametrize("there", [running(gpus=4, at=[0]), stopping(gpus=4, at=[0]), pending(gpus=4)])
def test_kept_stopping_and_starting_work_share_the_gpus_of_a_node(there):
    both = {0: [0], 1: [0]} if there.at == () else {0: [0]}
    assert starts([node(8)], [pending(gpus=4), there], both) == []
    assert starts([node(7)], [pending(gpus=4), there], both) == ["capacity"]


@pytest.mark.parametrize("ask", [{"cpus": 4.0}, {"memory_gib": 4.0}])
def test_kept_and_starting_work_share_the_cpus_and_memory_of_a_node(ask):
    work = [pending(gpus=1, replicas=2, **ask), running(gpus=1, at=[0], **ask)]
    have = {key: 3 * amount for key, amount in ask.items()}
    less = {key: amount - 0.001 for key, amount in have.items()}
    assert starts([node(**have)], work, {0: [0, 0]}) == []
    assert starts([node(**less)], work, {0: [0, 0]}) == ["capacity"]


def test_a_broken_capacity_names_the_node_and_the_numbers():
    world = state([node(), node()], [pending(), running(gpus=1, at=[1])])
    (found,) = check(world, decisions(world, start={0: [1]}))
    assert (found.workload, found.node, found.detail) == (-1, 1, "9 of 8 GPUs")


def test_a_gang_that_misses_a_replica_is_not_whole():
    assert starts(2 * [node()], [pending(replicas=2)], {0: [0, 1]}) == []
    assert starts(2 * [node()], [pending(replicas=2)], {0: [0]}) == ["gang"]
    assert starts(3 * [node()], [pending(replicas=2)], {0: [0, 1, 2]}) == ["gang"]


def test_a_gang_without_gpus_is_counted_in_replicas():
    assert starts([node()], [pending(gpus=0, replicas=2)], {0: [0, 0]}) == []
    assert starts([node()], [pending(gpus=0, replicas=2)], {0: [0]}) == ["gang"]


@pytest.mark.parametrize("parts", [[(0, 3, 1), (1, 5, 1)], [(0, 4, 2)], [(0, 8, 2), (1, 0, 0)]])
def test_a_part_is_a_whole_number_of_replicas(parts):
    world = state(2 * [node()], [pending(gpus=4, replicas=2)])
    plan = replace(decisions(world, start={0: [0, 1]}), placement=Spread.of([parts]))
    assert broken(world, plan) == ["gang"]


def test_a_gang_mixes_neither_clusters_nor_gpu_types():
    nodes = [node(cluster="c1"), node(cluster="c1", gpu_type="b200"), node(cluster="c2"), node(cluster="c2")]
    assert starts(nodes, [pending(replicas=2)], {0: [2, 3]}) == []
    assert starts(nodes, [pending(replicas=2)], {0: [0, 1]}) == ["pool"]
    assert starts(nodes, [pending(replicas=2)], {0: [0, 2]}) == ["pool"]
    world = state(nodes, [pending(), pending(replicas=3)])
    (found,) = check(world, decisions(world, start={0: [3], 1: [0, 2, 0]}))[1:]
    assert (found.workload, found.detail) == (1, "spans pools {p0}, {p2}")


def test_a_gang_stands_only_on_types_and_clusters_that_it_accepts():
    nodes = [node(cluster="c1"), node(cluster="c2", gpu_type="b200")]
    assert starts(nodes, [pending(gpu_types=("h100",))], {0: [0]}) == []
    assert starts(nodes, [pending(gpu_types=("h100",))], {0: [1]}) == ["pool"]
    assert starts(nodes, [pending(clusters=("c1",))], {0: [1]}) == ["pool"]


LEAVES = [*2 * [node(block="b1", leaf="l1")], node(block="b1", leaf="l2"), node(block="b1")]


@pytest.mark.parametrize(
    ("required", "good", "bad"),
    [("leaf", [0, 1], [1, 2]), ("leaf", [0, 1], [0, 3]), ("block", [1, 3], None), ("node", [0, 0], [0, 1])],
)
def test_a_gang_stands_in_one_domain_of_the_level_it_requires(required, good, bad):
    work = [pending(gpus=4, replicas=2, required=required)]
    assert starts(LEAVES, work, {0: good}) == []
    if bad:
        assert starts(LEAVES, work, {0: bad}) == ["topology"]


def test_nodes_without_the_required_level_or_an_unknown_level_hold_nothing():
    assert starts(LEAVES, [pending(required="leaf")], {0: [3]}) == ["topology"]
    assert starts(LEAVES, [pending(required="unknown")], {0: [0]}) == ["topology"]


def test_leaves_of_the_same_name_in_two_blocks_are_two_domains():
    nodes = [node(block="b1", leaf="l1"), node(block="b2", leaf="l1")]
    assert starts(nodes, [pending(replicas=2, required="leaf")], {0: [0, 1]}) == ["topology"]


def test_each_segment_stands_in_one_domain_and_segments_may_part():
    nodes = [*3 * [node(leaf="l1")], *3 * [node(leaf="l2")]]
    work = [pending(replicas=4, required="leaf", segment=2)]
    assert starts(nodes, work, {0: [0, 1, 3, 4]}) == []
    assert starts(nodes, work, {0: [0, 1, 2, 3]}) == ["topology"]
    assert starts(nodes, [pending(replicas=3, required="leaf", segment=2)], {0: [0, 1, 2]}) == ["topology"]


def test_segments_of_two_gangs_are_counted_apart():
    nodes = 4 * [node(leaf="l1")]
    work = [pending(replicas=2, required="leaf", segment=2), pending(replicas=2, required="leaf", segment=2)]
    assert starts(nodes, work, {0: [0, 1], 1: [2, 3]}) == []


def test_nothing_starts_on_a_node_that_is_not_up():
    assert starts([node(state="draining")], [pending()], {0: [0]}) == ["health"]
    assert starts([node(state="down")], [pending()], {0: [0]}) == ["health"]


@pytest.mark.parametrize(
    ("node_state", "protected", "may_stay"),
    [("draining", True, True), ("draining", False, False), ("down", True, False), ("down", False, False)],
)
def test_a_sick_node_keeps_only_what_is_protected_and_not_down(node_state, protected, may_stay):
    work = running(at=[0, 1], min_runtime_h=4 if protected else 0)
    world = state([node(), node(state=node_state)], [work])
    kept, preempted = broken(world, decisions(world)), broken(world, decisions(world, preempt={0: []}))
    assert (kept, preempted) == (([], ["protected"]) if may_stay else (["health"], []))


def test_a_stopping_gang_may_stand_on_a_sick_node_until_it_is_gone():
    world = state([node(state="down")], [stopping(at=[0])])
    assert broken(world, decisions(world)) == []


def test_a_limit_counts_allocated_and_unallocated_stopping_and_starting_work_of_its_subtree():
    work = [
        running(gpus=1, at=[0], leaf_budget="t/a"),
        stopping(gpus=1, at=[0], leaf_budget="t/b", min_runtime_h=1),
        pending(gpus=1, leaf_budget="t/b", min_runtime_h=1),
        pending(gpus=1, leaf_budget="t/a"),
        pending(gpus=1, leaf_budget="c"),
    ]
    shares = {"t/a": 0.3, "t/b": 0.3, "c": 0.4}
    start = {2: [0], 3: [0], 4: [0]}
    assert starts([node()], work, start, shares=shares, limits={"t": 4}) == []
    assert starts([node()], work, start, shares=shares, limits={"t": 3}) == ["limit"]
    assert starts([node()], work, start, shares=shares, limits={"": 4}) == ["limit"]


def test_a_lowered_limit_evicts_nobody_and_starts_nothing():
    work = [running(at=[0]), running(at=[1]), pending(gpus=1, min_runtime_h=1)]
    world = state(3 * [node()], work, limits={"a": 12})
    assert broken(world, decisions(world)) == []
    assert broken(world, decisions(world, start={2: [2]})) == ["limit"]
    evicts = decisions(world, start={2: [0]}, preempt={0: [2]})  # 9 GPUs after, but 16 before
    assert broken(world, evicts) == ["limit"]
