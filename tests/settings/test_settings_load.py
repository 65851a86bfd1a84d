from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from filejobs_dagster.jobs.upload_reservations.settings import UploadReservationsSettings
from filejobs_dagster.settings import (
    UNREADABLE_INSTALLATION,
    BucketSettings,
    DatabaseSettings,
    Loaded,
    Settings,
    SettingsError,
    SourceSettings,
    load_settings,
    read_settings,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from tests.settings.conftest import Files

MODELS: tuple[type[BaseModel], ...] = (
    Settings,
    DatabaseSettings,
    BucketSettings,
    SourceSettings,
    UploadReservationsSettings,
)
EXAMPLE = Path(__file__).parents[2] / "filejobs.yaml"


def test_the_example_loads() -> None:
    loaded = load_settings(EXAMPLE, {"FILEJOBS_DATABASE_URL": "postgresql://db.example.com/app"})
    assert list(loaded.jobs) == ["upload_reservations"]
    assert loaded.jobs["upload_reservations"].mode == "dry"
    assert loaded.jobs["upload_reservations"].stale_after == timedelta(hours=2)
    assert loaded.bucket_of("upload_reservations")[0] == "uploads"


def test_the_path_comes_from_the_variable_else_from_the_current_directory(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.read(files.good)
    variable = files.environ | {"FILEJOBS_CONFIG": str(files.path)}
    assert load_settings(environ=variable).installation == "acme-production"
    monkeypatch.chdir(files.path.parent)
    assert load_settings(environ=files.environ).installation == "acme-production"
    assert read_settings(environ=files.environ).path == Path("filejobs.yaml")


def test_a_missing_file_says_which_variable_decides_the_path(tmp_path: Path) -> None:
    absent = tmp_path / "absent.yaml"
    (named,) = read_settings(environ={"FILEJOBS_CONFIG": str(absent)}).problems
    assert named.path == str(absent)
    assert "FILEJOBS_CONFIG names it" in named.found
    assert "set FILEJOBS_CONFIG" in named.expected
    (asked,) = read_settings(absent, {}).problems
    assert "it was asked for, with --config" in asked.found


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "it is empty"),
        (b"# only a comment\n", "it is empty"),
        (b"- a\n", "it holds a list"),
        (b"text\n", "it holds a text"),
        (b"\xff\xfe", "it is not UTF-8 text"),
    ],
)
def test_a_file_that_is_no_mapping_is_explained(files: Files, content: bytes, found: str) -> None:
    (problem,) = files.read(content).problems
    assert found in problem.found


def test_a_directory_and_an_impossible_path_are_explained(tmp_path: Path) -> None:
    (directory,) = read_settings(tmp_path, {}).problems
    assert "could not be read" in directory.found
    (impossible,) = read_settings(Path("a\0b"), {}).problems
    assert "it is not a path" in impossible.found
    assert impossible.path == r"'a\x00b'"


def test_a_file_with_a_byte_order_mark_is_read(files: Files) -> None:
    assert files.read(b"\xef\xbb\xbf" + files.good.encode()).problems == ()


@pytest.mark.parametrize("value", ["0", "false", "no", "off", "FALSE", " Off "])
def test_the_environment_forbids_live_runs(files: Files, value: str) -> None:
    environ = files.environ | {"FILEJOBS_ALLOW_LIVE": value}
    assert files.read(files.good, environ).require().allow_live is False


@pytest.mark.parametrize("value", ["1", "true", "yes", "on", "True"])
@pytest.mark.parametrize("said", [True, False])
def test_the_environment_never_allows_what_the_file_forbids(
    files: Files, value: str, *, said: bool
) -> None:
    environ = files.environ | {"FILEJOBS_ALLOW_LIVE": value}
    text = files.good + f"allow_live: {str(said).lower()}\n"
    assert files.read(text, environ).require().allow_live is said


