"""The files of the public interface, as its page shows them."""

SITE = """\
budgets:
  - name: language
    weight: 50
    children:
      - {name: pretraining, weight: 70}
      - {name: posttraining, weight: 30, limit: 256}
  - {name: vision, weight: 30, accounts: [vis-lab]}
  - {name: robotics, weight: 20}
fair_share:
  order: budget
  lookback: {window: 7d, type: sliding, half_life: null}
  band: 0.05
  carry_overdraft: false
contract:
  max_min_runtime: 8h
  min_min_runtime: 5m
  default_min_runtime: 0s
  debug: {max_min_runtime: 15m, max_gpus: 16, lane: 4%}
  largest: {min_cluster_share: 0.125}
preemption:
  restart_cost: 10m
  max_gpus_per_round: null
gpu_types: {h100: {charge: 1.0}, b200: {charge: 2.0}}
solver: {backend: auto, time_limit: 20s, gap: 0.1%}
plan_ahead: {horizon: 8h, reservations: 8}
ledger: sqlite:///gangplan.db
clusters: []
source: {type: slurm, levels: [block, leaf]}
"""

SNAPSHOT = """\
time: 2026-10-09T15:20:00Z
clusters:
  - name: saturn
    levels: [block, leaf]
    nodes:
      - {names: "saturn-[001-064]", gpus: 8, gpu_type: h100, location: [b1, l01], state: up}
      - {name: saturn-065, gpus: 8, cpus: 192, memory: 2TiB, state: draining}
workloads:
  - id: "1201"
    allocation: language/pretraining
    replicas: 2
    gpus_per_replica: 8
    cpus_per_replica: 96
    memory_per_replica: 512G
    min_runtime: 4h
    resumable: true
    submitted: 2026-10-09T12:00:00Z
    priority: 0
    time_limit: 2d
    gpu_types: [h100]
    clusters: [saturn]
    topology: {required: leaf, segment: 2}
    state: running
    started: 2026-10-09T14:00:00Z
    placement: [{node: saturn-001, gpus: 8}, {node: saturn-002, gpus: 8}]
    occupancy: allocated
  - {id: 1230, allocation: vision, replicas: 1, gpus_per_replica: 4, submitted: 2026-10-09T15:00:00Z,
     state: pending}
usage: {language/pretraining: 8123.5}
entitled: {language/pretraining: 8100.0}
history: 7d
reservations:
  - {workload: 1230, start_at: 2026-10-09T18:00:00Z, placement: [{node: saturn-003, gpus: 4}]}
"""

PLAN = """\
time: 2026-10-09T15:20:00Z
solver: {backend: highs, status: optimal, objective: 671.02, bound: 671.10, gap: 0.0001, seconds: 0.21}
decisions:
  - {workload: "1201", action: start, occupancy: allocated, placement: [{node: saturn-001, gpus: 8}],
     protected_until: 2026-10-09T19:20:00Z, reason: {code: starts, text: it is next}}
  - {workload: "1189", action: preempt, for: ["1201"], lost_gpu_hours: 1.3,
     reason: {code: yields, text: it ranks after 1201}}
  - {workload: "1230", action: wait, expected_start: null,
     reason: {code: budget, text: its team is beyond its share}}
reservations: [{workload: "1230", start_at: 2026-10-09T18:00:00Z, placement: [{node: saturn-007, gpus: 4}]}]
nodes: [{node: saturn-007, state: draining, empty_at: 2026-10-09T17:00:00Z}]
shares:
  - {allocation: language/pretraining, share: 0.35, usage: 8123.5, entitled: 8100.0, ratio: 1.04,
     owed: 8000.0, delivered: 7900.0, running_gpus: 128, pending_gpus: 64, rank: 3}
fragmentation:
  {free_gpus: 40, levels: {node: {largest_gang: 8, stranded: 0}, leaf: {largest_gang: 32, stranded: 8}}}
warnings: [something]
"""
