"""What every test starts from: hypothesis without deadlines and without luck, and a Ctrl-C that is heard."""

import signal

from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci")

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits one that is not
