import json
from fractions import Fraction
from pathlib import Path

import jsonschema
import pytest
import yaml
from hypothesis import given

from planner.model.budget import Budget, leaf_shares
from planner.model.site import Lookback, Site
from planner.schema.types import MAX_NAME
from planner.site import BACKENDS, SOURCES, load_site, parse_site, schema
from planner.sources.catalog import TYPES
from tests.planner.damage import mutations, parsed_or_refused, revaluations
from tests.planner.faults import assert_explained, places, refusal
from tests.planner.samples import SITE

SCHEMAS = Path(__file__).parents[2] / "configs" / "schema"


def refused(text: str) -> list[str]:
    return refusal(parse_site, text, "site.yaml")


def one(text: str) -> str:
    """Return the only message for a faulty site."""
    (message,) = refused(text)
    return message


def with_budgets(rest: str) -> str:
    return f"budgets: [{{name: a}}]\n{rest}"


def test_the_interfaces_site_is_read_in_full():
    site = parse_site(SITE, "site.yaml")
    assert [b.path for top in site.budgets for b in top.walk()] == [
        "language",
        "language/pretraining",
        "language/posttraining",
        "vision",
        "robotics",
    ]
    assert leaf_shares(site.budgets)["language/posttraining"] == Fraction(15, 100)
    assert site.budgets[0].children[1].limit_gpus == 256
    assert site.budgets[1].accounts == ("vis-lab",)
    assert site.charges == {"h100": 1, "b200": 2}
    assert site.contract.debug.lane == Fraction(1, 25)
    assert site.solver.gap == 0.001
    assert site.ledger == "sqlite:///gangplan.db"
    assert site.source == {"type": "slurm", "levels": ["block", "leaf"]}


def test_what_a_site_leaves_out_is_what_the_model_has():
    assert parse_site("budgets: [{name: a}]", "s") == Site(budgets=(Budget("a", Fraction(1)),))


def test_the_interfaces_values_are_the_defaults():
    said, silent = parse_site(SITE, "s"), parse_site("budgets: [{name: a}]", "s")
    for key in ("fair_share", "contract", "preemption", "solver", "plan_ahead"):
        assert getattr(said, key) == getattr(silent, key)


def test_a_key_with_nothing_after_it_is_as_good_as_absent():
    text = "budgets:\n  - name: a\n    weight:\n    children:\ncontract:\nclusters:\nledger: null\n"
    assert parse_site(text, "s") == parse_site("budgets: [{name: a}]", "s")


def test_weights_and_charges_are_exact():
    site = parse_site("budgets: [{name: a, weight: 0.1}]\ngpu_types: {x: {charge: 0.3}}", "s")
    assert site.budgets[0].weight == Fraction(1, 10)
    assert site.charges["x"] == Fraction(3, 10)


def test_a_half_life_is_read_where_there_is_one():
    site = parse_site(with_budgets("fair_share: {lookback: {half_life: 2d}}"), "s")
    assert site.fair_share.lookback == Lookback(half_life_s=172_800)


def test_an_empty_list_of_children_makes_a_leaf():
    assert parse_site("budgets: [{name: a, children: []}]", "s").budgets[0].children == ()


def test_files_are_read_and_called_by_their_path(tmp_path):
    path = tmp_path / "site.yaml"
    path.write_text(SITE)
    assert load_site(path) == parse_site(SITE, "elsewhere")
    path.write_text("budgets: 3")
    assert refusal(load_site, path)[0].startswith(f"{path}:1:1: budgets: ")


# -- refusals ----------------------------------------------------------------------------------------


def test_all_faults_are_reported_at_once_each_with_its_line():
    text = """\
budgets:
  - name: a
    weight: -1
  - name: b
    wieght: 2
  - name: b
    weight: 3
contract:
  max_min_runtime: 8
"""
    messages = refused(text)
    assert places(messages) == [
        (3, "budgets[0].weight"),
        (5, "budgets[1].wieght"),
        (6, "budgets[2].name"),
        (9, "contract.max_min_runtime"),
    ]
    assert "write weight" in messages[1]
    assert "8h" in messages[3]