@pytest.mark.parametrize("value", ["", "2", "live", "nope"])
def test_an_unknown_word_about_live_runs_is_a_problem(files: Files, value: str) -> None:
    loaded = files.read(files.good, files.environ | {"FILEJOBS_ALLOW_LIVE": value})
    assert [problem.path for problem in loaded.problems] == ["FILEJOBS_ALLOW_LIVE"]
    assert loaded.settings is None
    assert loaded.installation == "acme-production"


@pytest.mark.parametrize(
    ("text", "installation"),
    [
        ("installation: acme\nzzz: 1", "acme"),
        ("installation: acme\nbuckets: [", "acme"),
        ("a: [\ninstallation: 'acme'  # here\n", "acme"),
        ('a: "\r\ninstallation: "acme"\r\n', "acme"),
        ("installation: Acme\nzzz: 1", UNREADABLE_INSTALLATION),
        ("installation: one\ninstallation: two\nb: [", UNREADABLE_INSTALLATION),
        ("installation: [acme]", UNREADABLE_INSTALLATION),
        ("a:\n  installation: acme\nb: [", UNREADABLE_INSTALLATION),
        ("[", UNREADABLE_INSTALLATION),
        ("", UNREADABLE_INSTALLATION),
    ],
)
def test_the_installation_is_salvaged_where_it_can_be_read(
    files: Files, text: str, installation: str
) -> None:
    loaded = files.read(text)
    assert loaded.settings is None
    assert loaded.problems
    assert loaded.installation == installation


def test_require_gives_the_settings_or_raises_every_problem(files: Files) -> None:
    good = files.read(files.good)
    assert good.require() is good.settings
    broken = files.changed("min_age: 48h", "min_age: 1")
    with pytest.raises(SettingsError) as caught:
        broken.require()
    assert caught.value.problems == broken.problems
    assert caught.value.path == files.path


def check_never_raises(loaded: Loaded) -> None:
    assert (loaded.settings is None) == bool(loaded.problems)
    assert loaded.installation
    for problem in loaded.problems:
        assert problem.path
        assert problem.found
        assert problem.expected
        assert len(str(problem).splitlines()) == 1
        str(problem).encode()


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.datetimes(),
    st.text(max_size=20),
    st.sampled_from(["48h", "files/", "files/x/", "a", "dry", "@daily", "0 3 * * *", "select 1"]),
)
_KNOWN_KEYS = sorted(
    {
        *("upload_reservations", "storage_orphans", "audit_seal", "uploads", "env"),
        *(key for model in MODELS for key in model.model_json_schema()["properties"]),
    }
)
_KEYS = st.one_of(st.text(max_size=8), st.sampled_from(_KNOWN_KEYS))
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(_KEYS, inner, max_size=5)),
    max_leaves=25,
)
_SECTIONS = st.fixed_dictionaries(
    {},
    optional={
        "installation": _LEAVES,
        "database": _VALUES,
        "buckets": st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=8), max_size=3),
        "jobs": st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=8), max_size=3),
    },
)
_YAML = "ab:- []{}&*!|>'\"%@#,?\n\t\\xuU0<\x01~"
_QUICK = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_QUICK
@given(st.one_of(st.text(), st.text(alphabet=_YAML), st.binary()))
@example("installation: ok\nb: [")
@example('"\\ud800": x')
@example('a: "\\UFFFFFFFF"')
@example("%YAML 1." + "9" * 5000 + "\n---\na")
@example("? a: b\n: c")
@example("a: " + "9" * 5000)
@example("a: !!int ''")
@example("a: 0x" + "f" * 5000)
@example("a: 2025-01-01T00:00:00+99:99")
def test_no_text_makes_reading_raise(files: Files, text: str | bytes) -> None:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    check_never_raises(files.read(raw))


@_QUICK
@given(st.one_of(_VALUES, _SECTIONS))
def test_no_yaml_makes_reading_raise(files: Files, value: object) -> None:
    check_never_raises(files.read(yaml.safe_dump(value)))


def test_reading_settings_imports_neither_dagster_nor_a_client() -> None:
    probe = (
        "import sys, filejobs_dagster.settings; "
        "print([name for name in ('dagster', 'boto3', 'botocore', 'psycopg') "
        "if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
