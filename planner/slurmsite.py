"""What the `source` of a Slurm site says that means nothing: in levels, partitions and rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from planner.inventory import check_levels
from planner.schema.site import BudgetEntry
from planner.schema.slurm import RuleEntry, SlurmEntry
from planner.schema.wording import one_of
from planner.strict import Document

MATCHERS = ("account", "qos", "partition")
EFFECTS = ("allocation", "min_runtime", "resumable", "priority", "topology")


def payers(leaves: Iterable[tuple[str, BudgetEntry]]) -> list[str]:
    """Return all that a job may name as who pays; `leaves`: path and entry of each allocation."""
    known = list(leaves)
    last = Counter(leaf.name for _, leaf in known if not leaf.accounts)
    names = {leaf.name for _, leaf in known if not leaf.accounts and last[leaf.name] == 1}
    accounts = {account for _, leaf in known for account in leaf.accounts}
    return sorted({path for path, _ in known} | names | accounts)


def check_slurm(document: Document, entry: SlurmEntry, allocations: list[str]) -> None:
    """Report what is well-formed and yet no cluster can follow; `allocations`: see `payers`."""
    check_levels(document, entry.levels, ("source", "levels"))
    if "partitions" in entry.model_fields_set and not entry.partitions:
        document.contradiction(("source", "partitions"), "is empty, name one or leave the key out for all")
    for i, rule in enumerate(entry.rules):
        _check_rule(document, entry, rule, i, allocations)


def _check_rule(document: Document, entry: SlurmEntry, rule: RuleEntry, i: int, known: list[str]) -> None:
    """Report a rule that hides those after it, sets nothing, or names who cannot pay."""
    loc = ("source", "rules", i)
    if all(getattr(rule, key) is None for key in MATCHERS) and i < len(entry.rules) - 1:
        fault = f"is for every job, name their {_either(MATCHERS)}, or put it last"
        document.contradiction(loc, fault)
    if all(getattr(rule, key) is None for key in EFFECTS):
        document.contradiction(loc, f"sets nothing, write {_either(EFFECTS)}")
    if rule.partition is not None and entry.partitions and rule.partition not in entry.partitions:
        fault = one_of(rule.partition, entry.partitions, "one of source.partitions")
        document.contradiction((*loc, "partition"), fault)
    if rule.allocation is not None and rule.allocation not in known:
        fault = one_of(rule.allocation, known, "an allocation of this site")
        document.contradiction((*loc, "allocation"), fault, ("budgets",))


def _either(keys: tuple[str, ...]) -> str:
    return f"{', '.join(keys[:-1])} or {keys[-1]}"
