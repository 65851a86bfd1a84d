"""Every field that a run of the three jobs records is explained in docs/audit.md."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tests.docs.pages import page

if TYPE_CHECKING:
    from tests.jobs.audit.conftest import Auditor

OF_EVERY_JOB = {"window", "truncated", "swept", "explained", "findings", "signatures", "pins"}


def test_every_field_of_a_record_is_explained(auditor: Auditor) -> None:
    auditor.append(3, age=200)
    auditor.append(3)
    auditor.seal("dry")
    auditor.seal()
    auditor.trim("dry")
    auditor.trim()
    auditor.verify()
    cells = re.findall(r"^\| ([^|]+) \|", page("audit.md").text, re.MULTILINE)
    told = {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}
    records = auditor.installation.progress()
    assert [record["outcome"] for record in records] == ["ok"] * 5
    for record in records:
        missing = set(record["detail"]) - told - OF_EVERY_JOB
        assert not missing, f"{record['job']}: {missing}"
