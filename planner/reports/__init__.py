"""What managers, researchers and engineers look at: frames, figures of them, and pages that hold both.

`frames` are tables and are tested; `figures` draw a frame and decide nothing; `pages` put figures, tables and
sentences into files that open from disk. Data flows that one way.
"""
