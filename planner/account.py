"""The standing of every allocation by the ledger: used, entitled, owed and delivered in the lookback window.

The ledger says who held what in each hour and what was there; the site says what that is worth. All amounts
are micro budget units, added up in whole numbers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from planner.encode import accounts_of
from planner.ledger.demand import Hour, known_hours, latest_capacity
from planner.ledger.hourly import Series, occupied
from planner.ledger.schema import HOUR_S
from planner.ledger.store import Ledger
from planner.model.budget import leaf_shares
from planner.model.plan import ShareRow
from planner.model.site import Site
from planner.model.snapshot import Snapshot
from planner.overdraft import IDLE, Balance, carried
from solver.state import MICRO
from solver.window import HOUR_MICRO_S, Window

PPB = 10**9
WEIGHT = 1 << 40
"""Fixed point of the weight of an hour under a half-life."""

Units = dict[str, int]
"""Micro budget units by allocation."""


@dataclass(frozen=True)
class Account:
    """What the ledger says of the window that ends at `now_s`.

    Attributes
    ----------
    begin_s, now_s : int, epoch seconds
    known_s : int, seconds
        How much of the window is known.
    shares : dict of allocation to Fraction
        Of today; the allocations of the site, or without a site those that the ledger knows (share 0).
    usage, entitled : dict of allocation to micro budget units
        In the known hours, decayed if there is a half-life: what the ratio compares.
    carried : dict of allocation to micro budget units
        Use beyond entitlement before the window that is not paid yet; 0 unless the site carries it.
    owed, delivered : dict of allocation to micro budget units
        Never decayed; delivered is all that was held, in hours that are known or not.
    """

    begin_s: int
    now_s: int
    known_s: int
    shares: dict[str, Fraction]
    usage: Units
    carried: Units
    entitled: Units
    owed: Units
    delivered: Units
    warnings: tuple[str, ...]


def account(site: Site, ledger: Ledger, now_s: int, gpus: Mapping[str, int] | None = None) -> Account:
    """Read the standing of every allocation at `now_s`.

    Parameters
    ----------
    gpus : GPUs of today by GPU type, for hours of which only runs are known
        Without it those of the site file, or else those that the ledger saw last.
    """
    lookback = site.fair_share.lookback
    window = Window(lookback.window_s, lookback.type == "tumbling", lookback.half_life_s)
    carries = site.fair_share.carry_overdraft and window.half_life_s is None
    begin_s = max(window.begins_s(now_s), 0)
    with ledger.read() as connection:
        hours = known_hours(connection, 0 if carries else begin_s, now_s)
        inside = occupied(connection, begin_s, now_s)
        past = occupied(connection, hours[0].hour_s, now_s) if carries and hours else {}
        there = gpus or _inventory(site) or latest_capacity(connection)
    books = _Books(site, there, hours)
    sums = books.sums(inside, begin_s, now_s, window)
    if carries:
        sums.carried = books.carried(past, now_s, window, sums)
    return _account(site, books, sums, begin_s, now_s)


def with_ledger(site: Site, snapshot: Snapshot, ledger: Ledger) -> tuple[Site, Snapshot, Account]:
    """Let the ledger take the place of the usage in a snapshot.

    The site comes back with nothing to carry any more: the usage already holds what is carried.
    """
    there = Counter[str]()
    for cluster in snapshot.clusters:
        for node in cluster.nodes:
            there[node.gpu_type or ""] += node.gpus if node.state != "down" else 0
    found = account(site, ledger, snapshot.time_s, there)
    counted = {a: Fraction(found.usage[a] + found.carried[a], HOUR_MICRO_S) for a in found.shares}
    filled = replace(
        snapshot,
        usage=counted,
        entitled={a: Fraction(found.entitled[a], HOUR_MICRO_S) for a in found.shares},
        history_s=found.known_s,
        warnings=snapshot.warnings + found.warnings,
    )
    if not found.known_s:
        filled = replace(filled, warnings=(*filled.warnings, "the ledger knows nothing of the window"))
    settled = replace(site, fair_share=replace(site.fair_share, carry_overdraft=False))
    return settled, filled, found


def into_rows(rows: tuple[ShareRow, ...], found: Account) -> tuple[ShareRow, ...]:
    """Put what is owed and delivered by the ledger, hour by hour, in place of the bounds of a snapshot."""
    return tuple(
        replace(
            row,
            owed=found.owed[row.allocation] / HOUR_MICRO_S,
            delivered=found.delivered[row.allocation] / HOUR_MICRO_S,
        )
        for row in rows
    )


@dataclass(frozen=True)
class HourRow:
    """One hour of one allocation, in micro budget units; `there` is what all allocations could share."""

    hour_s: int
    allocation: str
    there: int
    entitled: int
    owed: int
    delivered: int
    unallocated: int
    demand: int


def by_hour(site: Site, ledger: Ledger, begin_s: int, now_s: int) -> list[HourRow]:
    """Return what the ledger says of each known hour from `begin_s` to `now_s`, never decayed."""
    with ledger.read() as connection:
        hours = known_hours(connection, begin_s, now_s)
        held = occupied(connection, begin_s, now_s)
        free = occupied(connection, begin_s, now_s, "unallocated")
        there = _inventory(site) or latest_capacity(connection)
    books = _Books(site, there, hours)
    used, unallocated = books.used(held), books.used(free)
    out = []
    for hour in hours:
        units, surplus = (x.get(hour.hour_s, Counter[str]()) for x in (used, unallocated))
        due = {a: (entitled, asked) for a, entitled, asked in books.due(hour, hour.last_s - hour.first_s)}
        whole = sum(entitled for entitled, _ in due.values())
        for a in books.shares or sorted(units.keys() | due.keys()):
            entitled, asked = due.get(a, (0, 0))
            wanted = max(units[a], asked)
            owed = min(entitled, wanted)
            out.append(HourRow(hour.hour_s, a, whole, entitled, owed, units[a], surplus[a], wanted))
    return out


def _inventory(site: Site) -> dict[str, int]:
    """Return the GPUs of a site file by type."""
    out = Counter[str]()
    for cluster in site.clusters:
        for node in cluster.nodes:
            out[node.gpu_type or ""] += node.gpus
    return dict(out)


# -- hour by hour ------------------------------------------------------------------------------------


class _Sums:
    """Sums over the window, by allocation."""

    def __init__(self) -> None:
        self.usage: Counter[str] = Counter()
        self.entitled: Counter[str] = Counter()
        self.owed: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self.carried: Counter[str] = Counter()
        self.known_s = 0


class _Books:
    """What the hours of a ledger are worth at a site: names become allocations, GPU-seconds budget units."""

    def __init__(self, site: Site, gpus: Mapping[str, int], hours: list[Hour]) -> None:
        self.shares = leaf_shares(site.budgets)
        self.names = accounts_of(site)
        self.charges = {t: int(charge * MICRO) for t, charge in site.charges.items()}
        self.power = sum(n * self.charge(t) for t, n in gpus.items())  # micro budget units per second
        self.today = {a: int(share * PPB) for a, share in self.shares.items()}
        self.hours = {hour.hour_s: hour for hour in hours}

    def charge(self, gpu_type: str) -> int:
        """Return the micro budget units of a GPU-second."""
        return self.charges.get(gpu_type, MICRO)

    def named(self, allocation: str) -> str:
        """Return today's name of an allocation: one that was renamed lives on as an account."""
        return allocation if allocation in self.shares else self.names.get(allocation, allocation)

    def used(self, series: Series) -> dict[int, Counter[str]]:
        """Return what was used in each hour."""
        out: dict[int, Counter[str]] = defaultdict(Counter)
        for (hour_s, allocation, gpu_type), gpu_s in series.items():
            out[hour_s][self.named(allocation)] += gpu_s * self.charge(gpu_type)
        return out

    def due(self, hour: Hour, seconds: int) -> Iterator[tuple[str, int, int]]:
        """Yield allocation, entitlement and demand of so many seconds of an hour.

        Both are means over what was observed of it. Where nothing was, today's shares of today's capacity
        stand in, and no demand is known.
        """
        if not hour.observed_s:
            for allocation, ppb in self.today.items():
                yield allocation, ppb * self.power * seconds // PPB, 0
            return
        power = sum(gpu_s * self.charge(t) for t, gpu_s in hour.capacity.items())
        there_gpu_s = sum(hour.capacity.values())
        for allocation, wish in hour.wishes.items():
            entitled = wish.share_ppb_s * power * seconds // (hour.observed_s**2 * PPB)
            own = wish.share_ppb_s * there_gpu_s
            asked = entitled * wish.gpu_s * hour.observed_s * PPB // own if own else 0
            yield self.named(allocation), entitled, asked

    def sums(self, series: Series, begin_s: int, now_s: int, window: Window) -> _Sums:
        """Add up the window. An hour of which nothing is known counts on neither side of the ratio."""
        out = _Sums()
        used = self.used(series)
        for units in used.values():
            out.delivered.update(units)
        for hour in self.hours.values():
            first_s, last_s = max(hour.first_s, begin_s), min(hour.last_s, now_s)
            if first_s >= last_s:
                continue
            out.known_s += last_s - first_s
            weight = _weight(window, max(hour.hour_s, begin_s), min(hour.hour_s + HOUR_S, now_s), now_s)
            units = used.get(hour.hour_s, Counter[str]())
            for allocation, amount in units.items():
                out.usage[allocation] += amount * weight // WEIGHT
            for allocation, entitled, asked in self.due(hour, last_s - first_s):
                out.entitled[allocation] += entitled * weight // WEIGHT
                out.owed[allocation] += min(entitled, max(units[allocation], asked))
        return out

    def carried(self, series: Series, now_s: int, window: Window, inside: _Sums) -> Counter[str]:
        """Return what each allocation has to pay for the time before the window, of which sums are known."""
        used = self.used(series)
        balances: dict[str, list[Balance]] = defaultdict(list)
        for hour in self.hours.values():
            units = used.get(hour.hour_s, Counter[str]())
            seconds = min(hour.last_s, now_s) - hour.first_s
            due = Counter[str]()
            for allocation, entitled, _ in self.due(hour, max(seconds, 0)):
                due[allocation] += entitled
            for allocation in units.keys() | due.keys():
                balances[allocation].append(Balance(hour.hour_s, units[allocation], due[allocation]))
        over = {a: inside.usage[a] - inside.entitled[a] for a in balances}
        return Counter({a: carried(of, window, now_s, over[a]) for a, of in balances.items()})


