"""Where traces come from: logs of other systems, other traces, and a generator."""
