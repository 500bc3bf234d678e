"""Site files for traces: they load, whatever the allocations are called, and say what was asked for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.site import load_site
from planner.traces.sitefile import perturbed, site_beside, site_data

ODD = [
    "6214e9",
    "103959",
    "no",
    "1:30",
    "010",
    "null",
    "~",
    "-",
    "a: b",
    "#x",
    "команда",
    "'q'",
    "1e3",
    "a-b",
    "y",
]


@given(
    st.dictionaries(st.sampled_from(ODD), st.floats(0.01, 1e6), min_size=1),
    st.integers(1, 200),
    st.integers(1, 16),
)
def test_a_site_that_was_written_loads_with_its_weights_and_nodes(tmp_path_factory, weights, nodes, gpus):
    path = tmp_path_factory.getbasetemp() / "site.yaml"
    with site_beside(path, site_data(weights, "east", nodes, gpus), ["made for a test"]):
        pass
    site = load_site(path)
    assert {b.path: float(b.weight) for b in site.budgets} == pytest.approx(weights, abs=0.0006)
    (cluster,) = site.clusters
    names = [node.name for node in cluster.nodes]
    assert len(set(names)) == len(names) == nodes
    assert {node.gpus for node in cluster.nodes} == {gpus}
    leaves = [node.location for node in cluster.nodes]
    sizes = [leaves.count(leaf) for leaf in dict.fromkeys(leaves)]
    assert sizes == [8] * (nodes // 8) + [nodes % 8] * bool(nodes % 8)
    assert path.read_text(encoding="utf-8").startswith("# made for a test\nbudgets:\n")


def test_a_weight_of_0_stays_0_and_a_small_one_stays_above(tmp_path):
    with site_beside(tmp_path / "s.yaml", site_data({"a": 0.0, "b": 1e-9, "c": 2.0}, "x", 1, 8), []):
        pass
    assert [float(b.weight) for b in load_site(tmp_path / "s.yaml").budgets] == [0, 0.001, 2]


@given(st.floats(0, 10), st.integers(0, 20))
def test_perturbed_weights_stay_within_the_factor(factor, seed):
    weights = dict.fromkeys(ODD, 100.0)
    moved = perturbed(weights, factor, seed)
    assert list(moved) == ODD
    assert all(100 / (1 + factor) - 1e-9 <= w <= 100 * (1 + factor) for w in moved.values())
    assert perturbed({"no": 100.0}, factor, seed) == {"no": moved["no"]}


def test_perturbed_weights_go_both_ways():
    moved = perturbed(dict.fromkeys(ODD, 1.0), 1.0, 0).values()
    assert min(moved) < 0.8
    assert max(moved) > 1.25
