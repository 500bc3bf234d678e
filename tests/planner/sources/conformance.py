"""The laws of a source (`planner.sources.base`), to be kept by every source that there is.

A test module of a source derives a class from `Conformance` and gives it a fixture `bed`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import pytest

from planner.model.workload import Placement, Workload
from planner.sources.base import Source, Start, World


class Bed(Protocol):
    """A system with at least four free nodes of 8 GPUs, and what people and machines do to it."""

    source: Source

    def submit(self, nodes: int = 1, gpus: int = 8) -> str:
        """Submit a gang that runs until it is finished."""
        ...

    def finish(self, workload: str) -> None:
        """Let a run end by itself."""
        ...

    def loosen(self, workload: str) -> None:
        """Let the system start a waiting workload by itself, once there is a node for it."""
        ...

    def fill(self) -> None:
        """Let all nodes be taken by somebody else."""
        ...

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        ...


def of(world: World, name: str) -> Workload | None:
    """Return a workload of a world."""
    return next((w for w in world.workloads if w.id == name), None)


class Conformance:
    """The laws, one test each."""

    def running(self, bed: Bed, nodes: int = 1) -> Workload:
        """Start a gang on the last nodes, and return it as it runs."""
        name = bed.submit(nodes)
        told = self.start(bed, name)
        w = of(bed.source.observe(), name)
        assert w is not None
        assert w.started_s == told[name]
        return w

    def start(self, bed: Bed, name: str) -> dict[str, int]:
        """Start a waiting gang on the last nodes of the inventory."""
        return dict(bed.source.start([self.order(bed, name)]).at_s)

    def order(self, bed: Bed, name: str) -> Start:
        """Return the order to start a waiting gang on the last nodes."""
        world = bed.source.observe()
        w = of(world, name)
        assert w is not None
        names = [n.name for c in world.clusters for n in c.nodes][-w.replicas :]
        return Start(w, tuple(Placement(n, w.gpus_per_replica) for n in names))

    def test_looking_changes_nothing(self, bed: Bed) -> None:
        self.running(bed)
        bed.submit(2)
        first, second = bed.source.observe(), bed.source.observe()
        assert replace(first, time_s=0) == replace(second, time_s=0)

    def test_what_is_submitted_waits_whole(self, bed: Bed) -> None:
        name = bed.submit(2, 4)
        w = of(bed.source.observe(), name)
        assert w is not None
        assert (w.state, w.replicas, w.gpus_per_replica, w.placement) == ("pending", 2, 4, ())

    def test_a_gang_runs_exactly_where_it_was_told_to(self, bed: Bed) -> None:
        name = bed.submit(2)
        order = self.order(bed, name)
        told = bed.source.start([order])
        assert told.failed == {}
        w = of(bed.source.observe(), name)
        assert w is not None
        assert (w.state, w.started_s) == ("running", told.at_s[name])
        assert sorted(w.placement, key=str) == sorted(order.placement, key=str)

    def test_starting_again_changes_nothing(self, bed: Bed) -> None:
        name = bed.submit()
        order = self.order(bed, name)
        bed.source.start([order])
        before = of(bed.source.observe(), name)
        assert bed.source.start([order]).at_s.get(name) in (None, before.started_s if before else None)
        assert of(bed.source.observe(), name) == before

    def test_a_start_on_taken_nodes_fails_and_keeps_no_node(self, bed: Bed) -> None:
        there = self.running(bed)
        name = bed.submit()
        order = self.order(bed, name)
        assert order.placement == there.placement
        told = bed.source.start([order])
        assert set(told.failed) == {name}
        world = bed.source.observe()
        assert name not in world.loose
        w = of(world, name)
        assert w is not None
        assert w.state == "pending"
        bed.finish(there.id)
        bed.wait(3)
        other = bed.submit()
        assert self.start(bed, other).keys() == {other}

    def test_a_victim_waits_again_under_its_name_and_held(self, bed: Bed) -> None:
        w = self.running(bed, 2)
        bed.wait(1)
        assert bed.source.preempt([w]).keys() == {w.id}
        bed.wait(5)
        world = bed.source.observe()
        back = of(world, w.id)
        assert back is not None
        assert (back.state, back.replicas, back.gpus_per_replica) == ("pending", 2, 8)
        assert w.id not in world.loose

    def test_a_victim_can_start_again(self, bed: Bed) -> None:
        w = self.running(bed)
        bed.wait(1)
        bed.source.preempt([w])
        bed.wait(5)
        again = self.start(bed, w.id)
        assert again[w.id] > (w.started_s or 0)

    def test_preempting_again_changes_nothing(self, bed: Bed) -> None:
        w = self.running(bed)
        bed.wait(1)
        bed.source.preempt([w])
        bed.wait(5)
        assert self.start(bed, w.id)
        before = of(bed.source.observe(), w.id)
        assert bed.source.preempt([w]) == {}
        assert of(bed.source.observe(), w.id) == before

    def test_what_has_ended_stays_ended(self, bed: Bed) -> None:
        w = self.running(bed)
        bed.finish(w.id)
        bed.wait(3)
        assert bed.source.preempt([w]) == {}
        bed.wait(3)
        assert of(bed.source.observe(), w.id) is None

    def test_the_end_of_a_run_is_told_to_the_second(self, bed: Bed) -> None:
        w = self.running(bed, 2)
        bed.wait(4)
        now_s = bed.source.observe().time_s
        bed.finish(w.id)
        bed.wait(2)
        world = bed.source.observe()
        runs = {(r.workload.id, r.started_s): r for r in (*world.ended, *bed.source.ended_since(now_s - 600))}
        run = runs[w.id, w.started_s or 0]
        assert abs(run.ended_s - now_s) <= 1
        assert sum(gpus for _, _, gpus in run.gpus) == 16

    def test_what_is_loose_is_told_and_can_be_held(self, bed: Bed) -> None:
        bed.fill()
        name = bed.submit()
        bed.loosen(name)
        assert name in bed.source.observe().loose
        for _ in range(2):
            bed.source.hold([name])
            assert name not in bed.source.observe().loose

    @pytest.mark.parametrize("times", [1, 2])
    def test_a_drained_node_keeps_what_it_runs_and_comes_back(self, bed: Bed, times: int) -> None:
        w = self.running(bed)
        node = w.placement[0].node
        for _ in range(times):
            bed.source.drain({node: "fan 3 is dead"})
        world = bed.source.observe()
        states = {n.name: n.state for c in world.clusters for n in c.nodes}
        assert states[node] == "draining"
        assert world.nodes[node].ours
        assert "fan 3 is dead" in world.nodes[node].reason
        assert of(world, w.id) == w
        bed.source.resume([node])
        world = bed.source.observe()
        assert {n.state for c in world.clusters for n in c.nodes} == {"up"}
        assert not world.nodes[node].ours
