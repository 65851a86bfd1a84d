"""Marking reads the candidates that it marks, and not all of them for each portion."""

from __future__ import annotations

from datetime import datetime, timezone

import psycopg
import pytest

from filejobs_dagster.jobs.storage_orphans import statements

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
