"""One round from end to end: look, record, plan, verify, record, look again, carry out, record.

Whatever ends a round between two steps, the next one finds on record all that was seen and promised, and in
the source all that was done. So nothing is done twice and nothing is forgotten.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from planner.account import into_rows, with_ledger
from planner.atomic import write_atomic
from planner.cron import journal, metrics
from planner.cron.between import newcomers, place_new
from planner.cron.books import Books, Seen
from planner.cron.carry import Outcome, carry_out, report
from planner.cron.fresh import Fresh, still_true
from planner.cron.hooks import sick_nodes
from planner.errors import InputError, PlanRejectedError, SourceError
from planner.ledger.lease import Lease
from planner.model.plan import Plan
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.planfile import plan_to_dict
from planner.round import plan_round
from planner.snapshotfile import snapshot_to_dict
from planner.sources.base import Run, Source, World
from planner.units import format_duration
from planner.verify import verify


@dataclass(frozen=True)
class Done:
    """A round that was carried out; `sick`: what the site's own check called unhealthy, and why."""

    plan: Plan
    snapshot: Snapshot
    outcome: Outcome
    sick: Mapping[str, str]


@dataclass(frozen=True)
class Cycle:
    """What every round of a site needs."""

    site: Site
    source: Source
    books: Books

    @property
    def state(self) -> Path:
        """The folder for what the newest round leaves behind."""
        return Path(self.site.run.state)

    def rehearse(self) -> Plan:
        """Plan as a round would, and change nothing anywhere."""
        return self._planned(self._look(None, self.source.observe(), self._sick(), None), keep=False)[0]

    def run(self, lease: Lease) -> Done:
        """Do one round.

        Raises
        ------
        LockedError
            Another host has taken over; whatever was not done by then is left to it.
        PlanRejectedError
            The plan breaks a rule; nothing of it is carried out.
        SourceError
            The source or the ledger does not answer, or the plan has become too old; the next round goes on.
        """
        began = time.monotonic()
        sick = self._sick()
        seen = self._look(lease, self.source.observe(), sick, self._accounts())
        plan, snapshot = self._planned(seen, keep=True)
        for text in plan.warnings:
            journal.tell("plan warns", text=text)
        outcome = self._carried_out(lease, seen, plan, snapshot, began)
        self._publish(plan, snapshot, time.monotonic() - began, len(outcome.failed))
        return Done(plan, snapshot, outcome, sick)

    def serve(self, lease: Lease, done: Done, known: set[str]) -> None:
        """Start what has come since and fits beside the standing plan; `known`: what was looked at before."""
        began = time.monotonic()
        world = self.source.observe()
        new = newcomers(world.workloads, known)
        known |= new
        if not new:
            return
        seen = self._look(lease, world, done.sick, None)
        usage = done.snapshot
        snapshot = replace(
            seen.snapshot, usage=usage.usage, entitled=usage.entitled, history_s=usage.history_s
        )
        try:
            plan = place_new(self.site, snapshot, new & {w.id for w in snapshot.workloads})
        except InputError as error:  # such as two runs on one node: Slurm is between two states
            journal.tell("not served, the next round decides", faults=error.messages)
            return
        if not any(d.action == "start" for d in plan.decisions):
            return
        broken = verify(snapshot, plan, self.site)
        if broken:
            journal.tell("not served, the next round decides", faults=broken)
        else:
            self._carried_out(lease, seen, plan, snapshot, began, "between.json")

    # -- steps ---------------------------------------------------------------------------------------

    def _look(
        self, lease: Lease | None, world: World, sick: Mapping[str, str], accounts: list[Run] | None
    ) -> Seen:
        """Hold what is loose, and reconcile the world with the ledger."""
        if lease is not None and world.loose:
            lease.renew()
            self.source.hold(world.loose)
            journal.tell("held", workloads=list(world.loose))
        return self.books.look(lease, world, accounts, sick)

    def _sick(self) -> Mapping[str, str]:
        """Ask the site's own check which nodes are unhealthy."""
        run = self.site.run
        sick, fault = sick_nodes(run.health_command, run.health_timeout_s)
        if fault:
            journal.warn("health check failed", fault=fault)
        return sick

    def _accounts(self) -> list[Run] | None:
        """Return what the source's accounts say; None, with a warning, where they cannot be read now."""
        try:
            return list(self.source.ended_since(self.books.accounts_since()))
        except SourceError as error:
            journal.warn("accounts cannot be read", fault=str(error))
            return None

    def _planned(self, seen: Seen, keep: bool) -> tuple[Plan, Snapshot]:
        """Plan, and let the checker have the last word; usage comes from the ledger.

        `keep`: leave a plan that is rejected, and what it was made of, beside those of the last good round.
        """
        site, snapshot, account = with_ledger(self.site, seen.snapshot, self.books.ledger)
        try:
            plan = plan_round(site, snapshot)
        except PlanRejectedError:
            if keep:
                self._keep_rejected(None, snapshot)
            raise
        broken = verify(snapshot, plan, site)
        if broken:
            if keep:
                self._keep_rejected(plan, snapshot)
            raise PlanRejectedError(broken)
        return replace(plan, shares=into_rows(plan.shares, account)), snapshot

    def _fresh(self, plan: Plan, snapshot: Snapshot, began: float) -> Fresh:
        """Return what of a plan may still be carried out; SourceError where it is too old altogether."""
        age_s = time.monotonic() - began
        if age_s > self.site.run.max_age_s:
            limit = format_duration(self.site.run.max_age_s)
            raise SourceError(f"the plan is {age_s:.0f} s old, more than run.max_age ({limit}): not applied")
        return still_true(plan, snapshot, self.source.observe())

    def _carried_out(
        self,
        lease: Lease,
        seen: Seen,
        plan: Plan,
        snapshot: Snapshot,
        began: float,
        name: str = "plan.json",
    ) -> Outcome:
        """Record a plan, carry out what of it is still true, and record what became of it."""
        text = _json(snapshot_to_dict(snapshot))
        if name == "plan.json":
            self._leave("snapshot.json", text)
        self._leave(name, _json(plan_to_dict(plan)))
        known = seen.reconciled.known
        digest = hashlib.sha256(text.encode()).hexdigest()
        number = self.books.decide(lease, plan, snapshot, digest, known)
        fresh = self._fresh(plan, snapshot, began)
        outcome = carry_out(self.source, fresh, seen.health, self.site.run.on_empty, lease.renew)
        self.books.settle(lease, snapshot, outcome, known, seen.health)
        report(plan, fresh, outcome, number)
        for line in self.source.complaints():
            journal.tell("complaint", text=line)
        journal.tell("round done", round=number, seconds=round(time.monotonic() - began, 3))
        return outcome

    # -- what is left behind -------------------------------------------------------------------------

    def _leave(self, name: str, text: str) -> None:
        """Write a file into the state folder; a full disk ends the round before anything is done."""
        try:
            write_atomic(self.state / name, text)
        except InputError as error:
            raise SourceError(str(error)) from None

    def _keep_rejected(self, plan: Plan | None, snapshot: Snapshot) -> None:
        """Leave what a fault of the planner is to be found by; no plan where it broke its own rules."""
        try:
            self._leave("snapshot.rejected.json", _json(snapshot_to_dict(snapshot)))
            if plan is not None:
                self._leave("plan.rejected.json", _json(plan_to_dict(plan)))
        except SourceError as error:
            journal.warn("rejected plan not kept", fault=str(error))

    def _publish(self, plan: Plan, snapshot: Snapshot, seconds: float, failed: int) -> None:
        """Write metrics and pages; what cannot be written is told, and spoils no round that is done."""
        run = self.site.run
        try:
            if run.metrics is not None:
                asked = self.site.solver.backend
                found = metrics.of_round(plan, snapshot, asked, int(time.time()), seconds, failed)
                metrics.write(Path(run.metrics), found)
            if run.pages is not None:
                self._draw(Path(run.pages), plan, snapshot)
        except (InputError, OSError) as error:
            journal.warn("not published", fault=str(error))

    def _draw(self, folder: Path, plan: Plan, snapshot: Snapshot) -> None:
        """Replace the static site by one of this round."""
        from planner.reports.folder import replace_folder  # what draws is loaded where it is needed
        from planner.reports.pages.site import pages_of

        replace_folder(folder, pages_of(self.site, snapshot, plan, self.books.ledger))


def _json(data: object) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"
