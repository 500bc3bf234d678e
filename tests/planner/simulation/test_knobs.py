"""Settings from outside say what the site file would have said, and are refused as it would have been."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.errors import InputError
from planner.simulation.knobs import Knob, read_knobs, site_with
from planner.site import load_site
from tests.planner.simulation.comparing import SITE

TEXTS = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_categories=("Cc",)), max_size=8)
NUMBERS = st.integers(-(10**12), 10**12) | st.decimals(-1000, 1000, places=3)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.sampled_from(["true", "no", "1", "~", "a: b", "-"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "site.yaml"
    path.write_text(SITE)
    return path


def said(*settings: str) -> list[list[str]]:
    return [[str(knob) for knob in knobs] for knobs in read_knobs(settings)]


def refused(file: Path, *settings: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        [site_with(file, knobs) for knobs in read_knobs(settings)]
    return caught.value.messages


def test_no_setting_is_one_combination():
    assert said() == [[]]


def test_every_value_meets_every_other():
    assert said("a.b=1,2", "c=x,y,z") == [[f"a.b={i}", f"c={j}"] for i in (1, 2) for j in "xyz"]


def test_a_value_is_an_entry_of_a_yaml_list():
    (knobs,) = zip(*read_knobs(["k=no, [1, 2], {a: 0.5}, null, true, 1:30, '3'"]), strict=True)
    assert [k.value for k in knobs] == ["no", [1, 2], {"a": Decimal("0.5")}, None, True, "1:30", "3"]


@given(VALUES)
def test_what_a_knob_says_is_read_as_its_value(value):
    ((again,),) = read_knobs([str(Knob(("k",), value))])
    assert again.value == value
    assert type(again.value) is type(value) or isinstance(value, Decimal)


@pytest.mark.parametrize(
    ("settings", "written"),
    [
        (["fair_share.carry_overdraft=true"], ("carry_overdraft: false", "carry_overdraft: true")),
        (["budgets[1].weight=2.5"], ("name: b, weight: 1", "name: b, weight: 2.5")),
        (["budgets[0].weight=5", "budgets[0].limit=8"], ("weight: 3", "weight: 5, limit: 8")),
        (["fair_share.lookback.window=1d"], ("fair_share: {", "fair_share: {lookback: {window: 1d}, ")),
        (["solver={backend: greedy}"], ("budgets:", "solver: {backend: greedy}\nbudgets:")),
        (["fair_share=null"], ("fair_share: {carry_overdraft: false}\n", "")),
    ],
)  # fmt: skip
def test_a_site_with_knobs_is_the_site_of_a_file_that_says_so(file: Path, settings, written):
    (knobs,) = read_knobs(settings)
    turned = site_with(file, knobs)
    file.write_text(SITE.replace(*written))
    assert file.read_text() != SITE
    assert turned == load_site(file)


def test_without_knobs_a_site_is_that_of_its_file(file: Path):
    assert site_with(file, ()) == load_site(file)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ("fair_share.carry_overdraft=maybe", 'fair_share.carry_overdraft: "maybe" is not a truth value'),
        ("fair_share.bandd=1", "fair_share.bandd: is no known key"),
        ("budgets[0].weight=-1", "budgets[0].weight: "),
        ("contract.min_min_runtime=9h", "contract.max_min_runtime: 8h is below min_min_runtime"),
        ("budgets[2].weight=1", "the file has no place"),
        ("fair_share.carry_overdraft.x=1", "the file has no place"),
        ("budgets.weight=1", "the file has no place"),
        ("band", "holds no value"),
        ("band=", "holds no value"),
        ("band=1], more: [2", "holds no value"),
        ("=1", "names no key"),
        ("a..b=1", "names no key"),
        ("a[x]=1", "names no key"),
        ("band=[", "is not YAML"),
        ("band={a: 1, a: 2}", "twice"),
    ],
)
def test_a_fault_names_the_setting_and_no_line(file: Path, setting: str, words: str):
    (message,) = refused(file, setting)
    assert message.startswith(f"--set {setting}: ")
    assert words in message
    assert "site:" not in message


def test_of_several_settings_the_one_at_fault_is_named(file: Path):
    messages = refused(file, "solver.gap=1%", "fair_share.band=-1", "contract.debug.lane=no")
    blamed = {m.split(": ")[0] for m in messages}
    assert blamed == {"--set fair_share.band=-1", "--set contract.debug.lane=no"}


def test_a_fault_of_what_holds_the_key_names_its_setting_alone(file: Path):
    (message,) = refused(file, "solver.gap=1%", "clusters[0].nodes[0].name=n9")
    assert message.startswith("--set clusters[0].nodes[0].name=n9: clusters[0].nodes[0]: ")


def test_a_contradiction_elsewhere_names_all_settings(file: Path):
    (message,) = refused(file, "solver.gap=1%", "contract.min_min_runtime=9h")
    assert message.startswith(
        "--set solver.gap=1% --set contract.min_min_runtime=9h: contract.max_min_runtime: "
    )


def test_all_malformed_settings_are_reported_at_once():
    with pytest.raises(InputError) as caught:
        read_knobs(["a", "b=1", "b=2", "=3"])
    assert [m.split(": ")[0] for m in caught.value.messages] == ["--set a", "--set b=2", "--set =3"]


INSIDE = [
    ("preemption.restart_cost=1m", "preemption={max_gpus_per_round: null}"),
    ("budgets[0].weight=5", "budgets[0]={name: a}"),
    ("budgets[1].weight=5", "budgets=[{name: a}],[{name: b}]"),
]


@pytest.mark.parametrize("pair", [p for inner, outer in INSIDE for p in ((inner, outer), (outer, inner))])
def test_keys_of_which_one_lies_inside_another_are_refused_in_either_order(pair: tuple[str, str]):
    inner, outer = sorted((setting.partition("=")[0] for setting in pair), key=len, reverse=True)
    with pytest.raises(InputError) as caught:
        read_knobs(pair)
    (message,) = caught.value.messages
    assert message.startswith(f"--set {pair[1]}: {inner} lies inside {outer} (see --set {pair[0]}), ")
    assert f"write it into the value of {outer}" in message


def test_keys_beside_each_other_are_not_inside_each_other():
    settings = ["budgets[0].weight=1", "budgets[1].weight=2", "fair_share.band=0", "fair_share.bandwidth=1"]
    assert said(*settings) == [settings]


def test_a_fault_of_the_file_itself_has_its_line(file: Path):
    file.write_text(SITE.replace("weight: 3", "wieght: 3"))
    (message,) = refused(file, "fair_share.band=0.1")
    assert message.startswith(f"{file}:2:")