@pytest.mark.parametrize(
    ("text", "key", "fix"),
    [
        ("budgets: []", "budgets", "at least one"),
        ("ledger: sqlite:///l.db", "budgets", "is missing"),
        ("budgets: [{weight: 1}]", "budgets[0].name", "is missing"),
        ("budgets: [{name: a, weight: -0.5}]", "budgets[0].weight", "from 0"),
        ("budgets: [{name: a, weight: .nan}]", "budgets[0].weight", "number"),
        ("budgets: [{name: a, weight: '1'}]", "budgets[0].weight", "number"),
        ("budgets: [{name: a, weight: 0}]", "budgets[0].weight", "above 0"),
        ("budgets: [{name: a/b}]", "budgets[0].name", "children"),
        ("budgets: [{name: ''}]", "budgets[0].name", "name"),
        ("budgets: [{name: ' a'}]", "budgets[0].name", "without"),
        ("budgets: [{name: 12}]", "budgets[0].name", '"12"'),
        ("budgets: [{name: 010, limit: 010}]", "budgets[0].limit", "whole number"),
        ("budgets: [{name: a, limit: -1}]", "budgets[0].limit", "at least 0"),
        ("budgets: [{name: a, limit: 1.5}]", "budgets[0].limit", "whole number"),
        ("budgets: [{name: a, limit: true}]", "budgets[0].limit", "whole number"),
        ("budgets: [{name: a, children: {name: b}}]", "budgets[0].children", "- for each"),
        ("budgets: [a]", "budgets[0]", "name, weight, limit"),
        ("budgets: [{name: a, accounts: [x], children: [{name: b}]}]", "budgets[0].accounts", "move"),
        ("budgets: [{name: a, accounts: [x, x]}]", "budgets[0].accounts[1]", "once"),
    ],
)
def test_a_tree_that_cannot_mean_anything_is_refused(text, key, fix):
    message = one(text)
    assert f": {key}: " in message
    assert fix in message


