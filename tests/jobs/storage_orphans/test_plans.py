"""Marking reads the candidates that it marks, and not all of them for each portion."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import psycopg
import pytest

from filejobs_dagster.jobs.storage_orphans import statements
from filejobs_dagster.jobs.storage_orphans.marks import PASSES_KEPT
from filejobs_dagster.objects.identity import OLD, ROUNDED_BY

PASSES = 20_000
CANDIDATES = 20_000
PORTION = 2_000
NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)

_FILL = """
INSERT INTO orphan_candidate
    (bucket, key, etag, size_bytes, last_modified, first_seen_at, first_seen_run, last_seen_at,
     last_seen_run, fingerprint)
SELECT 'uploads', convert_to('files/' || lpad(n::text, 12, '0'), 'UTF8'), 'etag', 1, now(), now(),
       'an earlier run', now(), 'an earlier run', 'rules'
  FROM generate_series(1, %s) AS n
"""
_RANGE = "candidate.key BETWEEN %(first)s AND %(last)s"
_READS_ALL = "Seq Scan on orphan_candidate"


@pytest.mark.parametrize("analyzed", [True, False])
def test_renewing_a_portion_reads_no_other_candidates(database_url: str, analyzed: bool) -> None:
    keys = [b"files/%012d" % number for number in range(9_000, 9_000 + PORTION)]
    values = {
        "job": "storage_orphans",
        "bucket": "uploads",
        "fingerprint": "rules",
        "run_id": "this run",
        "at": NOW,
        "keys": keys,
        "first": keys[0],
        "last": keys[-1],
        "etags": ["etag"] * PORTION,
        "sizes": [1] * PORTION,
        "modified": [0] * PORTION,
        "most_apart": ROUNDED_BY,
        "old": timedelta(seconds=OLD),
    }
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE orphan_candidate SET (autovacuum_enabled = off)")
        connection.execute(_FILL, (CANDIDATES,))
        if analyzed:
            connection.execute("ANALYZE orphan_candidate")

        def plan(statement: str) -> str:
            rows = connection.execute(f"EXPLAIN {statement}".encode(), values).fetchall()
            return "\n".join(line for (line,) in rows)

        assert _READS_ALL not in plan(statements.RENEW)
        assert statements.RENEW.count(_RANGE) == 2
        # CONTROL: without the range of the keys, every portion reads every candidate.
        assert _READS_ALL in plan(statements.RENEW.replace(_RANGE, "true"))


@pytest.mark.parametrize("analyzed", [True, False])
def test_forgetting_old_passes_reads_no_passes_that_stay(database_url: str, analyzed: bool) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE orphan_pass SET (autovacuum_enabled = off)")
        connection.execute(
            "INSERT INTO orphan_pass (bucket, run_id, at, mode, fingerprint, objects, bytes,"
            " keys_by_source, orphans, orphan_bytes)"
            " SELECT bucket, n, now() - n * interval '1 hour', 'dry', 'f', 1, 1, '{}', 0, 0"
            " FROM generate_series(1, %s) AS n, unnest(ARRAY['uploads', 'others']) AS bucket"
            " WHERE n <= %s OR bucket = 'others'",
            (PASSES, PASSES_KEPT + 2),
        )
        if analyzed:
            connection.execute("ANALYZE orphan_pass")
        values = {"bucket": "uploads", "kept": PASSES_KEPT}
        rows = connection.execute(b"EXPLAIN " + statements.FORGET_PASSES.encode(), values)
        plan = "\n".join(line for (line,) in rows)
        assert "Seq Scan" not in plan, plan
        assert "orphan_pass_newest" in plan, plan
        assert connection.execute(statements.FORGET_PASSES.encode(), values).rowcount == 2
        left = connection.execute("SELECT bucket, count(*) FROM orphan_pass GROUP BY bucket")
        assert dict(left.fetchall()) == {"uploads": PASSES_KEPT, "others": PASSES}
