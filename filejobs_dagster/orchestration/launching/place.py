"""Where runs are started: Dagster's instance, and the code location of one installation."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import dagster as dg
from dagster import __version__ as dagster_version
from dagster._core.remote_representation.code_location import CodeLocation
from dagster._core.remote_representation.external import RemoteJob, RemoteRepository
from dagster._core.workspace.context import WorkspaceProcessContext, WorkspaceRequestContext
from dagster._core.workspace.load_target import WorkspaceFileTarget

from filejobs_dagster.orchestration import tags

HOME_VARIABLE = "DAGSTER_HOME"
FILE_NAME = "workspace.yaml"


class NoWorkspace(Exception):
    """There is no workspace file; the message says where it was looked for."""


class CodeUnavailable(Exception):
    """The code location of the installation cannot be used; the message says what was found."""


def workspace_path(asked: Path | None, environ: Mapping[str, str] = os.environ) -> Path:
    """The workspace file: the one that was asked for, or the first that is found.

    Args:
        asked: From the command line.
        environ: Where DAGSTER_HOME is.

    Raises:
        NoWorkspace: There is none.
    """
    home = environ.get(HOME_VARIABLE, "").strip()
    places = [Path(FILE_NAME), *([Path(home) / FILE_NAME] if home else [])]
    for place in [asked] if asked is not None else places:
        if place.is_file():
            return place
    looked = str(asked) if asked is not None else " and ".join(str(place) for place in places)
    raise NoWorkspace(
        f"No workspace file was found (looked for {looked}). Name the one that Dagster's daemon "
        "uses with --workspace: it says where the code server is."
    )


@dataclass(frozen=True)
class FoundJob:
    """A job in the code location of the installation.

    Attributes:
        request: The workspace as it was when the job was found.
        location: Where its code is.
        repository: Its repository.
        job: The job itself.
    """

    request: WorkspaceRequestContext
    location: CodeLocation
    repository: RemoteRepository
    job: RemoteJob


@dataclass
class LaunchPlace:
    """An open instance with its workspace. Safe to use from several threads.

    Attributes:
        instance: Where runs are kept.
        installation: Whose jobs are started.
    """

    instance: dg.DagsterInstance
    installation: str
    _workspace: WorkspaceProcessContext = field(repr=False)
    _refreshing: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def find(self, job: str) -> FoundJob:
        """Find a job of this installation; a location that was away is asked for once more.

        Raises:
            CodeUnavailable: No code location of the workspace has the job for this installation.
        """
        found = self._find(job)
        if found is None:
            with self._refreshing:
                self._workspace.refresh_workspace()
            found = self._find(job)
        if found is None:
            raise CodeUnavailable(self._what_was_found(job))
        return found

    def _find(self, job: str) -> FoundJob | None:
        request = self._workspace.create_request_context()
        for entry in request.get_code_location_entries().values():
            location = entry.code_location
            if location is None:
                continue
            for repository in location.get_repositories().values():
                if not repository.has_job(job):
                    continue
                remote = repository.get_full_job(job)
                if remote.tags.get(tags.INSTALLATION) == self.installation:
                    return FoundJob(request, location, repository, remote)
        return None

    def _what_was_found(self, job: str) -> str:
        request = self._workspace.create_request_context()
        loaded: list[str] = []
        broken: list[str] = []
        for name, entry in request.get_code_location_entries().items():
            (loaded if entry.code_location is not None else broken).append(name)
        said = []
        if broken:
            said.append(
                f"{', '.join(sorted(broken))} cannot be loaded: check that the code server runs, "
                "and look into its log"
            )
        if loaded:
            said.append(
                f"{', '.join(sorted(loaded))} has no job {job} of the installation "
                f"{self.installation!r}: check that FILEJOBS_CONFIG means the same file there"
            )
        found = "; ".join(said) or "the workspace file names no code location"
        return f"{job} cannot be started: {found}. Nothing was started."


@contextmanager
def opened_place(
    instance: dg.DagsterInstance, installation: str, workspace: Path
) -> Iterator[LaunchPlace]:
    """Load the workspace, and end at the close whatever was started for it.

    A location that is a Python module gets a code server of its own for so long (some seconds to
    start); one that names a code server uses that.

    Args:
        instance: Where runs are kept.
        installation: Whose jobs are to be started.
        workspace: The file that Dagster's daemon uses.
    """
    with WorkspaceProcessContext(
        instance=instance,
        version=dagster_version,
        workspace_load_target=WorkspaceFileTarget(paths=[str(workspace)]),
        code_server_log_level="ERROR",
    ) as context:
        yield LaunchPlace(instance, installation, context)
