"""What the audit events of a batch say: numbers, times and bounds, never what a row held."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from filejobs_dagster.jobs.table_retention.partitions import Partition
    from filejobs_dagster.jobs.table_retention.statements import Row, Statements


def facts_of_rows(
    stage: Statements, rows: Sequence[Row], taken: int, children: Mapping[str, int]
) -> dict[str, Any]:
    """What is said of a batch of rows.

    Args:
        stage: What became of them.
        rows: Those that were locked, in the order of their time; at least one.
        taken: How many of them were taken.
        children: Rows that were deleted with them, by table.
    """
    facts: dict[str, Any] = {
        "cutoff": stage.cutoff.isoformat(),
        "rows": taken,
        "from_time": rows[0].moment,
        "to_time": rows[-1].moment,
    }
    if all(_says_nothing(column.type) for column in stage.target.key):
        facts |= {"from_key": list(rows[0].key), "to_key": list(rows[-1].key)}
    if stage.fate == "scrubbed":
        facts["columns"] = list(stage.target.scrub)
    if children:
        facts["children"] = dict(children)
    return facts


def facts_of_partition(stage: Statements, partition: Partition) -> dict[str, Any]:
    """What is said of a partition that was dropped as a whole."""
    return {
        "cutoff": stage.cutoff.isoformat(),
        "partition": str(partition.relation),
        "partition_of": str(partition.parent),
        "bounds": partition.bounds,
        "rows_estimate": partition.estimate,
    }


def _says_nothing(key_type: str) -> bool:
    """Tell whether keys of a type hold no personal data: numbers and uuids, but no texts."""
    return key_type in ("smallint", "integer", "bigint", "uuid") or key_type.startswith(
        ("numeric", "timestamp", "date")
    )
