"""A source without any system behind it: the smallest thing that keeps to the interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from planner.model.cluster import Cluster, Node
from planner.model.workload import Workload
from planner.sources.base import NodeFacts, Run, Start, Started, World

EPOCH_S = 1_796_000_000


class Paper:
    """Four nodes on paper."""

    name = "paper"

    def __init__(self) -> None:
        self.now_s = EPOCH_S
        self.workloads: dict[str, Workload] = {}
        self.held: dict[str, bool] = {}
        self.drained: dict[str, str] = {}
        self.ended: list[Run] = []

    def observe(self) -> World:
        nodes = [self._node(f"n{i}") for i in range(4)]
        busy = {p.node for w in self.workloads.values() for p in w.placement}
        facts = {
            n.name: NodeFacts(self.drained.get(n.name, ""), n.name in self.drained, n.name in busy)
            for n in nodes
        }
        loose = tuple(name for name, held in self.held.items() if not held)
        everything = tuple(self.workloads.values())
        return World(self.now_s, (Cluster("paper", (), tuple(nodes)),), everything, loose, nodes=facts)

    def _node(self, name: str) -> Node:
        return Node(name, 8, state="draining" if name in self.drained else "up")

    def ended_since(self, since_s: int) -> Sequence[Run]:
        return [run for run in self.ended if run.ended_s >= since_s]

    def hold(self, workloads: Sequence[str]) -> None:
        self.held.update(dict.fromkeys(workloads, True))

    def preempt(self, workloads: Sequence[Workload]) -> Mapping[str, int]:
        stopped = {}
        for w in workloads:
            now = self.workloads.get(w.id)
            if now is not None and now.started_s == w.started_s and now.state == "running":
                self.end(w.id)
                self.workloads[w.id] = replace(now, state="pending", started_s=None, placement=())
                stopped[w.id] = self.now_s
        return stopped

    def start(self, starts: Sequence[Start]) -> Started:
        at_s, failed = {}, {}
        for s in starts:
            name, taken = s.workload.id, {p.node for w in self.workloads.values() for p in w.placement}
            w = self.workloads.get(name)
            if w is None or w.state != "pending" or any(p.node in taken for p in s.placement):
                failed[name] = "cannot start there"
                continue
            self.workloads[name] = replace(w, state="running", started_s=self.now_s, placement=s.placement)
            at_s[name] = self.now_s
        return Started(at_s, failed)

    def drain(self, reasons: Mapping[str, str]) -> None:
        self.drained.update(reasons)

    def resume(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self.drained.pop(node, None)

    def complaints(self) -> Sequence[str]:
        return ()

    def end(self, name: str) -> None:
        """End a run, and remember it."""
        w = self.workloads.pop(name)
        assert w.started_s is not None
        self.ended.append(Run(w, w.started_s, self.now_s, (("paper", "", w.gpus),)))
