from __future__ import annotations

import copy
import json
import pickle
import traceback
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter, ValidationError

from filejobs_dagster.settings import Secret, SettingsError, load_settings
from filejobs_dagster.settings.secrets import ENVIRON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.settings.conftest import Files

VALUE = "postgresql://app:hunter2@db.example.com/app"
ADAPTER: TypeAdapter[Secret] = TypeAdapter(Secret)


def read(value: Any, **environ: str) -> Secret:
    return ADAPTER.validate_python(value, context={ENVIRON: environ})


def test_the_value_comes_from_the_given_environment() -> None:
    secret = read({"env": "DATABASE_URL"}, DATABASE_URL=VALUE)
    assert secret.reveal() == VALUE
    assert secret.env == "DATABASE_URL"
    assert secret == Secret("DATABASE_URL", VALUE)
    assert secret != Secret("DATABASE_URL", "another")


def test_nothing_that_prints_or_dumps_shows_the_value() -> None:
    secret = read({"env": "DATABASE_URL"}, DATABASE_URL=VALUE)
    shown = [
        repr(secret),
        str(secret),
        f"{secret}",
        f"{[secret]!r}",
        str(ADAPTER.dump_python(secret)),
        ADAPTER.dump_json(secret).decode(),
        repr(copy.deepcopy(secret)),
    ]
    assert all("hunter2" not in text for text in shown)
    assert ADAPTER.dump_python(secret) == {"env": "DATABASE_URL"}
    assert not hasattr(secret, "__dict__")


def test_a_secret_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="the pickle would hold its value"):
        pickle.dumps(Secret("DATABASE_URL", VALUE))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (VALUE, "secrets do not stand in this file; write {env: NAME} and set the variable"),
        (123456, "secrets do not stand in this file"),
        (["hunter2"], "secrets do not stand in this file"),
        ({"env": "DATABASE_URL", "default": VALUE}, "it has other keys beside env"),
        ({VALUE: None}, "it has no key env"),
        ({"env:DATABASE_URL": None}, "a space belongs after the colon"),
        ({"env": VALUE}, "env does not hold the name of an environment variable"),
        ({"env": 5}, "env does not hold the name of an environment variable"),
        ({"env": "NOT_SET"}, "the environment variable NOT_SET is not set; set NOT_SET"),
        ({"env": "EMPTY"}, "the environment variable EMPTY is empty"),
        ({"env": "BLANK"}, "the environment variable BLANK is empty"),
    ],
)
def test_a_mistake_is_explained_without_the_value(value: Any, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        read(value, EMPTY="", BLANK=" \n", DATABASE_URL=VALUE)
    (error,) = caught.value.errors(include_input=False)
    assert message in error["msg"]
    assert "hunter2" not in error["msg"]


def test_without_an_environment_nothing_is_looked_up_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", VALUE)
    with pytest.raises(ValidationError, match="no environment was given"):
        ADAPTER.validate_python({"env": "DATABASE_URL"})


def test_the_loaded_settings_never_show_a_value(files: Files) -> None:
    settings = files.read(files.good).require()
    assert settings.database.url.reveal() == files.environ["DATABASE_URL"]
    for text in (
        repr(settings),
        str(settings),
        str(settings.model_dump()),
        settings.model_dump_json(),
        json.dumps(settings.model_dump(mode="json")),
        repr(files.read(files.good)),
    ):
        assert "hunter2" not in text
        assert "DATABASE_URL" in text


@pytest.mark.parametrize(
    "database",
    [
        "postgresql://app:hunter2@db.example.com/app",
        "{url: 'postgresql://app:hunter2@db.example.com/app'}",
        "{url: {env: 'postgresql://app:hunter2@db.example.com/app'}}",
        "{url: {env: DATABASE_URL, value: hunter2}}",
        "{url: {env: DATABASE_URL}, schema: 'postgresql://app:hunter2@db/app'}",
        "{url: {env: DATABASE_URL}, schema: 'password=hunter2 host=db'}",
        "{url: {env: DATABASE_URL}, sslmode: 'password=hunter2'}",
        "{url: {env: DATABASE_URL}, connect_timeout: 'password=hunter2'}",
        "{url: {env: DATABASE_URL}, pasword: hunter2}",
        "{'postgresql://app:hunter2@db.example.com/app'}",
        "[hunter2]",
        "!hunter2 x",
        "!e!hunter2 x",
        "*hunter2",
        "hunter2: : x",
        '"hunter2',
        "{url: hunter2",
    ],
)
def test_no_error_shows_a_secret_that_somebody_wrote_into_the_file(
    files: Files, database: str
) -> None:
    files.changed("{url: {env: DATABASE_URL}}", database)
    with pytest.raises(SettingsError) as caught:
        load_settings(files.path, files.environ)
    assert "hunter2" not in str(caught.value)
    assert "hunter2" not in repr(caught.value)
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_a_file_that_a_variable_names_holds_the_value_too(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"{VALUE}\n")
    assert read({"env": "DATABASE_URL"}, DATABASE_URL_FILE=str(file)).reveal() == VALUE
    # Compose passes a variable that nobody filled in as an empty one.
    assert read({"env": "URL"}, URL="", URL_FILE=str(file)) == Secret("URL", VALUE)
    for environ, message in (
        ({"URL": VALUE, "URL_FILE": str(file)}, "URL and URL_FILE are both set; set one of them"),
        ({"URL_FILE": f"{file}-gone"}, "cannot be read (No such file or directory); name a file"),
    ):
        with pytest.raises(ValidationError) as caught:
            read({"env": "URL"}, **environ)
        assert message in str(caught.value)
        assert "hunter2" not in str(caught.value)
