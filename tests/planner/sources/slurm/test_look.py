"""What real commands printed becomes the world that it describes, in the encodings of older and newer Slurms.

The samples are of Slurm 22.05.8 on the 16-node testbed: jobs of every kind, a node drained by gangplan, one
by hand, one down, one job requeued and one cancelled a moment ago, and maintenance two hours ahead.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planner.errors import InputError, SourceError
from planner.model.site import Site
from planner.model.workload import Topology, Workload
from planner.schema.slurm import RuleEntry, SlurmEntry
from planner.sources.base import World
from planner.sources.slurm.accounts import read_runs
from planner.sources.slurm.nodes import MIB, islands, locate, read_topology
from planner.sources.slurm.source import SlurmSource
from planner.sources.slurm.tools import Answer

SAMPLES = Path(__file__).parent / "samples"
NOW_S = int((SAMPLES / "time.txt").read_text())
SETTINGS = SlurmEntry(type="slurm", levels=["block", "leaf"])
STATE_FIELDS = ("job_state", "state")
NUMBERS = {
    "array_job_id", "array_max_tasks", "array_task_id", "cpus", "eligible_time", "end_time", "het_job_id",
    "max_nodes", "memory_per_cpu", "memory_per_node", "node_count", "priority", "start_time", "submit_time",
    "tasks", "tasks_per_node", "time_limit",
}  # fmt: skip


def sample(name: str) -> str:
    """Return what a command printed."""
    return (SAMPLES / name).read_text()


class Replay:
    """Answers from the samples."""

    def __init__(self, jobs: Any, nodes: Any, partitions: str = sample("partition.txt")) -> None:
        self.jobs, self.nodes, self.partitions = jobs, nodes, partitions

    def __call__(self, args: Any, text: str = "", times: str = "%s") -> Answer:
        words = " ".join(args)
        files = {"topology": "topology", "reservation": "reservation", "config": "config"}
        if words == "scontrol -o show partition":
            return Answer(0, self.partitions, "")
        if args[0] == "squeue":
            return Answer(0, json.dumps(self.jobs), "")
        if words in ("sinfo --json", "scontrol show nodes --json"):
            newer = self.jobs["meta"]["Slurm"]["version"]["major"] not in (22,)
            assert (args[0] == "scontrol") == newer
            return Answer(0, json.dumps(self.nodes), "")
        return Answer(0, sample(f"{files[args[-1]]}.txt"), "")


def world(settings: SlurmEntry = SETTINGS, change: Any = lambda jobs, nodes: (jobs, nodes)) -> World:
    """Return the world of the samples, read with some settings and changed before."""
    jobs, nodes = change(json.loads(sample("squeue.json")), json.loads(sample("sinfo.json")))
    return SlurmSource(Site(()), settings, Replay(jobs, nodes), lambda: NOW_S).observe()


@pytest.fixture(scope="module")
def here() -> World:
    return world()


def job(world: World, name: str) -> Workload:
    """Return a workload."""
    return next(w for w in world.workloads if w.id == name)


# -- jobs --------------------------------------------------------------------------------------------


def test_a_running_gang_stands_where_it_runs_with_the_contract_of_its_comment(here: World) -> None:
    w = job(here, "1")
    assert (w.state, w.replicas, w.gpus_per_replica, w.allocation) == ("running", 2, 8, "nlp")
    assert (w.min_runtime_s, w.resumable, w.time_limit_s) == (4 * 3600, True, 86_400)
    assert [(p.node, p.gpus) for p in w.placement] == [("node001", 8), ("node002", 8)]
    assert w.started_s == NOW_S - 1


def test_gpus_of_the_whole_job_are_equal_parts_on_as_few_nodes_as_hold_them(here: World) -> None:
    assert [(p.node, p.gpus) for p in job(here, "2").placement] == [("node003", 8), ("node004", 8)]
    w = job(here, "3")
    assert (w.replicas, w.gpus_per_replica, w.gpu_types, w.cpus_milli_per_replica) == (1, 3, ("h100",), 4000)


def test_gpus_by_task_are_added_up_on_each_node(here: World) -> None:
    assert (job(here, "5").replicas, job(here, "5").gpus_per_replica) == (1, 8)


def test_an_exclusive_job_takes_all_cpus_and_a_job_with_all_memory_all_of_it(here: World) -> None:
    assert job(here, "6").cpus_milli_per_replica == 64_000
    assert job(here, "7").memory_bytes_per_replica == 1_000_000 * MIB


def test_an_array_is_its_tasks_and_no_more_wait_than_may_run_at_once(here: World) -> None:
    tasks = {w.id: w.state for w in here.workloads if w.id.startswith("4_")}
    assert tasks == {"4_1": "running", "4_0": "pending"}


@pytest.mark.parametrize("name", ["9", "10"])
def test_what_may_not_begin_yet_is_not_there_yet(here: World, name: str) -> None:
    assert name not in {w.id for w in here.workloads} | here.unplanned.keys()


def test_when_slurm_expects_a_start_is_no_reason_to_leave_a_job_out() -> None:
    def expected(jobs: Any, nodes: Any) -> Any:
        for j in jobs["jobs"]:
            if j["job_id"] == 12:
                j["start_time"] = NOW_S + 3600
        return jobs, nodes

    assert job(world(change=expected), "12").state == "pending"


def test_what_no_plan_can_meet_is_told_with_what_to_submit_instead(here: World) -> None:
    assert here.unplanned == {
        "8": "13 GPUs on 2 nodes are no equal parts, submit it with --gpus-per-node",
        "11": "asks for excluded nodes node001, submit it without",
    }


def test_a_job_without_a_time_limit_has_none(here: World) -> None:
    assert job(here, "12").time_limit_s is None


def test_a_requeued_job_is_stopping_until_its_nodes_are_clean(here: World) -> None:
    w = job(here, "13")
    assert (w.state, [p.node for p in w.placement]) == ("stopping", ["node006"])


@pytest.mark.parametrize("told_s", [0, NOW_S - 9, NOW_S + 1])
def test_what_is_stopping_never_began_after_the_look(told_s: int) -> None:
    def requeued(jobs: Any, nodes: Any) -> Any:
        for j in jobs["jobs"]:
            if j["job_id"] == 13:
                j["start_time"] = told_s
        return jobs, nodes

    found = world(change=requeued)
    assert job(found, "13").started_s == min(told_s or NOW_S, NOW_S)
    assert found.time_s == NOW_S


def test_parts_of_nodes_are_kept_apart_by_cpus(here: World) -> None:
    w = job(here, "14")
    assert (w.replicas, w.gpus_per_replica, w.cpus_milli_per_replica) == (4, 2, 33_000)


def test_a_job_that_is_over_holds_its_node_until_it_is_clean(here: World) -> None:
    assert job(here, "15").state == "stopping"


# -- nodes -------------------------------------------------------------------------------------------


def test_nodes_have_their_switches_outermost_first(here: World) -> None:
    (cluster,) = here.clusters
    assert (cluster.name, cluster.levels) == ("testbed", ("block", "leaf"))
    places = {n.name: n.location for n in cluster.nodes}
    assert places["node005"] == ("block01", "leaf002")
    assert len(places) == 16


def test_health_is_what_slurm_says_and_only_our_drains_are_ours(here: World) -> None:
    states = {n.name: n.state for n in here.clusters[0].nodes if n.state != "up"}
    assert states == {"node001": "draining", "node009": "draining", "node010": "down"}
    assert [n for n, f in here.nodes.items() if f.ours] == ["node009"]
    assert [n for n, f in here.nodes.items() if f.failing] == ["node010"]
    assert here.nodes["node001"].reason == "by hand"


def test_nodes_of_a_coming_reservation_take_no_work_that_may_reach_into_it(here: World) -> None:
    assert [n for n, f in here.nodes.items() if f.kept] == ["node015", "node016"]


def test_maintenance_that_has_begun_drains_its_nodes() -> None:
    later = SlurmSource(
        Site(()), SETTINGS, Replay(json.loads(sample("squeue.json")), json.loads(sample("sinfo.json"))),
        lambda: NOW_S + 3 * 3600 - 600,
    ).observe()  # fmt: skip
    states = {n.name: n.state for n in later.clusters[0].nodes}
    assert (states["node015"], states["node016"]) == ("draining", "draining")


def test_a_node_that_does_not_answer_fails_but_is_not_down_yet() -> None:
    def quiet(jobs: Any, nodes: Any) -> Any:
        nodes["nodes"][4]["state_flags"] = ["NOT_RESPONDING"]
        return jobs, nodes

    found = world(change=quiet)
    assert found.nodes["node005"].failing
    assert {n.state for n in found.clusters[0].nodes if n.name == "node005"} == {"up"}


def test_nodes_that_are_not_there_yet_get_nothing_now_and_need_not_settle() -> None:
    def restarted(jobs: Any, nodes: Any) -> Any:
        for n in nodes["nodes"][1:8]:
            n["state"] = "unknown"
        return jobs, nodes

    found = world(change=restarted)
    assert {f"node{i:03d}" for i in range(2, 9)} <= {n for n, f in found.nodes.items() if f.kept}
    assert [n for n, f in found.nodes.items() if f.failing] == ["node010"]


def test_gpus_that_slurm_has_lost_count_of_are_not_planned_and_told() -> None:
    def leak(jobs: Any, nodes: Any) -> Any:
        nodes["nodes"][11]["gres_used"] = "gpu:h100:8(IDX:0-7)"
        return jobs, nodes

    found = world(change=leak)
    assert {n.name: n.gpus for n in found.clusters[0].nodes if n.gpus != 8} == {"node012": 0}
    assert any(w.startswith("node012: Slurm counts 8 GPUs as used that no job holds") for w in found.warnings)


def test_nodes_on_which_more_gpus_are_used_than_there_are_mean_that_slurm_is_not_ready() -> None:
    def restarted(jobs: Any, nodes: Any) -> Any:
        for n in nodes["nodes"][2:4]:
            n["gres_used"] = "gpu:h100:16"
        return jobs, nodes

    with pytest.raises(SourceError, match=r"^Slurm is not ready: .* on node\[003-004\], "):
        world(change=restarted)


# -- contract by rules -------------------------------------------------------------------------------


def test_rules_say_what_comments_do_not_and_the_first_that_says_it_counts() -> None:
    rules = [
        RuleEntry(account="vision", min_runtime="2h"),
        RuleEntry(partition="main", min_runtime="1h", allocation="pool", topology={"required": "leaf"}),
        RuleEntry(partition="other", priority=9),
    ]
    found = world(replace_rules(rules))
    assert job(found, "12").min_runtime_s == 7200
    assert job(found, "3").min_runtime_s == 3600
    assert job(found, "3").allocation == "pool"
    assert job(found, "3").topology == Topology("leaf")
    assert job(found, "1").min_runtime_s == 4 * 3600
    assert job(found, "3").priority == 0


def replace_rules(rules: list[RuleEntry], allocation: str = "comment") -> SlurmEntry:
    """Return settings with other rules."""
    return SETTINGS.model_copy(update={"rules": rules, "allocation": allocation})


@pytest.mark.parametrize(("who", "expected"), [("comment", "vision/secret"), ("account", "nlp")])
def test_a_comment_says_who_pays_only_where_the_site_lets_it(who: str, expected: str) -> None:
    def charge(jobs: Any, nodes: Any) -> Any:
        jobs["jobs"][0]["comment"] = '{"allocation": "vision/secret"}'
        return jobs, nodes

    assert job(world(replace_rules([], who), charge), "1").allocation == expected


def test_a_comment_with_nonsense_is_told_and_bounded() -> None:
    def nonsense(jobs: Any, nodes: Any) -> Any:
        waiting = [j for j in jobs["jobs"] if j["job_state"] == "PENDING"]
        waiting[0]["comment"] = '{"min_runtime": 30, "priority": "high"}'
        waiting[1]["comment"] = "[" * 100_000
        waiting[2]["comment"] = '{"min_runtime": "4h"' + " " * 5000 + "}"
        return jobs, nodes

    found = world(change=nonsense)
    assert [w.split(": ", 2)[1:2] for w in found.warnings] == [["comment"], ["comment"], ["comment"]]
    assert "write 30s, 30m or 30h" in found.warnings[0]
    assert {w.min_runtime_s for w in found.workloads if w.state == "pending"} == {None}


# -- other Slurms ------------------------------------------------------------------------------------


def as_in_2311(jobs: Any, nodes: Any) -> Any:
    """Write samples as 23.11 does: numbers are objects, states are lists, nodes come from scontrol."""
    jobs["meta"]["Slurm"]["version"] = {"major": "23", "minor": "11", "micro": "4"}
    for j in jobs["jobs"]:
        for key in NUMBERS & j.keys():
            value = j[key]
            j[key] = {"set": value is not None, "infinite": False, "number": value or 0}
        if j["time_limit"]["set"] is False:
            j["time_limit"] = {"set": True, "infinite": True, "number": 0}
        j["job_state"] = [j["job_state"]]
        j["tres_per_node"] = j["tres_per_node"].replace("gres:gpu", "gres/gpu")
        j["tres_per_job"] = j["tres_per_job"].replace("gres:gpu", "gres/gpu")
        j["shared"] = [j["shared"]] if j["shared"] else []
        del j["required_nodes"]
    for n in nodes["nodes"]:
        n["state"] = [n["state"].upper(), *n.pop("state_flags")]
        n["effective_cpus"] = n["cpus"]
        n["real_memory"] = {"set": True, "infinite": False, "number": n["real_memory"]}
    return jobs, nodes


def as_in_2405(jobs: Any, nodes: Any) -> Any:
    """Write samples as 24.05 does: the nodes of a job are a structure, base state and flags stand apart."""
    jobs, nodes = as_in_2311(jobs, nodes)
    jobs["meta"]["Slurm"]["version"] = {"major": "24", "minor": "05", "micro": "1"}
    for j in jobs["jobs"]:
        j["nodes"] = {"count": 1, "list": j["nodes"], "select_type": ["AVAILABLE"]}
        over = j["job_id"] == 15
        if j["job_state"] == ["COMPLETING"]:
            j["job_state"] = ["CANCELLED" if over else "PENDING", "COMPLETING"]
    return jobs, nodes


@pytest.mark.parametrize("change", [as_in_2311, as_in_2405])
def test_newer_encodings_say_the_same(here: World, change: Any) -> None:
    assert world(change=change) == here


# -- accounts ----------------------------------------------------------------------------------------


def test_accounts_tell_ended_attempts_alone() -> None:
    data = json.loads(sample("sacct.json"))
    for record in data["jobs"]:
        if record["state"]["current"] in ("REQUEUED", "CANCELLED"):
            record["time"]["end"] += 30
    runs = list(read_runs(data, SETTINGS, {"main": ("testbed", "h100")}))
    found = {r.workload.id: (r.started_s, r.ended_s, r.gpus) for r in runs}
    begin_s = NOW_S - 1
    assert found == {
        "13": (begin_s, begin_s + 30, (("testbed", "h100", 8),)),
        "15": (begin_s, begin_s + 30, (("testbed", "h100", 1),)),
    }
    assert {r.workload.allocation for r in runs} == {"vision", "nlp"}


# -- topology and partitions -------------------------------------------------------------------------


def test_more_names_than_levels_are_refused() -> None:
    with pytest.raises(InputError, match="names 3 levels, and Slurm has 2"):
        locate(read_topology(sample("topology.txt")), ["spine", "block", "leaf"], ())


def test_levels_without_names_get_the_usual_ones() -> None:
    assert locate(read_topology(sample("topology.txt")), [], ())[0] == ("block", "leaf")


def test_partitions_with_common_nodes_are_one_cluster() -> None:
    partitions = {"all": {"a", "b", "c"}, "some": {"a"}, "far": {"x"}}
    assert islands({p: frozenset(n) for p, n in partitions.items()}) == {
        "all": "all",
        "some": "all",
        "far": "far",
    }


def test_jobs_of_partitions_that_are_not_planned_only_take_room() -> None:
    def elsewhere(jobs: Any, nodes: Any) -> Any:
        jobs["jobs"][0]["partition"] = "private"
        return jobs, nodes

    found = world(SETTINGS.model_copy(update={"partitions": ["main"]}), elsewhere)
    assert "1" not in {w.id for w in found.workloads}
    gpus = {n.name: n.gpus for n in found.clusters[0].nodes}
    assert (gpus["node001"], gpus["node003"]) == (0, 8)
    assert replace(found, workloads=()).nodes["node001"].busy


def two_partitions(second: str) -> World:
    """Return the world with a partition of the first eight nodes, and another one."""
    text = f"PartitionName=main Nodes=node[001-008]\nPartitionName=second Nodes={second}\n"
    jobs, nodes = json.loads(sample("squeue.json")), json.loads(sample("sinfo.json"))
    for j in jobs["jobs"]:
        j["partition"] = "second" if j["job_id"] in (3, 14) else "main"
    return SlurmSource(Site(()), SETTINGS, Replay(jobs, nodes, text), lambda: NOW_S).observe()


def test_partitions_without_common_nodes_are_clusters_that_no_gang_leaves() -> None:
    found = two_partitions("node[009-016]")
    assert {c.name: len(c.nodes) for c in found.clusters} == {"main": 8, "second": 8}
    assert {w.clusters for w in found.workloads if w.id in ("3", "14")} == {("second",)}
    assert job(found, "12").clusters == ("main",)


def test_jobs_of_a_partition_that_is_part_of_another_are_not_planned_and_told() -> None:
    found = two_partitions("node[001-004]")
    assert [c.name for c in found.clusters] == ["testbed"]
    assert "3" not in {w.id for w in found.workloads}
    assert "only some nodes of the partitions that it overlaps" in found.unplanned["3"]
    assert job(found, "12").clusters == ()
