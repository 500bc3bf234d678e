"""Figures are figures to plotly, with the numbers of their frames; pages of odd worlds are made as well."""

from __future__ import annotations

import json
import re

import plotly.graph_objects as go
import pytest

from planner.reports.figures import fragmentation as figures
from planner.reports.frames import fragmentation as frames
from planner.reports.frames.books import of_shares, of_simulation
from planner.reports.frames.scene import scene_of
from planner.reports.frames.timeline import of_scene
from planner.reports.pages import allocations, fragmentation, timeline
from planner.reports.pages.document import Chart, render
from planner.reports.palette import HUES
from tests.planner.reports.folders import played
from tests.planner.reports.test_fragmentation import random_scene
from tests.planner.worlds import world

INKS = {"@ink": "#000000", "@muted": "#777777", "@faint": "#dddddd", "@paper": "#ffffff"}


def checked(figure):
    """Return a figure as plotly knows it: it refuses what it does not know."""
    text = json.dumps(figure)
    assert set(re.findall(r'"(@\w+)"', text)) <= INKS.keys()
    for name, colour in INKS.items():
        text = text.replace(f'"{name}"', f'"{colour}"')
    return go.Figure(json.loads(text))


def charts(page):
    return [part for part in page.parts if isinstance(part, Chart)]


@pytest.mark.parametrize("n", range(4))
def test_every_figure_of_a_simulation_is_one_to_plotly(n):
    _, found = played(n)
    parts = charts(allocations.page(of_simulation(found), None, ""))
    assert {part.name for part in parts} == {"promise", "history", "burst", "unallocated"}
    for part in parts:
        for panel in part.panels:
            checked(panel.figure)


@pytest.mark.parametrize("seed", range(6))
def test_every_figure_of_a_snapshot_is_one_to_plotly(seed, monkeypatch):
    monkeypatch.setattr("planner.reports.frames.packing.WEIGHTS", (1.0,))
    scene = random_scene(seed)
    parts = charts(fragmentation.page(scene, "")) + charts(
        allocations.page(of_shares(scene.plan.shares), None, "")
    )
    assert len(parts) >= 6
    for part in parts:
        assert part.sentence
        assert len(part.table)
        for panel in part.panels:
            checked(panel.figure)


def test_bars_of_the_promise_are_the_quotients_of_the_table():
    _, found = played(0)
    part = charts(allocations.page(of_simulation(found), None, ""))[0]
    (bars,) = checked(part.panels[0].figure).data
    told = part.table["delivered_over_owed"]
    assert list(bars.text) == [f"{x:.2f}" for x in told]
    assert list(bars.y) == part.table["allocation"].tolist()


def test_the_map_of_nodes_shows_every_node_once_with_its_number():
    scene = random_scene(3)
    frame = frames.by_node(scene)
    (drawn,) = checked(figures.nodes(frame, "open_gpus", figures.OPEN_SCALE, 8, "")).data
    hovers = [text for row in drawn.hovertext for text in row if text]
    assert len(hovers) == len(frame)
    assert all(sum(f"<b>{name}</b>" in text for text in hovers) == 1 for name in frame["node"])
    shown = sum(x for row in drawn.z for x in row if x)
    assert shown == frame[frame["state"] == "up"]["open_gpus"].sum()


def test_a_node_that_starts_nothing_is_not_coloured_as_open_or_free_in_time():
    place = world(nodes=[{"names": "n1", "state": "down"}, {"names": "n2"}])
    frame = frames.by_node(scene_of(place.site, place.snapshot))
    for value, cells in (("open_gpus", [0, 8]), ("protected_h", [None, 0])):
        (drawn,) = figures.nodes(frame, value, figures.BUSY_SCALE, 8, "")["data"]
        assert [x for row in drawn["z"] for x in row] == cells


def test_a_domain_of_many_nodes_is_broken_into_rows():
    place = world(nodes="n[001-100]")
    (drawn,) = figures.nodes(frames.by_node(scene_of(place.site, place.snapshot)), "open_gpus", [], 8, "")[
        "data"
    ]
    assert [len(row) for row in drawn["z"]] == [32] * 4


@pytest.mark.parametrize(
    "place",
    [
        world(),
        world(workloads=[{"id": "w", "replicas": 99}]),
        world(nodes=[{"names": "n1", "state": "down"}], workloads=[{"id": "w"}]),
        world({"a": 0, "b": 1}, workloads=[{"id": "w", "min_runtime": "0s"}]),
        world(nodes=[{"names": "n[1-2]", "gpus": 0}], workloads=[{"id": "w", "gpus": 0}]),
        world(workloads=[{"id": "<b>", "on": "n1"}], nodes="n1"),
    ],
    ids=["empty", "too large", "all down", "no share", "no GPUs", "odd name"],
)
def test_odd_worlds_have_pages_too(place):
    scene = scene_of(place.site, place.snapshot)
    names = [row.allocation for row in scene.plan.shares]
    for page in (
        fragmentation.page(scene, ""),
        allocations.page(of_shares(scene.plan.shares), None, ""),
        timeline.page(of_scene(scene), names, ""),
    ):
        text = render(page)
        assert not re.search(
            r"\bnan\b|\bNone\b|<NA>", re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
        )


def test_the_largest_gang_that_waits_is_explained_with_who_is_in_the_way_and_what_would_help():
    guarded = {"allocation": "b", "ran": "10m", "min_runtime": "2h"}
    work = [{"id": "big", "replicas": 4}, {"id": "small"}, {"id": "v", "on": "n[1-4]", **guarded}]
    place = world(workloads=work, ratios={"a": 0.5, "b": 1.5})
    page = fragmentation.page(scene_of(place.site, place.snapshot), "")
    assert page.lede.startswith("The largest pending gang, big of a, wants 32 GPUs.")
    words = " ".join(" ".join(pair) for pair in page.parts[0].paragraphs)
    assert "v (b, 32 GPUs, protected until Oct 9, 13:50)" in words
    assert "at Oct 9, 13:50 the last protection there has ended" in words
    assert "no rearrangement" in words
    assert "has had 0.50 of its share" in words


def test_hues_are_valid_colours_to_plotly():
    checked(
        {"data": [{"type": "bar", "x": [1], "y": [1], "marker": {"color": h}} for h in HUES], "layout": {}}
    )
