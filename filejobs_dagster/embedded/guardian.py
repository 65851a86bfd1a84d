"""Stops a server whose owner died.

A shell waits on a pipe that only the owner holds open. However the owner ends, `kill -9` included,
the kernel closes the pipe, and the shell stops the server. So no exit handler is needed, and a
forked child that exits stops nothing.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from filejobs_dagster.embedded.environment import PostgresSoftware, ServerAccount
    from filejobs_dagster.embedded.place import ServerPlace

SCRIPT = """
read -r line
"$1" stop -D "$2" -m "$3" -w -t 30
shift 3
rm -rf -- "$@"
"""


class Guardian:
    """Watches over one server for as long as this process lives."""

    def __init__(
        self, place: ServerPlace, software: PostgresSoftware, account: ServerAccount
    ) -> None:
        """Start watching; the server may start later.

        Args:
            place: Names the data directory, and what to remove after the server has stopped.
            software: Provides `pg_ctl`.
            account: Who the server runs as. The guardian runs as the same, so that it can harm
                nothing else.
        """
        leftovers = [str(place.socket)] if place.socket != place.root else []
        leftovers += [str(place.root)] if place.temporary else []
        mode = "immediate" if place.temporary else "fast"
        arguments = [software.pg_ctl, str(place.data), mode, *leftovers]
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", SCRIPT, "guardian", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
            user=account.user,
            group=account.group,
            extra_groups=account.extra_groups,
        )

    @property
    def pid(self) -> int:
        """The shell's process id."""
        return self._process.pid

    def dismiss(self) -> None:
        """Stop watching and leave the server alone."""
        self._process.kill()
        self._process.wait()
        if self._process.stdin is not None:
            self._process.stdin.close()
