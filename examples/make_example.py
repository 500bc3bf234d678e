"""Write a 1,024-GPU cluster in mid-flight as a site file and a snapshot.

    python examples/make_example.py --seed 7 --out examples/ai2

128 nodes of 8 H100 in 4 blocks of 4 leaves, 15 allocations, 300 pending workloads; running and pending
together ask for 2.5 times the GPUs there are. The same seed writes the same bytes. In short:

- running, by GPU share: gangs of 12-39% of the cluster 28%, whole leaves 14%, 32 GPUs 8%, 16 GPUs 7%, 8
  GPUs 18%, small ones the rest (GPU time by size: ITP trace, ElasticFlow, ASPLOS'23; wide gangs: Kalos,
  AcmeTrace, NSDI'24); 18% of the occupied GPUs unallocated; 97% of what is not down is occupied;
- pending, by GPU share: wide 42%, whole leaves 17%, 32, 16 and 8 GPUs 22%, small ones the rest, which by
  number are two thirds single GPUs (ITP: 83% of the jobs);
- protection 30 minutes to 8 hours, debug work 5 to 15 minutes, runs exponentially old with a mean of 3
  hours; the ratio of use to share runs from 0.3 to 1.6 over the allocations (assumptions).

Every distribution, and what is an assumption, is listed in `benchmarks/instances.py`, which draws them for
clusters of any size.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # a script sees only its own folder

from benchmarks.instances import instance

SITE_HEAD = """\
# A made-up research lab with 1,024 H100, written by
#   python examples/make_example.py --seed {seed}
# Every key that is not here has its default.
"""


def site_text(site: dict[str, Any], seed: int) -> str:
    """Return the site file, with one node entry to a line."""
    rest = {key: value for key, value in site.items() if key != "clusters"}
    lines = [SITE_HEAD.format(seed=seed) + yaml.safe_dump(rest, sort_keys=False, default_flow_style=None)]
    lines.append("clusters:\n")
    for cluster in site["clusters"]:
        lines.append(f"- name: {cluster['name']}\n  levels: {_flow(cluster['levels'])}\n  nodes:\n")
        lines += [f"  - {_flow(node)}\n" for node in cluster["nodes"]]
    return "".join(lines)


def _flow(value: Any) -> str:
    """Return a value as YAML on one line."""
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=True, width=10_000).strip()


def snapshot_text(snapshot: dict[str, Any]) -> str:
    """Return the snapshot as JSON with one node entry and one workload to a line."""
    shown = {
        "clusters": lambda v: _lines(map(_cluster_text, v)),
        "workloads": lambda v: _lines(map(json.dumps, v)),
    }
    parts = [f"{json.dumps(key)}: {shown.get(key, json.dumps)(value)}" for key, value in snapshot.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _cluster_text(cluster: dict[str, Any]) -> str:
    """Return one cluster, its nodes one to a line."""
    head = json.dumps({key: value for key, value in cluster.items() if key != "nodes"})
    return f'{head[:-1]}, "nodes": {_lines(map(json.dumps, cluster["nodes"]))}}}'


def _lines(entries: Iterable[str]) -> str:
    """Return a JSON list with one entry to a line."""
    return "[\n" + ",\n".join(entries) + "\n]"


def main() -> None:
    """Write `site.yaml` and `snapshot.json`."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--nodes", type=int, default=128)
    parser.add_argument("--pending", type=int, default=300)
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parent / "ai2")
    args = parser.parse_args()
    site, snapshot = instance(args.nodes, args.pending, args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "site.yaml").write_text(site_text(site, args.seed), encoding="utf-8")
    (args.out / "snapshot.json").write_text(snapshot_text(snapshot), encoding="utf-8")


if __name__ == "__main__":
    main()
