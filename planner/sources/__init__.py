"""Sources: the systems that run the work, each read and driven through one interface."""
