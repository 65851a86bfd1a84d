"""A partition that begins before the retention window and still holds rows inside it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from filejobs_dagster.jobs import table_retention
from filejobs_dagster.jobs.table_retention.settings import RetentionRuleSettings
from filejobs_dagster.prove.evidence import Claim, Evidence, FactValue, Side, tidy
from filejobs_dagster.prove.workplace import run_in_database

if TYPE_CHECKING:
    from filejobs_dagster.prove.stage import Scene, Stage

DAYS_KEPT = 30

# Half a day off the bounds, so that no row stands on one: one row a day, 75 days back.
_TABLES = (
    """
    CREATE TABLE sign_in (id bigint, at timestamptz, PRIMARY KEY (at, id))
    PARTITION BY RANGE (at)
    """,
    """
    DO $$
    DECLARE
        part record;
    BEGIN
        FOR part IN SELECT * FROM (VALUES ('oldest', 75, 45), ('middle', 45, 15),
                                          ('newest', 15, -15)) AS given (name, begins, ends)
        LOOP
            EXECUTE format('CREATE TABLE sign_in_%s PARTITION OF sign_in'
                           ' FOR VALUES FROM (%L) TO (%L)', part.name,
                           now() - part.begins * interval '1 day',
                           now() - part.ends * interval '1 day');
        END LOOP;
    END
    $$
    """,
    """
    INSERT INTO sign_in
    SELECT day, now() - day * interval '1 day' + interval '12 hours'
      FROM generate_series(1, 75) AS day
    """,
)

BY_LOWER_BOUND = tidy(
    f"""
    SELECT format('DROP TABLE %s', oid::regclass)
      FROM pg_class JOIN pg_inherits ON inhrelid = oid
     WHERE inhparent = 'sign_in'::regclass
       AND substring(pg_get_expr(relpartbound, oid) FROM 'FROM \\(''([^'']*)')::timestamptz
           < now() - interval '{DAYS_KEPT} days'
    """  # noqa: S608 (a constant of this module)
)

_ROWS = f"""
SELECT count(*) FILTER (WHERE at >= now() - interval '{DAYS_KEPT} days'),
       count(*) FILTER (WHERE at < now() - interval '{DAYS_KEPT} days')
  FROM sign_in
"""  # noqa: S608 (a constant of this module)

_PARTITIONS = """
SELECT string_agg(relname, ', ' ORDER BY relname)
  FROM pg_class JOIN pg_inherits ON inhrelid = oid
 WHERE inhparent = 'sign_in'::regclass
"""


def _demonstrate(stage: Stage) -> Evidence:
    with stage.scene() as scene:
        careless = _careless(scene)
    with stage.scene() as scene:
        return Evidence(careless, _guarded(scene))


def _careless(scene: Scene) -> Side:
    inside = _prepare(scene)
    drops = [statement for (statement,) in scene.rows(BY_LOWER_BOUND)]
    for statement in drops:
        scene.rows(statement)
    facts, lost, _ = _measured(scene, inside)
    return Side(
        f"drop each partition that begins more than {DAYS_KEPT} days ago",
        f"{BY_LOWER_BOUND};\n\n" + ";\n".join(sorted(drops)),
        facts,
        lost=lost,
    )


def _guarded(scene: Scene) -> Side:
    inside = _prepare(scene)
    rule = RetentionRuleSettings(
        name="sign-ins",
        table=f"{scene.database.schema}.sign_in",
        time="at",
        delete_after=timedelta(days=DAYS_KEPT),
    )
    request = table_retention.TableRetentionRun(rules=[rule])
    outcome = run_in_database(
        scene, table_retention.JOB, lambda context: table_retention.run(context, request)
    )
    facts, lost, old = _measured(scene, inside)
    dropped = [one["partition"].rsplit(".")[-1] for one in outcome.detail["dropped"]]
    return Side(
        "the project's table_retention: the upper bound decides, and other rows go one by one",
        tidy(
            """
            -- partitions whose upper bound is at or before the cutoff, under their lock:
            ALTER TABLE sign_in DETACH PARTITION sign_in_oldest;  DROP TABLE sign_in_oldest;
            -- then the rows before the cutoff, wherever they are:
            SELECT … WHERE at < … ORDER BY at, id LIMIT … FOR UPDATE SKIP LOCKED;
            DELETE FROM sign_in WHERE (at, id) IN (…) AND at < …;
            """
        ),
        (
            ("partitions that it dropped as a whole", ", ".join(dropped)),
            ("rows that it deleted one by one", outcome.detail["classes"].get("deleted", 0)),
            *facts,
        ),
        lost=lost or old > 0,
    )


def _prepare(scene: Scene) -> int:
    """Make the table; tell how many of its rows are inside the window."""
    for statement in _TABLES:
        scene.rows(statement)
    ((inside, _),) = scene.rows(_ROWS)
    return int(inside)


def _measured(scene: Scene, before: int) -> tuple[tuple[tuple[str, FactValue], ...], bool, int]:
    """What is left; whether a row inside the window is missing; how many are past it."""
    ((inside, past),) = scene.rows(_ROWS)
    return (
        (
            ("partitions that are left", str(scene.value(_PARTITIONS))),
            (f"rows of the last {DAYS_KEPT} days, before", before),
            (f"rows of the last {DAYS_KEPT} days, afterwards", inside),
            ("older rows that are left", past),
        ),
        inside < before,
        past,
    )


CLAIM = Claim(
    "half-old-partition",
    "A partition that begins before the retention window keeps its rows inside it.",
    _demonstrate,
)
