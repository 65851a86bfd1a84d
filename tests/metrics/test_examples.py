"""The dashboard and the alert rules of examples/ ask for metrics and labels that there are."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from filejobs_dagster.ledger.prometheus import WORDS
from filejobs_dagster.metrics.exposition import Reading, text_of
from filejobs_dagster.registry import JOB_NAMES
from filejobs_dagster.settings.values import parse_duration
from tests.docs.pages import EXAMPLES

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = EXAMPLES / "prometheus-rules.yaml"
DASHBOARD = EXAMPLES / "grafana-dashboard.json"
LABELS = {"installation", "job_name", "standing", "severity", "destination"}
OF_PROMETHEUS = {"alertname", "instance"}


def exposed() -> set[str]:
    """Every metric's name, from the exposition itself."""
    text = text_of(Reading("test", 0.0, (), {}, {}))
    return set(re.findall(r"^# TYPE (\w+) gauge", text, re.MULTILINE))


def rules() -> list[dict[str, Any]]:
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    assert set(document) == {"groups"}
    groups = document["groups"]
    assert len({group["name"] for group in groups}) == len(groups)
    assert all(set(group) == {"name", "rules"} for group in groups)
    return [rule for group in groups for rule in group["rules"]]


def dashboard() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return document


def panel_expressions() -> Iterator[str]:
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield target["expr"]


def variable_queries() -> Iterator[str]:
    for variable in dashboard()["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


EXPRESSIONS = [*(rule["expr"] for rule in rules()), *panel_expressions(), *variable_queries()]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_expression_names_metrics_and_labels_that_there_are(expression: str) -> None:
    names = set(re.findall(r"\bfilejobs_\w+", expression))
    assert names
    assert names <= exposed()
    for inside in re.findall(r"\{([^}]*)\}", expression):
        assert set(re.findall(r"(\w+)\s*(?:=~|=|!=)", inside)) <= LABELS
    for inside in re.findall(r"\b(?:by|on|ignoring)\s*\(([^)]*)\)", expression):
        assert set(re.findall(r"\w+", inside)) <= LABELS
    for job in re.findall(r'\bjob_name="(\w+)"', expression):
        assert job in JOB_NAMES
    for word in re.findall(r'\bstanding="([^"]+)"', expression):
        assert word in WORDS
    for opening, closing in ("()", "{}", "[]"):
        assert expression.count(opening) == expression.count(closing)


def test_every_rule_has_what_prometheus_wants_and_says_what_to_do() -> None:
    found = rules()
    names = [rule["alert"] for rule in found]
    assert len(set(names)) == len(names)
    for rule in found:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert re.fullmatch(r"Filejobs[A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        if "for" in rule:
            assert parse_duration(rule["for"]).total_seconds() > 0
        used = set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"])))
        assert used <= LABELS | OF_PROMETHEUS


def test_the_rules_notice_when_they_see_nothing() -> None:
    expressions = " ".join(rule["expr"] for rule in rules())
    assert "absent(filejobs_up)" in expressions
    assert "unless filejobs_job_last_run_timestamp_seconds" in expressions
    assert "time() - filejobs_metrics_timestamp_seconds" in expressions


def test_every_number_is_on_the_dashboard_or_in_a_rule() -> None:
    used = set(re.findall(r"\bfilejobs_\w+", " ".join(EXPRESSIONS)))
    left = exposed() - used
    assert left == {"filejobs_job_last_run_failed"}, "the standing says it better"


def test_panels_have_places_of_their_own_and_say_what_they_show() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    assert all(panel["description"] and panel["title"] for panel in panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


def test_the_dashboard_asks_whatever_prometheus_the_reader_chooses() -> None:
    sources = {json.dumps(panel["datasource"], sort_keys=True) for panel in dashboard()["panels"]}
    assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
