"""What the project is made of may be used so, and each part has a reason."""

from __future__ import annotations

import pytest

from tests.docs.supply import bill, is_compatible, licence_of, pinned, reasons


def test_the_licence_of_everything_that_is_pinned_is_known_and_compatible() -> None:
    found = pinned()
    assert len(found) > 100
    said = {name: licence_of(name) for name in found}
    assert {name: licence for name, licence in said.items() if not is_compatible(licence)} == {}
    assert bill()["components"]


@pytest.mark.parametrize("licence", ["GPL-3.0-only", "AGPL-3.0-or-later", "Proprietary", ""])
def test_control_another_licence_is_not(licence: str) -> None:
    assert not is_compatible(licence)


def test_each_direct_dependency_has_a_reason() -> None:
    found = reasons()
    assert len(found) > 20
    assert {name for name, why in found.items() if not why} == set()
