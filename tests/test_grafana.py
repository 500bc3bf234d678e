"""The Grafana dashboard asks for the metrics that docs/metrics.md explains, and rounds write all of these."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from planner.cron import metrics
from tests.planner.worlds import NOW_S, world
from tests.test_docs import read, section, tables

BOARD = json.loads(
    (Path(__file__).parents[1] / "configs" / "grafana" / "gangplan.json").read_text(encoding="utf-8")
)
ROWS = tables(section(read("metrics.md"), "## Metrics of rounds"))[0]
LABELS = {
    name: set(re.findall(r"`(\w+)`", labels))
    for names, labels, _ in ROWS
    for name in re.findall(r"`(\w+)`", names)
}
QUERIES = [(panel["title"], target) for panel in BOARD["panels"] for target in panel["targets"]]


def asked(expression: str) -> set[str]:
    return set(re.findall(r"\bgangplan_\w+", expression))


def test_the_dashboard_asks_for_every_documented_metric_and_for_no_other():
    assert set().union(*(asked(target["expr"]) for _, target in QUERIES)) == LABELS.keys()


def test_rounds_write_every_documented_metric_with_its_labels():
    place = world(workloads=[{"id": "w"}, {"id": "x", "on": "n1"}])
    plan = place.plan()
    proven = replace(plan, solver=replace(plan.solver, gap=0.001))
    written = generate_latest(metrics.of_round(proven, place.snapshot, "auto", NOW_S, 1.5, 0)).decode()
    found = {}
    for name, labels in re.findall(r"^(gangplan_\w+)(?:\{(.*?)\})? ", written, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r'(\w+)="', labels))
    assert {name: found.get(name) for name in LABELS} == LABELS


@pytest.mark.parametrize(("title", "target"), QUERIES, ids=lambda x: x if isinstance(x, str) else "")
def test_legends_name_labels_that_the_metrics_have(title, target):
    for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
        assert all(label in LABELS[metric] for metric in asked(target["expr"]))


def test_panels_have_ids_of_their_own_say_what_they_show_and_do_not_overlap():
    panels = BOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["description"].endswith(".") for panel in panels)
    for a, b in combinations([panel["gridPos"] for panel in panels], 2):
        apart = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        assert apart or a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
    assert all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in panels)


def test_every_query_goes_to_the_source_that_the_reader_chooses():
    assert [v["name"] for v in BOARD["templating"]["list"]] == ["datasource"]
    assert {target["datasource"]["uid"] for _, target in QUERIES} == {"${datasource}"}
