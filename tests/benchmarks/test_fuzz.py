"""The fuzzer finds what it claims to look for, repeats itself, and finds nothing in a few hundred inputs."""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import fuzz
from benchmarks.claims import BrokenClaimError, judge
from benchmarks.fuzz import Session, blind
from benchmarks.mutate import BETWEEN, GENTLE, ROUGH, Mutator, copied, places
from benchmarks.targets import Target, target
from benchmarks.tokens import UnreadableError, block_text, flow_text, json_text, read, read_table, table_text
from planner.errors import InputError

ROOT = Path(__file__).parents[2]
WORDS = st.text("abcxyz", min_size=1, max_size=4)
DOCUMENTS = st.dictionaries(
    WORDS,
    st.recursive(
        st.one_of(st.integers(0, 99), WORDS),
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
        max_leaves=12,
    ),
    max_size=5,
)


def options(folder: Path, **other) -> argparse.Namespace:
    usual = {"target": "site", "inputs": 250, "seconds": 60.0, "seed": 1, "limit": 10.0, "memory": 1024}
    return argparse.Namespace(**usual | {"faults": folder / "faults"} | other)


def session(folder: Path, check, **other) -> Session:
    """Return a session over tiny documents with a check of our own."""
    seeds = (b"a: {b: 1, c: [2, 3]}\n", b'{"a": {"b": 4}}')
    return Session(Target(seeds, ("doc",), check, Mutator(seeds)), options(folder, **other), folder)


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_a_few_hundred_inputs_are_read_or_refused_as_they_should_be(name, tmp_path):
    session = Session(target(name, tmp_path), options(tmp_path, target=name), tmp_path)
    blind(session)
    assert session.faults == {}
    assert session.inputs == 250
    assert 10 < session.read < 240
    assert not (tmp_path / "faults").exists()


@pytest.mark.parametrize("name", fuzz.TARGETS)
def test_every_seed_is_read_under_its_own_kind_of_name(name, tmp_path):
    folder = tmp_path / "input"
    folder.mkdir()
    found = target(name, tmp_path)
    tame = replace(found, mutator=replace(found.mutator, rough=0.0))
    assert all(found.check(*tame.files(seed, folder)) for seed in found.seeds)


# -- what it finds -----------------------------------------------------------------------------------


def loop(path: Path) -> bool:
    while True:
        pass


def hoard(path: Path) -> bool:
    return bool(bytearray(1 << 34))


def crash(path: Path) -> bool:
    raise KeyError(path.read_text())


def mumble(path: Path) -> bool:
    raise BrokenClaimError(f'a refusal of "{path.name}"')


@pytest.mark.parametrize(
    ("check", "kind"),
    [
        (loop, "takes more time than it may"),
        (hoard, "MemoryError at test_fuzz.py:"),
        (crash, "KeyError at test_fuzz.py:"),
        (mumble, "a refusal of _"),
    ],
)
def test_a_fault_is_told_once_and_kept_with_its_input(check, kind, tmp_path, capsys):
    run = session(tmp_path, check, inputs=5, limit=0.05)
    blind(run)
    ((found, times),) = run.faults.items()
    assert found.startswith(kind)
    assert (times, run.read) == (5, 0)
    assert capsys.readouterr().out.count(f"site: input 1: {kind}") == 1
    (folder,) = (tmp_path / "faults").iterdir()
    assert (folder / "doc.yaml").read_bytes() == run.target.seeds[0]
    assert "Traceback" in (folder / "fault.txt").read_text()
    assert "1 faults found" in run.line(None)


@pytest.mark.parametrize(
    ("message", "claim"),
    [
        ("a.yaml:1:1: a: is wrong", "what to write"),
        ("a.yaml: a: is wrong, write it right", "place"),
        ("a.yaml:1:1: is wrong, write it right", "place"),
        ("b.yaml:1:1: a: is wrong, write it right", "place"),
        ("a.yaml:1:1: a: is\nwrong, write it right", "one readable line"),
        ("a.yaml:1:1: a: is \x1b[31m, write it right", "one readable line"),
        ("a.yaml:1:1: a: is " + "x" * 3000 + ", write it right", "one readable line"),
    ],
)
def test_a_refusal_that_says_too_little_is_a_fault(message, claim):
    judge("a.yaml:1:1: a: is wrong, write it right", Path("a.yaml"))
    with pytest.raises(BrokenClaimError, match=claim):
        judge(message, Path("a.yaml"))


def test_a_refusal_that_says_too_little_is_found_through_a_target(tmp_path, monkeypatch):
    def refuse(path: Path) -> None:
        raise InputError([f"{path}: is wrong"])

    monkeypatch.setattr("benchmarks.targets.load_site", refuse)
    run = Session(target("site", tmp_path), options(tmp_path, inputs=3), tmp_path)
    blind(run)
    assert sum(run.faults.values()) == 3


