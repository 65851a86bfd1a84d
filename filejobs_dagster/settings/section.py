"""What every section of the settings has in common: it reports all its mistakes, in words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import yaml
from annotated_types import Ge, Le
from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError
from typing_extensions import Self

from filejobs_dagster.settings.problems import MISTAKE, Steps, kind, mistake, shown

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

Found = tuple[Steps, PydanticCustomError]
"""A mistake, and where it stands below the section that reports it."""


class Section(BaseModel):
    """A mapping of the file. Frozen; unknown keys are refused.

    Checks that look at more than one key belong in `across`. They see what the file says, so that
    they report although some other key is wrong too, and the operator mends everything at once.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False
    )

    @classmethod
    def across(cls, said: Mapping[str, Any]) -> Iterator[Found]:
        """Find the mistakes that no single key shows.

        Args:
            said: The section as the file has it; nothing about its values is certain.
        """
        del said
        yield from ()

    @model_validator(mode="wrap")
    @classmethod
    def _report_everything(
        cls, said: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo
    ) -> Self:
        del info
        found = list(cls.across(said)) if isinstance(said, Mapping) else []
        section: Self | None = None
        try:
            section = handler(said)
        except ValidationError as error:
            found = [*_taught(cls, error), *found]
        if found:
            raise failed(cls.__name__, found)
        if section is None:  # pragma: no cover - a ValidationError has at least one error
            raise AssertionError(cls.__name__)
        return section


def failed(title: str, found: Iterable[Found]) -> ValidationError:
    """One error that carries many mistakes, each with its path."""
    return ValidationError.from_exception_data(
        title,
        [InitErrorDetails(type=error, loc=path, input=None) for path, error in found],
        hide_input=True,
    )


def mistakes_in(error: ValidationError) -> list[Found]:
    """The mistakes that an error of a section carries."""
    return [
        (details["loc"], mistake(details["ctx"]["found"], details["ctx"]["expected"]))
        for details in error.errors(include_url=False, include_input=False)
    ]


def nearest(name: str, known: Iterable[str]) -> str:
    """Say which of the known names was meant, or which there are."""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return f"did you mean {close[0]}?" if close else f"known are {', '.join(names)}"


def part(said: Any, key: str) -> Any:
    """A key of a mapping, from a file or from a model that was built in Python; else None."""
    return said.get(key) if isinstance(said, Mapping) else getattr(said, key, None)


def items(said: Any) -> list[Any]:
    """The entries of a list of the file; none where something else stands."""
    return list(said) if isinstance(said, list | tuple) else []


def as_yaml(value: Any) -> str:
    """Write a value on one line, as the file would."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10_000, allow_unicode=True)
    return text.removesuffix("...\n").strip()


def _taught(cls: type[Section], error: ValidationError) -> list[Found]:
    return [
        (details["loc"], _in_words(cls, details)) for details in error.errors(include_url=False)
    ]


def _in_words(cls: type[Section], details: ErrorDetails) -> PydanticCustomError:
    if details["type"] == MISTAKE:
        return mistake(details["ctx"]["found"], details["ctx"]["expected"])
    fields = {field.alias or name: field for name, field in cls.model_fields.items()}
    if not details["loc"]:
        return mistake(
            f"found {kind(details['input'])} where a mapping belongs",
            f"write a mapping with the keys {', '.join(fields)}",
        )
    name = str(details["loc"][0])
    if name not in fields and details["input"] is None and {"sql", "where"} & set(fields):
        return mistake(
            "this is no key, but what a comma cuts from a text without quotes",
            'put the whole text in quotes: sql: "select a, b from c"',
        )
    if name not in fields:
        return mistake("this key is unknown", nearest(name, fields))
    field = fields[name]
    example = as_yaml({name: field.examples[0]})[1:-1] if field.examples else f"{name}: …"
    if details["type"] == "missing":
        return mistake("it is missing", f"{_first_sentence(field)}; for example {example}")
    return mistake(_wrong_value(details), f"{_right_value(details, field)}, for example {example}")


def _first_sentence(field: FieldInfo) -> str:
    description = field.description or "write it"
    sentence = description.split(". ")[0].removesuffix(".")
    return f"write {sentence[:1].lower()}{sentence[1:]}" if field.description else sentence


def _wrong_value(details: ErrorDetails) -> str:
    value = details["input"]
    if isinstance(value, str) and not details["type"].startswith("literal"):
        return f"found {shown(value)}, a text"
    return f"found {shown(value)}"


_RIGHT: dict[str, str] = {
    "string": "write a text (in quotes if it looks like anything else)",
    "bool": "write true or false, without quotes",
    "list": "write a list",
    "dict": "write a mapping",
    "model": "write a mapping",
}


def _right_value(details: ErrorDetails, field: FieldInfo) -> str:
    family = details["type"].split("_", maxsplit=1)[0]
    if family == "literal":
        return f"write {details['ctx']['expected']}"
    if family in _RIGHT:
        return _RIGHT[family]
    return f"write a whole number{_bounds(field)}"


def _bounds(field: FieldInfo) -> str:
    low = next((bound.ge for bound in field.metadata if isinstance(bound, Ge)), None)
    high = next((bound.le for bound in field.metadata if isinstance(bound, Le)), None)
    if high is None:
        return "" if low is None else f" that is at least {low}"
    return f" from {low} to {high}"
