"""The rules that every decided round obeys, one short function for each, sharing nothing with what decides.

| code | what is broken |
|---|---|
| `malformed` | the arrays contradict each other; nothing else is checked then |
| `action` | one legal action for each workload, and a place exactly for what starts |
| `reject` | only what can never run here is rejected |
| `capacity` | no node gives out more GPUs, CPUs or memory than it has |
| `gang` | a gang is whole, in whole replicas |
| `pool` | a gang stands in one pool, which it accepts |
| `topology` | the required level and its segments |
| `health` | nothing starts on a node that is not up; nothing stays on a sick one that must leave it |
| `limit` | nothing starts beyond a limit |
| `protected` | nobody is preempted inside its min runtime |
| `victim` | whoever is preempted makes room for someone who starts there |
| `unallocated` | unallocated work preempts nobody |
| `share` | work within its share does not yield to work beyond its own |
| `needless` | no victim could stay |
| `brake` | the site's bound on preempted GPUs |
| `promise` | what is promised can be kept |
| `promise_moved` | an old promise is kept, or the reason is stated |
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Broken:
    """One broken rule: its code, the workload and the node concerned (-1: none), and what is wrong in words.

    In `detail` {w3} stands for workload 3, {b3} for a budget, {p3} for a pool, {l3} for a level and {t3} for
    a time: whoever knows names fills them in.
    """

    rule: str
    workload: int
    node: int
    detail: str