def test_a_plan_that_breaks_a_rule_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.targets.verify", lambda *_: ["w: stands nowhere"])
    run = Session(target("round", tmp_path), options(tmp_path, target="round", inputs=3), tmp_path)
    blind(run)
    assert list(run.faults) == ["a plan breaks a rule\nw: stands nowhere"]
    assert {p.stem for p in (tmp_path / "faults" / "round-1").iterdir()} == {"site", "snapshot", "fault"}


def test_an_outside_checker_is_asked_about_plans(tmp_path):
    asked = []
    run = Session(
        target("round", tmp_path, lambda *files: asked.append(files) or []),
        options(tmp_path, target="round", inputs=20),
        tmp_path,
    )
    blind(run)
    assert len(asked) > 5
    site, snapshot, plan = asked[0]
    assert {d["workload"] for d in plan["decisions"]} == {w["id"] for w in snapshot["workloads"]}
    assert site["budgets"]


def test_without_atheris_it_says_what_to_do(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["fuzz", "site"])
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert fuzz.main() == 2
    assert "install gangplan[fuzz], or use --blind" in capsys.readouterr().err


@pytest.mark.skipif(importlib.util.find_spec("atheris") is None, reason="atheris is not installed")
def test_the_guided_search_repeats_itself_and_tells_the_edges_it_covered(tmp_path):
    command = [sys.executable, "-m", "benchmarks.fuzz", "site", "--inputs", "60", "--seed", "4"]
    command += ["--faults", str(tmp_path / "faults")]
    lines = []
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        lines.append(re.sub(r"[0-9]+ s of CPU", "", done.stdout))
    assert lines[0] == lines[1]
    assert re.fullmatch(
        r"site: 60 inputs \(.*\), seed 4, , [0-9]{3} edges covered, 0 faults found\n", lines[0]
    )
    assert not (tmp_path / "faults").exists()


# -- what it does ------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_inputs_and_another_gives_others(tmp_path):
    digests = []
    for i, seed in enumerate((1, 1, 2)):
        folder = tmp_path / str(i)
        folder.mkdir()
        run = session(folder, lambda path: True, seed=seed)
        blind(run)
        digests.append(run.digest)
    assert digests[0] == digests[1] != digests[2]


@given(DOCUMENTS)
def test_a_tree_written_in_any_form_holds_the_document(data):
    tree = read(json.dumps(data))
    assert json.loads(json_text(tree)) == json.loads(json_text(tree, " ")) == data
    assert yaml.safe_load(flow_text(tree)) == data
    assert (yaml.safe_load(block_text(tree)) or {}) == data
    assert json.loads(json_text(read(block_text(tree) if data else "{}"))) == data


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), min_size=1, max_size=4))
def test_a_table_is_written_as_it_was_read(rows):
    text = "\n".join(",".join(row) for row in rows)
    assert table_text(read_table(text)) == text


def test_keys_that_come_twice_are_kept():
    assert flow_text(read("{a: 1, a: 2}")) == "{a: 1, a: 2}"


@pytest.mark.parametrize("damage", sorted(set(ROUGH), key=lambda damage: damage.__name__))
def test_every_kind_of_damage_changes_a_document_and_lends_nothing_out(damage):
    text = '{"a": [{"id": 1, "n": 2}, {"id": 3, "n": 4}], "b": {"id": "x-1"}, "c": {"m": [5, 6]}}'
    changed = 0
    for seed in range(50):
        tree, other = read(text), read('{"a": [{"id": 7, "n": 8, "m": 9}], "c": {}}')
        before = json_text(copied(other))
        damage(Random(seed), places(tree), places(other))
        changed += flow_text(tree) != flow_text(read(text))
        assert json_text(other) == before
    assert changed > 15


def test_gentle_damage_leaves_most_documents_readable():
    data = b'{"a": [{"id": 1, "n": 2}, {"id": 3, "n": 4}], "b": {"id": "x-1"}}'
    mutator = Mutator((data,), rough=0.0)
    assert sum(_readable(mutator(data, 4096, seed)) for seed in range(300)) > 270
    assert set(GENTLE) < set(ROUGH)


def _readable(data: bytes) -> bool:
    try:
        return bool(read(data.decode()).values)
    except UnreadableError:
        return False


@given(st.binary(max_size=200), st.integers(0, 2**32 - 1), st.booleans())
def test_any_bytes_are_damaged_the_same_way_again_and_kept_within_their_size(data, seed, table):
    donors = (b"a,b\n1,2\n",) if table else (b"a: 1" + BETWEEN + b"b: [2]", b"{}")
    mutator = Mutator(donors, table=table)
    once = mutator(data, 300, seed)
    assert once == mutator(data, 300, seed)
    assert len(once) <= 300
