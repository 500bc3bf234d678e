"""`gangplan run`: rounds that read a source, plan, and carry the plan out."""
