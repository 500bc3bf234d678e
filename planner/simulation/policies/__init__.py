"""Scheduling policies, one file each, all deciding through `planner.simulation.policies.base`."""

from __future__ import annotations

import importlib

from planner.errors import InputError
from planner.simulation.policies.base import Policy, Setting

POLICIES = {
    "budget": "planner.simulation.policies.budget:Budget",
    "budget-greedy": "planner.simulation.policies.budget:BudgetGreedy",
    "ai2-priority": "planner.simulation.policies.ai2_priority:Ai2Priority",
    "monopoly": "planner.simulation.policies.monopoly:Monopoly",
    "hadoop-fair": "planner.simulation.policies.hadoop_fair:HadoopFair",
    "yarn-fair": "planner.simulation.policies.yarn_fair:YarnFair",
    "slurm-fair-tree": "planner.simulation.policies.slurm_fair_tree:SlurmFairTree",
    "drf": "planner.simulation.policies.drf:Drf",
    "fifo": "planner.simulation.policies.fifo:Fifo",
}
"""Where each policy is: imported when it is asked for."""


def make(name: str, setting: Setting) -> Policy:
    """Return a policy, ready for the first round of a simulation."""
    if name not in POLICIES:
        raise InputError([f"{name} is not a policy, write one of {', '.join(POLICIES)}"])
    module, _, cls = POLICIES[name].partition(":")
    policy: Policy = getattr(importlib.import_module(module), cls)(setting)
    return policy
