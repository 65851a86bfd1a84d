"""A database of the operator's that is not the one of the project's tables."""

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.
# ruff: noqa: TC001
from __future__ import annotations

from pydantic import Field

from filejobs_dagster.settings.secrets import Secret
from filejobs_dagster.settings.section import Section


class OtherDatabase(Section):
    """Where an operator's own tables are, when they are not in the project's database."""

    url: Secret = Field(
        description="The connection string or URL, by the environment variable that holds it.",
        examples=[{"env": "FILEJOBS_APP_DATABASE_URL"}],
    )
