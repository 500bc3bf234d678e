"""One file for each step; a step never changes once it is released."""
