"""What gangplan does to jobs and nodes: hold, requeue, start on named nodes, drain.

One `scontrol` takes many lines on its input, does what it can and says so in words only; what really happened
is read from `squeue` afterwards. Ids are numbers, node names come from Slurm, and nothing passes a shell.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from planner.errors import SourceError
from planner.hostlist import fold
from planner.model.workload import Workload
from planner.sources.base import Start, Started
from planner.sources.slurm.jobs import Job
from planner.sources.slurm.nodes import MARK
from planner.sources.slurm.tools import Tools, complaint
from planner.words import printable

SETTLE_S = 3
"""A job that was requeued less than this ago may not start: Slurm may have revoked its credential."""

LOOK_EVERY_S = 0.3
STOP_WAIT_S = 5
"""How long a requeued run may still be shown as running."""

LONGEST_REASON = 200

AWAY = ("Unable to contact", "Connection refused", "Unexpected message received")
"""What scontrol complains of without a slurmctld; the last when it holds or releases."""

_ID = re.compile(r"[0-9]+(_[0-9]+)?")
_UNSAFE = re.compile(r"[\s=\"'\\]+")


@dataclass
class Steps:
    """Does things to Slurm, and looks whether they happened.

    Attributes
    ----------
    look : callable
        Returns all jobs by key, as they are now.
    start_timeout_s : int
        For a job on free nodes.
    kill_wait_s : int
        What Slurm gives victims to end.
    """

    tools: Tools
    look: Callable[[], Mapping[str, Job]]
    start_timeout_s: int = 10
    kill_wait_s: int = 30
    sleep: Callable[[float], None] = time.sleep
    clock: Callable[[], float] = time.time
    said: list[str] = field(default_factory=list)

    def hold(self, keys: Sequence[str]) -> None:
        """Hold pending jobs."""
        if keys:
            self._told(["scontrol", "hold", ",".join(_checked(keys))])

    def unbind(self, keys: Sequence[str]) -> None:
        """Let go of the nodes of waiting jobs: else no other job gets these once a job is released."""
        if keys:
            self._told(["scontrol"], "".join(f"update JobId={key} ReqNodeList=\n" for key in _checked(keys)))

    def preempt(self, workloads: Sequence[Workload]) -> dict[str, int]:
        """Requeue runs, held; cancel those that cannot be requeued. Return since when they are off."""
        if not workloads:
            return {}
        before = self.look()
        there = [w for w in workloads if _same_run(before.get(w.id), w)]
        again = [w.id for w in there if before[w.id].requeues]
        never = [w.id for w in there if not before[w.id].requeues]
        now_s = int(self.clock())
        if again:
            self._told(["scontrol", "requeuehold", "Incomplete", ",".join(_checked(again))])
        if never:
            self._told(["scancel", *_checked(never)])
        until = self.clock() + STOP_WAIT_S
        while True:
            now = self.look()
            still = [w for w in there if _same_run(now.get(w.id), w)]
            if not still or self.clock() > until:
                break
            self.sleep(LOOK_EVERY_S)
        self.said += [f"{w.id}: was told to stop and runs on" for w in still]
        running = {w.id for w in still}
        self.unbind([key for key in again if key not in running and key in now])
        return {w.id: now_s for w in there if w.id not in running}

    def start(self, starts: Sequence[Start], types: Mapping[str, str | None], equal: set[str]) -> Started:
        """Start jobs on exactly these nodes.

        Parameters
        ----------
        types : GPU type of each node
        equal : jobs that must be told how many GPUs each node gives
        """
        if not starts:
            return Started({}, {})
        jobs = self.look()
        failed = {s.workload.id: why for s in starts if (why := _unfit(jobs.get(s.workload.id)))}
        todo = [s for s in starts if s.workload.id not in failed]
        self._wait_for_credentials([jobs[s.workload.id] for s in todo])
        lines = [_update(s, jobs[s.workload.id], types, equal) for s in todo]
        lines += [f"release {s.workload.id}" for s in todo]
        refused = self._told(["scontrol"], "\n".join(lines) + "\n") if lines else ""
        at_s, late = self._watch(todo)
        if late:
            blocked = self.look()
            self.hold([s.workload.id for s in late])
            self.unbind([s.workload.id for s in late])
            now = self.look()
            for s in late:
                job = now.get(s.workload.id)
                if job is not None and _runs_there(job, s):
                    at_s[s.workload.id] = job.start_s
                else:
                    failed[s.workload.id] = _why(blocked.get(s.workload.id), s, refused)
        return Started(at_s, failed)

    def drain(self, reasons: Mapping[str, str]) -> None:
        """Drain nodes; those of one reason together."""
        by_reason: dict[str, list[str]] = {}
        for node, reason in reasons.items():
            by_reason.setdefault(MARK + printable(reason)[:LONGEST_REASON], []).append(node)
        for reason, nodes in by_reason.items():
            words = [f"NodeName={fold(sorted(nodes))}", "State=DRAIN", f"Reason={reason}"]
            self._told(["scontrol", "update", *words], level="Admin")

    def resume(self, nodes: Iterable[str]) -> None:
        """Bring nodes back."""
        names = sorted(nodes)
        if names:
            self._told(["scontrol", "update", f"NodeName={fold(names)}", "State=RESUME"], level="Admin")

    def _wait_for_credentials(self, jobs: Sequence[Job]) -> None:
        """Wait until slurmd has forgotten the credentials of jobs that were requeued a moment ago."""
        newest_s = max((j.submit_s for j in jobs if j.restarts), default=0)
        left_s = min(newest_s + SETTLE_S - self.clock(), SETTLE_S)
        if left_s > 0:
            self.sleep(left_s)

    def _watch(self, starts: Sequence[Start]) -> tuple[dict[str, int], list[Start]]:
        """Look until all run or their time is up; return since when each runs, and those that do not."""
        began, at_s, left = self.clock(), dict[str, int](), list(starts)
        while left:
            jobs, waiting = self.look(), []
            for s in left:
                job = jobs.get(s.workload.id)
                there = _runs_there(job, s)
                if there is None and self.clock() - began < self._patience_s(s):
                    waiting.append(s)
                elif there is True and job is not None:
                    at_s[s.workload.id] = job.start_s
            left = waiting
            if left:
                self.sleep(LOOK_EVERY_S)
        return at_s, [s for s in starts if s.workload.id not in at_s]

    def _patience_s(self, start: Start) -> int:
        return self.start_timeout_s + (self.kill_wait_s if start.waits else 0)

    def _told(self, args: list[str], text: str = "", level: str = "Operator") -> str:
        """Run a command that changes something; what it complains of is returned, and judged by what follows.

        SourceError where slurmctld is away, or where this user needs a higher `AdminLevel`.
        """
        answer = self.tools(args, text)
        if any(words in answer.err for words in AWAY):
            raise SourceError(f"{args[0]}: {complaint(answer)}")
        if "ermission denied" in answer.err or "Invalid user id" in answer.err:
            fix = f"this user needs AdminLevel={level} in slurmdbd, or run as SlurmUser"
            raise SourceError(f"{' '.join(args[:2])}: {complaint(answer)}; {fix}")
        if answer.code:
            self.said.append(f"{' '.join(args[:2])}: {complaint(answer)}")
        return answer.err


def _checked(keys: Iterable[str]) -> list[str]:
    """Return job ids; SourceError for anything else, which must never reach a command."""
    ids = list(keys)
    for key in ids:
        if not _ID.fullmatch(key):
            raise SourceError(f"{printable(key)[:64]!r} is no id of a Slurm job")
    return ids


def _update(start: Start, job: Job, types: Mapping[str, str | None], equal: set[str]) -> str:
    """Return the line that binds a job to its nodes."""
    (key,) = _checked([start.workload.id])
    nodes = sorted({p.node for p in start.placement})
    words = ["update", f"JobId={key}", f"ReqNodeList={_UNSAFE.sub('', fold(nodes))}"]
    if not job.array:  # Slurm resizes no array; its tasks have their number of nodes from their owner
        words.append(f"NumNodes={len(nodes)}-{len(nodes)}")
    if key in equal:
        kind = types.get(nodes[0])
        typed = f"{kind}:" if kind and start.workload.gpu_types else ""
        words += ["TresPerJob=", f"TresPerNode=gres:gpu:{typed}{start.placement[0].gpus}"]
    if job.restarts:  # else Slurm lets it wait for two minutes
        words.append("StartTime=now")
    return " ".join(words)


def _same_run(job: Job | None, workload: Workload) -> bool:
    """Whether a job is still in the run that was seen."""
    return job is not None and job.state == "running" and job.start_s == workload.started_s


def _unfit(job: Job | None) -> str | None:
    """Return why a job cannot be started any more."""
    if job is None:
        return "is not there any more"
    return None if job.state == "pending" else f"is {job.state} already"


def _runs_there(job: Job | None, start: Start) -> bool | None:
    """Whether a job runs, or has run, on its nodes; None while that is open."""
    if job is None:
        return False
    if job.state == "pending":
        return None
    if job.state == "leaving":
        return False
    planned = {p.node for p in start.placement}
    over = job.state in ("clearing", "ended")
    return job.start_s > 0 and ({node for node, _ in job.held} == planned or (over and not job.held))


def _why(job: Job | None, start: Start, refused: str) -> str:
    """Return why a start failed, in Slurm's words; `refused`: what scontrol complained of at the time."""
    if job is None:
        return "is not there any more"
    if job.state == "pending":
        lines = (line.strip() for line in refused.splitlines())
        why = next((line for line in lines if line.endswith(f"for job {start.workload.id}")), job.why)
        return f"did not start on {fold(sorted({p.node for p in start.placement}))}: {printable(why)}"
    where = fold(sorted(node for node, _ in job.held)) or "no node"
    return f"is {job.state} on {where} instead"
