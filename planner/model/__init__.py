"""The nouns of gangplan as frozen dataclasses: names, seconds and integers, already checked."""
