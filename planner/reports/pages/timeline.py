"""The page for whoever asks what happened to a run: every run on every GPU, and the life of each workload."""

from __future__ import annotations

from planner.reports.frames.subtree import within
from planner.reports.frames.timeline import Timeline, packed
from planner.reports.pages.document import Canvas, Page, number
from planner.reports.palette import EDGE, colours


def page(found: Timeline, allocations: list[str], source: str, under: str | None = None) -> Page:
    """Return the page, of one subtree where `under` names it.

    `allocations` are all of the site, so that colours are those of every page.
    """
    shades = colours(allocations)
    if under is not None:
        found = found.of(within(under, allocations))
    runs = found.runs
    preempted = runs[runs["ended"] == "preempt"]
    held_s = ((runs["end_s"] - runs["start_s"]) * runs["gpus"]).groupby(runs["allocation"]).sum()
    total_s = float(held_s.sum())
    sentence = "Nothing ran"
    if total_s > 0:
        all_of_it = "all that was held" if under is None else f"all that {under} held"
        sentence = f"{held_s.idxmax()} held most GPU time, {held_s.max() / total_s:.0%} of {all_of_it}"
    about = (
        "Each row is a GPU, each bar a run in the colour of its allocation; full colour while protected, "
        "pale (near: hatched) while it may be interrupted. A red edge is a preemption, a dashed outline a "
        "reservation. Click the drawing, then zoom by the wheel (Shift: rows only), drag to move; click a "
        "bar for its story."
    )
    used = sorted(set(runs["allocation"]))
    key = [(shades.get(name, "#808080"), name) for name in used] + [(EDGE, "preempted")]
    lede = (
        f"{len(runs):,} runs of {runs['workload'].nunique():,} workloads on "
        f"{int(found.nodes['gpus'].sum()):,} GPUs; {len(preempted):,} were ended by a preemption."
    )
    days = round(found.end_s / 86_400, 1)
    facts = [
        (number(len(runs)), "runs"),
        (number(len(preempted)), "preemptions"),
        (number(preempted["lost_gpu_s"].sum() / 3600), "GPU-hours of work lost by them"),
        (f"{days:.3g}", "day" if days == 1 else "days"),
    ]
    canvas = Canvas("runs", sentence, packed(found, shades), runs, about, key)
    title = "Timeline" if under is None else f"Timeline of {under}"
    return Page(title, lede, [canvas], facts, source)
