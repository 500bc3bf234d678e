"""The budget tree: managers set the weights of its nodes, its leaves are the allocations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Budget:
    """One node of the tree.

    Attributes
    ----------
    path : str
        Names from the top, joined by `/`: how users name it.
    weight : Fraction
        Relative to its siblings; 0 = unallocated only.
    limit_gpus : int or None, GPUs
        Hard cap on what the subtree holds at once.
    accounts : tuple of str
        Names in the source system that charge here; empty = the path and its last part.
    """

    path: str
    weight: Fraction
    limit_gpus: int | None = None
    accounts: tuple[str, ...] = ()
    children: tuple[Budget, ...] = ()

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def walk(self) -> Iterator[Budget]:
        """Yield this node and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.walk()


def leaf_shares(budgets: tuple[Budget, ...]) -> dict[str, Fraction]:
    """Return the share of every allocation: the product of the normalised weights on its path."""
    out: dict[str, Fraction] = {}

    def descend(family: tuple[Budget, ...], share: Fraction) -> None:
        total = sum((b.weight for b in family), Fraction(0))
        for b in family:
            part = share * b.weight / total if total else Fraction(0)
            if b.children:
                descend(b.children, part)
            else:
                out[b.path] = part

    descend(budgets, Fraction(1))
    return out
