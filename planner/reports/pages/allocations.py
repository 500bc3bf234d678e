"""The page for managers: did everybody get what was promised, and who is next."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from planner.reports.figures import allocations as figures
from planner.reports.frames.books import Books, by_day_part, kept, tree
from planner.reports.pages.document import Bar, Chart, Grid, Name, Page, Panel, Part, number
from planner.reports.palette import IDLE, colours, families

KEPT = 0.95
"""Delivered ÷ owed from which a promise counts as kept, as `allocations_at_95` counts it."""

MOST_BANDS = 8
"""Bands of one chart that an eye can follow."""


def page(books: Books, under: str | None, source: str) -> Page:
    """Return the page of all allocations, or of those of one subtree."""
    shades = colours(books.whole["allocation"].tolist())
    if under is not None:
        books = books.under(under)
    promise = _promise(books)
    parts: list[Part] = [_promises(promise, shades, books), tree_of(books, shades)]
    if len(books.hourly):
        parts += [_history(books, promise, shades)]
    parts += [_burst(books, shades)]
    parts += [_unallocated(books, shades)] if len(books.hourly) else [_standing(books, shades)]
    owed, delivered = books.whole["owed"].sum(), books.whole["delivered"].sum()
    facts = [
        (_percent(promise["got"].sum(), owed), f"of what was owed was delivered in {books.span}"),
        (
            f"{(promise['delivered_over_owed'] >= KEPT).sum()} of {len(promise)}",
            f"allocations got at least {KEPT:.0%} of what they were owed",
        ),
        (number(delivered), f"{books.unit} delivered in all, {number(owed)} owed"),
    ]
    if "unallocated" in books.whole:
        facts.append((number(books.whole["unallocated"].sum()), "GPU-hours beyond that, free of charge"))
    title = "Allocations" if under is None else f"Allocations of {under}"
    return Page(title, lede_of(books), parts, facts, source)


def _promise(books: Books) -> pd.DataFrame:
    """Return what was owed and delivered, the worst first; who was owed nothing is left out."""
    frame = books.whole.assign(
        delivered_over_owed=kept(books.whole["owed"], books.whole["delivered"]),
        got=books.whole[["owed", "delivered"]].min(axis=1),
    )
    frame = frame.dropna(subset=["delivered_over_owed"])
    return frame.sort_values(["delivered_over_owed", "allocation"]).reset_index(drop=True)


def lede_of(books: Books) -> str:
    """Say whether the promise was kept, and to whom not."""
    promise = _promise(books)
    if promise.empty:
        return "Nobody was owed anything: there was no demand."
    short = promise[promise["delivered_over_owed"] < KEPT]
    owed_is = "An allocation is owed, hour by hour, the smaller of its share and what it asked for."
    if short.empty:
        return f"Every allocation got at least {KEPT:.0%} of what it was owed. {owed_is}"
    worst = short.iloc[0]
    many = "1 allocation" if len(short) == 1 else f"{len(short)} allocations"
    return (
        f"{many} of {len(promise)} got less than {KEPT:.0%} of what was owed; {worst['allocation']} least, "
        f"{worst['delivered_over_owed']:.0%}. {owed_is}"
    )


def _promises(promise: pd.DataFrame, shades: dict[str, str], books: Books) -> Chart:
    table = promise[["allocation", "owed", "delivered", "delivered_over_owed"]]
    if promise.empty:
        sentence = "Nothing was owed"
    elif len(promise) == 1:
        one = promise.iloc[0]
        sentence = f"{one['allocation']} got {one['delivered_over_owed']:.0%} of what it was owed"
    else:
        worst, best = promise.iloc[0], promise.iloc[-1]
        sentence = (
            f"From {worst['delivered_over_owed']:.2f} ({worst['allocation']}) to "
            f"{best['delivered_over_owed']:.2f} ({best['allocation']}) of what was owed was delivered"
        )
    about = (
        "Delivered ÷ owed. At the line, 1.00, the promise is kept exactly; beyond it an allocation used what "
        "others left."
    )
    return Chart(
        "promise",
        sentence,
        [Panel(figures.kept(promise, shades))],
        table,
        f"{about} In {books.span}. {books.caveat}".rstrip(),
    )


def tree_of(books: Books, shades: dict[str, str]) -> Grid:
    """Return the budget tree with the ratio that sorts the queue."""
    frame = tree(books)
    leaves = frame[frame["is_allocation"]].dropna(subset=["ratio"]).sort_values("rank")
    sentence = "Nobody has a share"
    if len(leaves):
        first = leaves.iloc[0]
        sentence = f"{first['budget']} is served first: its ratio, {first['ratio']:.2f}, is the lowest"
    most = max(1.0, float(frame["ratio"].max(skipna=True) or 1.0))
    extra = "unallocated" if "unallocated" in frame else "unallocated_gpus"
    rows: list[Sequence[object]] = []
    for row in frame.to_dict("records"):
        path = str(row["budget"])
        colour = shades.get(path, "")
        part = 0.0 if pd.isna(row["ratio"]) else row["ratio"] / most
        rows.append(
            (
                Name(path.rpartition("/")[2], colour, path.count("/")),
                f"{row['share']:.1%}",
                number(row["used_in_window"]),
                number(row["entitled_in_window"]),
                Bar(number(row["ratio"], 2), part, colour or IDLE, 1.0 / most),
                number(row["rank"]),
                number(row["owed"]),
                number(row["delivered"]),
                number(row["delivered_over_owed"], 2),
                number(row[extra]),
            )
        )
    about = (
        "Ratio = use ÷ entitlement in the lookback window; it sorts the queue, the lowest first, and the "
        f"mark is 1. Use, entitlement, owed and delivered in {books.unit}. {books.caveat}"
    ).rstrip()
    header = (
        "Budget", "Share", "Use", "Entitled", "Ratio", "Rank", "Owed", "Delivered", "Delivered ÷ owed",
        "Unallocated, GPU-hours" if extra == "unallocated" else "Unallocated GPUs now",
    )  # fmt: skip
    return Grid("tree", sentence, header, rows, frame, about)


def _history(books: Books, promise: pd.DataFrame, shades: dict[str, str]) -> Chart:
    frame = by_day_part(books)
    order = [*promise["allocation"], *sorted(set(books.whole["allocation"]) - set(promise["allocation"]))]
    ratios = promise.set_index("allocation")["delivered_over_owed"]
    by_name = {str(name): rows for name, rows in frame.groupby("allocation")}
    panels = [
        Panel(
            figures.over_time(by_name[name], shades[name], books.first_s),
            name,
            f"{ratios[name]:.2f} of owed" if name in ratios else "owed nothing",
        )
        for name in order
        if name in by_name
    ]
    short = _shortest(books)
    about = (
        "GPUs, means of six hours, the worst allocation first. Area: delivered. Line: owed. Dotted: asked "
        "for, which caps what is owed and may leave the drawing."
    )
    return Chart("history", short, panels, frame, about)


def _shortest(books: Books) -> str:
    """Say in which stretch of six hours least of what was owed was delivered, over all allocations."""
    hourly = books.hourly
    got = hourly[["owed", "delivered"]].min(axis=1)
    part = hourly["hour"] // 6
    sums = (
        pd.DataFrame({"part": part, "owed": hourly["owed"], "got": got}).groupby("part").sum().reset_index()
    )
    missing = (sums["owed"] - sums["got"]).to_numpy()
    if missing.max() < 1e-6:
        return "At no time did anybody get less than was owed"
    worst = sums.to_dict("records")[int(missing.argmax())]
    return (
        f"The widest gap between owed and delivered came on day {worst['part'] // 4:.0f}: "
        f"{worst['got'] / worst['owed']:.0%} of it was delivered in six hours"
    )


def _burst(books: Books, shades: dict[str, str]) -> Chart:
    window = books.window
    frame = window[["allocation", "entitled", "delivered"]].assign(
        beyond=window["delivered"] - window["entitled"]
    )
    frame = frame.sort_values(["beyond", "allocation"], ascending=[False, True]).reset_index(drop=True)
    over, under = frame.iloc[0], frame.iloc[-1]
    if over["beyond"] <= 0:
        sentence = "Nobody used more than its share in the lookback window"
    elif under["beyond"] >= 0:
        sentence = f"{over['allocation']} burst furthest beyond its share, and nobody is below its own"
    else:
        sentence = (
            f"{over['allocation']} burst furthest beyond its share, {under['allocation']} has most to come"
        )
    about = (
        "Use less entitlement in the lookback window. To the right: had more than its share, and waits "
        "behind others. To the left: goes first as soon as it asks."
    )
    return Chart("burst", sentence, [Panel(figures.burst(frame, shades, books.unit))], frame, about)


def _unallocated(books: Books, shades: dict[str, str]) -> Chart:
    """Show unallocated use; many allocations are added up by the budget at the top of their path."""
    frame = by_day_part(books)[["day", "allocation", "unallocated"]]
    totals = books.whole.set_index("allocation")["unallocated"]
    all_of_it = float(totals.sum())
    if all_of_it <= 0:
        sentence = "Nobody ran unallocated work"
    else:
        who = str(totals.idxmax())
        sentence = f"{who} ran most of the unallocated work, {totals[who] / all_of_it:.0%} of it"
    about = "Unallocated GPUs, means of six hours: free of charge, never protected, first to make room."
    drawn, hues = frame, shades
    if len(totals) > MOST_BANDS:
        top = frame["allocation"].str.partition("/")[0]
        drawn = frame.assign(allocation=top).groupby(["day", "allocation"], as_index=False).sum()
        hues = families(list(shades))
    key = [(hues[a], a) for a in sorted(set(drawn["allocation"]))]
    panel = Panel(figures.unallocated(drawn, hues, books.first_s))
    return Chart("unallocated", sentence, [panel], frame, about, key)


def _standing(books: Books, shades: dict[str, str]) -> Chart:
    names = ["allocation", "running_gpus", "unallocated_gpus", "pending_gpus"]
    frame = books.window[names].sort_values("running_gpus", ascending=False).reset_index(drop=True)
    held, waits = int(frame["running_gpus"].sum()), int(frame["pending_gpus"].sum())
    free = int(frame["unallocated_gpus"].sum())
    sentence = f"{held:,} GPUs run allocated work and {free:,} unallocated work, {waits:,} are waited for"
    about = "GPUs now. Full colour: allocated. Pale: unallocated. Grey: pending allocated work."
    return Chart("standing", sentence, [Panel(figures.standing(frame, shades))], frame, about)


def _percent(part: float, whole: float) -> str:
    return "-" if whole <= 0 else f"{part / whole:.1%}"
