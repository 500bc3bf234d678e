"""The source `slurm`: a Slurm cluster, read and driven by its own commands."""