@pytest.mark.parametrize(
    ("text", "key", "fix"),
    [
        ("fair_share: {order: fair-tree}", "fair_share.order", "write fair_tree"),
        ("fair_share: {lookback: {half_life: 0s}}", "fair_share.lookback.half_life", "at least 1s"),
        ("fair_share: {lookback: {half_life: -1h}}", "fair_share.lookback.half_life", "negative"),
        ("fair_share: {lookback: {window: 0s}}", "fair_share.lookback.window", "at least 1s"),
        ("fair_share: {lookback: {window: 400d}}", "fair_share.lookback.window", "at most 366d"),
        ("fair_share: {lookback: {window: 7}}", "fair_share.lookback.window", "7h"),
        ("fair_share: {lookback: {window: 1:30}}", "fair_share.lookback.window", "1h30m"),
        ("fair_share: {band: -0.1}", "fair_share.band", "from 0"),
        ("fair_share: {carry_overdraft: no}", "fair_share.carry_overdraft", "write false"),
        ("contract: {max_min_runtime: 1m}", "contract.max_min_runtime", "at least 5m"),
        ("contract: {default_min_runtime: 1m}", "contract.default_min_runtime", "5m to 8h"),
        ("contract: {default_min_runtime: 9h}", "contract.default_min_runtime", "5m to 8h"),
        ("contract: {debug: {lane: 0.04}}", "contract.debug.lane", "4%"),
        ("contract: {debug: {lane: 101%}}", "contract.debug.lane", "100%"),
        ("contract: {largest: {min_cluster_share: 0}}", "contract.largest.min_cluster_share", "above 0"),
        ("contract: {largest: {min_cluster_share: 1.01}}", "contract.largest.min_cluster_share", "at most 1"),
        ("preemption: {restart_cost: 10}", "preemption.restart_cost", "10m"),
        ("preemption: {max_gpus_per_round: -1}", "preemption.max_gpus_per_round", "at least 0"),
        ("gpu_types: {h100: {charge: 0}}", "gpu_types.h100.charge", "above 0"),
        ("gpu_types: {h100: 2}", "gpu_types.h100", "charge"),
        ("gpu_types: {'': {}}", 'gpu_types.""', "empty"),
        ("solver: {backend: cpsat}", "solver.backend", "write cp-sat"),
        ("solver: {backend: 3}", "solver.backend", "highs"),
        ("solver: {gap: 0.001}", "solver.gap", "0.1%"),
        ("solver: {time_limit: 0s}", "solver.time_limit", "at least 1s"),
        ("plan_ahead: {reservations: -1}", "plan_ahead.reservations", "at least 0"),
        ("plan_ahead: {hold_cost: 1e308}", "plan_ahead.hold_cost", "is out of bounds, write a number from 0"),
        (
            "plan_ahead: {hold_cost: 1e-999}",
            "plan_ahead.hold_cost",
            "is out of bounds, write a number from 0",
        ),
        ("plan_ahead: {hold_cost: .inf}", "plan_ahead.hold_cost", "is out of bounds, write a number from 0"),
        ("plan_ahead: {hold_cost: -.inf}", "plan_ahead.hold_cost", "is out of bounds, write a number from 0"),
        ("plan_ahead: {hold_cost: .nan}", "plan_ahead.hold_cost", "is not a number"),
        ("plan_ahead: {hold_cost: '1'}", "plan_ahead.hold_cost", "is not a number"),
        ("plan_ahead: {horizon: 0s}", "plan_ahead.horizon", "at least 1s"),
        ("ledger: gangplan.db", "ledger", "sqlite:///"),
        ("ledger: 3", "ledger", "quotes"),
        ("ledger: 'foo://bar'", "ledger", "write sqlite:///gangplan.db or postgresql://"),
        ("ledger: postgres://user:secret@host/db", "ledger", "or postgresql://"),
        ("ledger: 'sqlite://'", "ledger", "names no file"),
        ("ledger: 'sqlite:///:memory:'", "ledger", "names no file"),
        ("run: {metrics: /var/lib/gangplan.txt}", "run.metrics", ".prom"),
        ("run: {on_empty: ['']}", "run.on_empty", "/path/of/program"),
        ("run: {health: {command: [' ', x]}}", "run.health.command", "/path/of/program"),
        ("source: slurm", "source", "type"),
        ("source: {levels: [a]}", "source.type", "is missing"),
        ("source: {type: kubernetes}", "source.type", "write one of slurm"),
        ("source: {type: slurm, levels: [leaf, leaf]}", "source.levels[1]", "name each level once"),
        ("source: {type: slurm, levels: [node]}", "source.levels[0]", "leave it out"),
        ("source: {type: slurm, partitions: []}", "source.partitions", "leave the key out for all"),
        (
            "source: {type: slurm, rules: [{min_runtime: 1h}, {account: x, priority: 1}]}",
            "source.rules[0]",
            "account, qos or partition, or put it last",
        ),
        ("source: {type: slurm, rules: [{account: x}]}", "source.rules[0]", "sets nothing, write allocation"),
        (
            "source: {type: slurm, rules: [{account: x, allocation: nope}]}",
            "source.rules[0].allocation",
            "write one of a",
        ),
        (
            "source: {type: slurm, partitions: [main], rules: [{partition: man, priority: 1}]}",
            "source.rules[0].partition",
            "write main",
        ),
        ("clusters: [{name: c}]", "clusters[0].nodes", "is missing"),
        ("budget: []", "budget", "write budgets"),
        ("contracts: {}", "contracts", "write contract"),
    ],
)
def test_a_rule_that_cannot_mean_anything_is_refused(text, key, fix):
    message = one(with_budgets(text))
    assert message.startswith("site.yaml:2:")
    assert f": {key}: " in message
    assert fix in message


def test_a_rule_may_name_who_pays_as_jobs_do():
    budgets = "budgets: [{name: a, children: [{name: b}, {name: c, accounts: [x]}]}]"
    for name in ("a/b", "b", "a/c", "x"):
        rule = f"source: {{type: slurm, rules: [{{account: y, allocation: {name}}}]}}"
        assert parse_site(f"{budgets}\n{rule}", "s")
    assert "write one of a/b, a/c, b, x" in one(f"{budgets}\n{rule.replace('x', 'zzz')}")


def test_the_last_rule_of_a_source_may_be_for_every_job():
    source = "source: {type: slurm, rules: [{account: x, priority: 1}, {min_runtime: 1h}]}"
    assert parse_site(with_budgets(source), "s")


def test_all_that_means_nothing_in_a_source_is_told_at_once():
    source = "source:\n  type: slurm\n  levels: [node]\n  partitions: []\n  rules: [{account: x}]\n"
    found = [(4, "source.levels[0]"), (5, "source.partitions"), (6, "source.rules[0]")]
    assert places(refused(with_budgets(source))) == found


def test_what_pays_is_not_judged_by_a_tree_that_is_malformed():
    rule = "source: {type: slurm, rules: [{account: x, allocation: c}]}"
    assert "weight" in one(f"budgets: [{{name: a}}, {{name: c, weight: -1}}]\n{rule}")


