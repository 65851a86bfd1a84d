"""The rules of the classification are those of the gate, so that no orphan is refused for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st

from filejobs_dagster.jobs.storage_orphans.classification import Rules
from filejobs_dagster.objects.gate import Gate

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYS = st.lists(
    st.sampled_from(["files/", "brand", "logo", "/", ".", "..", "a", "é", "\n", "marker.json"]),
    min_size=1,
    max_size=5,
).map("".join)  # fmt: skip


@dataclass(frozen=True)
class BucketForTests:
    owns: Sequence[str]
    owns_whole_bucket: bool
    bucket: str = "acme"
    protect: Sequence[str] = ("files/brand", "files/logo/", "brand/")
    marker: str = "marker.json"
    shape: Sequence[str] = ()
    rewrites: Sequence[Any] = ()

    @property
    def owned_prefixes(self) -> Sequence[str]:
        return ("",) if self.owns_whole_bucket else self.owns


class Nobody:
    """In the place of a client: nothing is asked."""


@settings(max_examples=300)
@given(KEYS, st.booleans())
def test_what_the_gate_keeps_for_ever_is_no_suspect_and_the_other_way_round(
    key: str, whole: bool
) -> None:
    bucket = BucketForTests([] if whole else ["files/"], whole)
    gate = Gate(cast("Any", Nobody()), bucket, cast("Any", None))
    rules = Rules.of(bucket)
    raw = key.encode()
    suspected = (
        rules.owns(raw)
        and rules.protecting(raw) is None
        and not raw.endswith(b"/")
        and rules.unknown(raw) is None
    )
    assert suspected is (gate.owned(key) is None)


def test_the_marker_and_the_probe_beside_it_are_protected() -> None:
    rules = Rules.of(BucketForTests([], owns_whole_bucket=True))
    assert rules.protecting(b"marker.json") == b"marker.json"
    assert rules.protecting(b"filejobs-adopted/acme.json") == b"filejobs-adopted"
    assert rules.protecting(b"filejobs-adopted/acme.json.probe-object/x") == b"filejobs-adopted"
    assert rules.protecting(b"marker.jsonx") is None
