"""Each rule of preemption, broken alone on an otherwise good plan."""

import pytest

from solver.check import check
from tests.solver.factories import decisions, node, pending, promise, running, state


def broken(world, plan):
    return sorted({b.rule for b in check(world, plan)})


FUNDED = {"ratios": {"a": 0.5, "b": 1.5}}
"""Budget a, which is where workloads are charged unless they say, is below its share, and b beyond."""


ONE_NODE = (node(),)


def evict(victim, gainer, nodes=ONE_NODE, at=(0,), **more):
    """Return the codes of the rules broken when workload 0, `victim`, makes room for 1, `gainer`."""
    world = state(list(nodes), [victim, gainer], **(FUNDED | more))
    return broken(world, decisions(world, start={1: list(at)}, preempt={0: [1]}))


def test_nobody_is_preempted_inside_its_min_runtime():
    gainer = pending(min_runtime_h=1)
    assert evict(running(min_runtime_h=1, started_h_ago=1, leaf_budget="b"), gainer) == []
    assert evict(running(min_runtime_h=1.01, started_h_ago=1, leaf_budget="b"), gainer) == ["protected"]


def test_a_broken_protection_says_how_much_is_left():
    world = state([node()], [running(min_runtime_h=1.01, started_h_ago=1), pending(min_runtime_h=1)])
    (found,) = check(world, decisions(world, start={1: [0]}, preempt={0: [1]}))
    assert (found.workload, found.detail) == (0, "preempted 36 s before its min runtime ends")


def test_a_down_node_ends_protection_and_a_draining_one_does_not():
    for health, expected in [("down", []), ("draining", ["protected"])]:
        world = state([node(), node(state=health)], [running(at=[0, 1], min_runtime_h=4)])
        assert broken(world, decisions(world, preempt={0: []})) == expected


def test_a_victim_on_a_sick_node_needs_nobody_to_make_room_for():
    for health in ("down", "draining"):
        world = state([node(), node(state=health)], [running(at=[0, 1])])
        assert broken(world, decisions(world, preempt={0: []})) == []


def test_a_victim_makes_room_for_someone():
    world = state([node()], [running(at=[0]), pending(min_runtime_h=1)])
    assert broken(world, decisions(world, start={1: [0]}, preempt={0: []})) == ["victim"]


def test_a_victim_makes_room_for_someone_who_starts():
    work = [running(at=[0]), pending(min_runtime_h=1), pending(min_runtime_h=1)]
    world = state([node()], work)
    assert broken(world, decisions(world, start={1: [0]}, preempt={0: [1]})) == []
    assert broken(world, decisions(world, start={1: [0]}, preempt={0: [1, 2]})) == ["victim"]


@pytest.mark.parametrize(("in_s", "expected"), [(60, []), (61, ["victim"])])
def test_a_victim_makes_room_for_a_promise_only_when_it_falls_due(in_s, expected):
    world = state([node()], [running(at=[0]), pending(min_runtime_h=1)], due_s=60)
    plan = decisions(world, preempt={0: [1]}, promised={1: (in_s / 3600, [0])})
    assert broken(world, plan) == expected


def test_a_victim_makes_room_only_on_its_own_nodes():
    nodes = [node(), node()]
    work = [running(at=[0]), pending(min_runtime_h=1), pending(min_runtime_h=1)]
    world = state(nodes, work)
    assert broken(world, decisions(world, start={1: [0], 2: [1]}, preempt={0: [1]})) == []
    assert broken(world, decisions(world, start={1: [0], 2: [1]}, preempt={0: [1, 2]})) == ["victim"]


def test_a_victim_may_make_room_under_a_limit_that_both_stand_under():
    elsewhere = {
        "nodes": [node(), node()],
        "at": [1],
        "shares": {"t/a": 0.3, "t/b": 0.3, "c": 0.4},
        "ratios": {},
    }
    work = running(at=[0], leaf_budget="t/a"), pending(min_runtime_h=1, leaf_budget="t/b")
    assert evict(*work, **elsewhere, limits={"t": 8}) == []
    assert evict(*work, **elsewhere, limits={"t": 16}) == ["needless", "victim"]
    assert evict(*work, **elsewhere, limits={"t/a": 7}) == ["victim"]


def test_only_who_is_preempted_makes_room():
    world = state(2 * [node()], [running(at=[0]), pending(min_runtime_h=1)])
    plan = decisions(world, start={1: [1]})
    plan.victims_for[0] = [1]
    assert broken(world, plan) == ["victim"]


def test_unallocated_work_preempts_nobody():
    assert evict(running(), pending(min_runtime_h=1)) == []
    assert evict(running(), pending()) == ["unallocated"]


def idle(**more):
    """Write a run that is allocated and past its min runtime."""
    return running(at=[0], min_runtime_h=1, started_h_ago=2, **more)


def test_work_within_its_share_does_not_yield_to_work_beyond_its_own():
    newcomer = pending(min_runtime_h=1, leaf_budget="b")
    assert evict(idle(), newcomer) == ["share"]
    assert evict(idle(), newcomer, ratios={"a": 0.5, "b": 1.0}) == []
    assert evict(idle(), newcomer, ratios={"a": 1.1, "b": 1.2}) == []
    assert evict(running(at=[0]), newcomer) == []  # unallocated: anybody's


