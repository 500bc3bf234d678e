"""The sentences of a hundred random plans are whole, in plain words, and agree with their plan."""

from __future__ import annotations

import re

import pytest

from benchmarks.random_snapshots import random_case
from benchmarks.text import iso
from planner.model.plan import Plan
from tests.planner.worlds import World


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    """Plans of a hundred random worlds."""
    return [World(*random_case(seed)).plan("greedy") for seed in range(100)]


LEAKS = re.compile(
    r"None|\bnan\b|\binf\b|np\.|int64|float64|  |\[\]|\{\}|\(\)|<|\bTrue\b|\bFalse\b|, ,|\.\.|: \.|: ;"
)
NUMBER = re.compile(
    r"(?<![\d.])1 (GPU|node|replica|CPU|segment)s\b|(?<!\d)(?!1 )\d+ (GPU|node|replica|CPU)\b"
)


def test_every_sentence_is_whole_and_free_of_what_programs_say(plans: list[Plan]):
    sentences = {d.reason.text for plan in plans for d in plan.decisions}
    assert len(sentences) > 500
    for text in sentences:
        assert text == text.strip()
        assert len(text) > 10
        assert not LEAKS.search(text), text


def test_one_of_a_thing_is_singular_and_all_else_is_plural(plans: list[Plan]):
    sentences = {d.reason.text for plan in plans for d in plan.decisions}
    assert {text for text in sentences if NUMBER.search(text)} == set()
    assert any(" 1 GPU" in text for text in sentences)
    assert any("1 node has" in text for text in sentences)


def test_codes_are_stable_names(plans: list[Plan]):
    codes = {d.reason.code for plan in plans for d in plan.decisions}
    assert all(re.fullmatch(r"([A-Z][a-z]+)+", code) for code in codes)
    assert len(codes) > 20


def test_victims_name_their_gainers_and_gainers_their_victims(plans: list[Plan]):
    seen = 0
    for plan in plans:
        made_room: dict[str, list[str]] = {}
        for d in plan.decisions:
            for gainer in d.victims_for:
                made_room.setdefault(gainer, []).append(d.workload)
            assert all(g in d.reason.text for g in d.victims_for[:3])
        for d in plan.decisions:
            victims = made_room.get(d.workload, [])
            if d.action == "start" and victims:
                seen += 1
                assert f"{', '.join(victims[:3])}" in d.reason.text
                assert "made room" in d.reason.text
    assert seen > 20


def test_a_promise_in_a_sentence_is_the_one_in_the_plan(plans: list[Plan]):
    seen = 0
    for plan in plans:
        promised = {r.workload: r.start_s for r in plan.reservations}
        for d in plan.decisions:
            said = re.search(r"promised a start at (\S+?)(,| |;|$)", d.reason.text)
            if said:
                seen += 1
                assert iso(promised[d.workload]) == said[1]
    assert seen > 10
