"""Numbers that are read anew for each scrape, and absent when they cannot be read."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from psycopg.types.json import Jsonb

from filejobs_dagster.door.hold import hold
from filejobs_dagster.metrics import exposition
from filejobs_dagster.metrics.exposition import Reading, read, serve, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

PASSWORD = "hunter2-and-a-long-tail"


@pytest.fixture
def config(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A settings file with one destination, and a failed and a successful run."""
    monkeypatch.setenv("FILEJOBS_DATABASE_URL", database_url)
    monkeypatch.setenv("FILEJOBS_ALERT_URL", "json://127.0.0.1:1/")
    path = tmp_path / "filejobs.yaml"
    document = {
        "installation": "acme",
        "database": {"url": {"env": "FILEJOBS_DATABASE_URL"}},
        "alerts": {"to": [{"name": "on-call", "url": {"env": "FILEJOBS_ALERT_URL"}}]},
        "buckets": {"uploads": {"bucket": "b", "owns": ["files/"], "min_age": "48h"}},
        "jobs": {"upload_reservations": {"by_hand": True, "mode": "live", "stale_after": "2h"}},
    }
    path.write_text(yaml.safe_dump(document))
    detail = {"window": {"covers": "everything"}, "bytes_freed": 4096, "truncated": True,
              "dead_letters": 2}  # fmt: skip
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO job_run (run_id, installation, job, started_at, outcome, mode, scanned,"
            " acted, detail) VALUES ('r', 'acme', 'upload_reservations', now() - interval '9s',"
            " 'ok', 'live', 7, 3, %s)",
            (Jsonb(detail),),
        )
        connection.execute(
            "INSERT INTO mirror_watermark (installation, read_until, wide_scan_at)"
            " VALUES ('acme', now() - interval '2 hours', now())"
        )
        connection.execute(
            "INSERT INTO alert_condition (installation, fingerprint, kind, severity, reason)"
            " VALUES ('acme', 'f', 'failed', 'critical', 'because')"
        )
        connection.execute(
            "INSERT INTO alert_delivery (installation, destination, condition_id, what)"
            " SELECT 'acme', 'on-call', id, 'raised' FROM alert_condition"
        )
    return path


def samples(text: str) -> dict[str, list[Any]]:
    return {family.name: family.samples for family in text_string_to_metric_families(text)}


def value(found: dict[str, list[Any]], name: str, **labels: str) -> float:
    (sample,) = (each for each in found[name] if labels.items() <= each.labels.items())
    return float(sample.value)


@contextmanager
def endpoint(take: Callable[[], Reading]) -> Iterator[Callable[[], str]]:
    server, thread = serve(take, "127.0.0.1", 0)

    def scrape() -> str:
        url = f"http://127.0.0.1:{server.server_port}/metrics"
        with urllib.request.urlopen(url, timeout=20) as answer:
            body: bytes = answer.read()
        return body.decode()

    try:
        yield scrape
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_every_number_of_a_job_and_of_alerts_is_there(config: Path) -> None:
    found = samples(text_of(read(config)))
    of_job = {"installation": "acme", "job_name": "upload_reservations"}
    assert value(found, "filejobs_up") == 1
    for name, number in {
        "last_run_scanned": 7, "last_run_acted": 3, "last_run_bytes": 4096,
        "last_run_truncated": 1, "dead_letters": 2, "stale_after_seconds": 7200,
        "last_run_failed": 0, "running": 0, "behind": 1, "alarming": 1,
    }.items():  # fmt: skip
        assert value(found, f"filejobs_job_{name}", **of_job) == number, name
    assert value(found, "filejobs_job_last_live_success_timestamp_seconds", **of_job) > 1e9
    assert 0 <= value(found, "filejobs_job_age_seconds", **of_job) < 60
    assert 8 < value(found, "filejobs_job_last_run_duration_seconds", **of_job) < 60
    looked = value(found, "filejobs_mirror_timestamp_seconds")
    assert 7190 < value(found, "filejobs_metrics_timestamp_seconds") - looked < 7400
    assert value(found, "filejobs_alerts_open", severity="critical") == 1
    assert value(found, "filejobs_alerts_open", severity="warning") == 0
    assert value(found, "filejobs_alerts_undelivered", destination="on-call") == 1


