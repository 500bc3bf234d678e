"""Colours: one for each allocation, the same on every page, and no two alike."""

from __future__ import annotations

import re

from planner.reports.palette import HUES, colours, families

PATHS = ["language/pretraining/base", "language/pretraining/long", "language/data", "vision", "robotics/arm"]


def test_every_allocation_has_a_colour_of_its_own():
    found = colours(PATHS)
    assert found.keys() == set(PATHS)
    assert len(set(found.values())) == len(PATHS)
    assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in found.values())


def test_colours_do_not_depend_on_the_order():
    assert colours(PATHS) == colours(PATHS[::-1])


def test_an_allocation_alone_at_the_top_has_the_hue_of_its_family():
    assert colours(PATHS)["vision"] == families(PATHS)["vision"]


def test_a_leaf_that_comes_or_goes_elsewhere_changes_no_colour_of_other_families():
    before, after = colours(PATHS), colours([*PATHS, "robotics/leg"])
    assert all(before[p] == after[p] for p in PATHS if not p.startswith("robotics"))


def test_more_families_than_hues_still_have_colours():
    many = [f"team{i:02}" for i in range(2 * len(HUES))]
    assert colours(many).keys() == set(many)
