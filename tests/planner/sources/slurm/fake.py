"""A Slurm for tests: answers the commands that gangplan calls, from a state kept in one file.

It behaves as 22.05 was seen to (holds, requeues, exact node lists, completing nodes, revoked credentials), in
time of its own, and keeps accounts. As its state is a file, a process may be killed at any command and
another goes on.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from planner.hostlist import expand, fold
from planner.sources.slurm.tools import Answer

KILL_WAIT_S = 2
RECOUNTS_S = 4
"""For so long after a restart each GPU that is used counts twice."""

REVOKED_S = 2
BEGIN_DELAY_S = 121
EXPECTED_S = 365 * 86_400
"""So much later Slurm expects the start of a job whose nodes are taken by one without a time limit."""

EPOCH_S = 1_796_000_000

CONFIG = {
    "ClusterName": "saturn",
    "SelectTypeParameters": "CR_CORE_MEMORY",
    "KillWait": f"{KILL_WAIT_S} sec",
    "AccountingStorageType": "accounting_storage/slurmdbd",
}

Job = dict[str, Any]


class FakeSlurm:
    """A cluster of nodes with 8 GPUs each, in leaves of 4.

    Attributes
    ----------
    before : callable
        Called before each command with its words; may raise, or kill the process.
    """

    def __init__(self, path: Path, nodes: int = 8, gpus: int = 8, leaf: int = 4) -> None:
        self.path, self.before = path, self._nothing
        self.told: list[list[str]] = []
        if path.exists():
            return
        names = [f"node{i:03d}" for i in range(1, nodes + 1)]
        leaves = [names[i : i + leaf] for i in range(0, nodes, leaf)]
        state = {
            "now_s": EPOCH_S,
            "next": 1,
            "jobs": {},
            "records": [],
            "nodes": {n: {"state": "up", "reason": "", "gpus": gpus} for n in names},
            "leaves": leaves,
            "reservations": [],
            "recounts_until_s": 0,
            "level": "Administrator",
        }
        self._save(state)

    @staticmethod
    def _nothing(args: Sequence[str]) -> None:
        """Do nothing."""

    # -- time ----------------------------------------------------------------------------------------

    def clock(self) -> float:
        """Return this cluster's time."""
        return float(self._load()["now_s"])

    def sleep(self, seconds: float) -> None:
        """Let time pass, and things happen in it."""
        state = self._load()
        state["now_s"] += seconds
        self._settle(state)
        self._save(state)

    # -- the world's doing ---------------------------------------------------------------------------

    def submit(self, nodes: int = 1, gpus: int = 8, lasts_s: float = 1e6, **more: Any) -> str:
        """Submit a job behind the gate; `more`: other fields, and `contract` for the comment."""
        state = self._load()
        number, now_s = state["next"], int(state["now_s"])
        state["next"] += 1
        contract = more.pop("contract", None)
        state["jobs"][str(number)] = {
            "job_id": number,
            "job_state": "PENDING",
            "account": "nlp",
            "partition": "main",
            "qos": "",
            "comment": json.dumps(contract) if contract else "",
            "priority": 0,
            "submit_time": now_s,
            "eligible_time": 0,
            "start_time": 0,
            "end_time": 0,
            "time_limit": None,
            "restart_cnt": 0,
            "requeue": True,
            "batch_flag": True,
            "tres_per_node": f"gres:gpu:{gpus}" if gpus else "",
            "node_count": nodes,
            "max_nodes": nodes,
            "cpus": nodes,
            "memory_per_cpu": 1000,
            "nodes": "",
            "required_nodes": "",
            "gres_detail": [],
            "state_reason": "JobHeldUser",
            "lasts_s": lasts_s,
            "gpus": gpus,
            "clean_s": 0,
            "stuck": False,
            **more,
        }
        self._save(state)
        return str(number)

    def finish(self, job: str) -> None:
        """Let a job end by itself."""
        self._change(lambda state: self._end(state, state["jobs"][job], "COMPLETED"))

    def cancel(self, job: str) -> None:
        """Let the owner cancel a job."""
        self._change(lambda state: self._end(state, state["jobs"][job], "CANCELLED"))

    def loosen(self, job: str) -> None:
        """Let an operator release a job, which then starts wherever it fits."""
        self._change(lambda state: state["jobs"][job].update(priority=1))

    def node_dies(self, node: str) -> None:
        """Take a node down; its jobs are requeued, and loose."""

        def die(state: dict[str, Any]) -> None:
            state["nodes"][node]["state"] = "down"
            for job in self._on(state, node):
                self._requeue(state, job, "NODE_FAIL", held=False)

        self._change(die)

    def node_returns(self, node: str) -> None:
        """Bring a node back."""
        self._change(lambda state: state["nodes"][node].update(state="up", reason=""))

    def node_is(self, node: str, state_word: str, reason: str = "") -> None:
        """Put a node into a state: up, drain, down or quiet."""
        self._change(lambda state: state["nodes"][node].update(state=state_word, reason=reason))

    def restart(self) -> None:
        """Restart slurmctld, which then counts the GPUs that are used anew."""
        self._change(lambda state: state.update(recounts_until_s=state["now_s"] + RECOUNTS_S))

    def allow(self, level: str) -> None:
        """Give gangplan an AdminLevel: Administrator, Operator (who may drain no node) or None."""
        self._change(lambda state: state.update(level=level))

    def reserve(self, name: str, nodes: str, begin_s: float, end_s: float, flags: str = "MAINT") -> None:
        """Make a reservation."""
        entry = [name, int(begin_s), int(end_s), nodes, flags]
        self._change(lambda state: state["reservations"].append(entry))

    def job(self, job: str) -> Job:
        """Return a job as it is."""
        found: Job = self._load()["jobs"][job]
        return found

    def node(self, node: str) -> dict[str, Any]:
        """Return a node as it is."""
        found: dict[str, Any] = self._load()["nodes"][node]
        return found

    def nodes_of(self, job: str) -> list[str]:
        """Return where a job runs."""
        found = self.job(job)
        return expand(found["nodes"]) if found["job_state"] == "RUNNING" else []

    def records(self) -> list[dict[str, Any]]:
        """Return the accounts: an entry for each attempt, open ones included."""
        found: list[dict[str, Any]] = self._load()["records"]
        return found

    # -- commands ------------------------------------------------------------------------------------

    def __call__(self, args: Sequence[str], text: str = "", times: str = "%s") -> Answer:
        """Answer one command."""
        self.before(args)
        self.told.append(list(args))
        state = self._load()
        state["now_s"] += 0.01
        self._settle(state)
        out, errors = self._answer(state, list(args), text)
        self._settle(state)
        self._save(state)
        return Answer(1 if errors else 0, out, "\n".join(errors))

    def _answer(self, state: dict[str, Any], args: list[str], text: str) -> tuple[str, list[str]]:
        words = " ".join(args)
        if words == "squeue --json":
            return self._squeue(state), []
        if words == "sinfo --json":
            return json.dumps({"nodes": [self._node(state, n) for n in state["nodes"]]}), []
        if words == "scontrol show config":
            return "\n".join(f"{k:<24}= {v}" for k, v in CONFIG.items()), []
        if words == "scontrol show topology":
            leaves = [f"SwitchName=leaf{i} Level=0 Nodes={fold(ns)}" for i, ns in enumerate(state["leaves"])]
            return "\n".join([*leaves, f"SwitchName=block0 Level=1 Nodes={fold(state['nodes'])}"]), []
        if words == "scontrol -o show partition":
            return f"PartitionName=main Nodes={fold(state['nodes'])}", []
        if words == "scontrol -o show reservation":
            form = "ReservationName={} StartTime={} EndTime={} Nodes={} Flags={} State=INACTIVE"
            return "\n".join(form.format(*r) for r in state["reservations"]), []
        if args[0] == "sacct":
            return json.dumps({"jobs": [self._record(r) for r in state["records"] if r["end"]]}), []
        return "", self._change_by(state, args, text)

    def _change_by(self, state: dict[str, Any], args: list[str], text: str) -> list[str]:
        if state["level"] == "None":
            return ["Access/permission denied"]
        if args == ["scontrol"]:
            return [e for line in text.splitlines() for e in self._line(state, line.split())]
        if args[:2] == ["scontrol", "requeuehold"]:
            assert args[2] == "Incomplete", "a job that has ended would run again"
            jobs = [state["jobs"][j] for j in args[3].split(",") if j in state["jobs"]]
            for job in jobs:
                if job["job_state"] == "RUNNING":
                    self._requeue(state, job, "REQUEUED", held=True)
            return []
        if args[:2] == ["scontrol", "update"]:
            if state["level"] == "Operator":
                return ["slurm_update error: Invalid user id"]
            said = dict(word.split("=", 1) for word in args[2:])
            for name in expand(said["NodeName"]):
                to = {"DRAIN": "drain", "RESUME": "up"}[said["State"]]
                state["nodes"][name].update(state=to, reason=said.get("Reason", ""))
            return []
        if args[0] == "scancel":
            for j in args[1:]:
                self._end(state, state["jobs"][j], "CANCELLED")
            return []
        return self._line(state, args[1:])

    def _line(self, state: dict[str, Any], words: list[str]) -> list[str]:
        """Do what one line on scontrol's input says."""
        if words[0] in ("hold", "release"):
            for j in words[1].split(","):
                job = state["jobs"].get(j)
                if job is None or job["job_state"] != "PENDING":
                    return [f"Job has already finished for job {j}"]
                job.update(priority=0 if words[0] == "hold" else 1)
            return []
        said = dict(word.split("=", 1) for word in words[1:])
        job = state["jobs"].get(said["JobId"])
        comes_back = job is not None and job["job_state"] == "COMPLETING" and job["becomes"] == "PENDING"
        if job is None or (job["job_state"] != "PENDING" and not comes_back):
            return [f"Job is no longer pending execution for job {said['JobId']}"]
        job["required_nodes"] = said.get("ReqNodeList", job["required_nodes"])
        if "NumNodes" in said:
            job["node_count"] = job["max_nodes"] = int(said["NumNodes"].split("-")[0])
        if "TresPerNode" in said:
            job.update(tres_per_node=said["TresPerNode"], tres_per_job="")
            job["gpus"] = int(said["TresPerNode"].rsplit(":", 1)[1])
        if said.get("StartTime") == "now":
            job["eligible_time"] = job["start_time"] = 0
        return []

    # -- what Slurm does -----------------------------------------------------------------------------

    def _settle(self, state: dict[str, Any]) -> None:
        """Let jobs end and nodes come clean, and start what is released and fits."""
        now_s = state["now_s"]
        for job in state["jobs"].values():
            if job["job_state"] == "RUNNING" and now_s >= job["start_time"] + job["lasts_s"]:
                self._end(state, job, "COMPLETED")
            if job["job_state"] == "COMPLETING" and now_s >= job["clean_s"]:
                job.update(
                    job_state=job["becomes"], nodes="" if job["becomes"] == "PENDING" else job["nodes"]
                )
                job["gres_detail"] = []
                if job["becomes"] == "PENDING":
                    begin_s = job["submit_time"] + BEGIN_DELAY_S
                    job.update(eligible_time=begin_s, start_time=begin_s, end_time=0)
        for job in state["jobs"].values():
            if job["job_state"] == "PENDING" and job["priority"] > 0 and job["eligible_time"] <= now_s:
                self._try(state, job)

    def _try(self, state: dict[str, Any], job: Job) -> None:
        """Start a job on the nodes it names, or on any."""
        named = expand(job["required_nodes"]) if job["required_nodes"] else []
        free = [n for n in (named or state["nodes"]) if self._fits(state, n, job["gpus"])]
        if job["stuck"] or (named and len(named) != job["node_count"]):
            return
        if len(free) < job["node_count"]:
            job.update(state_reason="Resources", start_time=int(state["now_s"]) + EXPECTED_S)
            return
        if job["restart_cnt"] and state["now_s"] < job["submit_time"] + REVOKED_S:
            self._end(state, job, "FAILED")
            return
        where = free[: job["node_count"]]
        now_s = int(state["now_s"])
        job.update(job_state="RUNNING", nodes=fold(where), start_time=now_s, end_time=now_s + 365 * 86_400)
        job["gres_detail"] = [f"gpu:h100:{job['gpus']}(IDX:0-7)"] * len(where) if job["gpus"] else []
        gpus = job["gpus"] * len(where)
        state["records"].append({"id": job["job_id"], "start": now_s, "end": 0, "state": "", "gpus": gpus})

    def _fits(self, state: dict[str, Any], node: str, gpus: int) -> bool:
        used = sum(j["gpus"] for j in self._on(state, node))
        return state["nodes"][node]["state"] == "up" and used + gpus <= state["nodes"][node]["gpus"]

    def _on(self, state: dict[str, Any], node: str) -> list[Job]:
        busy = ("RUNNING", "COMPLETING")
        return [
            j
            for j in state["jobs"].values()
            if j["job_state"] in busy and node in expand(j["nodes"] or "none")
        ]

    def _requeue(self, state: dict[str, Any], job: Job, why: str, held: bool) -> None:
        now_s = int(state["now_s"])
        self._close(state, job, why)
        job.update(
            job_state="COMPLETING",
            becomes="PENDING",
            clean_s=state["now_s"] + KILL_WAIT_S,
            priority=0 if held else 1,
            restart_cnt=job["restart_cnt"] + 1,
            submit_time=now_s,
        )

    def _end(self, state: dict[str, Any], job: Job, why: str) -> None:
        now_s = int(state["now_s"])
        if job["job_state"] == "RUNNING":
            self._close(state, job, why)
            job.update(job_state="COMPLETING", becomes=why, clean_s=state["now_s"] + 0.5, end_time=now_s)
        elif job["job_state"] == "PENDING":
            job.update(job_state=why, start_time=now_s, end_time=now_s)

    def _close(self, state: dict[str, Any], job: Job, why: str) -> None:
        """End the open record of a job."""
        (record,) = [r for r in state["records"] if r["id"] == job["job_id"] and not r["end"]]
        record.update(end=max(int(state["now_s"]), record["start"]), state=why)

    # -- what is printed -----------------------------------------------------------------------------

    def _squeue(self, state: dict[str, Any]) -> str:
        meta = {"Slurm": {"version": {"major": 22, "micro": 8, "minor": 5}}}
        return json.dumps({"meta": meta, "jobs": list(state["jobs"].values())})

    def _node(self, state: dict[str, Any], name: str) -> dict[str, Any]:
        node = state["nodes"][name]
        busy = Counter(n for j in state["jobs"].values() if j["nodes"] for n in expand(j["nodes"]))
        used = sum(j["gpus"] for j in self._on(state, name) if j["job_state"] == "RUNNING")
        times = 2 if state["now_s"] < state["recounts_until_s"] else 1
        flags = {"drain": ["DRAIN"], "quiet": ["NOT_RESPONDING"]}.get(node["state"], [])
        word = "down" if node["state"] == "down" else "mixed" if busy[name] else "idle"
        return {
            "name": name,
            "state": word,
            "state_flags": flags,
            "gres": f"gpu:h100:{node['gpus']}",
            "gres_used": f"gpu:h100:{times * used}",
            "cpus": 64,
            "threads": 1,
            "real_memory": 1_000_000,
            "reason": node["reason"],
            "partitions": ["main"],
        }

    def _record(self, r: dict[str, Any]) -> dict[str, Any]:
        return {
            "job_id": r["id"],
            "account": "nlp",
            "partition": "main",
            "array": {"job_id": 0, "task_id": None},
            "comment": {"job": ""},
            "state": {"current": r["state"]},
            "time": {"start": r["start"], "end": r["end"], "submission": r["start"], "limit": None},
            "tres": {"allocated": [{"type": "gres", "name": "gpu:h100", "count": r["gpus"]}]},
        }

    # -- the file ------------------------------------------------------------------------------------

    def _change(self, change: Callable[[dict[str, Any]], object]) -> None:
        state = self._load()
        change(state)
        self._settle(state)
        self._save(state)

    def _load(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.path.read_text())
        return found

    def _save(self, state: dict[str, Any]) -> None:
        self.path.write_text(json.dumps(state))
