"""Gangs on a background: nothing of it changes, and the gangs are those that were asked for, scaled."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.errors import InputError
from planner.simulation.trace import Trace
from planner.traces.overlay import overlay
from tests.planner.simulation.traces import trace, traces

BACKGROUND = trace([{"id": f"b{i}", "submitted_s": 100 * i, "allocation": "x"} for i in range(11)])


def rows(t: Trace) -> dict[str, tuple]:
    """Return what a trace says of each workload, as text where NaN would differ from itself."""
    return {t.id[i]: tuple(str(getattr(t, f)[i]) for f in t.__dataclass_fields__) for i in range(t.count)}


@settings(max_examples=40)
@given(traces(4), traces(4), st.fractions(Fraction(1, 100), 1, max_denominator=100))
def test_the_background_stays_as_it_is_and_gangs_keep_all_but_size_and_payer(ground, gangs, scale):
    last_s = ground.submitted_s.max()
    late = [i for i in range(gangs.count) if gangs.submitted_s[i] > last_s]
    if len(late) == gangs.count:
        with pytest.raises(InputError, match="no gang is left"):
            overlay(ground, gangs, scale, ["t1"])
        return
    both = overlay(ground, gangs, scale, ["t1"])
    assert (both.taken, both.too_late) == (gangs.count - len(late), len(late))
    found = rows(both.trace)
    assert {k: v for k, v in found.items() if not k.startswith("gang-")} == rows(ground)
    fields = list(gangs.__dataclass_fields__)
    for i in set(range(gangs.count)) - set(late):
        for name, value in zip(fields, found[f"gang-{gangs.id[i]}"], strict=True):
            if name == "replicas":
                exact = int(gangs.replicas[i]) * scale
                assert abs(int(value) - exact) <= Fraction(1, 2) or (value == "1" and exact < 1)
            elif name not in ("id", "allocation"):
                assert value == str(getattr(gangs, name)[i])
    order = list(zip(both.trace.submitted_s.tolist(), both.trace.id, strict=True))
    assert order == sorted(order)


def test_gangs_are_taken_by_their_size_before_scaling_and_by_allocation():
    gangs = trace(
        [
            {"id": "small", "replicas": 31, "allocation": "pre"},
            {"id": "wide", "replicas": 32, "allocation": "pre"},
            {"id": "other", "replicas": 64, "allocation": "eval"},
        ]
    )
    both = overlay(BACKGROUND, gangs, Fraction(1, 8), ["t"], min_gpus=256, of=["pre"])
    assert [name for name in both.trace.id if name.startswith("gang-")] == ["gang-wide"]
    assert (both.taken, both.not_wanted, both.too_late) == (1, 2, 0)
    assert both.trace.replicas[both.trace.id.index("gang-wide")] == 4


def test_several_allocations_take_turns_by_submit():
    gangs = trace([{"id": f"g{i}", "submitted_s": 50 * i} for i in range(5)])
    both = overlay(BACKGROUND, gangs, Fraction(1), ["t1", "t2"]).trace
    paid = [both.allocation[both.id.index(f"gang-g{i}")] for i in range(5)]
    assert paid == ["t1", "t2", "t1", "t2", "t1"]


def test_gangs_beyond_reason_are_refused():
    with pytest.raises(InputError, match='"g": is scaled to 8000000 GPUs'):
        overlay(BACKGROUND, trace([{"id": "g", "replicas": 1000}]), Fraction(1000), ["t"])


def test_the_same_gangs_twice_are_refused():
    gangs = trace([{"id": "g"}])
    once = overlay(BACKGROUND, gangs, Fraction(1), ["t"]).trace
    with pytest.raises(InputError, match='"gang-g": stands in the background already'):
        overlay(once, gangs, Fraction(1), ["t"])
