"""Arrays in, arrays out: fair-share order, placement on fragmented topologies, and proof.

Nothing here knows names, files, clocks or people: `planner.encode` translates.
"""
