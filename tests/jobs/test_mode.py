"""Who decides whether a run is live: veto, config, tag, dry."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from filejobs_dagster.jobs.lifecycle import MODE_TAG, UnknownMode, decide_mode

if TYPE_CHECKING:
    from filejobs_dagster.ledger.outcome import Mode


@pytest.mark.parametrize(
    ("allow_live", "config_dry_run", "tag", "mode", "reason"),
    [
        (True, None, None, "dry", None),
        (True, None, "dry", "dry", None),
        (True, None, "live", "live", None),
        (True, False, None, "live", None),
        (True, True, None, "dry", None),
        (True, False, "live", "live", None),
        (True, True, "dry", "dry", None),
        (True, False, "dry", "live", "dry_run: false, which comes before the tag"),
        (True, True, "live", "dry", "dry_run: true, which comes before the tag"),
        (False, None, None, "dry", None),
        (False, True, None, "dry", None),
        (False, None, "dry", "dry", None),
        (False, None, "live", "dry", "allow_live: false"),
        (False, False, None, "dry", "FILEJOBS_ALLOW_LIVE=0"),
        (False, False, "live", "dry", "forbids it"),
        (False, False, "dry", "dry", "forbids it"),
        (False, True, "live", "dry", "comes before the tag"),
    ],
)
def test_the_effective_mode_and_the_reason_when_it_is_not_what_was_asked(
    allow_live: bool, config_dry_run: bool | None, tag: str | None, mode: Mode, reason: str | None
) -> None:
    decision = decide_mode(allow_live=allow_live, config_dry_run=config_dry_run, tag=tag)
    assert decision.mode == mode
    assert (decision.reason is None) is (reason is None)
    assert reason is None or reason in (decision.reason or "")


def test_the_veto_always_wins() -> None:
    for config, tag in itertools.product((None, True, False), (None, "dry", "live")):
        assert decide_mode(allow_live=False, config_dry_run=config, tag=tag).mode == "dry"


@pytest.mark.parametrize("tag", ["", "LIVE", "Live ", " live", "true", "wet", "dry-run"])
@pytest.mark.parametrize("config_dry_run", [None, True, False])
@pytest.mark.parametrize("allow_live", [True, False])
def test_an_unknown_tag_refuses_whatever_else_is_said(
    tag: str, config_dry_run: bool | None, allow_live: bool
) -> None:
    with pytest.raises(UnknownMode, match=r"'dry' or 'live'\. Nothing was started") as refused:
        decide_mode(allow_live=allow_live, config_dry_run=config_dry_run, tag=tag)
    assert MODE_TAG in str(refused.value)
    assert repr(tag) in str(refused.value)
