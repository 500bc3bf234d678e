"""The site file: read, searched for contradictions, and turned into what the planner works with."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

from planner.inventory import check_clusters, to_cluster
from planner.model.budget import Budget
from planner.model.site import (
    Contract,
    DebugRule,
    FairShare,
    Lookback,
    PlanAhead,
    Preemption,
    Run,
    Site,
    Solver,
)
from planner.scan import Loc
from planner.schema.base import Entry, json_schema, validate, validate_part
from planner.schema.site import BackendName, BudgetEntry, ContractEntry, FairShareEntry, RunEntry, SiteEntry
from planner.schema.slurm import SlurmEntry
from planner.schema.types import MAX_NAME, plain
from planner.schema.wording import one_of
from planner.slurmsite import check_slurm, payers
from planner.strict import Document, key_path, parse, read_text
from planner.units import format_duration

SOURCES: dict[str, type[Entry]] = {"slurm": SlurmEntry}
"""What each type of source may be told."""

BACKENDS: tuple[str, ...] = get_args(BackendName)
"""Names that `solver.backend` may have."""


def load_site(path: Path) -> Site:
    """Read a site file; InputError with every fault of it."""
    return parse_site(read_text(path), str(path))


def parse_site(text: str, name: str) -> Site:
    """Read the text of a site file; `name` is what error messages call it."""
    return site_of(parse(text, name))


def site_of(document: Document) -> Site:
    """Return the site that a document describes; InputError with every fault of it."""
    entry = validate(document, SiteEntry, fillers={"budgets": []})
    if entry:
        _check_tree(document, entry.budgets)
        _check_contract(document, entry.contract)
        check_clusters(document, entry.clusters)
        _check_source(document, entry)
    document.finish()
    assert entry is not None
    return _to_site(entry)


def schema() -> dict[str, Any]:
    """Return the JSON Schema of site files, for editors."""
    return json_schema(SiteEntry, "gangplan site")


# -- contradictions ----------------------------------------------------------------------------------


def _check_tree(document: Document, budgets: list[BudgetEntry]) -> None:
    """Report families that cannot be divided, and accounts that charge two leaves."""
    if not budgets:
        fault = "holds no budget, write at least one: [{name: all}]"
        document.contradiction(("budgets",), fault)
    _check_family(document, budgets, ("budgets",), 0)
    leaves = _leaves(budgets, ("budgets",), "")
    claimed: dict[str, Loc] = {}
    paths = {path: loc for loc, path, _ in leaves}
    for loc, path, leaf in leaves:
        for i, account in enumerate(leaf.accounts):
            place = (*loc, "accounts", i)
            owner = claimed.setdefault(account, place)
            if account in paths and account != path:
                owner = paths[account]
            if owner != place:
                where = key_path(document.holes.original(owner))
                fault = f'"{account}" charges {where} already, name it once'
                document.contradiction(place, fault)


def _check_family(document: Document, family: list[BudgetEntry], loc: Loc, above: int) -> None:
    """Report siblings that share a name or have nothing to share; `above`: characters of the path so far."""
    nothing = family and not any(budget.weight for budget in family)
    if nothing and document.holes.whole(loc):
        fault = "is 0 like all its siblings, give one of them a weight above 0"
        sisters = [(*loc, i, "weight") for i in range(len(family))]
        document.contradiction((*loc, 0, "weight"), fault, *sisters)
    first: dict[str, int] = {}
    for i, budget in enumerate(family):
        if first.setdefault(budget.name, i) != i:
            twin = key_path(document.holes.original((*loc, first[budget.name])))
            document.contradiction((*loc, i, "name"), f'"{budget.name}" is {twin} already, rename one')
        if budget.accounts and budget.children:
            fault = "stands on a budget with children, move it to the one that is to be charged"
            document.contradiction((*loc, i, "accounts"), fault)
        if above + len(budget.name) > MAX_NAME:
            fault = f"makes a path of over {MAX_NAME} characters, which no workload can name, shorten it"
            document.contradiction((*loc, i, "name"), fault)
        else:
            _check_family(document, budget.children, (*loc, i, "children"), above + len(budget.name) + 1)


def _leaves(family: list[BudgetEntry], loc: Loc, prefix: str) -> list[tuple[Loc, str, BudgetEntry]]:
    """Return place, path and entry of every allocation."""
    found = []
    for i, budget in enumerate(family):
        here, path = (*loc, i), prefix + budget.name
        if len(path) > MAX_NAME:
            continue
        if budget.children:
            found += _leaves(budget.children, (*here, "children"), f"{path}/")
        else:
            found.append((here, path, budget))
    return found


def _check_contract(document: Document, contract: ContractEntry) -> None:
    """Report bounds of min runtimes that leave no room, and a default outside them."""
    low, high = contract.min_min_runtime, contract.max_min_runtime
    default = contract.default_min_runtime
    low_at, high_at = ("contract", "min_min_runtime"), ("contract", "max_min_runtime")
    between = f"{format_duration(low)} to {format_duration(high)}"
    if low > high:
        fault = f"{format_duration(high)} is below min_min_runtime, write at least {format_duration(low)}"
        document.contradiction(high_at, fault, low_at)
    elif default and not low <= default <= high:
        place = ("contract", "default_min_runtime")
        fault = f"{format_duration(default)} is out of bounds, write 0s or {between}"
        document.contradiction(place, fault, low_at, high_at)


def _check_source(document: Document, entry: SiteEntry) -> None:
    """Report a source that is not known, and what one that is cannot be told."""
    if entry.source is None or not document.sound(("source",)):
        return
    if entry.source.type not in SOURCES:
        fault = one_of(entry.source.type, list(SOURCES), "a known source")
        document.contradiction(("source", "type"), fault)
        return
    told = validate_part(document, SOURCES[entry.source.type], ("source",))
    if isinstance(told, SlurmEntry):
        leaves = _leaves(entry.budgets, ("budgets",), "")
        check_slurm(document, told, payers((path, leaf) for _, path, leaf in leaves))


# -- conversion --------------------------------------------------------------------------------------


def _to_site(entry: SiteEntry) -> Site:
    """Turn a checked entry into the site that the planner knows."""
    solver, ahead, preemption = entry.solver, entry.plan_ahead, entry.preemption
    return Site(
        budgets=tuple(_to_budget(b, "") for b in entry.budgets),
        fair_share=_to_fair_share(entry.fair_share),
        contract=_to_contract(entry.contract),
        preemption=Preemption(preemption.restart_cost, preemption.max_gpus_per_round),
        charges={name: kind.charge for name, kind in entry.gpu_types.items()},
        solver=Solver(solver.backend, float(solver.time_limit), float(solver.gap)),
        plan_ahead=PlanAhead(ahead.horizon, ahead.reservations, float(ahead.hold_cost)),
        ledger=entry.ledger,
        clusters=tuple(map(to_cluster, entry.clusters)),
        source=plain(entry.source_as_written),
        run=_to_run(entry.run),
    )


def _to_run(entry: RunEntry) -> Run:
    """Turn the way of rounds into the planner's terms."""
    health = entry.health
    return Run(
        entry.state,
        entry.metrics,
        entry.pages,
        entry.max_age,
        tuple(health.command),
        health.timeout,
        health.settle,
        tuple(entry.on_empty),
    )


def _to_budget(entry: BudgetEntry, prefix: str) -> Budget:
    """Turn an entry and all below it into budgets that know their paths."""
    path = prefix + entry.name
    children = tuple(_to_budget(child, f"{path}/") for child in entry.children)
    return Budget(path, entry.weight, entry.limit, tuple(entry.accounts), children)


def _to_fair_share(entry: FairShareEntry) -> FairShare:
    """Turn the order of candidates into the planner's terms."""
    back = entry.lookback
    lookback = Lookback(back.window, back.type, back.half_life)
    return FairShare(
        entry.order, lookback, float(entry.band), entry.carry_overdraft, entry.commitment, entry.worth
    )


def _to_contract(entry: ContractEntry) -> Contract:
    """Turn the bounds of the contract into the planner's terms."""
    debug = entry.debug
    return Contract(
        entry.max_min_runtime,
        entry.min_min_runtime,
        entry.default_min_runtime,
        DebugRule(debug.max_min_runtime, debug.max_gpus, debug.lane),
        entry.largest.min_cluster_share,
    )
