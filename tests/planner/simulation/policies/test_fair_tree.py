"""Fair Tree on the tree of Slurm's own test (testsuite/expect/test24.4), and its law on random trees."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.simulation.policies.fair_tree import level_fairshare, ranking

INF = float("inf")

SLURM = {  # account or user: parent, raw shares, raw usage, documented Level FS
    "root": (None, 0, 240, INF),
    "aA": ("root", 40, 45, 1.025641),
    "aAA": ("aA", 30, 20, 1.687500),
    "uAA1": ("aAA", 1, 20, 1.000000),
    "aAB": ("aA", 10, 25, 0.450000),
    "uAB1": ("aAB", 1, 25, 0.500000),
    "uAB2": ("aAB", 1, 0, INF),
    "aB": ("root", 60, 25, 2.769231),
    "aBA": ("aB", 25, 25, 0.416667),
    "uBA1": ("aBA", 1, 25, 1.000000),
    "aBB": ("aB", 35, 0, INF),
    "uBB1": ("aBB", 1, 0, INF),
    "aC": ("root", 0, 30, 0.000000),
    "uC1": ("aC", 0, 30, 0.000000),
    "aD": ("root", 50, 110, 0.524476),  # a leaf here: below it all is about Fairshare=parent
    "aE": ("root", 10, 0, INF),
    "aE1": ("aE", 10, 0, INF),
    "aE2": ("aE", 10, 0, INF),
    "u1": ("root", 10, 0, INF),
    "aF": ("root", 20, 0, INF),
    "uF1": ("aF", 10, 0, INF),
    "uF2": ("aF", 20, 0, INF),
    "aG": ("root", 8, 20, 0.461538),
    "uG1": ("aG", 10, 10, 1.000000),
    "aGA": ("aG", 10, 10, 1.000000),
    "uGA1": ("aGA", 20, 4, 1.250000),
    "uGA2": ("aGA", 20, 6, 0.833333),
    "u2": ("root", 10, 10, 1.153846),
}

FACTOR = {  # documented FairShare = rank / 21 users
    **dict.fromkeys(["u1", "aE1", "aE2", "uF1", "uF2"], 1.000000),
    "uBB1": 0.761905,
    "uBA1": 0.714286,
    "u2": 0.666667,
    "uAA1": 0.619048,
    "uAB2": 0.571429,
    "uAB1": 0.523810,
    "aD": 0.476190,  # of the highest of its six users
    "uG1": 0.190476,
    "uGA1": 0.190476,
    "uGA2": 0.095238,
    "uC1": 0.047619,
}


def documented():
    names = list(SLURM)
    parent = np.array([names.index(p) if p else -1 for p, *_ in SLURM.values()])
    share, usage = (np.array([row[i] for row in SLURM.values()]) for i in (1, 2))
    is_leaf = np.array([i not in parent for i in range(len(names))])
    return names, parent, is_leaf, share, usage.astype(float)


def test_the_level_fairshare_of_slurms_own_tree():
    names, parent, _, share, usage = documented()
    found = dict(zip(names, level_fairshare(parent, share, usage), strict=True))
    assert found == {name: pytest.approx(row[3], abs=1e-6) for name, row in SLURM.items()}


def test_the_ranking_of_slurms_own_tree_with_its_ties():
    names, parent, is_leaf, share, usage = documented()
    place = ranking(parent, is_leaf, level_fairshare(parent, share, usage))
    found = {names[v]: int(place[v]) for v in np.flatnonzero(is_leaf)}
    # rank 21 is place 0; behind aD there are five leaves fewer than there are users in Slurm's tree
    assert found == {u: 21 - round(f * 21) - 5 * (f < FACTOR["aD"]) for u, f in FACTOR.items()}
    assert (place[~is_leaf] == -1).all()


@st.composite
def trees(draw):
    """Draw a tree, parents first, with shares and usage that tie often."""
    count = draw(st.integers(2, 14))
    parent = np.array([-1] + [draw(st.integers(0, v - 1)) for v in range(1, count)])
    is_leaf = np.array([v not in parent for v in range(count)])
    share = np.array([draw(st.integers(0, 2)) for _ in range(count)])
    usage = np.where(is_leaf, [draw(st.integers(0, 3)) for _ in range(count)], 0).astype(float)
    for v in range(count - 1, 0, -1):
        usage[parent[v]] += usage[v]
    return parent, is_leaf, share, usage


def path(parent, v):
    out = [v]
    while parent[v] >= 0:
        v = parent[v]
        out.append(v)
    return out[::-1]


@given(trees())
def test_whoever_has_the_higher_level_fairshare_below_the_common_ancestor_ranks_first(tree):
    parent, is_leaf, share, usage = tree
    level = level_fairshare(parent, share, usage)
    place = ranking(parent, is_leaf, level)
    for a, b in itertools.combinations(np.flatnonzero(is_leaf).tolist(), 2):
        forks = [(x, y) for x, y in zip(path(parent, a), path(parent, b), strict=False) if x != y]
        x, y = forks[0]
        if level[x] != level[y]:
            assert (place[a] < place[b]) == (level[x] > level[y])
        elif is_leaf[x] and is_leaf[y]:
            assert place[a] == place[b]


@given(trees())
def test_a_place_is_the_number_of_leaves_before_it_or_that_of_a_tied_leaf(tree):
    parent, is_leaf, share, usage = tree
    place = ranking(parent, is_leaf, level_fairshare(parent, share, usage))[is_leaf]
    for p in place.tolist():
        assert (place < p).sum() == p
