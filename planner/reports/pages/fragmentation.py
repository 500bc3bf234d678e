"""The page for those whose gang waits: where the holes are, who stands in the way, and what would help."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from planner.reports.figures import fragmentation as figures
from planner.reports.frames import fragmentation as frames
from planner.reports.frames.obstacles import ANYWHERE, TEN, obstacles, rooms, unhealthy_gpus
from planner.reports.frames.packing import SEEDS, Packed, moves, pack, weights
from planner.reports.frames.scene import Scene
from planner.reports.frames.simulated import Simulated
from planner.reports.pages import holes
from planner.reports.pages.clock import at, clock, clocks
from planner.reports.pages.document import Chart, Grid, Name, Page, Panel, Part, Prose, number
from planner.reports.palette import colours
from planner.units import format_time
from planner.words import count

LOOKS = 720
"""Moments of a simulation at which the free GPUs of domains are drawn."""

NAMED = 5
"""Workloads in the way that a sentence names; the table has all."""


@dataclass(frozen=True)
class _Findings:
    """All frames of one moment, made once."""

    obstacles: pd.DataFrame
    moves: pd.DataFrame
    levels: pd.DataFrame
    packed: Packed


def page(scene: Scene, source: str, simulated: Simulated | None = None) -> Page:
    """Return the page of a moment; with a simulation behind it also of its history."""
    shades = colours([row.allocation for row in scene.plan.shares])
    found = _Findings(obstacles(scene), moves(scene), frames.by_level(scene), pack(scene))
    parts: list[Part] = [_largest_waits(scene, found), *holes.now(scene, found.levels)]
    parts += [
        _in_the_way(found.obstacles, shades, format_time(scene.now_s)),
        _moves(found),
        _weights(scene),
        _packing(found.packed),
    ]
    if simulated is not None:
        parts += holes.over_time(simulated)
    free, opened = int(scene.free_gpus.sum()), int(scene.open_gpus.sum())
    cluster = found.levels.iloc[-1]
    facts = [
        (f"{free:,} / {opened:,}", "GPUs free / open: free or held by work that may be interrupted"),
        (
            number(cluster["now_or_interrupting_gpus"]),
            "GPUs: the largest gang that could start now by interrupting",
        ),
        (number(cluster["in_8h_gpus"]), "GPUs: the largest gang that is certain to fit in 8 h"),
        (number(unhealthy_gpus(scene)), "GPUs on nodes that start nothing: draining or down"),
    ]
    return Page("Fragmentation", _lede(scene, found), parts, facts, source)


# -- why it waits, and what would help ------------------------------------------------------------------


def _lede(scene: Scene, found: _Findings) -> str:
    if not scene.waiting:
        return f"Nothing waits. {int(scene.free_gpus.sum()):,} GPUs are free."
    first = found.obstacles.iloc[0]
    start = "No start can be forecast."
    if first["expected_start"]:
        start = (
            ""
            if "expected" in str(first["reason"])
            else f"It is expected at {clock(first['expected_start'])}."
        )
    return (
        f"The largest pending gang, {first['workload']} of {first['allocation']}, wants {first['gpus']:,} "
        f"GPUs. It {_because(first['reason'])} {start}"
    )


def _largest_waits(scene: Scene, found: _Findings) -> Prose:
    """Say why the largest pending gang waits, and what would let it start."""
    if not scene.waiting:
        return Prose("Nothing waits", ["Every workload that wants GPUs has them."])
    first = found.obstacles.iloc[0]
    mine = found.obstacles[found.obstacles["workload"] == first["workload"]]
    where = "on any nodes" if first["level"] == ANYWHERE else f"in one {first['level']}"
    text = [
        ("Why:", f"it wants {count(first['gpus'], 'GPU')} {where}, and {_because(first['reason'])}"),
        _nearest(mine),
        *_waiting(scene, first),
        _moving(found.moves.iloc[0]),
        *_budget(scene, str(first["allocation"])),
    ]
    return Prose(f"Why {first['workload']} waits, and what would let it start", text)


def _nearest(mine: pd.DataFrame) -> tuple[str, str]:
    """Say where it could stand first, and who is there."""
    title, first = "Nearest room:", mine.iloc[0]
    if pd.isna(first["nodes"]):
        return title, "no place of the kind it asks for is large enough with the nodes that are up."
    blockers = mine.dropna(subset=["blocker"])
    lead = f"{count(first['nodes'], 'node')} in {first['nearest_place']}, {first['free_nodes']} free enough."
    if blockers.empty:
        return title, f"{lead} Nobody stands in its way there."
    told = [
        f"{b['blocker']} ({b['blocker_allocation']}, {count(b['blocker_gpus'], 'GPU')}, "
        f"{_until(b['blocker_until'])})"
        for b in blockers.head(NAMED).to_dict("records")
    ]
    more = f" and {len(blockers) - NAMED} more" if len(blockers) > NAMED else ""
    return title, f"{lead} In the way: {', '.join(told)}{more}."


def _waiting(scene: Scene, first: pd.Series) -> list[tuple[str, str]]:
    """Say what time alone would do, there and, for a gang that keeps to a level, on any nodes."""
    out = []
    if isinstance(first["clear_at"], str):
        when = f"at {clock(first['clear_at'])} the last protection there has ended; then it can have the room"
        if first["clear_at"] == format_time(scene.now_s):
            when = "no protection is in its way; it can have the room"
        then = "as soon as it ranks before those who are left, by its allocation's ratio."
        if scene.decisions[str(first["workload"])].reason.code == "AtLimit":
            then = "as soon as its limit allows it as well, and it ranks before those who are left."
        out.append(("Waiting:", f"{when} {then}"))
    wide = rooms(scene, scene.waiting[0], anywhere=True)
    if first["level"] != ANYWHERE and wide:
        when = f"from {at(wide[0].ready_s)} on" if wide[0].ready_s > scene.now_s else "now"
        out.append(("A wider level:", f"on any nodes it could have room {when}."))
    return out


def _moving(move: pd.Series) -> tuple[str, str]:
    """Say whether it would fit if others moved."""
    if not move["fits"]:
        return (
            "Moving:",
            "no rearrangement of what stands was found that makes room; work has to end, or to stop.",
        )
    if not move["moved_workloads"]:
        return (
            "Moving:",
            "no allocated work has to move; unallocated work makes room once the gang ranks first.",
        )
    who = (
        f"{count(move['moved_workloads'], 'workload')} ({move['moved']}), {count(move['moved_gpus'], 'GPU')}"
    )
    lost = f"{move['lost_gpu_hours']:.1f} GPU-hours of work would be lost"
    return (
        "Moving:",
        f"{who}, would have room elsewhere; {lost}. gangplan moves nothing that runs; their owners can.",
    )


def _budget(scene: Scene, allocation: str) -> list[tuple[str, str]]:
    """Say how its allocation stands in the queue."""
    row = next((row for row in scene.plan.shares if row.allocation == allocation), None)
    if row is None or row.ratio is None:
        return []
    place = f"number {row.rank} of {len(scene.plan.shares)} in the queue"
    return [
        (
            "Budget:",
            f"{allocation} has had {row.ratio:.2f} of its share in the lookback window and is {place}.",
        )
    ]


def _until(end: str) -> str:
    """Return how long a workload stays in the way: `protected until ...`, or the word of the frame."""
    told = clock(end)
    return end if told == end else f"protected until {told}"


def _because(reason: object) -> str:
    """Return a reason as the end of a sentence that begins with the gang."""
    words = clocks(str(reason)).strip().rstrip(".")
    verb = words.startswith(("needs ", "is ", "waits ", "fits ", "would "))
    return f"{words}." if verb else f"waits: {words}."


def _in_the_way(frame: pd.DataFrame, shades: dict[str, str], now: str) -> Grid:
    """Show the largest pending gangs, and whom each waits for."""
    rows = []
    for _, mine in frame.groupby("workload", sort=False):
        first = mine.iloc[0]
        blockers = mine.dropna(subset=["blocker"])
        told = [f"{b.blocker} ({b.blocker_gpus:.0f})" for b in blockers.head(NAMED).itertuples()]
        if len(blockers) > NAMED:
            told.append(f"{len(blockers) - NAMED} more")
        where = first["nearest_place"] or "no place is large enough"
        rows.append(
            (
                str(first["workload"]),
                Name(str(first["allocation"]), shades.get(str(first["allocation"]), "")),
                number(first["gpus"]),
                first["level"],
                f"{where}: {', '.join(told) or 'nobody'}",
                "no protection" if first["clear_at"] == now else clock(first["clear_at"]),
                clock(first["expected_start"]),
                clocks(str(first["reason"])),
            )
        )
    header = (
        "Gang", "Allocation", "GPUs", "Within", "Nearest place: who is in the way (GPUs there)",
        "Protected until", "Expected start", "Why",
    )  # fmt: skip
    sentence = (
        f"Who stands in the way of the {min(TEN, len(rows))} largest pending gangs"
        if rows
        else "Nothing waits"
    )
    about = (
        "The place whose last protection ends first, and who is on the nodes that the gang would need there."
    )
    return Grid("in-the-way", sentence, header, rows, frame, about)


def _moves(found: _Findings) -> Grid:
    frame = found.moves
    rows = [
        (
            row.workload,
            number(row.gpus),
            number(row.moved_workloads),
            number(row.moved_gpus),
            number(row.lost_gpu_hours, 1),
            row.moved or "-",
        )
        for row in frame.itertuples()
        if row.fits
    ]
    could = int(frame["fits"].sum()) if len(frame) else 0
    sentence = f"What would help, moves: {could} of the {len(frame)} largest gangs would fit if others moved"
    about = (
        "The set of allocated workloads found that would have room elsewhere and throws least work away, as "
        "`gangplan plan` counts it; unallocated work stops where it is in the way. Rank is not asked here: "
        "it may still be the turn of others."
    )
    return Grid(
        "moves",
        sentence,
        ("Gang", "GPUs", "Workloads to move", "GPUs to move", "GPU-hours lost", "Which"),
        rows,
        frame,
        about,
    )


def _weights(scene: Scene) -> Grid:
    frame = weights(scene)
    names = [name for name in frame if str(name).startswith("largest")]
    same = all(frame[name].nunique() == 1 for name in names)
    sentence = (
        "What would help, other weights: keeping nodes and domains whole more or less eagerly changes "
        "nothing now"
        if same
        else "What would help, other weights: how eagerly nodes and domains are kept whole changes what fits"
    )
    rows = [
        tuple(number(value, 0 if name != "weight" else 1) for name, value in zip(frame, row, strict=True))
        for row in frame.to_numpy().tolist()
    ]
    header = [
        "Weight",
        "Room, GPUs",
        "Broken nodes",
        *(f"Largest gang, {str(n).rpartition('_')[2]}" for n in names),
    ]
    about = (
        "The exact round with this term off, as it is (1), and ten times as strong. Who starts is the "
        "same; room is what no allocated work holds."
    )
    return Grid("weights", sentence, header, rows, frame, about)


def _packing(found: Packed) -> Chart:
    frame = pd.DataFrame(
        {
            "measure": [
                "there",
                "held by allocated work",
                "needed if packed anew",
                "spare",
                "copies that would fit",
            ],
            "gpus": [
                found.there_gpus,
                found.held_gpus,
                found.compact_gpus,
                found.spare_gpus,
                found.inflated_gpus,
            ],
        }
    )
    sentence = (
        f"Packed anew, today's allocated work needs {found.compact_gpus:,} of {found.there_gpus:,} GPUs: "
        f"{found.spare_gpus:,} you would not have had to buy"
    )
    about = (
        "Cluster compaction: nodes are taken away in a drawn order as long as our own round still places "
        "all allocated work that stands. Workload inflation: copies of that work are added until one does "
        f"not fit. Medians of {len(SEEDS)} orders (Verma et al., CLUSTER'14)."
    )
    bars = figures.packing(frame)
    return Chart("packing", sentence, [Panel(bars)], frame, about)
