"""What each format's small log becomes, job by job."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cells import utc
from planner.traces.convert import Wishes, convert
from planner.traces.formats import read_log
from tests.planner.faults import refusal
from tests.planner.traces import logs
from tests.planner.traces.logs import LOGS, put

GIB = 1 << 30


def imported(folder: Path, form: str, name: str, **wishes: Any) -> tuple[dict[str, tuple[Any, ...]], dict]:
    """Return id -> (submit, replicas, GPUs of each, run time, allocation) of a small log, and its notes."""
    found = convert(read_log(form, [put(folder, name, LOGS[form][name])]), Wishes(**wishes))
    t = found.trace
    rows = zip(t.submitted_s, t.replicas, t.gpus_per_replica, t.runtime_s, t.allocation, strict=True)
    return dict(zip(t.id, ((*map(int, row[:4]), row[4]) for row in rows), strict=True)), dict(found.notes)


def test_philly_flat(tmp_path):
    jobs, notes = imported(tmp_path, "philly", "philly.csv")
    assert jobs == {
        "philly-000002": (0, 2, 8, 7200, "6214e9"),
        "philly-000001": (25 * 3600, 1, 1, 90, "blue"),
        "philly-000003": (39 * 3600, 2, 8, 40001, "blue"),
    }
    assert notes == {"changed: rounded up to whole nodes, 4 GPUs in all": 1}


def test_philly_json(tmp_path):
    """Attempts add up, the widest counts, and machines are replicas if they are alike."""
    jobs, notes = imported(tmp_path, "philly", "jobs.json")
    assert jobs == {
        "application_1_0001": (0, 2, 2, 3660, "blue"),
        "application_1_0003": (86400, 1, 4, 15, "green"),
    }
    assert notes["left out: no run on record"] == 1
    assert notes["left out: an attempt without a start or an end"] == 1


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        (("jobid",), 7, "[0].jobid: 7 is not"),
        (("submitted_time",), None, "[0].submitted_time: null is not"),
        (("submitted_time",), "soon", '[0].submitted_time: "soon" is not'),
        (("attempts",), {}, "[0].attempts: a mapping is not"),
        (("attempts", 1), "x", '[0].attempts[1]: "x" is not'),
        (("attempts", 1, "end_time"), 12, "[0].attempts[1].end_time: 12 is not"),
        (("attempts", 0, "detail", 1), [], "[0].attempts[0].detail[1]: a list is not"),
        (("attempts", 0, "detail", 1, "gpus"), 8, "[0].attempts[0].detail[1].gpus: 8 is not"),
    ],
)
def test_philly_json_with_a_wrong_value_is_refused_with_its_place(tmp_path, where, value, said):
    jobs = json.loads(logs.PHILLY_JSON)
    here = jobs[0]
    for step in where[:-1]:
        here = here[step]
    here[where[-1]] = value
    text = json.dumps(jobs, indent=1)
    path = put(tmp_path, "jobs.json", text)
    (message,) = refusal(read_log, "philly", [path])
    line, column = map(int, message.removeprefix(f"{path}:").split(":")[:2])
    assert said in message
    start = text.split("\n")[line - 1][column - 1 :]
    assert start.startswith(f'"{where[-1]}"' if isinstance(where[-1], str) else json.dumps(value)[:1])


@pytest.mark.parametrize("text", ["[", "[]", "[1]", "[" * 100_000, '[{"jobid": NaN}]'])
def test_philly_json_that_is_no_list_of_jobs_is_refused(tmp_path, text):
    assert refusal(read_log, "philly", [put(tmp_path, "jobs.json", text)])


def test_itp(tmp_path):
    jobs, _ = imported(tmp_path, "itp", "cluster09.csv")
    assert jobs == {
        "j-2": (50, 8, 8, 30000, "cluster09"),
        "j-1": (100, 1, 1, 600, "cluster09"),
        "j-3": (2592000, 1, 8, 700, "cluster09"),
    }


def test_kalos_decoded(tmp_path):
    jobs, _ = imported(tmp_path, "kalos", "kalos.csv")
    assert jobs == {
        "0": (0, 8, 8, 104, "Other"),
        "1": (500, 127, 8, 31, "Pretrain"),
        "2": (900, 1, 2, 60, "Other"),
    }


def test_kalos_published(tmp_path):
    jobs, notes = imported(tmp_path, "kalos", "trace_kalos.csv", allocation_from="user")
    assert jobs == {"d1": (0, 2, 8, 18, "u1")}
    assert notes == {"left out: no run on record": 1, "left out: no GPU": 1}
    log = read_log("kalos", [tmp_path / "trace_kalos.csv"])
    trace = convert(log, Wishes()).trace
    assert trace.cpus_milli_per_replica.tolist() == [120_000]
    assert trace.memory_bytes_per_replica.tolist() == [1000 * GIB]
    assert log.submitted_s[2] == utc("2023-05-17 12:00:00")


def test_openb(tmp_path):
    jobs, notes = imported(tmp_path, "openb", "pods.csv")
    assert jobs == {"p1": (0, 1, 1, 4990, "LS"), "p3": (20, 1, 8, 4880, "BE")}
    assert notes == {
        "left out: a fraction of a GPU": 1,
        "left out: no run on record": 1,
        "left out: no GPU": 1,
    }


@pytest.mark.parametrize("keep", [False, True])
def test_openb_types_bind_if_they_are_to(tmp_path, keep):
    log = read_log("openb", [put(tmp_path, "pods.csv", logs.OPENB)])
    trace = convert(log, Wishes(keep_types=keep)).trace
    assert trace.gpu_types == ((), ("V100M16", "V100M32") if keep else ())


def test_helios(tmp_path):
    jobs, notes = imported(tmp_path, "helios", "log.csv")
    assert jobs == {"11": (0, 1, 1, 600, "vcA"), "12": (60, 2, 8, 86400, "vcB")}
    assert notes == {"left out: no run on record": 1, "left out: no GPU": 1}


def test_swf(tmp_path):
    """Processors used, else asked for; a part of a job and one that never ran are left out."""
    jobs, notes = imported(tmp_path, "swf", "log.swf")
    assert jobs == {"1": (0, 2, 8, 100, "3"), "2": (10, 1, 4, 51, "unknown")}
    assert notes == {
        "left out: no run on record": 1,
        "left out: a part of a job that has a line of its own": 1,
    }
    log = read_log("swf", [tmp_path / "log.swf"])
    assert log.submitted_s[0] == 1_000_000_010
    assert log.time_limit_s == [7200, -1, 60]


def test_swf_without_a_start_counts_from_second_0_and_extra_fields_have_numbers(tmp_path):
    text = "1 10 0 60 8 -1 -1 8 -1 -1 1 3 1 -1 2 1 -1 -1 n7 q_2h\n"
    log = read_log("swf", [put(tmp_path, "log.swf", text)])
    assert (log.calendar, log.submitted_s) == (False, [10])
    assert (log.labels["19"], log.labels["20"]) == (["n7"], ["q_2h"])
    log = read_log("swf", [put(tmp_path, "log.swf", text.replace("1 10", "1 1356996147", 1))])
    assert (log.calendar, log.submitted_s) == (True, [1356996147])


@pytest.mark.parametrize(
    ("text", "said"), [("", "holds no job"), ("; a\n", "holds no job"), ("1 2 3\n", "3 fields")]
)
def test_swf_that_is_none_is_refused(tmp_path, text, said):
    assert said in refusal(read_log, "swf", [put(tmp_path, "log.swf", text)])[0]


def test_sacct(tmp_path):
    """Steps are skipped, attempts added up; without GPUs or without a start a job is left out."""
    jobs, notes = imported(tmp_path, "sacct", "sacct.txt")
    assert jobs == {
        "101": (0, 2, 8, 93600, "nlp"),
        "102": (3600, 1, 8, 5400, "nlp"),
        "105": (10800, 2, 6, 600, "vis"),
    }
    assert notes == {
        "changed: attempts of a requeued job added up": 1,
        "changed: still running, its work taken as done": 1,
        "left out: no run on record": 1,
        "left out: no GPU": 1,
    }


def test_sacct_limits_types_and_amounts(tmp_path):
    log = read_log("sacct", [put(tmp_path, "sacct.txt", logs.SACCT)])
    trace = convert(log, Wishes(keep_types=True)).trace
    assert trace.time_limit_s.tolist() == [172800, -1, -1]
    assert trace.gpu_types == ((), ("h100",), ())
    assert trace.cpus_milli_per_replica.tolist() == [32_000, 8_000, 4_000]
    assert trace.memory_bytes_per_replica.tolist() == [256 * GIB, 0, 125 * GIB // 4]
    assert trace.user == ("ann", "bob", "cat")


def test_sacct_comments_hold_the_contract_and_what_they_leave_out_is_drawn(tmp_path):
    """The comment of the last attempt counts, and no other job is drawn otherwise for it."""
    comments = {
        "101|": '{"min_runtime": "3h", "resumable": false}',
        "102|nlp|bob|2026-10-01T09:00": '{"min_runtime": "1h"}',
        "102|nlp|bob|2026-10-01T09:30": '{"resumable": true}',
        "105|": '{"min_runtime": 240}',
    }
    lines = [f"{logs.SACCT.splitlines()[0]}|Comment"]
    for line in logs.SACCT.splitlines()[1:]:
        said = next((text for start, text in comments.items() if line.startswith(start)), "of my own")
        lines.append(f"{line}|{said}")
    plain = convert(read_log("sacct", [put(tmp_path, "a.txt", logs.SACCT)]), Wishes()).trace
    found = convert(read_log("sacct", [put(tmp_path, "b.txt", "\n".join(lines))]), Wishes())
    assert found.trace.id == ("101", "102", "105")
    assert found.trace.min_runtime_s.tolist() == [10_800, *plain.min_runtime_s[1:].tolist()]
    assert found.trace.resumable.tolist() == [False, True, plain.resumable[2]]
    assert found.notes["read: contract in the comment"] == 2
    assert found.notes["changed: contract in the comment means nothing, drawn"] == 1


def test_sacct_parsable_with_its_bar_at_the_end_is_the_same(tmp_path):
    plain = read_log("sacct", [put(tmp_path, "a.txt", logs.SACCT)])
    barred = "\n".join(f"{line}|" if line else "" for line in logs.SACCT.split("\n"))
    assert read_log("sacct", [put(tmp_path, "b.txt", barred)]) == plain


def test_sacct_in_raw_seconds_and_epoch_times_is_the_same(tmp_path):
    text = "JobID|Submit|Start|{}|State|AllocTRES\n7|{}|{}|{}|COMPLETED|gres/gpu=8\n"
    a = text.format("Elapsed", "2026-10-01T08:00:00", "2026-10-01T08:00:00", "01:00:00")
    b = text.format("ElapsedRaw", utc("2026-10-01 08:00"), utc("2026-10-01 08:00"), "3600")
    found = [read_log("sacct", [put(tmp_path, "s.txt", t)]) for t in (a, b)]
    assert found[0].submitted_s == found[1].submitted_s
    assert found[0].runtime_s == found[1].runtime_s == [3600]


ENDS = ["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED by 7", "OUT_OF_MEMORY"]
AGAIN = ["REQUEUED", "NODE_FAIL", "PREEMPTED"]


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(1, 3), st.lists(st.integers(1, 90_000), min_size=1, max_size=4)), max_size=6
    ),
    st.data(),
)
def test_sacct_rows_in_any_order_seen_once_or_twice_are_the_same_jobs(tmp_path_factory, jobs, data):
    """Jobs follow one another; those that share a number are told apart by how the one before ended."""
    rows, expected, now_s, taken = [], [], 1_000_000_000, {}
    for number, elapsed in jobs:
        taken[number] = taken.get(number, 0) + 1
        job = str(number) if taken[number] == 1 else f"{number}#{taken[number]}"
        expected.append((job, now_s, sum(elapsed)))
        for k, seconds in enumerate(elapsed):
            state = data.draw(st.sampled_from(ENDS if k == len(elapsed) - 1 else AGAIN))
            rows.append(f"{number}|{now_s}|{now_s + 5}|{seconds}|{state}|gres/gpu=8")
            if data.draw(st.booleans()):
                rows.append(f"{number}|{now_s}|{now_s + 5}|{seconds // 2}|RUNNING|gres/gpu=8")
            rows += [f"{number}.0|{now_s}|{now_s + 5}|{seconds}|{state}|gres/gpu=8"] * (k % 2)
            now_s += seconds + 10
    if not jobs:
        return
    rows = data.draw(st.permutations(rows + data.draw(st.lists(st.sampled_from(rows), max_size=3))))
    text = "\n".join(["JobID|Submit|Start|ElapsedRaw|State|AllocTRES", *rows]) + "\n"
    log = read_log("sacct", [put(tmp_path_factory.getbasetemp(), "sacct.txt", text)])
    assert sorted(zip(log.id, log.submitted_s, log.runtime_s, strict=True)) == sorted(expected)
