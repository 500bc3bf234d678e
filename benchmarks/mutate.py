"""Damage to documents, from a slip of the pen to a billion laughs: the mutator of `benchmarks.fuzz`.

A document is damaged as a tree of tokens (`benchmarks.tokens`) and written out again, or as bytes. What it is
damaged with depends on the seed alone, so that a run can be repeated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from random import Random

from benchmarks.splinters import POOLS, SPLINTERS, alike
from benchmarks.tokens import (
    Box,
    Tree,
    UnreadableError,
    block_text,
    flow_text,
    json_text,
    read,
    read_table,
    table_text,
)

BETWEEN = b"\n%%%%\n"
"""Stands between the documents of an input that holds several."""

Place = tuple[Box, int]
Damage = Callable[[Random, list[Place], list[Place]], None]
"""Changes a tree in place; takes chance, the places of the tree, and those of others to borrow from."""

# -- trees -------------------------------------------------------------------------------------------


def places(box: Box) -> list[Place]:
    """Return where something stands in a tree, outermost first."""
    found, boxes = [], [box]
    for here in boxes:
        found += [(here, i) for i in range(len(here.values))]
        boxes += [value for value in here.values if isinstance(value, Box)]
    return found


def copied(tree: Tree) -> Tree:
    """Return a tree that can be changed without the other."""
    if isinstance(tree, str):
        return tree
    return Box([copied(value) for value in tree.values], None if tree.keys is None else list(tree.keys))


def _insert(box: Box, i: int, key: str, value: Tree) -> None:
    box.values.insert(i, value)
    if box.keys is not None:
        box.keys.insert(i, key)


def _keys(box: Box) -> list[str]:
    """Return the keys of a mapping, bare; none of a list."""
    return [key.strip('"') for key in box.keys or ()]


def _key(place: Place) -> str:
    """Return the key at a place, bare; "" in lists."""
    box, i = place
    return "" if box.keys is None else box.keys[i].strip('"')


def tweak(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Change one scalar a little: a number by a step, other text by a character."""
    scalars = [(box, i) for box, i in here if isinstance(box.values[i], str)]
    if not scalars:
        return
    box, i = rng.choice(scalars)
    token = str(box.values[i])
    if re.fullmatch(r"-?[0-9]{1,18}", token):
        n = int(token)
        box.values[i] = str(rng.choice((n + 1, n - 1, n * 2, n // 2, -n, n * 10, rng.randint(0, 9))))
    elif token:
        at = rng.randrange(len(token))
        digit = token[at].isdigit()
        new = rng.choice("0123456789") if digit else rng.choice(("", token[at] * 2, rng.choice(" -/:.s")))
        box.values[i] = token[:at] + new + token[at + 1 :]


def likely(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Put something of the same kind in the place of a scalar."""
    box, i = rng.choice(here)
    token = box.values[i]
    if isinstance(token, str):
        box.values[i] = rng.choice(alike(token))


def strange(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Put anything in the place of something."""
    box, i = rng.choice(here)
    box.values[i] = rng.choice(rng.choice(POOLS))


def borrow(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Put what stands under the same key elsewhere in the place of something."""
    box, i = rng.choice(here)
    key = _key((box, i))
    source = here if rng.random() < 0.7 else others
    same = [place for place in source if _key(place) == key]
    if same:
        lender, k = rng.choice(same)
        box.values[i] = copied(lender.values[k])


def adopt(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Add a key to a mapping that others of its kind have."""
    boxes = [box for box, _ in here if box.keys is not None]
    if not boxes:
        return
    box = rng.choice(boxes)
    known = set(_keys(box))
    kin = [
        place
        for place in here + others
        if _key(place) not in known and len(known.intersection(_keys(place[0]))) * 2 >= len(known)
    ]
    if kin:
        lender, i = rng.choice(kin)
        _insert(box, len(box.values), lender.keys[i] if lender.keys else "", copied(lender.values[i]))


def drop(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Leave something out."""
    box, i = rng.choice(here)
    del box.values[i]
    if box.keys is not None:
        del box.keys[i]


def double(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Write an entry of a list twice; one with a name gets a new one, as a rule."""
    entries = [(box, i) for box, i in here if box.keys is None]
    if not entries:
        return
    box, i = rng.choice(entries)
    twin = copied(box.values[i])
    if isinstance(twin, Box) and rng.random() < 0.8:
        for k, key in enumerate(_keys(twin)):
            if key in ("id", "name"):
                twin.values[k] = f"x{rng.randrange(1000)}"
    _insert(box, i + 1, "", twin)


def repeat(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Write an entry, or a key, once more."""
    box, i = rng.choice(here)
    _insert(box, i, box.keys[i] if box.keys is not None else "", copied(box.values[i]))


def flood(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Write something many times."""
    box, i = rng.choice(here)
    for _ in range(rng.choice((3, 30, 300))):
        _insert(box, i, box.keys[i] if box.keys is not None else "", copied(box.values[i]))


def exchange(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Let two things of one key, or any two, change places."""
    box, i = rng.choice(here)
    same = [place for place in here if _key(place) == _key((box, i))]
    other, k = rng.choice(same if rng.random() < 0.8 else here)
    first, second = copied(box.values[i]), copied(other.values[k])
    box.values[i], other.values[k] = second, first


def shuffle(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Turn the entries of a list or mapping around."""
    box, _ = rng.choice(here)
    order = rng.sample(range(len(box.values)), len(box.values))
    box.values[:] = [box.values[i] for i in order]
    if box.keys is not None:
        box.keys[:] = [box.keys[i] for i in order]


def retype(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Make a list or a mapping of a scalar, text of a number, one entry of a list."""
    box, i = rng.choice(here)
    value = box.values[i]
    if isinstance(value, Box) and value.values and rng.random() < 0.5:
        box.values[i] = value.values[0]
    elif isinstance(value, str) and rng.random() < 0.5:
        box.values[i] = value.strip('"') if value.startswith('"') else f'"{value}"'
    else:
        box.values[i] = rng.choice((Box([value]), Box([value], ["name"])))


def rename(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Write a key wrong, or another one."""
    mappings = [(box, i) for box, i in here if box.keys is not None]
    if mappings:
        box, i = rng.choice(mappings)
        assert box.keys is not None
        elsewhere, k = rng.choice(mappings)
        key = box.keys[i]
        words = (
            key[:-1],
            key + "s",
            key.upper(),
            (elsewhere.keys or [key])[k],
            rng.choice(rng.choice(POOLS)),
        )
        box.keys[i] = rng.choice(words)


def laugh(rng: Random, here: list[Place], others: list[Place]) -> None:
    """Add anchors that name each other, each many times."""
    box, _ = rng.choice(here)
    for step in range(rng.choice((2, 9))):
        inner = "x" if not step else ", ".join([f"*a{step - 1}"] * 9)
        _insert(box, len(box.values), f"a{step}", f"&a{step} [{inner}]")


GENTLE: tuple[Damage, ...] = (tweak, tweak, likely, borrow, borrow, adopt, drop, double, exchange, shuffle)
"""What often leaves a document that can be read."""

ROUGH = (*GENTLE, repeat, *(strange,) * 3, *(retype,) * 2, *(rename,) * 2, flood, laugh)

# -- text and bytes ----------------------------------------------------------------------------------


def scarred(rng: Random, data: bytes) -> bytes:
    """Return the text as a bad editor, another system or a broken copy leaves it."""
    at = rng.randrange(len(data) + 1)
    splinter = rng.choice(SPLINTERS)
    return rng.choice(
        (
            data[:at] + splinter + data[at:],
            data[:at],
            data[at:],
            b"\xef\xbb\xbf" + data,
            data.replace(b"\n", b"\r\n"),
            data.replace(b"\n", b"\r"),
            data.replace(b"  ", b"\t"),
            data.decode("utf-8", "replace").encode("utf-16"),
            data + b"\n---\n" + data[:at],
            b"%YAML 1.1\n---\n" + data,
            data + b"\n...\n",
            data.replace(b"-", b"\xe2\x80\x93", 1),
        )
    )


def splintered(rng: Random, data: bytes) -> bytes:
    """Return the bytes with a few pieces cut out, doubled, or put in."""
    for _ in range(rng.choice((1, 1, 2, 4))):
        start = rng.randrange(len(data) + 1)
        end = min(len(data), start + rng.choice((0, 0, 1, 2, 8, 40)))
        token = rng.choice(rng.choice(POOLS))[:40].encode("utf-8", "surrogatepass")
        middle = rng.choice(
            (b"", data[start:end] * 2, token, rng.randbytes(1), rng.choice(b":,-{}[]'\"#&*!|%\n ").to_bytes())
        )
        data = data[:start] + middle + data[end:]
    return data


# -- the mutator -------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _document(data: bytes) -> Box:
    """Return the tree of YAML or JSON; who changes it takes a copy."""
    return read(data.decode("utf-8", "replace"))


@lru_cache(maxsize=64)
def _table(data: bytes) -> Box:
    """Return the tree of CSV; who changes it takes a copy."""
    return read_table(data.decode("utf-8", "replace"))


@dataclass(frozen=True)
class Mutator:
    """Turns an input into another; the same seed makes the same of it.

    Attributes
    ----------
    donors : sequence of bytes
        Inputs to borrow from, and to begin with anew where one is beyond reading.
    rough : float
        How often damage need not leave a document that can be read.
    table : bool
        The input is CSV, and not YAML or JSON.
    """

    donors: Sequence[bytes]
    rough: float = 0.5
    table: bool = False

    def __call__(self, data: bytes, max_size: int, seed: int) -> bytes:
        """Return the damaged input, of at most `max_size` bytes."""
        rng = Random(seed)
        parts = data.split(BETWEEN)
        if rng.random() < 0.02 or not data:
            parts = rng.choice(self.donors).split(BETWEEN)
        at = rng.randrange(len(parts))
        if rng.random() >= self.rough:
            parts[at] = self._rewritten(rng, parts[at], at, GENTLE)
        elif rng.random() < 0.6:
            parts[at] = self._rewritten(rng, parts[at], at, ROUGH)
        else:
            parts[at] = rng.choice((splintered, splintered, scarred))(rng, parts[at])
        out = BETWEEN.join(parts)
        return out if len(out) <= max_size else splintered(rng, data)[:max_size]

    def _rewritten(self, rng: Random, data: bytes, at: int, ways: Sequence[Damage]) -> bytes:
        """Damage a document as a tree; one that is none is splintered, or another takes its place."""
        lender = rng.choice(self.donors).split(BETWEEN)
        other = lender[min(at, len(lender) - 1)]
        try:
            tree = copied(self._tree(data))
        except UnreadableError:
            return splintered(rng, data) if rng.random() < 0.5 else other
        assert isinstance(tree, Box)
        others = places(self._tree(other))
        for _ in range(rng.choice((1, 1, 2, 3))):
            here = places(tree)
            if here:
                rng.choice(ways)(rng, here, others)
        return self._written(tree, data, rng.random() < self.rough / 5).encode("utf-8", "surrogatepass")

    def _tree(self, data: bytes) -> Box:
        return _table(data) if self.table else _document(data)

    def _written(self, tree: Box, before: bytes, otherwise: bool) -> str:
        """Write a tree in the form that it had, or `otherwise`."""
        if self.table:
            return table_text(tree)
        was_json = before.lstrip()[:1] in (b"{", b"[")
        if otherwise:
            return flow_text(tree) if was_json else json_text(tree)
        return json_text(tree, " " if b"\n" in before else "") if was_json else block_text(tree)
