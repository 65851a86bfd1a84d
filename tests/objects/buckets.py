"""Settings of a bucket, as small as the code under test lets them be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Revealed:
    value: str

    def reveal(self) -> str:
        return self.value


@dataclass(frozen=True)
class BucketForTests:
    """Satisfies what `make_client` and `Gate` ask of the settings."""

    endpoint_url: str | None
    bucket: str = "unused"
    region: str | None = "us-east-1"
    access_key_id: Revealed | None = Revealed("key-for-tests")
    secret_access_key: Revealed | None = Revealed("value-for-tests")
    session_token: Revealed | None = None
    addressing: Literal["auto", "path", "virtual"] = "path"
    content_md5: bool = False
    max_attempts: int = 1
    owns: Sequence[str] = ("files/",)
    owns_whole_bucket: bool = False
    protect: Sequence[str] = ()
    marker: str = "filejobs-adopted.json"