def _weight(window: Window, begin_s: int, end_s: int, now_s: int) -> int:
    """Return what an hour counts, in fixed point: with a half-life the mean over the hour, else all of it."""
    if window.half_life_s is None:
        return WEIGHT
    return round(window.seconds_between(begin_s, end_s, now_s) / (end_s - begin_s) * WEIGHT)


def _account(site: Site, books: _Books, sums: _Sums, begin_s: int, now_s: int) -> Account:
    """Keep what is of the site's allocations; without budgets, of all that the ledger knows."""
    seen = sums.delivered.keys() | sums.entitled.keys()
    shares = books.shares or dict.fromkeys(sorted(seen), Fraction(0))
    strangers = sorted(a for a in seen if a not in shares and sums.delivered[a])
    warnings = [f"the ledger's use of {a} is dropped: the site has no such allocation" for a in strangers]
    if site.fair_share.carry_overdraft and site.fair_share.lookback.half_life_s is not None:
        warnings.append(IDLE)

    def of(units: Counter[str]) -> Units:
        return {a: units[a] for a in shares}

    return Account(
        begin_s,
        now_s,
        sums.known_s,
        shares,
        of(sums.usage),
        of(sums.carried),
        of(sums.entitled),
        of(sums.owed),
        of(sums.delivered),
        tuple(warnings),
    )
