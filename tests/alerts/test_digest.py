"""A message is short, says what to do, and calls nobody by name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from filejobs_dagster.alerts.digest import MOST_ENTRIES, Notice, compose
from tests.ledger.records import ago

FAILED = Notice("raised", "failed", "upload_reservations", "critical", "no luck", ago(hours=1))
BEHIND = Notice("raised", "behind", "storage_orphans", "warning", "much is left", ago(hours=2))


def test_the_loudest_comes_first_and_the_subject_counts() -> None:
    digest = compose("acme", [BEHIND, FAILED])
    assert digest.subject == "filejobs acme: 1 critical, 1 warning"
    assert digest.text.index("no luck") < digest.text.index("much is left")
    assert digest.severity == "critical"


def test_what_is_over_alone_is_no_alarm() -> None:
    over = replace(FAILED, what="recovered", resolved_at=ago(minutes=1))
    assert compose("acme", [over]).severity is None
    assert compose("acme", [over, BEHIND]).severity == "warning"


def test_a_long_message_says_how_much_it_leaves_out() -> None:
    many = [replace(BEHIND, job=f"job {number}") for number in range(MOST_ENTRIES + 7)]
    digest = compose("acme", many)
    assert digest.text.endswith("and 7 more: `filejobs alert --show` lists them all.")


def test_an_error_that_quotes_a_mention_calls_nobody_in_a_chat() -> None:
    nasty = replace(FAILED, reason="<!channel> @everyone <script>")
    digest = compose("acme", [nasty])
    for said in (digest.markdown, digest.text):
        assert "<" not in said
        assert "@" not in said


def test_nothing_is_no_message() -> None:
    with pytest.raises(ValueError, match="noise"):
        compose("acme", [])
