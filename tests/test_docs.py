"""What the documents say of the code is so: families, codes, constants, worked examples, terms and links."""

from __future__ import annotations

import ast
import importlib
import json
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import pytest
import yaml

from benchmarks.random_snapshots import random_case
from planner.contract import effective
from planner.encode import encode, lane_gpus
from planner.model.site import Contract, Site
from planner.model.workload import Workload
from planner.round import plan_round
from planner.shares import share_rows
from planner.site import load_site, parse_site
from planner.snapshot import load_snapshot, parse_snapshot
from planner.units import format_duration, parse_duration
from solver import backends
from solver.decide import decide, opening
from solver.feasible import Reject
from solver.shares import BAND_EDGES
from solver.state import Action, SolveParams, Status
from tests.solver.factories import node, pending, running, state

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
SEEDS = range(60)
"""Random worlds: few enough for seconds, enough that most families and codes occur."""


# --- reading documents ------------------------------------------------------------------------------------


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def prose(text: str) -> str:
    """Return a document without its fenced blocks."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def section(text: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one of any level."""
    _, found, rest = text.partition(f"\n{heading}\n")
    assert found, f"no heading {heading!r}"
    return re.split(r"^#+ ", rest, maxsplit=1, flags=re.MULTILINE)[0]


def tables(text: str) -> list[list[list[str]]]:
    """Return the tables of a text as rows of cells, without their header lines."""
    out: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            out[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif out[-1]:
            out.append([])
    return [table[2:] for table in out if table]


def code(cell: str) -> str:
    return cell.strip("`")


def labelled(text: str) -> dict[str, set[int]]:
    """Return the families named in a text as `family[a,b]`, each with the numbers of its labels."""
    found: dict[str, set[int]] = {}
    for family, labels in re.findall(r"(\w+)\[([^\]]*)\]", text):
        found.setdefault(family, set()).add(len(labels.split(",")))
    return found


MODEL = read("formulation.md")
CONTRACT = read("contract.md")
ROWS = labelled("\n".join(re.findall(r"^### .*$", MODEL, flags=re.MULTILINE)))
COLUMNS = labelled("\n".join(row[0] for row in tables(section(MODEL, "## Columns"))[0]))
CODES = {(code(row[0]), row[1]) for row in tables(section(CONTRACT, "## Reason codes"))[0]}


# --- reading code -----------------------------------------------------------------------------------------


def families_in_code(kind: str) -> set[str]:
    """Return the families that some call of `.rows` or `.columns` in `solver/` can add.

    A family that is not written in the call is taken from the loop around it, all words of its header.
    """
    found: set[str] = set()
    for path in sorted((ROOT / "solver").glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for call, loops in calls(tree, kind):
            if isinstance(call.args[0], ast.Constant):
                found.add(call.args[0].value)
            else:
                found |= looped(call.args[0], loops)
    return found


def calls(tree: ast.AST, name: str, loops: tuple[ast.For, ...] = ()):
    """Yield the calls of a method with arguments, and the loops around each."""
    for item in ast.iter_child_nodes(tree):
        inside = (*loops, item) if isinstance(item, ast.For) else loops
        is_call = isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute)
        if is_call and item.func.attr == name and len(item.args) > 1:
            yield item, inside
        yield from calls(item, name, inside)


def looped(argument: ast.expr, loops: tuple[ast.For, ...]) -> set[str]:
    """Return the words that a loop variable takes."""
    assert isinstance(argument, ast.Name), ast.dump(argument)
    for loop in reversed(loops):
        names = [n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)]
        if argument.id not in names:
            continue
        if isinstance(loop.iter, ast.Call):  # enumerate(("cpus", "memory"))
            return {n.value for n in ast.walk(loop.iter) if isinstance(n, ast.Constant)}
        at = names.index(argument.id)
        return {entry.elts[at].value for entry in loop.iter.elts}
    raise AssertionError(f"no loop gives {argument.id}")


def literals(path: Path, functions: tuple[str, ...], variable: str = "") -> set[str]:
    """Return the texts that a file gives first to these functions, or assigns to a variable of that name."""
    found = set()
    for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Name) and item.func.id in functions:
            found |= words(item.args[0])
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            found |= words(item.value) if item.targets[0].id == variable else set()
    return found


def words(expression: ast.expr) -> set[str]:
    """Return the literals that an expression can be: itself, or either side of a choice."""
    if isinstance(expression, ast.IfExp):
        return words(expression.body) | words(expression.orelse)
    return {expression.value} if isinstance(expression, ast.Constant) else set()


def reasons_in_code() -> set[str]:
    """Return the codes of all reasons: those written out, and those made of a rejection's name."""
    rejected = {"".join(word.capitalize() for word in r.name.split("_")) for r in Reject if r != Reject.NO}
    return rejected | literals(ROOT / "planner" / "explain.py", ("Reason",), "code")


