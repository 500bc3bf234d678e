"""What the files look like: pydantic models, the checks of single values, and their words."""
