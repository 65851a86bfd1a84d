"""What the rules of table_retention may say."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from filejobs_dagster.jobs.table_retention.settings import (
    RetentionRuleSettings,
    TableRetentionSettings,
)
from filejobs_dagster.settings.conditions import columns_of, name_of

RULE: dict[str, Any] = {
    "name": "visits", "table": "public.visit", "time": "at", "delete_after": "90d"
}  # fmt: skip


def wrong(**said: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        RetentionRuleSettings.model_validate({**RULE, **said})
    return str(caught.value)


@pytest.mark.parametrize(
    "condition",
    [
        "status = 'sent'",
        "held",
        "note like '%{x}%'",
        "kind in ('a', 'b') and not held",
        "note <> 'it''s -- /* $1 $$'",
        "payload ->> 'kind' = 'request'",
        "coalesce(held, false)",
        "tags @> array['a']",
        '"sentAt" is not null',
    ],
)
def test_a_condition_on_the_rows_own_columns_is_right(condition: str) -> None:
    rule = RetentionRuleSettings.model_validate({**RULE, "where": condition, "except": condition})
    assert rule.where == rule.except_ == condition


@pytest.mark.parametrize(
    ("condition", "why"),
    [
        ("", "empty"),
        ("true) or (true", "could not be read"),
        ("a = 1; drop table x", "has a ;"),
        ("a = 1 -- and b", "a comment"),
        ("a = /* */ 1", "a comment"),
        ("a = $1", "a parameter"),
        ("a = $x$y$x$", "$$"),
        ("a = E'\\''", "E'"),
        ("true order by 1", "could not be read"),
        ("a = 1 limit 3", "could not be read"),
        ("exists (select from hold where hold.id = id)", "has a query in it"),
        ("id in (select id from hold)", "has a query in it"),
        ("count(*) > 1", "counts or sums"),
        ("visit.held", "a table's name before it"),
        ("a, b", "could not be read"),
        ("false", "looks at no column"),
        ("'legal_hold' = 'x'", "looks at no column"),
    ],
)
def test_a_condition_that_is_more_or_less_than_one_is_refused(condition: str, why: str) -> None:
    assert why in wrong(where=condition)
    assert why in wrong(**{"except": condition})


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"table": "a.b.c"}, "not the name of a table"),
        ({"table": "visit; drop table x"}, "not the name of a table"),
        ({"table": "16384"}, "not the name of a table"),
        ({"time": "at time"}, "not the name of a column"),
        ({"time_zone": "+02:00"}, "not the name of a time zone"),
        ({"time_zone": "EST"}, "not the name of a time zone"),
        ({"delete_after": 90}, "90 has no unit; write 90d if it is days"),
        ({"scrub_after": "30d"}, "scrub names no column"),
        ({"scrub": ["ip"]}, "scrub_after does not say when"),
        ({"scrub": ["ip"], "scrub_after": "90d"}, "deleted before it is scrubbed"),
        ({"scrub": ["AT"], "scrub_after": "30d"}, "`time` looks at it"),
        ({"scrub": ["ip"], "scrub_after": "30d", "where": "ip is not null"}, "`where` looks at it"),
        ({"scrub": ["ip"], "scrub_after": "30d", "except": "ip = 'x'"}, "`except` looks at it"),
        ({"batch_size": 0}, "batch_size"),
    ],
)
def test_a_mistake_in_a_rule_is_named(said: dict[str, Any], why: str) -> None:
    assert why in wrong(**said)


def test_names_are_read_as_sql_reads_them() -> None:
    assert name_of("Sent_At") == "sent_at"
    assert name_of('"sentAt"') == "sentAt"
    assert name_of('"a""b"') == 'a"b'
    assert columns_of("Held and \"sentAt\" > 'x'") == {"held", "sentAt"}


def test_two_rules_of_one_name_and_no_rule_at_all_are_refused() -> None:
    with pytest.raises(ValidationError, match="the same name"):
        TableRetentionSettings.model_validate({"by_hand": True, "rules": [RULE, RULE]})
    without: list[dict[str, Any]] = [{}, {"rules": []}]
    for said in without:
        with pytest.raises(ValidationError, match="rules"):
            TableRetentionSettings.model_validate({"by_hand": True, **said})
