"""The rules of a plan, read one by one and workload by workload: slow, and independent of the real check."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from fractions import Fraction

from solver.plan import Decisions
from solver.state import Action, Level, NodeState, State, Status
from tests.solver.worlds import domain_at, empty, held, place, seat, slots, take

LEGAL = {
    Status.PENDING: {Action.START, Action.WAIT, Action.REJECT},
    Status.RUNNING: {Action.KEEP, Action.PREEMPT},
    Status.STOPPING: {Action.KEEP, Action.PREEMPT},
}


class Reading:
    """A world and a plan in dictionaries; each method named after a rule tells whether it holds."""

    RULES = (
        *(
            "action",
            "reject",
            "capacity",
            "gang",
            "pool",
            "topology",
            "health",
            "limit",
            "protected",
            "victim",
        ),
        *("unallocated", "share", "needless", "brake", "promise", "promise_moved"),
    )

    def __init__(self, world: State, plan: Decisions) -> None:
        self.world, self.plan, self.w, self.n = world, plan, world.workloads, world.nodes
        self.everyone = range(self.w.count)
        self.status = [Status(s) for s in self.w.status]
        self.act = [Action(a) for a in plan.action]
        self.at = {j: seat(self.w.placement, j) for j in self.everyone}
        self.worst = {j: max((self.n.state[i] for i in at), default=0) for j, at in self.at.items()}
        self.starts = {j: seat(plan.placement, j) for j in self.everyone if self.act[j] == Action.START}
        self.stays = {j: self.at[j] for j in self.everyone if self.remains(j)}
        self.promised = {
            int(j): (int(plan.promised_start_s[k]), seat(plan.promised_placement, k))
            for k, j in enumerate(plan.promised)
        }
        self.victims = {
            j: plan.victims_for.get(j, [])
            for j in self.everyone
            if self.status[j] == Status.RUNNING and self.act[j] == Action.PREEMPT and not self.worst[j]
        }
        self.holds = held(world, self.stays) + held(world, self.starts)

    def broken(self) -> set[str]:
        return {rule for rule in self.RULES if not getattr(self, rule)()}

    def remains(self, j: int) -> bool:
        kept = self.status[j] == Status.RUNNING and self.act[j] == Action.KEEP
        return kept or self.status[j] == Status.STOPPING

    def placements(self) -> list[tuple[int, list[int]]]:
        return [*self.starts.items(), *((j, at) for j, (_, at) in self.promised.items())]

    def fits(self, *seats: dict[int, list[int]]) -> bool:
        return min(min(left) for left in self.left(*seats)) >= 0

    def left(self, *seats: dict[int, list[int]]) -> list[list[int]]:
        free = empty(self.world)
        for placed in seats:
            for j, at in placed.items():
                take(free, self.world, j, at)
        return free

    def above(self, j: int) -> set[int]:
        return set(self.world.budgets.path(int(self.w.leaf[j])))

    def exceeds(self, v: int, among: set[int]) -> bool:
        limit = self.world.budgets.limit_gpus
        return any(0 <= limit[b] < self.holds[b] + self.w.gpus[v] for b in self.above(v) & among)

    def action(self) -> bool:
        placed = [len(seat(self.plan.placement, j)) > 0 for j in self.everyone]
        legal = (self.act[j] in LEGAL[self.status[j]] for j in self.everyone)
        return all(legal) and all(placed[j] == (self.act[j] == Action.START) for j in self.everyone)

    def reject(self) -> bool:
        healthy = replace(self.world, nodes=replace(self.n, state=self.n.state * 0))
        limit = self.world.budgets.limit_gpus
        return not any(
            place(healthy, empty(healthy), j)
            and all(limit[v] < 0 or self.w.gpus[j] <= limit[v] for v in self.above(j))
            for j in self.everyone
            if self.act[j] == Action.REJECT and self.status[j] == Status.PENDING
        )

    def capacity(self) -> bool:
        return self.fits(self.stays, self.starts)

    def gang(self) -> bool:
        return all(len(at) in (0, self.w.replicas[j]) for j, at in self.placements())

    def pool(self) -> bool:
        pools = [(j, {int(self.n.pool[i]) for i in at}) for j, at in self.placements()]
        return all(len(many) <= 1 and all(self.w.pool_ok[j, p] for p in many) for j, many in pools)

    def topology(self) -> bool:
        for j, at in self.placements():
            domains = Counter(domain_at(self.world, j, i) for i in at)
            segment = int(self.w.segment[j]) if self.w.required[j] != Level.NONE else 0
            cut = any(k % segment for k in domains.values()) if segment else len(domains) > 1
            if cut or None in domains:
                return False
        return True

    def limit(self) -> bool:
        before = held(self.world, {j: at for j, at in self.at.items() if self.status[j] != Status.PENDING})
        grows = held(self.world, self.starts)
        limits = enumerate(self.world.budgets.limit_gpus)
        return not any(grows[v] and 0 <= most < max(before[v], self.holds[v]) for v, most in limits)

    def health(self) -> bool:
        kept = [j for j in self.everyone if self.status[j] == Status.RUNNING and self.act[j] == Action.KEEP]
        lost = [j for j in kept if self.worst[j] == NodeState.DOWN]
        idle = [j for j in kept if self.worst[j] == NodeState.DRAINING and not self.world.protected[j]]
        return not lost and not idle and all(self.n.state[i] == 0 for _, at in self.placements() for i in at)

    def protected(self) -> bool:
        guarded = [j for j in self.everyone if self.world.protected[j] and self.worst[j] != NodeState.DOWN]
        return all(self.act[j] != Action.PREEMPT for j in guarded)

    def victim(self) -> bool:
        if any(self.act[v] != Action.PREEMPT for v in self.plan.victims_for):
            return False
        for v, gainers in self.victims.items():
            for g in gainers:
                start_s, place_at = self.promised.get(g, (self.world.now_s + 10**9, []))
                if g not in self.starts and start_s > self.world.now_s + self.world.policy.due_s:
                    return False
                nodes = {*self.starts.get(g, []), *place_at}
                if not nodes & set(self.at[v]) and not self.exceeds(v, self.above(g)):
                    return False
        return all(self.victims.values())

    def unallocated(self) -> bool:
        return all(self.w.allocated[g] for gainers in self.victims.values() for g in gainers)

    def ratio(self, leaf: int, committed: int = 0) -> Fraction:
        return Fraction(
            int(self.world.budgets.usage[leaf]) + committed, int(self.world.budgets.entitled[leaf])
        )

    def share(self) -> bool:
        policy, lane = self.world.policy, set()
        for v, gainers in self.victims.items():
            leaf = int(self.w.leaf[v])
            sisters = (j for j in self.everyone if self.w.leaf[j] == leaf and self.w.allocated[j])
            gpus = sum(int(self.w.gpus[j]) for j in sisters if self.status[j] == Status.RUNNING)
            if not self.w.allocated[v] or self.ratio(leaf, gpus * policy.commitment_s * 10**6) > 1:
                continue
            old = self.world.promises.workload.tolist()
            if not gainers or any(g in old or self.ratio(int(self.w.leaf[g])) <= 1 for g in gainers):
                continue
            debug = [g for g in gainers if self.w.debug[g]]
            if not debug:
                return False
            lane.add(debug[0])
        return sum(int(self.w.gpus[g]) for g in lane) <= policy.lane_gpus

    def needless(self) -> bool:
        for v, gainers in self.victims.items():
            waits = any(g in self.promised and g not in self.starts for g in gainers)
            if waits or self.exceeds(v, self.above(v)):
                continue
            if self.stands_again(v, self.starts):
                return False
            starting = [g for g in gainers if g in self.starts]
            if len(starting) == 1 and self.could_move(v, starting[0]):
                return False
        return True

    def stands_again(self, v: int, starts: dict[int, list[int]]) -> bool:
        left = self.left(self.stays, starts, {v: self.at[v]})
        return all(min(left[i]) >= 0 for i in self.at[v])

    def could_move(self, v: int, g: int) -> bool:
        here = [i for i in self.starts[g] if i in self.at[v]]
        if self.w.required[g] != Level.NONE or not self.w.gpus_per_replica[g] or not self.starts[g]:
            return False
        left, pool = self.left(self.stays, self.starts), self.n.pool[self.starts[g][0]]
        taken = {i for _, at in self.promised.values() for i in at} | set(self.at[v])
        free = [
            i
            for i in range(self.n.count)
            if i not in taken and self.n.pool[i] == pool and not self.n.state[i]
        ]
        room = sum(max(0, slots(self.world, left[i], g)) for i in free)
        staying = {**self.starts, g: [i for i in self.starts[g] if i not in here]}
        return room >= len(here) and self.stands_again(v, staying)

    def brake(self) -> bool:
        most = self.world.policy.max_preempted_gpus
        return most < 0 or sum(int(self.w.gpus[v]) for v in self.victims) <= most

    def promise(self) -> bool:
        now_s, w = self.world.now_s, self.w
        claims = [(now_s, now_s + int(w.min_runtime_s[j]), j, at) for j, at in self.starts.items()]
        for j, at in self.stays.items():
            if self.world.protected[j]:
                claims.append((now_s, int(w.protected_until_s[j]), j, at))
        for j, (start_s, at) in self.promised.items():
            claims.append((start_s, start_s + max(int(w.min_runtime_s[j]), 1), j, at))
        for j, (start_s, _) in self.promised.items():
            active = [{k: seats} for a, b, k, seats in claims if a <= start_s < b]
            left = self.left(*active)
            theirs = {i for _, seats in self.promised.values() for i in seats}
            if start_s < now_s or self.act[j] not in (Action.WAIT, Action.PREEMPT):
                return False
            if any(min(left[i]) < 0 for i in theirs):
                return False
        return self.promised_within_limits()

    def promised_within_limits(self) -> bool:
        kept = {j: at for j, at in self.stays.items() if self.status[j] == Status.RUNNING}
        promised = {j: at for j, (_, at) in self.promised.items()}
        known = set(self.world.promises.workload.tolist())
        new = {
            j: at
            for seats in (self.starts, promised)
            for j, at in seats.items()
            if self.status[j] == Status.PENDING and j not in known
        }
        later, fresh = held(self.world, promised), held(self.world, new)
        holds = held(self.world, kept) + held(self.world, self.starts) + later
        limits = enumerate(self.world.budgets.limit_gpus)
        return not any(0 <= most < holds[v] and later[v] and fresh[v] for v, most in limits)

    def promise_moved(self) -> bool:
        old = self.world.promises
        return all(
            self.status[j] == Status.RUNNING
            or self.act[j] in (Action.START, Action.REJECT)
            or (j in self.promised and self.promised[j][0] <= start_s)
            for j, start_s in zip(old.workload.tolist(), old.start_s.tolist(), strict=True)
        )
