from __future__ import annotations

from dataclasses import replace

import pytest

from filejobs_dagster.jobs.storage_orphans.breakers import (
    BREAKERS,
    EarlierPass,
    Numbers,
    Reading,
    Stranger,
    read_breakers,
)
from filejobs_dagster.jobs.storage_orphans.settings import BreakersSettings

LIMITS = BreakersSettings()
SANE = Numbers(
    objects=1000,
    matched=950,
    orphans=50,
    orphan_bytes=5000,
    ambiguous=0,
    references=960,
    references_owned=955,
    missing=5,
    keys_by_source={"file": 900, "avatars": 60},
)


def tripped(numbers: Numbers, limits: BreakersSettings = LIMITS, **more: object) -> set[str]:
    readings = read_breakers(numbers, limits, more.pop("earlier", None), **more)  # type: ignore[arg-type]
    assert [reading.name for reading in readings] == list(BREAKERS)
    return {reading.name for reading in readings if reading.blocks}


def only(name: str, readings: tuple[Reading, ...]) -> Reading:
    return next(reading for reading in readings if reading.name == name)


def test_a_sane_pass_trips_nothing_and_every_number_is_said_all_the_same() -> None:
    readings = read_breakers(SANE, LIMITS, None)
    assert not any(reading.tripped for reading in readings)
    assert str(readings[0]) == (
        "orphan_fraction: 50 orphans of 1,000 owned objects, 5 %; limit: 10 %: ok"
    )


def test_an_empty_bucket_without_references_is_a_success() -> None:
    nothing = Numbers(0, 0, 0, 0, 0, 0, 0, 0)
    assert tripped(nothing) == set()


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"orphans": 101}, "orphan_fraction"),
        ({"ambiguous": 51}, "ambiguous_fraction"),
        ({"missing": 20}, "missing_fraction"),
        ({"matched": 0}, "nothing_matched"),
    ],
)
def test_a_number_over_its_limit_trips_its_breaker_alone(
    changes: dict[str, int], name: str
) -> None:
    assert tripped(replace(SANE, **changes)) == {name}  # type: ignore[arg-type]


def test_ninety_seven_of_a_hundred_objects_as_orphans_are_not_believed() -> None:
    few = Numbers(100, 3, 97, 970, 0, 3, 3, 0)
    assert tripped(few) == {"orphan_fraction"}


def test_one_reference_and_a_full_bucket_is_not_believed() -> None:
    one = Numbers(1000, 1, 999, 0, 0, 1, 1, 0)
    assert tripped(one) == {"orphan_fraction"}


def test_a_bucket_that_lists_nothing_while_rows_name_its_objects_is_not_believed() -> None:
    gone = Numbers(0, 0, 0, 0, 0, 500, 500, 500)
    assert tripped(gone) == {"missing_fraction"}


@pytest.mark.parametrize("few", [1, 10])
def test_an_empty_listing_is_not_believed_however_few_objects_rows_name(few: int) -> None:
    gone = Numbers(0, 0, 0, 0, 0, few, few, few)
    assert tripped(gone) == {"missing_fraction"}
    assert tripped(gone, BreakersSettings(max_missing_fraction=1)) == set()


def test_a_few_orphans_in_a_quiet_installation_are_newer_than_its_last_upload() -> None:
    newest = 1_700_000_000_000
    quiet = replace(SANE, newest_reference=newest, newer=4)
    assert tripped(quiet) == set()
    assert tripped(replace(quiet, newer=5)) == {"database_older"}
    assert tripped(replace(quiet, newer=5), BreakersSettings(max_newer=5)) == set()
    reading = only("database_older", read_breakers(quiet, LIMITS, None))
    assert "the newest one with a reference (2023-11-14 22:13 UTC)" in reading.found


OWN = {"file": frozenset({"file"})}


@pytest.mark.parametrize(
    ("before", "after", "removed", "trips"),
    [
        (209, 192, 0, True),  # eight per cent
        (100, 92, 0, True),
        (100, 95, 0, False),
        (10, 8, 0, False),
        (10, 7, 0, True),
        (3, 2, 0, True),
        (100_000, 95_000, 0, False),
        (100_000, 94_999, 0, True),
        (100_000, 50_000, 45_000, False),
        (100_000, 50_000, 44_999, True),
        (100, 92, 9, False),
    ],
)
def test_more_references_than_jobs_removed_are_missed(
    before: int, after: int, removed: int, trips: bool
) -> None:
    numbers = replace(SANE, keys_by_source={"file": after}, tables_by_source=OWN)
    earlier = EarlierPass(
        "run", {"file": before}, same_rules=True, removed_since={"file": removed, "public.log": 90}
    )
    assert tripped(numbers, earlier=earlier) == ({"reference_shrink"} if trips else set())


def test_what_jobs_took_from_a_table_explains_no_loss_of_a_source_that_does_not_read_it() -> None:
    account = frozenset({"public.account"})
    numbers = replace(
        SANE,
        keys_by_source={"file": 100, "avatars": 92},
        tables_by_source=OWN | {"avatars": account},
    )
    earlier = EarlierPass(
        "run", {"file": 100, "avatars": 100}, same_rules=True, removed_since={"file": 1000}
    )
    assert tripped(numbers, earlier=earlier) == {"reference_shrink"}
    known = replace(earlier, removed_since={"public.account": 8})
    assert tripped(numbers, earlier=known) == set()


