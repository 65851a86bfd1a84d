"""Whole partitions: the upper bound decides, and only where nothing else decides about rows."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from filejobs_dagster.jobs.table_retention.partitions import partitions_past, reason_to_keep
from tests.jobs.table_retention.conftest import looking, plan_of, rule

if TYPE_CHECKING:
    from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings
    from tests.jobs.table_retention.conftest import Keeper

NOW = datetime(2026, 6, 1, tzinfo=timezone.utc)


def telemetry(keeper: Keeper) -> None:
    """Parts by days before today: [120, 90), [90, 60), [60, future); and what has no part."""
    keeper.execute(
        "CREATE TABLE telemetry (id bigint, at timestamptz, ip text, note text)"
        " PARTITION BY RANGE (at);"
        "CREATE UNIQUE INDEX ON telemetry (at, id);"
        "ALTER TABLE telemetry ALTER id SET NOT NULL, ALTER at SET NOT NULL;"
        "SET TimeZone = 'UTC';"
        "DO $$ BEGIN EXECUTE format('CREATE TABLE old PARTITION OF telemetry FOR VALUES FROM (%L)"
        " TO (%L)', current_date - 120, current_date - 90);"
        " EXECUTE format('CREATE TABLE middle PARTITION OF telemetry FOR VALUES FROM (%L) TO (%L)',"
        " current_date - 90, current_date - 60);"
        " EXECUTE format('CREATE TABLE young PARTITION OF telemetry FOR VALUES FROM (%L) TO (%L)',"
        " current_date - 60, current_date + 60); END $$;"
        "CREATE TABLE rest PARTITION OF telemetry DEFAULT;"
        "INSERT INTO telemetry SELECT n, current_date - n, 'ip', 'note'"
        " FROM generate_series(1, 130) AS n;"
        "ANALYZE telemetry"
    )


def telemetry_rule(**said: Any) -> RetentionRuleSettings:
    return rule(**{"table": "telemetry", "time": "at", "delete_after": "75d", **said})


def parts(keeper: Keeper) -> list[str]:
    return [
        row[0]
        for row in keeper.execute(
            "SELECT relid::regclass::text FROM pg_partition_tree('telemetry') WHERE isleaf"
            " ORDER BY 1"
        )
    ]


def past(keeper: Keeper, one: RetentionRuleSettings, now: datetime) -> list[str]:
    plan = plan_of(keeper, one, now)
    with looking(keeper) as cursor:
        found = partitions_past(cursor, plan.target, plan.delete.cutoff)
    return [each.relation.name for each in found]


def test_a_partition_that_is_past_is_dropped_and_the_other_rows_go_one_by_one(
    keeper: Keeper,
) -> None:
    telemetry(keeper)
    outcome = keeper.run(telemetry_rule())
    assert outcome.ok, outcome.error
    # Of [90, 60) only the rows past 75 days; of the default partition its ten oldest.
    assert parts(keeper) == ["middle", "rest", "young"]
    left = [row[0] for row in keeper.execute("SELECT id FROM telemetry ORDER BY id")]
    assert left in (list(range(1, 75)), list(range(1, 76)))
    assert keeper.value("SELECT to_regclass('old')") is None
    assert outcome.detail["classes"]["partitions dropped"] == 1
    (dropped,) = outcome.detail["dropped"]
    assert (dropped["partition"], dropped["rows (estimate)"]) == ("public.old", 30)
    event = keeper.events()[0]
    assert event["kind"] == "table_retention.partition_dropped"
    assert event["bounds"].startswith("FOR VALUES FROM ('")
    assert event["rows_estimate"] == 30


def test_dropping_by_the_lower_bound_loses_rows(keeper: Keeper) -> None:
    """CONTROL: the part [90, 60) begins before the cutoff of 75 days, and ends behind it."""
    telemetry(keeper)
    inside = (
        "SELECT count(*) FROM telemetry WHERE at >= current_date - 75 AND at < current_date - 60"
    )
    assert keeper.value(inside) == 15
    keeper.execute(
        "DO $$ DECLARE part record; BEGIN"
        " FOR part IN SELECT relid, substring(pg_get_expr(relpartbound, oid) from"
        " 'FROM \\(''([^'']*)')::timestamptz AS lower FROM pg_partition_tree('telemetry')"
        " JOIN pg_class ON oid = relid WHERE isleaf LOOP"
        " IF part.lower < now() - interval '75 days' THEN"
        " EXECUTE format('DROP TABLE %s', part.relid::regclass); END IF; END LOOP; END $$"
    )
    assert keeper.value(inside) == 0


BOUNDS: list[tuple[str, str | None, str, str, list[str]]] = [
    ("timestamptz", None, "2026-06-01 00:00Z", "2026-06-01 00:00:00", ["part"]),
    ("timestamptz", None, "2026-06-01 00:00Z", "2026-05-31 23:59:59", []),
    ("timestamptz", None, "2026-06-01 00:00+09", "2026-05-31 15:00:00", ["part"]),
    ("timestamp", "UTC", "2026-06-01", "2026-06-01 00:00:00", ["part"]),
    ("timestamp", "UTC", "2026-06-01", "2026-05-31 23:59:59", []),
    # In a zone whose clock changes, three hours are added for times that it leaves out.
    ("timestamp", "Asia/Seoul", "2026-06-01", "2026-05-31 18:00:00", ["part"]),
    ("timestamp", "Asia/Seoul", "2026-06-01", "2026-05-31 17:59:59", []),
    ("date", "UTC", "2026-06-01", "2026-06-01 00:00:00", ["part"]),
    ("date", "UTC", "2026-06-01", "2026-05-31 23:59:59", []),
    ("date", None, "2026-06-01", "2026-06-01 12:00:00", ["part"]),
    ("date", None, "2026-06-01", "2026-06-01 11:59:59", []),
]


def test_the_upper_bound_exactly_at_the_cutoff_is_past(keeper: Keeper) -> None:
    for kind, zone, bound, moment, expected in BOUNDS:
        keeper.execute(
            "DROP TABLE IF EXISTS thing;"
            f"CREATE TABLE thing (id int, at {kind}, PRIMARY KEY (id, at)) PARTITION BY RANGE (at);"
            f"CREATE TABLE part PARTITION OF thing FOR VALUES FROM ('2026-05-01') TO ('{bound}');"
            "CREATE TABLE rest PARTITION OF thing DEFAULT"
        )
        declared = {} if zone is None else {"time_zone": zone}
        one = rule(table="thing", time="at", delete_after="0s", **declared)
        found = past(keeper, one, datetime.fromisoformat(f"{moment}+00:00"))
        assert found == expected, (kind, zone, bound, moment)


def test_partitions_below_partitions_go_where_time_divides_them(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE TABLE thing (tenant int, at timestamptz, PRIMARY KEY (tenant, at))"
        " PARTITION BY LIST (tenant);"
        "CREATE TABLE one PARTITION OF thing FOR VALUES IN (1) PARTITION BY RANGE (at);"
        "CREATE TABLE one_old PARTITION OF one FOR VALUES FROM (MINVALUE) TO ('2026-01-01')"
        " PARTITION BY HASH (tenant);"
        "CREATE TABLE one_old_hash PARTITION OF one_old FOR VALUES WITH (MODULUS 1, REMAINDER 0);"
        "CREATE TABLE one_new PARTITION OF one FOR VALUES FROM ('2026-01-01') TO (MAXVALUE);"
        "CREATE TABLE two PARTITION OF thing FOR VALUES IN (2) PARTITION BY RANGE (at, tenant);"
        "CREATE TABLE two_old PARTITION OF two FOR VALUES FROM (MINVALUE, MINVALUE)"
        " TO ('2026-01-01', 5)"
    )
    one = rule(table="thing", time="at")
    assert past(keeper, one, NOW) == ["one_old"]
    keeper.execute(
        "INSERT INTO thing VALUES (1, '2025-05-05'), (2, '2025-05-05'), (1, '-infinity')"
    )
    # A row without a time keeps the partition that holds it; the others go one by one.
    outcome = keeper.run(one)
    assert outcome.ok, outcome.error
    assert keeper.execute("SELECT tenant, at::text FROM thing") == [(1, "-infinity")]
    keeper.execute("DELETE FROM thing")
    keeper.execute("INSERT INTO thing VALUES (1, '2025-05-05')")
    assert keeper.run(one).detail["classes"] == {"partitions dropped": 1}
    assert keeper.value("SELECT to_regclass('one_old_hash')") is None
    assert keeper.value("SELECT to_regclass('two_old')") is not None


@pytest.mark.parametrize(
    ("prepare", "said", "why"),
    [
        ("", {"where": "note <> 'keep'"}, "conditions"),
        ("", {"except": "note = 'keep'"}, "conditions"),
        (
            (
                "CREATE TABLE case_file (at timestamptz, id bigint,"
                " FOREIGN KEY (at, id) REFERENCES telemetry (at, id))"
            ),
            {},
            "foreign keys of public.case_file",
        ),
        (
            (
                "CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql"
                " AS 'BEGIN RETURN OLD; END';"
                "CREATE TRIGGER look BEFORE DELETE ON telemetry FOR EACH ROW"
                " EXECUTE FUNCTION look()"
            ),
            {},
            "trigger",
        ),
    ],
)
def test_no_partition_goes_where_something_else_decides_about_its_rows(
    keeper: Keeper, prepare: str, said: dict[str, Any], why: str
) -> None:
    telemetry(keeper)
    keeper.execute(prepare or "SELECT")
    one = telemetry_rule(**said)
    assert why in str(reason_to_keep(plan_of(keeper, one, NOW).target))
    outcome = keeper.run(one)
    assert outcome.ok, outcome.error
    assert "old" in parts(keeper)
    assert keeper.value("SELECT count(*) FROM old") == 0


def test_a_partition_on_which_a_view_depends_stays_and_is_told(keeper: Keeper) -> None:
    telemetry(keeper)
    keeper.execute("CREATE VIEW report AS SELECT * FROM old")
    outcome = keeper.run(telemetry_rule())
    assert outcome.ok, outcome.error
    assert "old" in parts(keeper)
    assert keeper.value("SELECT count(*) FROM report") == 0
    assert any("could not be dropped" in row["warning"] for row in outcome.detail["warnings"])


def test_a_table_that_somebody_reads_is_not_waited_for(keeper: Keeper) -> None:
    telemetry(keeper)
    with psycopg.connect(keeper.url) as reader:
        reader.execute("SELECT FROM telemetry LIMIT 1")
        outcome = keeper.run(telemetry_rule())
        assert outcome.ok, outcome.error
        assert any("held a lock" in row["warning"] for row in outcome.detail["warnings"])
    assert "old" in parts(keeper)
    assert keeper.value("SELECT count(*) FROM old") == 0
    assert keeper.run(telemetry_rule()).detail["classes"] == {"partitions dropped": 1}


def test_a_scrubbed_table_drops_its_partitions_and_scrubs_the_others(keeper: Keeper) -> None:
    telemetry(keeper)
    outcome = keeper.run(telemetry_rule(scrub_after="30d", scrub=["ip"]))
    assert outcome.ok, outcome.error
    assert parts(keeper) == ["middle", "rest", "young"]
    assert keeper.value("SELECT max(id) FROM telemetry WHERE ip IS NOT NULL") in (29, 30)


def test_a_partition_is_moved_to_the_archive_and_the_last_one_stays_with_a_word(
    keeper: Keeper,
) -> None:
    telemetry(keeper)
    keeper.execute("DROP TABLE rest; DELETE FROM young; CREATE SCHEMA archive")
    archived = telemetry_rule(
        delete_after="1h", whole_partitions="detach", archive_schema="archive"
    )

    outcome = keeper.run(archived)

    assert outcome.ok, outcome.error
    assert outcome.detail["classes"]["partitions detached"] == 2
    assert parts(keeper) == ["young"]
    assert keeper.value("SELECT count(*) FROM archive.old") == 30
    kinds = [event["kind"] for event in keeper.events()]
    assert kinds == ["table_retention.partition_detached"] * 2

    keeper.execute(
        "ALTER TABLE telemetry DETACH PARTITION young;"
        "DO $$ BEGIN EXECUTE format('ALTER TABLE telemetry ATTACH PARTITION archive.old"
        " FOR VALUES FROM (%L) TO (%L)', current_date - 121, current_date - 89); END $$"
    )
    dry = keeper.run(telemetry_rule(), mode="dry")
    live = keeper.run(telemetry_rule())

    assert live.ok, live.error
    assert parts(keeper) == ["archive.old"]
    assert live.detail["classes"] == {"deleted": 30}
    for run in (dry, live):
        assert "it is the last one" in str(run.detail["warnings"])
    # CONTROL: dropped as well, the table takes no row any more.
    keeper.execute("DROP TABLE archive.old")
    with pytest.raises(psycopg.errors.CheckViolation, match="no partition"):
        keeper.execute("INSERT INTO telemetry VALUES (1, now())")


def test_a_time_of_a_domain_is_read_as_what_it_is_made_of(keeper: Keeper) -> None:
    keeper.execute(
        "CREATE DOMAIN moment AS timestamptz NOT NULL;"
        "CREATE TABLE reading (id int PRIMARY KEY, at moment);"
        "CREATE INDEX ON reading (at);"
        "INSERT INTO reading VALUES (1, now() - interval '9 days'), (2, now())"
    )
    outcome = keeper.run(rule(table="reading", time="at"))
    assert (outcome.ok, outcome.acted) == (True, 1), outcome.error
    assert keeper.ids("reading") == [2]
