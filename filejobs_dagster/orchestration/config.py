"""What the Launchpad offers of every collector, made of its declaration, and how it is looked at.

The defaults of the limits are the operator's settings, so that a run started by hand, by a
schedule and by a backfill keep the same limits; `dry_run` is true whatever the settings say.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from inspect import get_annotations
from typing import Annotated, Any, ClassVar, Literal, get_args, get_origin

import dagster as dg
from annotated_types import Ge, Le
from pydantic import AfterValidator, BaseModel, Field, create_model
from pydantic.fields import FieldInfo

from filejobs_dagster.collector import Collector
from filejobs_dagster.settings import Settings, parse_duration
from filejobs_dagster.settings.section import Run
from filejobs_dagster.settings.values import Bounds, format_duration_in_hours
from filejobs_dagster.text import format_duration


@dataclass(frozen=True)
class Choice:
    """A field of a job's request that run config can set.

    Attributes:
        name: Its name in run config.
        field: Its name in the request.
        about: Its type, its bounds and its default.
        run: How the Launchpad speaks of it.
    """

    name: str
    field: str
    about: FieldInfo
    run: Run

    @property
    def bounds(self) -> Bounds | None:
        """Of a duration."""
        checks = (each.func for each in self.about.metadata if isinstance(each, AfterValidator))
        return next((check for check in checks if isinstance(check, Bounds)), None)

    @property
    def numbers(self) -> tuple[int, int] | None:
        """The least and the most of a number."""
        least = next((each.ge for each in self.about.metadata if isinstance(each, Ge)), None)
        most = next((each.le for each in self.about.metadata if isinstance(each, Le)), None)
        return (least, most) if isinstance(least, int) and isinstance(most, int) else None

    @property
    def words(self) -> str:
        """What the Launchpad says, with the bounds in it."""
        if self.bounds is not None:
            least, most = map(format_duration_in_hours, (self.bounds.least, self.bounds.most))
        elif self.numbers is not None:
            least, most = (f"{number:,}" for number in self.numbers)
        else:
            return self.run.words
        return self.run.words.format(least=least, most=most)

    def offered(self) -> tuple[Any, Callable[[Any], Any]]:
        """The type in the Launchpad, and how a value of the settings is written there.

        A run config can hold numbers, texts, lists and sections; a duration is a text with a unit.
        """
        kind = self.about.annotation
        if kind is timedelta:
            return str, format_duration
        if get_origin(kind) is Literal:
            return str, str
        if get_origin(kind) is tuple:
            return list[str], list
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            section = _class_of(kind.__name__, dg.Config, choices(kind), {})
            return section, lambda value: section(**_offered(choices(kind), dict(value)))
        return kind, lambda value: value

    def taken(self, said: Any) -> Any:
        """The value of the request for what a run config says."""
        if isinstance(said, dg.Config) and self.about.annotation is not None:
            return self.about.annotation(
                **{each.field: each.taken(getattr(said, each.name)) for each in self.inside()}
            )
        if self.about.annotation is timedelta:
            return parse_duration(said)
        return tuple(said) if isinstance(said, list) else said

    def goes_beyond(self, value: Any, configured: Any) -> bool:
        """True when a value of the request leaves less alone than the settings' value does."""
        if self.run.safer == "either" or configured is None:
            return False
        return bool(value > configured if self.run.safer == "less" else value < configured)

    def configured(self, settings: Settings, job: str) -> Any:
        """What the settings say of it; None for what only a run can be told."""
        if self.run.otherwise is not None:
            return self.run.otherwise(settings)
        return getattr(settings.jobs[job], self.field, None)

    def mistakes(self, said: Any) -> Iterator[str]:
        """What is out of bounds, in a sentence."""
        if self.bounds is not None:
            yield from _no_such_duration(self.name, said, self.bounds)
        elif self.numbers is not None:
            least, most = self.numbers
            if not least <= said <= most:
                yield f"{self.name} is {said:,}; it can be {least:,} to {most:,}."
        elif get_origin(self.about.annotation) is Literal:
            known = get_args(self.about.annotation)
            if said not in known:
                yield f"{self.name} is {said!r}; it can be {', '.join(known)}."

    def inside(self) -> list["Choice"]:
        """The fields of a section; none for anything else."""
        kind = self.about.annotation
        return choices(kind) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def choices(model: type[BaseModel]) -> list[Choice]:
    """What a run config can set of a request.

    First what the job's settings have, then what those of every job have, then what only a run
    can be told.
    """
    bases = (*model.__mro__[1:], model)
    order = dict.fromkeys(name for base in bases for name in get_annotations(base))
    found = []
    for name in order:
        about = model.model_fields.get(name)
        if about is None:
            continue
        run = next((each for each in about.metadata if isinstance(each, Run)), None)
        if run is not None:
            found.append(Choice(run.called or name, name, about, run))
    return found


