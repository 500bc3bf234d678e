"""Each step says to Slurm what it must, word for word, and believes only what it sees afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from planner.errors import SourceError
from planner.model.site import Site
from planner.model.workload import Placement, Workload
from planner.schema.slurm import SlurmEntry
from planner.sources.base import Start
from planner.sources.slurm.source import SlurmSource
from planner.sources.slurm.steps import SETTLE_S
from planner.sources.slurm.tools import Answer
from tests.planner.sources.slurm.fake import FakeSlurm


class Listening(FakeSlurm):
    """Also keeps what was put on the input of scontrol."""

    lines: list[str]

    def __call__(self, args: Sequence[str], text: str = "", times: str = "%s") -> Answer:
        self.lines = [*getattr(self, "lines", []), *text.splitlines()]
        return super().__call__(args, text, times)


@pytest.fixture
def slurm(tmp_path: Path) -> Listening:
    return Listening(tmp_path / "slurm.json")


@pytest.fixture
def source(slurm: Listening) -> SlurmSource:
    return SlurmSource(Site(()), SlurmEntry(type="slurm"), slurm, slurm.clock, slurm.sleep)


def workload(source: SlurmSource, name: str) -> Workload:
    """Return a job as it is."""
    return next(w for w in source.observe().workloads if w.id == name)


def start(source: SlurmSource, name: str, *nodes: str, gpus: int = 8) -> Start:
    """Return the order to start a job there."""
    return Start(workload(source, name), tuple(Placement(n, gpus) for n in nodes))


def test_all_jobs_are_bound_before_the_first_is_released(slurm: Listening, source: SlurmSource) -> None:
    one, two = slurm.submit(2), slurm.submit(1)
    source.start([start(source, one, "node001", "node002"), start(source, two, "node004")])
    assert slurm.lines == [
        "update JobId=1 ReqNodeList=node[001-002] NumNodes=2-2",
        "update JobId=2 ReqNodeList=node004 NumNodes=1-1",
        "release 1",
        "release 2",
    ]


def test_gpus_of_a_whole_job_are_given_out_in_equal_parts(slurm: Listening, source: SlurmSource) -> None:
    job = slurm.submit(1, 8, tres_per_node="", tres_per_job="gres:gpu:12", max_nodes=0)
    assert (workload(source, job).replicas, workload(source, job).gpus_per_replica) == (2, 6)
    source.start([start(source, job, "node001", "node002", gpus=6)])
    assert slurm.lines[0].endswith("NumNodes=2-2 TresPerJob= TresPerNode=gres:gpu:6")
    assert [p.gpus for p in workload(source, job).placement] == [6, 6]


def test_a_requeued_job_waits_until_slurmd_has_forgotten_it_and_starts_without_slurms_delay(
    slurm: Listening, source: SlurmSource
) -> None:
    job = slurm.submit(1)
    source.start([start(source, job, "node001")])
    slurm.sleep(5)
    source.preempt([workload(source, job)])
    slurm.sleep(2.1)  # its node is clean by now
    requeued_s = slurm.job(job)["submit_time"]
    told = source.start([start(source, job, "node002")])
    assert told.failed == {}
    assert slurm.lines[-2].endswith("StartTime=now")
    assert told.at_s[job] >= requeued_s + SETTLE_S


def test_what_may_not_be_requeued_is_cancelled(slurm: Listening, source: SlurmSource) -> None:
    job = slurm.submit(1, requeue=False)
    source.start([start(source, job, "node001")])
    slurm.sleep(5)
    assert not workload(source, job).resumable
    assert source.preempt([workload(source, job)]).keys() == {job}
    slurm.sleep(5)
    assert slurm.job(job)["job_state"] == "CANCELLED"


def test_a_start_that_failed_gives_its_nodes_back_and_says_why(slurm: Listening, source: SlurmSource) -> None:
    job = slurm.submit(1)
    order = start(source, job, "node001")
    slurm.node_is("node001", "drain")
    told = source.start([order])
    assert told.failed == {job: "did not start on node001: Resources"}
    assert ["scontrol", "hold", job] in slurm.told
    assert slurm.lines[-1] == f"update JobId={job} ReqNodeList="
    assert slurm.job(job)["priority"] == 0


def test_a_victim_that_does_not_stop_is_told(slurm: Listening, source: SlurmSource) -> None:
    job = slurm.submit(1)
    source.start([start(source, job, "node001")])
    victim = workload(source, job)

    def ignoring(args: Sequence[str], text: str = "", times: str = "%s") -> Answer:
        return Answer(0, "", "") if "requeuehold" in args else slurm(args, text, times)

    deaf = SlurmSource(Site(()), SlurmEntry(type="slurm"), ignoring, slurm.clock, slurm.sleep)
    assert deaf.preempt([victim]) == {}
    assert deaf.complaints() == (f"{job}: was told to stop and runs on",)
    assert deaf.complaints() == ()


@pytest.mark.parametrize("name", ["1;2", "1 2", "$(id)", "-u root", "", "1_2_3", "all"])
def test_no_id_but_a_number_reaches_a_command(slurm: Listening, source: SlurmSource, name: str) -> None:
    told = len(slurm.told)
    with pytest.raises(SourceError, match="is no id of a Slurm job"):
        source.hold([name])
    assert len(slurm.told) == told


@pytest.mark.parametrize(
    "text",
    [
        "slurm_update error: Unable to contact slurm controller (connect failure)",
        "slurm_suspend error: Unexpected message received",
    ],
)
def test_a_controller_that_is_away_is_an_error_and_not_a_complaint(
    slurm: Listening, source: SlurmSource, text: str
) -> None:
    away = Answer(1, "", text)
    source.steps.tools = lambda *_, **__: away
    with pytest.raises(SourceError, match=text.partition(": ")[2].split(" (")[0]):
        source.hold(["1"])


def test_drains_carry_our_mark_and_a_reason_of_one_line(slurm: Listening, source: SlurmSource) -> None:
    source.drain({"node001": "fan\n3", "node002": "fan\n3"})
    (told,) = [t for t in slurm.told if "State=DRAIN" in t]
    assert told == ["scontrol", "update", "NodeName=node[001-002]", "State=DRAIN", "Reason=gangplan: fan\\n3"]


def test_who_may_not_change_jobs_is_told_which_right_is_missing(
    slurm: Listening, source: SlurmSource
) -> None:
    job = slurm.submit(1)
    order = start(source, job, "node001")
    slurm.allow("None")
    missing = r"Access/permission denied; this user needs AdminLevel=Operator in slurmdbd"
    with pytest.raises(SourceError, match=missing):
        source.start([order])
    with pytest.raises(SourceError, match=missing):
        source.hold([job])


def test_an_operator_starts_jobs_and_is_told_that_nodes_need_more(
    slurm: Listening, source: SlurmSource
) -> None:
    slurm.allow("Operator")
    job = slurm.submit(1)
    assert source.start([start(source, job, "node001")]).at_s.keys() == {job}
    with pytest.raises(SourceError, match=r"Invalid user id; this user needs AdminLevel=Admin "):
        source.drain({"node002": "fan"})


def test_a_start_that_slurm_refused_says_what_it_complained_of(slurm: Listening) -> None:
    def refusing(args: Sequence[str], text: str = "", times: str = "%s") -> Answer:
        gate = Answer(1, "", "Unspecified error for job 11\nUnspecified error for job 1\n")
        return gate if "release 1" in text else slurm(args, text, times)

    source = SlurmSource(Site(()), SlurmEntry(type="slurm"), refusing, slurm.clock, slurm.sleep)
    job = slurm.submit(1)
    told = source.start([start(source, job, "node001")])
    assert told.failed == {job: "did not start on node001: Unspecified error for job 1"}


def test_a_job_that_was_requeued_is_bound_to_no_node_and_one_that_its_owner_bound_stays_so(
    slurm: Listening, source: SlurmSource
) -> None:
    preempted, lost, asked = slurm.submit(1), slurm.submit(1), slurm.submit(1, required_nodes="node008")
    source.start([start(source, preempted, "node001"), start(source, lost, "node002")])
    slurm.sleep(5)
    source.preempt([workload(source, preempted)])
    slurm.node_dies("node002")
    slurm.node_is("node008", "drain")
    slurm.loosen(asked)
    slurm.sleep(3)
    source.hold(source.observe().loose)
    assert [slurm.job(j)["required_nodes"] for j in (preempted, lost, asked)] == ["", "", "node008"]
    assert [slurm.job(j)["priority"] for j in (preempted, lost, asked)] == [0, 0, 0]
