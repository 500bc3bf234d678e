"""Days of a cluster in seconds: the engine, the policies, what is recorded, and the figures made of it."""
