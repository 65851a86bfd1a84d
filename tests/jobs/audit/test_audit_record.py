"""Every field that a run of the three jobs records is explained in the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.docs.pages import explained

if TYPE_CHECKING:
    from tests.jobs.audit.conftest import Auditor

OF_EVERY_JOB = {"swept", "findings", "signatures", "pins"}


def test_every_field_of_a_record_is_explained(auditor: Auditor) -> None:
    auditor.append(3, age=200)
    auditor.append(3)
    auditor.seal("dry")
    auditor.seal()
    auditor.trim("dry")
    auditor.trim()
    auditor.verify()
    records = auditor.installation.progress()
    assert [record["outcome"] for record in records] == ["ok"] * 5
    for record in records:
        missing = set(record["detail"]) - explained(record["job"]) - OF_EVERY_JOB
        assert not missing, f"{record['job']}: {missing}"