def test_rows_that_were_made_since_hide_no_loss_of_those_that_were_there() -> None:
    numbers = replace(
        SANE, keys_by_source={"file": 112}, older_by_source={"file": 92}, tables_by_source=OWN
    )
    earlier = EarlierPass("run", {"file": 100}, same_rules=True)
    assert tripped(numbers, earlier=earlier) == {"reference_shrink"}
    shrunk = only("reference_shrink", read_breakers(numbers, LIMITS, earlier))
    assert shrunk.found == (
        "source file: 92 keys, 100 in the last complete pass, 20 newer ones beside them, 8 % fewer"
    )
    assert tripped(numbers, earlier=replace(earlier, removed_since={"file": 8})) == set()
    # CONTROL: the bare numbers do not show it.
    assert tripped(replace(numbers, older_by_source={}), earlier=earlier) == set()


def test_no_loss_at_all_is_what_a_limit_of_zero_asks_for() -> None:
    numbers = replace(SANE, keys_by_source={"file": 999})
    earlier = EarlierPass("run", {"file": 1000}, same_rules=True)
    limits = BreakersSettings(max_reference_shrink=0)
    assert tripped(numbers, limits, earlier=earlier) == {"reference_shrink"}


def test_a_few_missing_or_ambiguous_objects_are_tolerated_whatever_their_share() -> None:
    small = Numbers(20, 10, 0, 0, 10, 20, 20, 10)
    assert tripped(small) == set()
    assert tripped(small, BreakersSettings(tolerated=9)) == {
        "ambiguous_fraction",
        "missing_fraction",
    }


def test_objects_that_are_all_young_or_protected_say_nothing() -> None:
    assert tripped(Numbers(5, 0, 0, 0, 0, 3, 0, 0)) == set()


def test_limits_in_numbers_and_bytes_count_where_they_are_set() -> None:
    assert tripped(SANE, BreakersSettings(max_orphans=49)) == {"orphans"}
    assert tripped(SANE, BreakersSettings(max_orphan_bytes=4999)) == {"orphan_bytes"}


def test_a_source_that_shrank_trips_and_is_named() -> None:
    earlier = EarlierPass("run", {"file": 900, "avatars": 100}, same_rules=True)
    readings = read_breakers(SANE, LIMITS, earlier)
    shrunk = only("reference_shrink", readings)
    assert shrunk.tripped
    assert shrunk.found.startswith("source avatars: 60 keys, 100 in the last complete pass, 40 %")


def test_many_small_losses_together_trip_and_sources_that_grew_do_not() -> None:
    earlier = EarlierPass("run", {"file": 1120, "avatars": 74}, same_rules=True)
    assert tripped(SANE, BreakersSettings(max_reference_shrink=0.19), earlier=earlier) == {
        "reference_shrink"
    }
    assert tripped(SANE, earlier=EarlierPass("run", {"file": 10}, same_rules=True)) == set()


def test_a_source_whose_keys_come_and_go_may_shrink_to_nothing() -> None:
    now = {"file": 900, "avatars": 60, "upload": 0}
    earlier = EarlierPass("run", {"file": 900, "avatars": 60, "upload": 800}, same_rules=True)
    numbers = replace(SANE, keys_by_source=now, coming_and_going=frozenset({"upload"}))
    assert tripped(numbers, earlier=earlier) == set()
    assert tripped(replace(numbers, coming_and_going=frozenset()), earlier=earlier) == {
        "reference_shrink"
    }


def test_a_source_that_left_the_settings_is_a_change_of_rules_and_not_a_loss() -> None:
    earlier = EarlierPass("run", {"file": 900, "avatars": 60, "old": 900}, same_rules=False)
    assert tripped(SANE, earlier=earlier) == set()


def test_an_overridden_breaker_is_said_to_be_overridden_and_lets_the_others_be() -> None:
    numbers = replace(SANE, orphans=500, missing=20)
    assert tripped(numbers, overridden=["orphan_fraction"]) == {"missing_fraction"}
    readings = read_breakers(numbers, LIMITS, None, overridden=["orphan_fraction", "orphans"])
    assert only("orphan_fraction", readings).verdict == "overridden"
    assert only("orphans", readings).verdict == "ok"


def test_the_advice_names_the_transform_that_the_keys_suggest() -> None:
    hint = "It looks like strip_base."
    readings = read_breakers(replace(SANE, ambiguous=500), LIMITS, None, hint=hint)
    assert hint in only("ambiguous_fraction", readings).advice


def test_a_source_whose_keys_all_lie_outside_of_owns_is_named_with_one_of_them() -> None:
    posters = Stranger("posters", 30, "https://cdn.test/p%20 1.png?width=200")
    numbers = replace(SANE, orphans=500, matched=0, strangers=(posters,))
    readings = read_breakers(numbers, LIMITS, None)
    for name in ("orphan_fraction", "nothing_matched"):
        assert (
            "Source posters: none of its 30 keys lies in owns, for instance "
            "https://cdn.test/p%20 1.png?width=200."
        ) in only(name, readings).advice
    assert "lies in owns" not in only("orphan_fraction", read_breakers(SANE, LIMITS, None)).advice


def test_of_many_sources_outside_of_owns_a_few_are_named_and_the_rest_counted() -> None:
    strangers = tuple(Stranger(f"source{number}", 1, "x") for number in range(5))
    advice = only(
        "orphan_fraction", read_breakers(replace(SANE, strangers=strangers), LIMITS, None)
    ).advice
    assert "source2" in advice
    assert "source3" not in advice
    assert "So it is with 2 more sources." in advice
