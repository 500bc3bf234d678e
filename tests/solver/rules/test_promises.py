"""Each rule of promises, broken alone on an otherwise good plan."""

import pytest

from solver.check import check
from tests.solver.factories import decisions, node, pending, promise, running, state, stopping


def broken(world, plan, explained=frozenset()):
    return sorted({b.rule for b in check(world, plan, explained)})


def promised(nodes, workloads, promises, **more):
    """Return the codes of the rules that promising these starts breaks."""
    world = state(nodes, workloads)
    return broken(world, decisions(world, promised=promises, **more))


GANG = pending(replicas=2, min_runtime_h=2)


def test_a_promise_is_a_whole_and_legal_placement():
    nodes = [node(), node(), node(cluster="c2"), node(state="draining")]
    assert promised(nodes, [GANG], {0: (1, [0, 1])}) == []
    assert promised(nodes, [GANG], {0: (1, [0])}) == ["gang"]
    assert promised(nodes, [GANG], {0: (1, [1, 2])}) == ["pool"]
    assert promised(nodes, [GANG], {0: (1, [0, 3])}) == ["health"]
    assert promised(nodes, [pending(required="unknown")], {0: (1, [0])}) == ["topology"]


def test_what_starts_or_runs_is_promised_nothing():
    nodes = [node(), node()]
    assert promised(nodes, [pending()], {0: (1, [1])}, start={0: [0]}) == ["promise"]
    assert promised(nodes, [running(at=[0])], {0: (1, [1])}) == ["promise"]
    assert promised(nodes, [pending(gpus=9)], {}, reject=[0]) == []


def test_what_is_stopping_or_loses_its_node_is_promised_its_return():
    assert promised([node()], [stopping(at=[0])], {0: (1, [0])}) == []
    nodes = [node(state="down"), node()]
    assert promised(nodes, [running(at=[0], min_runtime_h=4)], {0: (0, [1])}, preempt={0: []}) == []


def test_what_loses_its_node_protects_none_of_its_places():
    nodes = [node(), node(state="down")]
    work = [running(at=[0, 1], min_runtime_h=4), pending()]
    assert promised(nodes, work, {1: (1, [0])}, preempt={0: []}) == []


def test_no_start_is_promised_for_the_past():
    assert promised([node()], [pending()], {0: (0, [0])}) == []
    assert promised([node()], [pending()], {0: (-1 / 3600, [0])}) == ["promise"]
    world = state([node()], [pending()])
    (found,) = check(world, decisions(world, promised={0: (-1, [0])}))
    assert (found.workload, found.detail) == (0, "promised a start 3600 s ago")


def test_a_promise_waits_for_protection_to_end_and_not_for_the_rest():
    gone_in_3h = running(at=[0], min_runtime_h=4, started_h_ago=1)
    assert promised([node()], [gone_in_3h, pending()], {1: (3, [0])}) == []
    assert promised([node()], [gone_in_3h, pending()], {1: (2.999, [0])}) == ["promise"]
    assert promised([node()], [running(at=[0]), pending()], {1: (0.5, [0])}) == []


def test_a_promise_waits_for_the_min_runtime_of_what_starts_now():
    work = [pending(min_runtime_h=2), pending()]
    assert promised([node()], work, {1: (2, [0])}, start={0: [0]}) == []
    assert promised([node()], work, {1: (1.999, [0])}, start={0: [0]}) == ["promise"]


def test_promises_do_not_overlap():
    work = [pending(min_runtime_h=2), pending(gpus=1, min_runtime_h=1)]
    assert promised([node()], work, {0: (1, [0]), 1: (3, [0])}) == []
    assert promised([node()], work, {0: (1, [0]), 1: (2.999, [0])}) == ["promise"]
    assert promised([node(), node()], work, {0: (1, [0]), 1: (2, [1])}) == []


def test_two_unprotected_promises_for_the_same_second_do_not_overlap():
    assert promised([node()], [pending(), pending()], {0: (1, [0]), 1: (1, [0])}) == ["promise"]