def test_what_somebody_holds_is_there_since_when(config: Path) -> None:
    assert samples(text_of(read(config)))["filejobs_held_since_timestamp_seconds"] == []
    with psycopg.connect(os.environ["FILEJOBS_DATABASE_URL"]) as connection:
        cursor = connection.cursor()
        hold(cursor, "acme", None, "ada@desk", "a restore")
        hold(cursor, "acme", "upload_reservations", "ada@desk", "a restore")
    found = samples(text_of(read(config)))
    for job in ("", "upload_reservations"):
        since = value(found, "filejobs_held_since_timestamp_seconds", job_name=job)
        assert 0 <= value(found, "filejobs_metrics_timestamp_seconds") - since < 60


def test_records_of_the_future_are_counted_and_hide_no_number(config: Path) -> None:
    of_job = {"installation": "acme", "job_name": "upload_reservations"}
    before = samples(text_of(read(config)))
    assert value(before, "filejobs_job_records_of_future", **of_job) == 0

    with psycopg.connect(os.environ["FILEJOBS_DATABASE_URL"]) as connection:
        connection.execute(
            "INSERT INTO job_run (run_id, installation, job, started_at, finished_at, outcome,"
            " mode, scanned, acted, detail) SELECT run_id || n, installation, job, started_at,"
            " CASE n WHEN 1 THEN 'infinity' ELSE now() + interval '365 days' END, outcome, mode,"
            " 99, 99, detail FROM job_run, generate_series(1, 2) AS n"
        )

    found = samples(text_of(read(config)))
    assert value(found, "filejobs_job_records_of_future", **of_job) == 2
    assert value(found, "filejobs_job_alarming", **of_job) == 1
    for name in ("last_run_acted", "last_run_timestamp_seconds", "behind"):
        metric = f"filejobs_job_{name}"
        assert value(found, metric, **of_job) == value(before, metric, **of_job), name


def test_each_scrape_reads_anew_and_a_failed_one_shows_nothing_old(
    config: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(lambda: read(config)) as scrape:
        assert value(samples(scrape()), "filejobs_up") == 1
        away = f"postgresql://app:{PASSWORD}@127.0.0.1:9/files"
        monkeypatch.setenv("FILEJOBS_DATABASE_URL", away)
        text = scrape()
        assert value(samples(text), "filejobs_up", installation="acme") == 0
        assert set(samples(text)) == {"filejobs_up", "filejobs_metrics_timestamp_seconds"}
        assert PASSWORD not in text

        monkeypatch.setenv("FILEJOBS_DATABASE_URL", database_url)
        assert value(samples(scrape()), "filejobs_up") == 1
        config.write_text(config.read_text().replace("48h", "48"))
        assert value(samples(scrape()), "filejobs_up", installation="acme") == 0


def test_tables_that_are_missing_are_no_numbers(config: Path, database_url: str) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("DROP TABLE alert_delivery")
    reading = read(config)
    assert reading.standings is None
    assert "alert_delivery" in (reading.trouble or "")


def test_scrapes_in_a_hurry_take_one_connection_at_a_time() -> None:
    at_once: list[int] = []
    running = threading.Semaphore(10)

    def take() -> Reading:
        running.acquire()
        at_once.append(running._value)
        threading.Event().wait(0.05)
        running.release()
        return Reading("acme", 0.0)

    with endpoint(take) as scrape:
        scrapers = [threading.Thread(target=scrape) for _ in range(4)]
        for scraper in scrapers:
            scraper.start()
        for scraper in scrapers:
            scraper.join()
    assert at_once == [9] * 4


def test_a_text_file_is_replaced_as_a_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "filejobs.prom"
    exposition.write_textfile(path, "old 1\n")
    assert path.stat().st_mode & 0o777 == 0o644

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            exposition.write_textfile(path, "new 1\n")
    assert path.read_text() == "old 1\n"
    assert [each.name for each in tmp_path.iterdir()] == ["filejobs.prom"]
    exposition.write_textfile(path, "new 1\n")
    assert path.read_text() == "new 1\n"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "filejobs_dagster.cli", *arguments]


def test_the_command_writes_the_file_also_when_nothing_can_be_read(
    config: Path, tmp_path: Path
) -> None:
    path = tmp_path / "filejobs.prom"
    config.write_text(config.read_text().replace("48h", "48"))
    done = subprocess.run(
        command("--config", str(config), "metrics", "--textfile", str(path)),
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "48 has no unit" in done.stderr
    assert value(samples(path.read_text()), "filejobs_up", installation="acme") == 0


def test_the_command_listens_until_it_is_told_to_end(config: Path) -> None:
    with subprocess.Popen(
        command("--config", str(config), "metrics", "--listen", "127.0.0.1:0"),
        stdout=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        with urllib.request.urlopen(address, timeout=20) as answer:  # noqa: S310
            assert b'filejobs_up{installation="acme"} 1.0' in answer.read()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 0
