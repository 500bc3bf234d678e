"""What a waiting gang waits for until its start, and when it would start if it asked for less."""

from __future__ import annotations

import numpy as np

from planner.encode import Names
from planner.units import format_time
from planner.words import count, plural, some
from solver.alternatives import as_asked, looser_wishes, start_with
from solver.board import Board, Parts
from solver.evidence import awaited
from solver.placing import group_key

LOOKED_AT = 20
"""Gangs of a plan for which looser wishes are tried, at most, of those that have any: each takes some ms."""


class Prospects:
    """Sentences about the starts of gangs that wait."""

    def __init__(self, names: Names, board: Board) -> None:
        self.names, self.board = names, board
        self.left = LOOKED_AT

    def until_then(self, j: int, start_s: int, parts: Parts) -> str:
        """Say whom a promised place waits for, and what else has to come where they are gone before."""
        state, ends_s = self.board.state, awaited(self.board, j, start_s, parts)
        last_s, text = max(ends_s.values(), default=state.now_s), ""
        if ends_s:
            guarded = all(state.protected[i] or i in self.board.starts for i in ends_s)
            what = count(len(ends_s), "protected workload" if guarded else "workload")
            ids = [self.names.workloads[i].id for i in sorted(ends_s, key=lambda i: (-ends_s[i], i))]
            then = "until then " if last_s == start_s else ""
            text = f"; {then}it waits for {what} ({some(ids)}), until {format_time(last_s)} at the latest"
        if last_s < start_s:
            text += "; it starts earlier wherever it finds room, and at its time who is left there makes room"
        return text

    def domain(self, j: int, parts: Parts) -> str:
        """Name the domain of the level that it requires, such as `leaf b1/l07`; "" if it requires none."""
        level = self.names.workloads[j].topology.required
        n = parts[0][0]
        cluster, node = self.names.node_cluster[n], self.names.nodes[n]
        if not level or level not in cluster.levels or int(self.board.state.workloads.segment[j]) > 0:
            return ""
        return f", {level} {'/'.join(node.location[: cluster.levels.index(level) + 1])}"

    def if_it_asked_for_less(self, j: int, start_s: int) -> str:
        """Say how much earlier it would start in more domains; "" where that is no earlier.

        Nor earlier than what is certain as it asks: a promise may be later than that, for it is worth more.
        """
        level, out = self.names.workloads[j].topology.required, []
        wishes = list(looser_wishes(self.board, j)) if self.left else []
        if not wishes:
            return ""
        self.left -= 1
        found = start_with(self.board, j, as_asked(self.board, j))
        start_s = start_s if found is None else min(start_s, found[0])
        for wish in wishes:
            found = start_with(self.board, j, wish)
            if found is None or found[0] >= start_s or (wish.segment and self._domains(j, found[1]) != 2):
                continue
            start_s = found[0]
            instead = f"if it accepted two {plural(level or '')}"
            if not wish.segment:
                instead = f"if it did not need a single {level}"
            out.append(f"{self._at(start_s)} {instead}")
        lead = "It would" if j in self.board.promised else "But for what ranks before it, it would"
        return f". {lead} start {', '.join(out)}" if out else ""

    def _domains(self, j: int, parts: Parts) -> int:
        """Return how many domains of the level that `j` requires a place is in."""
        key = group_key(self.board, int(self.board.state.workloads.required[j]))
        return len(np.unique(key[[n for n, _ in parts]]))

    def _at(self, time_s: int) -> str:
        return "now" if time_s <= self.board.state.now_s else f"at {format_time(time_s)}"
