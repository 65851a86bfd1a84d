"""upload_reservations in any order of what can happen; careless versions do not survive it."""

from __future__ import annotations

import logging
import os
import re
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import hypothesis
import hypothesis.errors
import psycopg
import pytest
from hypothesis.stateful import run_state_machine_as_test

from filejobs_dagster.book.outcomes import Fate, ItemOutcome, Outcomes
from filejobs_dagster.objects.client import make_client
from filejobs_dagster.objects.gate import NO_OWNERS, Gate
from tests.interleavings.machine import Interleavings
from tests.interleavings.stepping import CAREFUL, Carelessness
from tests.interleavings.storage import Storage, storage_server
from tests.interleavings.world import World, bucket_settings

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from filejobs_dagster.objects.deletion_mode import DeletionMode
    from filejobs_dagster.references.own_tables import Claim
    from tests.interleavings.stepping import SteppedRun

pytestmark = pytest.mark.thorough

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
Machine = type[Interleavings]


@pytest.fixture(scope="module")
def storage() -> Iterator[Storage]:
    with storage_server() as served:
        yield served


@pytest.fixture
def machine(
    tmp_path: Path, database_url: str, storage: Storage
) -> Callable[[Carelessness], Machine]:
    """A class of schedules on an installation of the test's own."""
    bucket = bucket_settings(tmp_path, database_url, storage)
    client = make_client(bucket)

    def with_care(carelessness: Carelessness) -> Machine:
        class OfThisTest(Interleavings):
            happened: ClassVar = Counter()
            broken: ClassVar = []

            def make_world() -> World:  # type: ignore[misc]
                return World(database_url, storage, bucket, client, carelessness)

        return OfThisTest

    return with_care


def run_schedules(schedules: Machine, examples: int, steps: int, **how: Any) -> None:
    run_state_machine_as_test(
        schedules,
        settings=hypothesis.settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(hypothesis.HealthCheck),
            **how,
        ),
    )


def test_no_order_of_events_breaks_the_contract(
    machine: Callable[[Carelessness], Machine],
) -> None:
    schedules = machine(CAREFUL)
    if THOROUGH:
        run_schedules(schedules, 500, 40)
    else:
        run_schedules(schedules, 25, 25, derandomize=True, database=None)

    happened = schedules.happened
    logging.getLogger(__name__).info("%s", happened)
    assert happened["rows collected"] > happened["schedules"]
    for sort in ("killed", "given up", "complete_upload says", "storage hangs up"):
        assert sum(count for name, count in happened.items() if name.startswith(sort)) > 0, sort


# CONTROL: the same schedules, and one line that somebody left out --------------------------------

CLAIM_BY_ID = """
DELETE FROM file WHERE id = ANY(%(ids)s)
RETURNING id, storage_key, upload_expires_at, size_bytes
"""


def delete_bytes_first(run: SteppedRun, ids: Sequence[uuid.UUID]) -> None:
    """The objects of the rows that the claim is about to take."""
    with psycopg.connect(run.url, autocommit=True) as connection:
        rows = connection.execute("SELECT storage_key FROM file WHERE id = ANY(%s)", (list(ids),))
        keys = [key for (key,) in rows]
    if keys:
        objects: Any = [{"Key": key} for key in keys]
        run.client.delete_objects(Bucket=run.bucket.bucket, Delete={"Objects": objects})


class BelievingGate(Gate):
    """Takes a 200 for an answer without reading it."""

    def delete(
        self,
        keys: Sequence[str],
        before_bytes: Callable[[], None],
        deletion_mode: DeletionMode | None = None,
        *,
        claims: Sequence[Claim] = (),
        owners: Mapping[str, Sequence[str]] = NO_OWNERS,
    ) -> Outcomes[str]:
        del deletion_mode, owners
        admission = self.admit(keys, claims=claims)
        before_bytes()
        if admission.admitted:
            objects: Any = [{"Key": key} for key in admission.admitted]
            self._client.delete_objects(Bucket=self._bucket.bucket, Delete={"Objects": objects})
        return Outcomes(
            (
                *(ItemOutcome(key, Fate.DELETED) for key in admission.admitted),
                *(ItemOutcome(key, Fate.KEPT, why) for key, why in admission.kept.items()),
            )
        )


@pytest.mark.parametrize(
    ("carelessness", "what_breaks"),
    [
        pytest.param(
            Carelessness(claim=CLAIM_BY_ID),
            "a completed upload is lost|collected before the database's clock",
            id="a claim that does not repeat state and expiry",
        ),
        pytest.param(
            Carelessness(bytes_first=delete_bytes_first),
            "bytes went although rows name them",
            id="bytes before the commit",
        ),
        pytest.param(
            Carelessness(gate=BelievingGate),
            "counts .* as collected, but of .* objects .* in storage|objects.delete.result",
            id="a 200 that is believed unread",
        ),
    ],
)
def test_control_careless_versions_are_caught_by_some_schedule(
    machine: Callable[[Carelessness], Machine], carelessness: Carelessness, what_breaks: str
) -> None:
    schedules = machine(carelessness)

    with pytest.raises((AssertionError, hypothesis.errors.Flaky)):
        run_schedules(
            schedules,
            300,
            25,
            derandomize=True,
            database=None,
            phases=[hypothesis.Phase.generate],
            report_multiple_bugs=False,
        )

    assert schedules.broken
    assert re.search(what_breaks, schedules.broken[0]), schedules.broken[0]
