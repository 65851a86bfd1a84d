"""What each collector's claim measures, and that it finds out a collector whose guard is gone."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from filejobs_dagster.door import door
from filejobs_dagster.door.guards import GUARDS
from filejobs_dagster.jobs.deleted_files import statements
from filejobs_dagster.jobs.table_retention import partitions
from filejobs_dagster.jobs.upload_cleanup import looking
from filejobs_dagster.objects.identity import Comparison
from filejobs_dagster.objects.multipart.parts import Parts
from filejobs_dagster.prove.claims import CLAIMS
from tests.prove.trying import BY_NAME, after_migrating, careless_of, guarded_of, try_claim

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pytest

    from filejobs_dagster.objects.multipart.parts import Part
    from filejobs_dagster.prove.stage import Stage

CHECKOUT = Path(__file__).parents[2]

GUARDED_LOST = "not proven: the guarded version lost"

# With the pause of a client that thinks between the two.
CHECK_THEN_WRITE = """
CREATE OR REPLACE FUNCTION cancel_upload(upload_row uuid) RETURNS text
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
    found text := (SELECT state FROM upload WHERE id = upload_row);
BEGIN
    PERFORM pg_sleep(0.05);
    IF found = 'stored' THEN
        UPDATE upload SET state = 'cleanup' WHERE id = upload_row;
        RETURN 'cleanup';
    END IF;
    RETURN found;
END
$$
"""

# What the statements leave to it, and none of what it refuses.
ANY_TRANSITION = """
CREATE OR REPLACE FUNCTION check_upload_transition() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state = 'cleanup' THEN
        NEW.collectable_at := coalesce(NEW.collectable_at, clock_timestamp());
        NEW.next_attempt_at := coalesce(NEW.next_attempt_at, clock_timestamp());
    ELSIF NEW.state = 'cleaned' THEN
        NEW.cleaned_at := clock_timestamp();
    END IF;
    RETURN NEW;
END
$$
"""


def test_a_cancel_that_checks_and_then_writes_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_migrating(monkeypatch, CHECK_THEN_WRITE, ANY_TRANSITION)
    # Which would refuse a run on functions that somebody has replaced.
    monkeypatch.setattr(door, "GUARDS", [it for it in GUARDS if it.name != "tables"])

    finding = try_claim("publish-or-cancel", stage)

    assert finding.verdict == GUARDED_LOST, finding.error
    assert guarded_of(finding)["both won, or neither"] > 0


def test_the_table_itself_refuses_a_cancel_that_checks_and_then_writes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    after_migrating(monkeypatch, CHECK_THEN_WRITE)

    finding = try_claim("publish-or-cancel", stage)

    assert not finding.held
    assert finding.error is not None
    assert "IntegrityConstraintViolation" in finding.error


def test_a_cleanup_that_deletes_whatever_has_the_key_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "compare", lambda *_, **__: Comparison("same"))

    finding = try_claim("object-replaced", stage)

    assert finding.verdict == GUARDED_LOST, finding.error
    assert guarded_of(finding)["HEAD of the object that replaced it"] == "404, gone"


def test_the_replaced_object_stays_and_its_row_is_done(stage: Stage) -> None:
    guarded = guarded_of(try_claim("object-replaced", stage))

    assert guarded["rows claimed"] == 2
    assert guarded["the row of the replaced object"] == "cleaned superseded"
    assert guarded["HEAD of the object that replaced it"] == "200, 28 bytes"
    assert guarded["the other row"] == "cleaned deleted"


def test_parts_that_are_as_old_as_their_upload_are_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = Parts.of

    def by_the_beginning(parts: Sequence[Part]) -> Parts:
        return replace(of(parts), newest=datetime(2010, 11, 10, tzinfo=timezone.utc))

    monkeypatch.setattr(Parts, "of", by_the_beginning)

    finding = try_claim("slow-multipart", stage)

    assert finding.verdict == GUARDED_LOST, finding.error
    assert guarded_of(finding)["the slow client then completes"] == "refused: NoSuchUpload"


def test_a_claim_that_takes_what_was_selected_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    trusting = """DELETE FROM file WHERE id = ANY(%(ids)s)
        RETURNING id, storage_key, now(), retain_until, created_at"""
    monkeypatch.setattr(statements, "CLAIM", trusting)

    finding = try_claim("restored-file", stage)

    assert finding.verdict == GUARDED_LOST, finding.error
    assert guarded_of(finding)["the restored row now"] == "gone"
    assert careless_of(finding)["rows selected"] == 2


def test_a_partition_that_goes_by_its_lower_bound_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_lower_bound = partitions._PAST.replace("$bound$TO", "$bound$FROM")
    assert by_lower_bound != partitions._PAST
    monkeypatch.setattr(partitions, "_PAST", by_lower_bound)

    finding = try_claim("half-old-partition", stage)

    assert finding.verdict == GUARDED_LOST, finding.error
    assert guarded_of(finding)["rows of the last 30 days, afterwards"] == 15


def test_a_run_that_does_not_ask_the_marker_is_found_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    careless = tuple(guard for guard in GUARDS if guard.name not in ("marker", "clocks"))
    monkeypatch.setattr(door, "GUARDS", careless)

    finding = try_claim("restored-database", stage)

    assert finding.verdict == GUARDED_LOST, finding.error
    assert guarded_of(finding)["HEAD of its object"] == "404, gone"


def test_the_reference_shows_a_row_for_each_claim() -> None:
    page = (CHECKOUT / "docs" / "reference" / "claims.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `([a-z-]+)` \| [A-Z].+ \| [A-Z].+ \|$", page, re.MULTILINE) == [
        claim.name for claim in CLAIMS
    ]


def test_the_claims_that_the_documentation_names_are_there() -> None:
    page = (CHECKOUT / "docs" / "sceptics.md").read_text(encoding="utf-8")
    (paragraph,) = [each for each in page.split("\n\n") if "`filejobs prove`" in each]
    told = set(re.findall(r"`([a-z]+(?:-[a-z]+)+)`", paragraph))
    assert told
    assert told <= set(BY_NAME)
