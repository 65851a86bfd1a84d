"""Who started a run: asked where it is submitted, and read again where it works.

The run itself cannot know: it is a process of the code server, whoever asked for it. Only the
process that submits it can, so `AttributingRunCoordinator` stands in `dagster.yaml`. In the
webserver it reads the header in which a proxy names its user; on a command line it takes the
user and the machine. What it writes are tags, and tags can be typed by anybody: it therefore
overwrites the one that says how the starter is known, on every run that it lets through.
"""

import getpass
import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

import dagster as dg
from dagster._config import Field, Noneable
from dagster._core.run_coordinator.base import SubmitRunContext
from dagster._core.run_coordinator.queued_run_coordinator import (
    QueuedRunCoordinator,
    RunQueueConfig,
)
from dagster._core.workspace.context import WorkspaceRequestContext
from dagster._serdes import ConfigurableClassData

from filejobs_dagster.ledger.outcome import How, StartedBy
from filejobs_dagster.orchestration import tags
from filejobs_dagster.orchestration.draining import pause_of

LONGEST_NAME = 200
"""Characters of a user's name; what a header holds beyond them is cut."""

PROXY_HEADER: How = "proxy header"
PROCESS: How = "process"
TAG: How = "tag"


class AttributingRunCoordinator(QueuedRunCoordinator[dg.DagsterInstance]):
    """Dagster's queue, which says on each run who asked for it, and which can be held.

    Its config is the queue's, and `user_header`: the name of the request header in which a proxy
    puts the user it has authenticated. Without it no header is read. Set it only where every way
    to the webserver leads through that proxy, and the proxy overwrites what a client sends:
    whoever reaches the webserver past it can write any name there.
    """

    def __init__(
        self,
        user_header: str | None = None,
        inst_data: ConfigurableClassData | None = None,
        **queue: Any,
    ) -> None:
        self._user_header = user_header or None
        super().__init__(inst_data=inst_data, **queue)

    @property
    def user_header(self) -> str | None:
        """The header that names the user of the web UI, or None."""
        return self._user_header

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """The queue's own fields, and the header."""
        inherited = super().config_type()
        if not isinstance(inherited, Mapping):
            raise TypeError(f"Dagster describes the queue's config as {type(inherited).__name__}")
        header = Field(
            Noneable(dg.StringSource),
            is_required=False,
            description="The request header in which an authenticating proxy names the user.",
        )
        return {**inherited, "user_header": header}

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData, config_value: Mapping[str, Any]
    ) -> "AttributingRunCoordinator":
        """Make it from the config in `dagster.yaml`."""
        return cls(inst_data=inst_data, **config_value)

    def get_run_queue_config(self) -> RunQueueConfig:
        """The queue's limits; the daemon asks at each look. Held, it lets no run through."""
        config = super().get_run_queue_config()
        if pause_of(self._instance) is None:
            return config
        return config._replace(max_concurrent_runs=0)

    def submit_run(self, context: SubmitRunContext) -> dg.DagsterRun:
        """Tag the run with who asked for it, and queue it."""
        run = context.dagster_run
        if _over_http(context):
            # Whoever may start runs may type tags, also those by which the daemon names a schedule.
            self._instance.add_run_tags(run.run_id, {tags.SUBMITTED: tags.WEB})
        starter = self._starter(context)
        if starter is not None:
            said = {tags.STARTED_BY: _joined(starter), tags.STARTED_HOW: starter.how}
            self._instance.add_run_tags(run.run_id, said)
        elif tags.STARTED_BY in run.tags or tags.STARTED_HOW in run.tags:
            self._instance.add_run_tags(run.run_id, {tags.STARTED_HOW: TAG})
        if tags.CANCELLED_BY in run.tags:
            # Typed, or copied from the run that this one repeats.
            self._instance.add_run_tags(run.run_id, {tags.CANCELLED_BY: tags.NOBODY_KNOWS})
        return super().submit_run(context)

    def cancel_run(self, run_id: str) -> bool:
        """Tag the run with who asks for its end, where a proxy says so, and cancel it."""
        # Dagster hands the request to whoever starts a run, and not to whoever ends one: it stands
        # one call up. Where a later version has it elsewhere, nobody is named.
        asked = sys._getframe(1).f_locals.get("graphene_info")  # noqa: SLF001
        source = getattr(getattr(asked, "context", None), "source", None)
        headers = getattr(source, "headers", None)
        user = None
        if self._user_header is not None and isinstance(headers, Mapping):
            user = cleaned(headers.get(self._user_header))
        self._instance.add_run_tags(run_id, {tags.CANCELLED_BY: user or tags.NOBODY_KNOWS})
        return super().cancel_run(run_id)

    def _starter(self, context: SubmitRunContext) -> StartedBy | None:
        """Who asks, as far as this process can tell; None leaves what a tag claims."""
        if _over_http(context):
            user = None
            if self._user_header is not None:
                user = cleaned(context.get_request_header(self._user_header))
            return None if user is None else StartedBy(user, None, PROXY_HEADER)
        if tags.STARTED_BY in context.dagster_run.tags:
            return None
        return this_process() if self._on_a_command_line(context.dagster_run) else None

    def _on_a_command_line(self, run: dg.DagsterRun) -> bool:
        """Tell a person's command from the daemon, which submits what carries the tags of its own.

        `dagster job backfill` submits its runs before it stores the backfill; the daemon works
        off backfills that are stored.
        """
        trigger = tags.trigger_of(run.tags)
        if trigger.kind == "backfill" and trigger.name is not None:
            return self._instance.get_backfill(trigger.name) is None
        return trigger.kind == "cli"


def started_by(instance: dg.DagsterInstance, run: dg.DagsterRun) -> StartedBy | None:
    """Who started a run that is at work in this process.

    Returns:
        None when nobody says: a schedule or a sensor did, or nothing that could know was asked.
    """
    if run.remote_job_origin is None:
        # `dagster job execute`: the run is a part of the process that asked for it.
        return this_process()
    return named_in_tags(instance, run)


def named_in_tags(instance: dg.DagsterInstance, run: dg.DagsterRun) -> StartedBy | None:
    """Who started a run, as its tags say; a claim unless the coordinator must have written them."""
    user = cleaned(run.tags.get(tags.STARTED_BY))
    if user is None:
        return None
    how = run.tags.get(tags.STARTED_HOW)
    coordinator = instance.run_coordinator
    submitted = run.remote_job_origin is not None
    if not submitted or not isinstance(coordinator, AttributingRunCoordinator):
        return StartedBy(user, None, TAG)
    if how == PROXY_HEADER and coordinator.user_header is not None:
        return StartedBy(user, None, PROXY_HEADER)
    if how == PROCESS:
        name, _, host = user.rpartition("@")
        return StartedBy(name or user, host or None, PROCESS)
    return StartedBy(user, None, TAG)


def this_process() -> StartedBy:
    """The user and the machine of this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container whose user id has no name
        user = str(os.getuid())
    return StartedBy(user, socket.gethostname(), PROCESS)


def cleaned(name: str | None) -> str | None:
    """A name that may be recorded and shown: one line, nothing that is not printed, bounded."""
    if name is None:
        return None
    printed = "".join(letter if letter.isprintable() else " " for letter in name)
    return " ".join(printed.split())[:LONGEST_NAME] or None


def _over_http(context: SubmitRunContext) -> bool:
    workspace = context.workspace
    return (
        isinstance(workspace, WorkspaceRequestContext)
        and getattr(workspace.source, "headers", None) is not None
    )


def _joined(starter: StartedBy) -> str:
    return starter.user if starter.host is None else f"{starter.user}@{starter.host}"
