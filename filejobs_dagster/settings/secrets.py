"""Secrets: the settings name an environment variable, and the value never leaves this object.

`OtherDatabase` is one of the operator's, not that of the project's tables.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NoReturn

from pydantic import Field
from pydantic_core import CoreSchema, core_schema

from filejobs_dagster.settings.problems import mistake
from filejobs_dagster.settings.section import Section
from filejobs_dagster.variables import VariableUnusable, variable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
    from pydantic.json_schema import JsonSchemaValue

ENVIRON = "environ"
"""The key of the validation context under which a secret finds the environment."""

_VARIABLE = r"[A-Za-z_][A-Za-z0-9_]*"
_NOT_A_LITERAL = "write {env: NAME} and set the variable"


class Secret:
    """A value that stands in an environment variable, such as a password or a connection string.

    Nothing that prints, dumps, formats or copies it shows the value; only `reveal` does. It
    cannot be pickled, because a pickle would carry the value to wherever the pickle is stored.
    """

    __slots__ = ("_env", "_value")
    _env: str
    _value: str

    def __init__(self, env: str, value: str) -> None:
        """Hold the value of one variable.

        Args:
            env: The variable's name, which may be shown.
            value: The variable's value, which may not.
        """
        self._env = env
        self._value = value

    @property
    def env(self) -> str:
        """The name of the environment variable."""
        return self._env

    def reveal(self) -> str:
        """The value. Hand it to the client that needs it, and to nothing that prints."""
        return self._value

    def __repr__(self) -> str:
        return f"Secret(env={self._env!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return (self._env, self._value) == (other._env, other._value)

    def __hash__(self) -> int:
        return hash((self._env, self._value))

    def __copy__(self) -> Secret:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Secret:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{self!r} cannot be pickled: the pickle would hold its value. "
            "Load the settings again where they are needed."
        )

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: type[Any], handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.with_info_plain_validator_function(
            cls._from_file,
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda secret: {"env": secret.env}
            ),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return {
            "type": "object",
            "properties": {
                "env": {
                    "type": "string",
                    "pattern": f"^{_VARIABLE}$",
                    "description": "The environment variable that holds the secret.",
                }
            },
            "required": ["env"],
            "additionalProperties": False,
        }

    @classmethod
    def _from_file(cls, value: Any, info: ValidationInfo) -> Secret:
        if isinstance(value, Secret):
            return value
        name = _variable_name(value)
        context = info.context or {}
        if ENVIRON not in context:
            raise mistake(
                f"the variable {name} cannot be looked up, because no environment was given",
                f'validate with context={{"{ENVIRON}": os.environ}}',
            )
        environ: Mapping[str, str] = context[ENVIRON]
        try:
            found = variable(name, environ)
        except VariableUnusable as error:
            raise mistake(error.found, error.right) from None
        if found is None or not found.strip():
            state = "is not set" if found is None else "is empty"
            raise mistake(
                f"the environment variable {name} {state}",
                f"set {name} for every process that reads this file (code location, command "
                f"line), or {name}_FILE to the path of a file that holds the value",
            )
        return cls(name, found)


def _variable_name(value: Any) -> str:
    # Nothing of the value is shown: it may be the secret itself.
    if not isinstance(value, dict):
        raise mistake("secrets do not stand in this file", _NOT_A_LITERAL)
    if set(value) != {"env"}:
        if "env" in value:
            raise mistake("it has other keys beside env", "write {env: NAME} and nothing else")
        raise mistake("it has no key env", f"{_NOT_A_LITERAL}; a space belongs after the colon")
    name = value["env"]
    if not isinstance(name, str) or not re.fullmatch(_VARIABLE, name):
        raise mistake(
            "env does not hold the name of an environment variable",
            "write {env: NAME}, where NAME has only letters, digits and _",
        )
    return name


# A database of the operator's that is not the one of the project's tables.

# pydantic reads the annotations when the module runs, so nothing may move under TYPE_CHECKING.


class OtherDatabase(Section):
    """Where an operator's own tables are, when they are not in the project's database."""

    url: Secret = Field(
        description="The connection string or URL, by the environment variable that holds it.",
        examples=[{"env": "FILEJOBS_APP_DATABASE_URL"}],
    )