def test_running_work_counts_for_its_commitment_and_charge_against_the_victim():
    newcomer = pending(min_runtime_h=1, leaf_budget="b")
    budget = {"entitled_gpu_h": {"a": 100, "b": 100}, "usage_gpu_h": {"a": 84, "b": 101}}
    assert evict(idle(), newcomer, **budget, ratios={}, commitment_s=2 * 3600) == ["share"]
    assert evict(idle(), newcomer, **budget, ratios={}, commitment_s=2 * 3600 + 1) == []
    assert evict(idle(), newcomer, **budget, ratios={}, charges={"h100": 2.01}) == []
    beside = [idle(), newcomer, running(at=[1])]  # unallocated work is free of charge
    world = state(2 * [node()], beside, **budget, commitment_s=2 * 3600)
    assert broken(world, decisions(world, start={1: [0]}, preempt={0: [1]})) == ["share"]


def test_the_debug_lane_excuses_no_more_gpus_than_it_has():
    newcomer = pending(min_runtime_h=0.1, leaf_budget="b", debug=True)
    assert evict(idle(), newcomer, lane_gpus=8) == []
    assert evict(idle(), newcomer, lane_gpus=7) == ["share"]
    two = [idle(), running(at=[1], min_runtime_h=1), newcomer, newcomer]
    world = state(2 * [node()], two, **FUNDED, lane_gpus=15)
    plan = decisions(world, start={2: [0], 3: [1]}, preempt={0: [2], 1: [3]})
    assert [(b.rule, b.workload) for b in check(world, plan)] == [("share", 0), ("share", 1)]


def test_an_old_promise_excuses_rule_seven():
    newcomer = pending(min_runtime_h=1, leaf_budget="b")
    assert evict(idle(), newcomer, promises=[promise(1, 0, [0])]) == []


def test_a_victim_whose_place_stays_free_is_needless():
    gainer = pending(gpus=4, min_runtime_h=1)
    assert evict(running(gpus=5), gainer) == []
    assert evict(running(gpus=4), gainer) == ["needless"]


def test_cpus_and_memory_make_a_victim_needed():
    gainer = pending(gpus=4, min_runtime_h=1, cpus=4, memory_gib=4)
    victim = running(gpus=4, cpus=4, memory_gib=4)
    assert evict(victim, gainer, [node(cpus=8, memory_gib=8)]) == ["needless"]
    assert evict(victim, gainer, [node(cpus=7, memory_gib=8)]) == []
    assert evict(victim, gainer, [node(cpus=8, memory_gib=7)]) == []


def test_a_victim_that_is_needed_on_one_of_its_nodes_is_needed():
    victim, gainer = running(gpus=4, at=[0, 1]), pending(gpus=8, min_runtime_h=1)
    assert evict(victim, gainer, [node(), node()], at=[1]) == []


def test_a_victim_is_needless_where_its_only_gainer_fits_on_free_nodes():
    victim, gainer = running(gpus=8, at=[0]), pending(gpus=4, replicas=2, min_runtime_h=1)
    free = node(8)
    assert evict(victim, gainer, [node(), free], at=[0, 0]) == ["needless"]
    assert evict(victim, gainer, [node(), node(4)], at=[0, 1]) == []
    assert evict(victim, gainer, [node(), node(4), node(4)], at=[0, 1]) == ["needless"]
    assert evict(victim, gainer, [node(), node(4), node(3)], at=[0, 1]) == []


@pytest.mark.parametrize(
    "free", [node(gpu_type="b200"), node(cluster="c2"), node(state="draining"), node(cpus=1)]
)
def test_free_nodes_that_the_gainer_cannot_use_leave_its_victim_needed(free):
    assert evict(running(), pending(min_runtime_h=1, cpus=2), [node(), free]) == []


def test_a_gainer_that_requires_a_level_keeps_its_place():
    nodes = [node(leaf="l1"), node(leaf="l1")]
    assert evict(running(), pending(min_runtime_h=1, required="leaf"), nodes) == []


def test_the_victim_must_fit_beside_what_its_gainer_leaves_behind():
    work = [running(at=[0]), pending(min_runtime_h=1, gpus=4), pending(min_runtime_h=1, gpus=4)]
    world = state([node(), node(4)], work)
    plan = decisions(world, start={1: [0], 2: [0]}, preempt={0: [1]})
    assert broken(world, plan) == []


def test_nodes_promised_to_others_are_not_free_for_a_gainer():
    work = [running(), pending(min_runtime_h=1), pending(min_runtime_h=1)]
    world = state([node(), node()], work)
    plan = {"start": {1: [0]}, "preempt": {0: [1]}}
    assert broken(world, decisions(world, **plan)) == ["needless"]
    assert broken(world, decisions(world, **plan, promised={2: (1, [1])})) == []


def test_a_victim_that_makes_room_under_its_limit_is_needed():
    work = running(gpus=4, at=[0]), pending(gpus=4, min_runtime_h=1)
    assert evict(*work, limits={"a": 8}) == ["needless"]
    assert evict(*work, limits={"a": 7}) == []
    assert evict(work[0], pending(gpus=4, min_runtime_h=1, leaf_budget="b"), limits={"a": 0}) == []


def test_a_round_preempts_no_more_gpus_than_the_brake_allows():
    work = running(), pending(min_runtime_h=1)
    assert evict(*work, max_preempted_gpus=8) == []
    assert evict(*work, max_preempted_gpus=7) == ["brake"]
    assert evict(*work, max_preempted_gpus=0) == ["brake"]
    assert evict(*work, max_preempted_gpus=-1) == []


def test_what_a_sick_node_evicts_does_not_count_for_the_brake():
    world = state([node(state="down")], [running()], max_preempted_gpus=0)
    assert broken(world, decisions(world, preempt={0: []})) == []
