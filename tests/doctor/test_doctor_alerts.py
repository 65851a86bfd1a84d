"""Does anybody hear when a job needs somebody?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from filejobs_dagster.doctor.examination import examine
from filejobs_dagster.settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path

TOKEN = "a-token-that-nobody-may-see"
GOOD, WRONG = f"https://127.0.0.1:9/{TOKEN}", f"no-such-service-{TOKEN}://x"
NOWHERE = "postgresql://127.0.0.1:1/x?connect_timeout=1"


def findings(folder: Path, alerts: dict[str, Any], **variables: str) -> list[tuple[str, str]]:
    """What doctor finds of alerts, also while the database is away; it shows no part of a URL."""
    path = folder / "filejobs.yaml"
    path.write_text(
        yaml.safe_dump(
            {
                "installation": "test",
                "database": {"url": {"env": "FILEJOBS_DATABASE_URL"}},
                "alerts": alerts,
                "buckets": {},
                "jobs": {"audit_verify": {"by_hand": True}},
            }
        )
    )
    environ = {
        "FILEJOBS_DATABASE_URL": NOWHERE, "GOOD": GOOD.replace("https", "json"), "BEAT": GOOD,
        "WRONG": WRONG, **variables,
    }  # fmt: skip
    loaded = read_settings(path, environ)
    assert loaded.settings is not None, loaded.problems
    found = [one for one in examine(loaded, environ) if one.check in ("alerts", "heartbeat")]
    assert not any(TOKEN in f"{one.found} {one.advice}" for one in found)
    return [(one.verdict, one.found) for one in found]


def to(variable: str, *severities: str) -> dict[str, Any]:
    chosen = {"severities": list(severities)} if severities else {}
    return {"name": variable.lower(), "url": {"env": variable}, **chosen}


def test_alerts_that_name_nobody_are_a_warning(tmp_path: Path) -> None:
    (nobody, silent) = findings(tmp_path, {})
    assert nobody[0] == silent[0] == "warning"
    assert "name nobody who is told" in nobody[1]
    assert "there is none" in silent[1]


def test_a_severity_that_nobody_hears_is_a_warning(tmp_path: Path) -> None:
    alerts = {"to": [to("GOOD", "warning")], "heartbeat": {"url": {"env": "BEAT"}}}
    assert findings(tmp_path, alerts)[0] == ("warning", "nobody is told what is critical")
    alerts["to"] = [to("GOOD")]
    assert [verdict for verdict, _ in findings(tmp_path, alerts)] == ["ok", "ok"]


def test_a_url_that_could_never_be_used_fails(tmp_path: Path) -> None:
    alerts = {"to": [to("GOOD"), to("WRONG")], "heartbeat": {"url": {"env": "WRONG"}}}
    (wrong, silent) = findings(tmp_path, alerts)
    assert wrong[0] == silent[0] == "failed"
    assert "wrong can be told nothing" in wrong[1]