def rules_in_code() -> set[str]:
    """Return the codes of broken rules."""
    paths = (ROOT / "solver" / "rules").glob("*.py")
    return set().union(*(literals(path, ("Broken", "_at")) for path in paths)) - {"rule"}


@pytest.fixture(scope="module")
def planned():
    """Plan the random worlds in this process; return every model and every (code, action) that occurred."""
    models, pairs, solve = [], set(), backends.solve

    def spy(model, name, time_limit_s, gap, start=None):
        models.append(model)
        return solve(model, "highs", time_limit_s, gap, start, isolated=False)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backends, "solve", spy)
        for seed in SEEDS:
            site_data, data = random_case(seed)
            site = parse_site(yaml.safe_dump(site_data), "site.yaml")
            plan = plan_round(site, parse_snapshot(json.dumps(data), "snapshot.json", site))
            pairs |= {(d.reason.code, d.action) for d in plan.decisions}
    return models, pairs


# --- the model --------------------------------------------------------------------------------------------


def test_every_family_of_rows_has_a_heading_and_every_heading_a_family():
    assert set(ROWS) == families_in_code("rows")


def test_every_family_of_columns_has_an_entry_and_every_entry_a_family():
    assert set(COLUMNS) == families_in_code("columns")


def test_families_have_as_many_labels_as_documented(planned):
    models, _ = planned
    seen = set()
    for model in models:
        for kind, documented, blocks in (("rows", ROWS, model.rows), ("columns", COLUMNS, model.columns)):
            for block in blocks:
                assert block.labels.shape[1] in documented[block.family], f"{kind} {block.family}"
                seen.add((kind, block.family))
    assert len(seen) >= 20, "the random worlds show too little"


@pytest.mark.parametrize(
    ("name", "value"), [(code(r[0]), r[1]) for r in tables(section(MODEL, "## Constants"))[0]]
)
def test_constants_are_as_documented(name, value):
    module, *path = name.split(".")
    here = importlib.import_module(f"solver.{module}")
    for step in path:
        here = getattr(here, step)
    several = here.values() if isinstance(here, dict) else here if isinstance(here, tuple) else (here,)
    assert ", ".join(map(str, several)) == value


def test_every_family_is_made_by_the_function_that_the_text_names():
    makers = re.findall(r"[Mm]ade by `(\w+)\.(\w+)`", MODEL)
    assert len(makers) > 10
    for module, function in makers:
        source = (ROOT / "solver" / f"{module}.py").read_text(encoding="utf-8")
        assert f"def {function}(" in source, f"{module}.{function}"


def test_the_bands_in_the_contract_are_those_of_the_code():
    said = ", ".join(f"{edge:g}" for edge in BAND_EDGES)
    assert f"upper ends {said} and above" in CONTRACT


# --- the contract -----------------------------------------------------------------------------------------


def test_every_reason_code_is_explained_and_every_explained_code_exists():
    assert {name for name, _ in CODES} == reasons_in_code()


def test_reasons_stand_with_the_actions_that_they_are_documented_for(planned):
    _, pairs = planned
    assert pairs <= CODES
    assert len(pairs) > 20, "the random worlds show too little"


def test_every_rule_of_the_check_is_in_the_contract_and_the_other_way_round():
    rows = tables(section(CONTRACT, "### Rules every plan obeys"))[0]
    said = [name for row in rows for name in re.findall(r"`(\w+)`", row[2])]
    assert sorted(said) == sorted(rules_in_code())


def test_rules_are_numbered_and_the_seventh_is_the_one_that_the_code_calls_so():
    rows = tables(section(CONTRACT, "### Rules every plan obeys"))[0]
    assert [row[0] for row in rows] == [str(i + 1) for i in range(len(rows))]
    assert rows[6][2] == "`share`"


@pytest.mark.parametrize("row", tables(section(CONTRACT, "## What it gets"))[0], ids=" ".join)
def test_a_workload_gets_what_the_contract_says(row):
    asked, limit, share, gets, why = row
    workload = Workload(
        "w", "its allocation", 1, 8, 0, "pending",
        min_runtime_s=parse_duration(asked),
        time_limit_s=parse_duration(limit) if limit else None,
    )  # fmt: skip
    found = effective(workload, Contract(), Fraction(share))
    assert format_duration(found.min_runtime_s) == gets
    assert bool(found.warnings) == (asked != gets)
    for warning in found.warnings:
        assert warning.rpartition(": ")[2] in why