class CollectorConfig(dg.Config):
    """What every collector can be told; `config_of` adds what one of them can."""

    asks_for: ClassVar[tuple[Choice, ...]] = ()

    dry_run: bool = True

    def mistakes(self) -> list[str]:
        """What is wrong with the values, a sentence each; empty when nothing is.

        Asked by the op itself: a validator of the class would fail before the op, and the run's
        page would open with a stack trace instead of the sentence.
        """
        return [
            words
            for choice in self.asks_for
            for words in choice.mistakes(getattr(self, choice.name))
        ]

    def narrower(self) -> str | None:
        """What the run leaves alone that the settings would take, in words; else None.

        Such a run is a success, and does not count as having swept.
        """
        for choice in self.asks_for:
            given: Any = getattr(self, choice.name)
            configured: Any = type(self).model_fields[choice.name].default
            if choice.run.safer != "more" or choice.about.annotation is not timedelta:
                continue
            if parse_duration(given) > parse_duration(configured):
                return f"with {choice.name} {given} instead of {configured}"
        return None

    def limited_to(self) -> int | None:
        """The run's limit, where it is less than the settings'; else None."""
        given = getattr(self, "limit", None)
        if given is None or given >= type(self).model_fields["limit"].default:
            return None
        return int(given)

    def beyond(self, settings: Settings, job: str) -> list[str]:
        """What this config asks for that a live run may not, a sentence each.

        A default is not asked for: it may be older than the file, and gives way in `request`.
        """
        found = []
        for choice in self.asks_for:
            given: Any = getattr(self, choice.name)
            configured = choice.configured(settings, job)
            asked = given != type(self).model_fields[choice.name].default
            if asked and choice.goes_beyond(choice.taken(given), configured):
                _, written = choice.offered()
                found.append(
                    f"{choice.name} is {given}; filejobs.yaml says {written(configured)}, and a "
                    f"live run can only ask for {choice.run.safer}. A dry run shows what would go."
                )
        return found

    def request(self, collector: Collector[Any, Any], settings: Settings, *, live: bool) -> Any:
        """The request of a run: the job's settings, with this config applied.

        The values are not looked at again: `mistakes` did, and the settings were. A live run goes
        no further than the settings say at this moment, whatever they said when its config was
        made.
        """
        said = {}
        for choice in self.asks_for:
            value = choice.taken(getattr(self, choice.name))
            configured = choice.configured(settings, collector.name)
            beyond = live and choice.goes_beyond(value, configured)
            said[choice.field] = configured if beyond else value
        return collector.request.model_construct(**{**dict(settings.jobs[collector.name]), **said})


def config_of(
    collector: Collector[Any, Any], settings: Settings | None, mode: str | None = None
) -> type[CollectorConfig]:
    """The config class of a job, with the operator's limits as its defaults.

    Args:
        collector: The job.
        settings: The operator's, or None when they are broken.
        mode: Which runs change something as things stand. The Launchpad shows the words of a
            field, and nothing of the job's own description.
    """
    configured = None if settings is None else settings.jobs.get(collector.name)
    asked = choices(collector.request)
    values = {} if configured is None else dict(configured)
    if settings is not None and configured is not None:
        elsewhere = [choice for choice in asked if choice.run.otherwise is not None]
        values |= {one.field: one.run.otherwise(settings) for one in elsewhere if one.run.otherwise}
    words = collector.dry_run if mode is None else f"{collector.dry_run} As it stands: {mode}"
    made: type[CollectorConfig] = _class_of(
        f"{collector.name}_config",
        CollectorConfig,
        asked,
        values,
        dry_run=(Annotated[bool, Field(description=words)], True),
    )
    made.asks_for = tuple(asked)
    return made


def _class_of(
    name: str, base: type[Any], asked: list[Choice], values: dict[str, Any], **first: Any
) -> Any:
    fields = dict(first)
    shown = _offered(asked, values)
    for choice in asked:
        kind, _ = choice.offered()
        about = Field(default=shown[choice.name], description=choice.words)
        fields[choice.name] = (kind, about)
    return create_model(name, __base__=base, __module__=__name__, **fields)


def _offered(asked: list[Choice], values: dict[str, Any]) -> dict[str, Any]:
    """The values as the Launchpad writes them; a default where there is none."""
    shown = {}
    for choice in asked:
        _, written = choice.offered()
        default = choice.about.get_default(call_default_factory=True)
        shown[choice.name] = (
            choice.run.default
            if choice.run.default is not None and choice.field not in values
            else written(values.get(choice.field, default))
        )
    return shown


def _no_such_duration(name: str, text: str, bounds: Bounds) -> Iterator[str]:
    try:
        duration = parse_duration(text, waits=bounds.most <= timedelta(days=1))
    except ValueError as error:
        yield f"{name}: {error}."
        return
    if not bounds.least <= duration <= bounds.most:
        least, most = format_duration(bounds.least), format_duration(bounds.most)
        yield f"{name} is {text}; it can be {least} to {most}."