@pytest.mark.parametrize("ask", [{"cpus": 4}, {"memory_gib": 4}])
def test_promises_share_the_cpus_and_memory_of_a_node(ask):
    work = [pending(gpus=1, min_runtime_h=2, **ask), pending(gpus=1, **ask)]
    have = {key: 2 * amount for key, amount in ask.items()}
    less = {key: amount - 0.001 for key, amount in have.items()}
    assert promised([node(**have)], work, {0: (1, [0]), 1: (2, [0])}) == []
    assert promised([node(**less)], work, {0: (1, [0]), 1: (2, [0])}) == ["promise"]


def test_a_broken_promise_names_the_node_and_the_numbers():
    world = state([node(), node()], [running(gpus=1, at=[1], min_runtime_h=9), pending()])
    (found,) = check(world, decisions(world, promised={1: (1, [1])}))
    start_s = world.now_s + 3600
    assert (found.node, found.detail) == (1, f"9 of 8 GPUs protected or promised at {{t{start_s}}}")


def under_a_limit(*work, limit=16, promises=(), **plan):
    """Return the codes that a plan breaks on four nodes under a limit of everything."""
    world = state([node()] * 4, work, limits={"": limit}, promises=promises)
    return broken(world, decisions(world, **plan))


def test_promises_keep_a_limit_with_what_is_kept_started_and_promised_besides():
    kept = running(at=[0], min_runtime_h=1, started_h_ago=3)
    assert under_a_limit(kept, pending(), promised={1: (9, [1])}) == []
    assert under_a_limit(kept, pending(), promised={1: (9, [1])}, limit=15) == ["promise"]
    assert under_a_limit(pending(), pending(), start={0: [0]}, promised={1: (9, [1])}, limit=15) == [
        "promise"
    ]
    assert under_a_limit(pending(), pending(), promised={0: (2, [0]), 1: (9, [1])}, limit=15) == ["promise"]


def test_what_was_promised_or_ran_before_a_limit_was_lowered_may_start_all_the_same():
    old = [promise(0, 2, [0]), promise(1, 9, [1])]
    kept = {0: (2, [0]), 1: (9, [1])}
    assert under_a_limit(pending(), pending(), promises=old, promised=kept, limit=15) == []
    assert under_a_limit(pending(), pending(), promises=old[:1], promised=kept, limit=15) == ["promise"]
    leaving = [stopping(at=[0]), running(at=[1], min_runtime_h=1, started_h_ago=3)]
    assert under_a_limit(*leaving, promised={0: (1, [2])}, limit=15) == []


def test_a_promise_beyond_a_limit_names_the_budget_and_the_numbers():
    world = state([node()] * 2, [pending(), pending()], limits={"a": 15})
    (found,) = check(world, decisions(world, start={0: [0]}, promised={1: (1, [1])}))
    assert found.detail == "{b1} would hold 16 GPUs with the 8 that are promised, limit 15"


@pytest.mark.parametrize("work", [pending(), stopping(gpus=1, at=[1])])
def test_an_old_promise_is_kept_or_brought_forward(work):
    world = state([node(), node()], [work], promises=[promise(0, 2, [0])])
    for in_h, expected in [(2, []), (1, []), (2.001, ["promise_moved"])]:
        assert broken(world, decisions(world, promised={0: (in_h, [0])})) == expected
    assert broken(world, decisions(world)) == ["promise_moved"]


def test_an_old_promise_may_fall_or_move_for_a_stated_reason():
    world = state([node()], [pending(), pending(gpus=1)], promises=[promise(0, 2, [0]), promise(1, 2, [0])])
    assert [b.workload for b in check(world, decisions(world), explained={1})] == [0]
    assert broken(world, decisions(world), explained={0, 1}) == []


def test_an_old_promise_is_kept_by_a_start_or_settled_by_a_rejection():
    world = state([node()], [pending()], promises=[promise(0, 2, [0])])
    assert broken(world, decisions(world, start={0: [0]})) == []
    gone = state([node(4)], [pending()], promises=[promise(0, 2, [0])])
    assert broken(gone, decisions(gone, reject=[0])) == []


def test_what_runs_already_has_had_what_it_was_promised():
    world = state([node()], [running(at=[0])], promises=[promise(0, 2, [0])])
    assert broken(world, decisions(world)) == []