@pytest.mark.parametrize("row", tables(section(CONTRACT, "## Fair share"))[2], ids=lambda row: row[0])
def test_the_worked_example_of_the_orders_is_what_the_code_does(row):
    order, sequence, started, _ = row
    example = section(CONTRACT, "## Budgets and shares")
    text = re.findall(r"```yaml\n(.*?)```", example, flags=re.DOTALL)[0]
    site = parse_site(f"{text}\nfair_share: {{order: {code(order)}}}\n", "site.yaml")
    standing = tables(section(CONTRACT, "## Fair share"))[1]
    snapshot = parse_snapshot(json.dumps(_snapshot(standing)), "snapshot.json", site)
    encoded = encode(site, snapshot)
    b = encoded.state.budgets
    for path, share, entitled, _, _ in standing:
        v = encoded.names.budgets.index(code(path))
        assert b.share_ppb[v] == int(share.rstrip("%")) * 10**7
        assert b.entitled[v] / 3.6e9 == pytest.approx(float(entitled))
    board, _ = opening(encoded.state)
    assert [encoded.names.workloads[j].id for j in board.order.sequence] == sequence.split()
    plan = plan_round(site, snapshot, "highs")
    assert {d.workload for d in plan.decisions if d.action == "start"} == set(started.split())


def _snapshot(standing):
    gang = {"replicas": 8, "gpus_per_replica": 8, "min_runtime": "2h", "state": "pending"}
    return {
        "time": "2026-10-09T12:00:00Z",
        "clusters": [{"name": "saturn", "nodes": [{"names": "saturn-[01-24]", "gpus": 8}]}],
        "workloads": [
            {"id": name, "allocation": code(path), "submitted": "2026-10-09T10:00:00Z", **gang}
            for path, _, _, _, name in standing
            if name
        ],
        "usage": {code(path): round(float(e) * float(ratio), 2) for path, _, e, ratio, _ in standing},
    }


def test_the_owed_example_is_what_the_code_says_of_the_two_clusters():
    site = load_site(ROOT / "examples" / "two-clusters" / "site.yaml")
    encoded = encode(site, load_snapshot(ROOT / "examples" / "two-clusters" / "snapshot.yaml", site))
    rows = share_rows(encoded, encoded.state.workloads.status != Status.PENDING)
    found = {r.allocation: [round(x, 1) for x in (r.entitled, r.delivered, r.owed)] for r in rows}
    assert found["vision"] == [3686.4, 3000, 3000]
    assert found["language/posttraining"] == [2119.7, 1400, 2119.7]
    said = section(CONTRACT, "## Owed and delivered").replace(",", "")
    assert all(f"{x:g}" in said for name in ("vision", "language/posttraining") for x in found[name])


def test_the_lane_has_the_sizes_of_the_examples():
    said = re.search(r"a quarter of them: (.*?)\. It is", CONTRACT)
    sizes = [part.replace(",", "").split(" of ") for part in said[1].split(", ")]
    assert len(sizes) == 3
    for lane, cluster in sizes:
        assert lane_gpus(Site(()), int(cluster)) == int(lane)


@pytest.mark.parametrize(
    ("gang_gpus", "kind", "goes"),
    [
        (40, {"allocated": False}, True),
        (48, {"allocated": False}, False),
        (8, {"min_runtime_h": 1}, True),
        (16, {"min_runtime_h": 1}, False),
    ],
)
def test_a_start_must_be_worth_more_than_the_restarts_that_it_causes(gang_gpus, kind, goes):
    """One GPU of an allocation at its share, against gangs of fewer than 48 and of fewer than 16 GPUs."""
    assert (
        "evicts an unallocated gang of fewer than 48 GPUs, or one beyond its share of fewer than 16" in MODEL
    )
    nodes = range(gang_gpus // 8)
    world = state(
        [node() for _ in nodes],
        [running(8, nodes, leaf_budget="b", started_h_ago=2, **kind), pending(1, min_runtime_h=1)],
        ratios={"a": 1.0, "b": 3.0},
        entitled_gpu_h={"a": 10**6, "b": 10**6},
    )
    action = decide(world, SolveParams("highs")).decisions.action
    assert (action[0] == Action.PREEMPT) == goes
    assert (action[1] == Action.START) == goes


# --- words and links --------------------------------------------------------------------------------------


def terms() -> list[str]:
    return re.findall(r"^- \*\*(.+?)\*\*:", read("glossary.md"), flags=re.MULTILINE)


def test_terms_are_unique_and_in_alphabetical_order():
    found = [term.casefold() for term in terms()]
    assert len(found) > 50
    assert all(a < b for a, b in pairwise(found))


def test_every_line_of_the_glossary_is_a_term_with_its_meaning():
    lines = read("glossary.md").split("\n\n", 2)[2].splitlines()
    assert len(lines) == len(terms())
    assert all(re.fullmatch(r"- \*\*.+?\*\*: \S.*[.*]", line) for line in lines)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_relative_link_leads_to_a_file_and_to_a_heading_in_it(document):
    text = prose(document.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (document.parent / path).resolve() if path else document
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), target


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub gives to the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_mathematics_is_fenced_as_github_renders_it(document):
    text = document.read_text(encoding="utf-8")
    for block in re.findall(r"^```math\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        assert block.count("{") == block.count("}")
        assert block.count(r"\left") - block.count(r"\leftarrow") == block.count(r"\right")
    assert "$$" not in prose(text)
