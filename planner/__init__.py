"""Names, times, files and people: everything about gangplan that is not arrays."""
