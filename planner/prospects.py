"""What a waiting gang waits for until its start, and when it would start if it asked for less."""

from __future__ import annotations

import numpy as np

from planner.encode import Names
from planner.units import format_time
from planner.words import count, plural, some
from solver.alternatives import looser_wishes, start_with
from solver.board import Board, Parts

LOOKED_AT = 20
"""Gangs of a plan for which looser wishes are tried, at most: each takes some milliseconds."""


class Prospects:
    """Sentences about the starts of gangs that wait."""

    def __init__(self, names: Names, board: Board) -> None:
        self.names, self.board = names, board
        self.left = LOOKED_AT

    def until_then(self, parts: Parts) -> str:
        """Say whose protection a promised place waits for; "" if nobody's."""
        state, w = self.board.state, self.board.state.workloads
        there = np.isin(w.placement.node, [n for n, _ in parts])
        rs = np.unique(self.board.owner[there])
        rs = rs[state.protected[rs]]
        if not len(rs):
            return ""
        what = count(len(rs), "protected workload")
        ends = format_time(int(w.protected_until_s[rs].max()))
        ids = [self.names.workloads[r].id for r in rs[np.argsort(-w.protected_until_s[rs], kind="stable")]]
        return f"; until then it waits for {what} ({some(ids)}), until {ends} at the latest"

    def domain(self, j: int, parts: Parts) -> str:
        """Name the domain of the level that it requires, such as `leaf b1/l07`; "" if it requires none."""
        level = self.names.workloads[j].topology.required
        n = parts[0][0]
        cluster, node = self.names.node_cluster[n], self.names.nodes[n]
        if not level or level not in cluster.levels or int(self.board.state.workloads.segment[j]) > 0:
            return ""
        return f", {level} {'/'.join(node.location[: cluster.levels.index(level) + 1])}"

    def if_it_asked_for_less(self, j: int, start_s: int) -> str:
        """Say how much earlier it would start in more domains; "" where that is no earlier."""
        level, out = self.names.workloads[j].topology.required, []
        for wish in looser_wishes(self.board, j) if self.left > 0 else ():
            looser_s = start_with(self.board, j, wish)
            if looser_s is not None and looser_s < start_s:
                instead = f"if it accepted two {plural(level or '')}"
                if not wish.segment:
                    instead = f"if it did not need a single {level}"
                out.append(f"{self._at(looser_s)} {instead}")
                start_s = looser_s
        self.left -= 1
        return f". It would start {', '.join(out)}" if out else ""

    def _at(self, time_s: int) -> str:
        return "now" if time_s <= self.board.state.now_s else f"at {format_time(time_s)}"