def test_a_password_in_a_wrong_ledger_is_not_shown():
    assert "secret" not in one(with_budgets("ledger: mysql://me:secret@host/db"))


def test_the_sources_that_a_site_may_name_are_those_that_can_be_loaded():
    assert SOURCES.keys() == TYPES.keys()


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_known_backend_is_taken(backend):
    assert parse_site(with_budgets(f"solver: {{backend: {backend}}}"), "s").solver.backend == backend


def test_a_lane_of_nothing_and_of_everything_are_both_allowed():
    for lane, part in (("0%", 0), ("100%", 1)):
        assert (
            parse_site(with_budgets(f"contract: {{debug: {{lane: {lane}}}}}"), "s").contract.debug.lane
            == part
        )


def test_an_account_charges_one_leaf():
    text = "budgets:\n- {name: a, accounts: [x, b]}\n- {name: b}\n- {name: c, accounts: [x]}\n"
    assert places(refused(text)) == [(2, "budgets[0].accounts[1]"), (4, "budgets[2].accounts[0]")]
    assert parse_site("budgets: [{name: a, accounts: [a, x]}, {name: b}]", "s")


def test_families_below_the_top_are_checked_too():
    text = "budgets:\n- name: a\n  children:\n  - {name: x, weight: 0}\n  - {name: x, weight: 0}\n"
    found = [(4, "budgets[0].children[0].weight"), (5, "budgets[0].children[1].name")]
    assert places(refused(text)) == found


def test_a_contradiction_stays_silent_where_half_of_it_is_malformed():
    assert "9" in one(with_budgets("contract: {max_min_runtime: 9, min_min_runtime: 10h}"))
    assert "weight" in one("budgets: [{name: a, weight: -1}, {name: b, weight: 0}]")
    assert "min_min_runtime" in one(with_budgets("contract: {max_min_runtime: 1m, min_min_runtime: 5}"))
    assert "mapping" in one("budgets: [{name: a, weight: 0}, 5]")


def test_a_place_with_an_alias_has_no_second_fault():
    assert "alias" in one("budgets: &x [{name: a}]\nledger: *x\n")


def test_entries_after_a_malformed_one_keep_their_numbers():
    text = "budgets:\n- 5\n- {name: a}\n- 6\n- {name: a}\n"
    messages = refused(text)
    assert places(messages) == [(2, "budgets[0]"), (4, "budgets[2]"), (5, "budgets[3].name")]
    assert "budgets[1]" in messages[2]


def test_a_path_is_no_longer_than_a_workload_can_name():
    deep = "a" * 100
    fits = f"budgets: [{{name: {deep}, children: [{{name: {'b' * 154}}}]}}]"
    assert len(*leaf_shares(parse_site(fits, "s").budgets)) == MAX_NAME
    assert "budgets[0].children[0].name: makes a path" in one(fits.replace("bbb", "bbbb"))


def test_a_sites_clusters_are_checked_as_a_snapshots_are():
    text = with_budgets("clusters: [{name: c, nodes: [{names: 'n[1-2]', gpus: 8}, {name: n2, gpus: 8}]}]")
    assert "clusters[0].nodes[0]" in one(text)


# -- mutations ---------------------------------------------------------------------------------------


@given(mutations(SITE))
def test_a_damaged_site_is_read_or_refused_line_by_line(text):
    parsed_or_refused(parse_site, text, "site.yaml")


@given(revaluations(SITE))
def test_a_site_with_other_values_is_read_or_refused_line_by_line(text):
    parsed_or_refused(parse_site, text, "site.json")


# -- JSON Schema -------------------------------------------------------------------------------------


def test_the_committed_schema_is_the_current_one():
    assert json.loads((SCHEMAS / "site.schema.json").read_text()) == schema()


def test_the_interfaces_site_keeps_the_schema():
    jsonschema.Draft202012Validator.check_schema(schema())
    jsonschema.validate(yaml.safe_load(SITE), schema())


@pytest.mark.parametrize("text", ["{}", "budgets: [{name: a, wieght: 1}]", "budgets: [{name: a, weight: -1}]",
                                  "{budgets: [{name: a}], contract: {max_min_runtime: 8}}"])  # fmt: skip
def test_the_schema_warns_of_what_is_refused(text):
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema())
    refused(text)


def test_every_key_of_the_schema_is_explained():
    assert_explained(schema())
