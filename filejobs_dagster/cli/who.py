"""Who types: for records that must name a person."""

from __future__ import annotations

import getpass
import os
import socket


def who() -> str:
    """The user and the machine, as `ada@desk`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user id has no name
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"
