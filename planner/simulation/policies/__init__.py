"""Scheduling policies, one file each, all deciding through `planner.simulation.policies.base`."""
