"""Finds objects for less than a HEAD through botocore each: by a listing, or by a faster client.

botocore takes 1.7 milliseconds of the processor for one HEAD, which is what a removal spends most
of its time on. A listed entry takes a twentieth of that, and so does a HEAD by obstore, a client in
Rust.

Only what is found counts. A key of which nothing was found is not thereby absent, and nothing that
goes wrong is raised: whoever needs to know asks for it by itself, through botocore, and meets the
same again.
"""

from __future__ import annotations

import os
import os.path
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from filejobs_dagster.objects.client import SECONDS_TO_CONNECT, SECONDS_TO_READ, USER_AGENT
from filejobs_dagster.objects.identity import without_quotes
from filejobs_dagster.objects.targets import needs_single_delete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mypy_boto3_s3 import S3Client
    from obstore.store import ClientConfig, S3Store

    from filejobs_dagster.book.outcomes import Locked

FEWEST_KEYS = 50
"""Below it, a HEAD for each key is as good."""


@dataclass(frozen=True)
class Present:
    """An object, or a version of it, that is there.

    Attributes:
        etag: Without quotes; empty when the server sent none. Compare it by `agreement`.
        size: In bytes.
        modified: None when the server did not say.
        version: The version's identifier; None where the bucket keeps none, or nobody asked.
        lock: What retains it, as far as the server says so in this answer.
    """

    etag: str
    size: int
    modified: datetime | None
    version: str | None = None
    lock: Locked | None = None


def found_for_less(
    client: S3Client, bucket: str, keys: Sequence[str], *, by_listing: bool = True
) -> dict[str, Present]:
    """Return what is there of the keys, as far as that can be had for less than a HEAD each.

    Args:
        client: From `make_client`.
        bucket: The bucket's name.
        keys: Exact keys. Versions and locks are not told.
        by_listing: False where it counts what is there at this moment: some servers keep their
            listing apart from the objects, and it follows them by seconds or minutes.
    """
    if len(keys) < FEWEST_KEYS:
        return {}
    faster = faster_client(client, bucket)
    cost = ENTRIES_PER_HEAD if faster is None or faster.broken else ENTRIES_PER_FASTER_HEAD
    found = found_by_listing(client, bucket, keys, entries_per_head=cost) if by_listing else {}
    others = [key for key in keys if key not in found]
    return found if faster is None else found | faster.found(others)


# By listing, where the keys lie close together: a page brings a thousand of them in one request.
# Where they lie scattered among millions of others that does not pay, so the first page is a small
# one that tells which it is.

FIRST_PAGE = 100
PAGE = 1000

ENTRIES_PER_HEAD = 16
"""How many listed entries take the time of one HEAD, with some room for error."""

ENTRIES_PER_FASTER_HEAD = 2
"""The same of a HEAD by the faster client."""


def found_by_listing(
    client: S3Client, bucket: str, keys: Sequence[str], *, entries_per_head: int = ENTRIES_PER_HEAD
) -> dict[str, Present]:
    """Return those of the keys that a listing names, as far as listing pays."""
    # What XML cannot carry faithfully may come back as another key's name.
    wanted = {key for key in keys if not needs_single_delete(key)}
    if len(wanted) < FEWEST_KEYS:
        return {}
    ordered = sorted(wanted, key=str.encode)
    # Part of the request, because a right to list may reach no further than a prefix.
    prefix = os.path.commonprefix([ordered[0], ordered[-1]])  # noqa: RUF071 (characters are meant)
    found: dict[str, Present] = {}
    after, last, size = ordered[0], ordered[-1].encode(), FIRST_PAGE
    while True:
        try:
            answer = client.list_objects_v2(
                Bucket=bucket, Prefix=prefix, StartAfter=after, MaxKeys=size
            )
        except Exception:  # noqa: BLE001 (whatever it is, the HEAD that follows meets it, too)
            return found
        entries = answer.get("Contents", [])
        hits = {
            entry["Key"]: Present(
                without_quotes(entry.get("ETag", "")),
                entry.get("Size", 0),
                entry.get("LastModified"),
            )
            for entry in entries
            if entry["Key"] in wanted
        }
        found |= hits
        if not answer.get("IsTruncated") or len(hits) * entries_per_head < len(entries):
            return found
        # A server that lists in another order would go round in circles.
        if not entries or not after.encode() < entries[-1]["Key"].encode() < last:
            return found
        after, size = entries[-1]["Key"], PAGE


# By a faster client, one request for each key.
#
# It has addresses, signatures and timeouts of its own. So it is believed only in what it finds: a
# wrong address or key can make an object look absent, and never present with another's ETag and
# time. Its paths have no empty segment, no `.`, `..` or control character, and lose a slash at
# either end (`files/a/` would be asked for as `files/a`): such keys go through botocore.

MOST_IN_FLIGHT = 128
FEWEST_IN_FLIGHT = 8
CREDENTIALS_HOLD = timedelta(minutes=5)
"""Then botocore is asked again, which renews those that are about to end."""

_NO_SEGMENTS = frozenset({"", ".", ".."})


class FasterClient:
    """The faster client beside one of botocore's; how many requests are in flight adapts.

    Attributes:
        broken: True once it could not be used: it is left alone then.
        in_flight: How many requests at once.
    """

    def __init__(self, store: S3Store) -> None:
        self._store = store
        self.in_flight = MOST_IN_FLIGHT
        self.broken = False

    def found(self, keys: Sequence[str]) -> dict[str, Present]:
        """Return what is there of those keys that it can name exactly."""
        asked = [key for key in keys if _is_path(key)]
        if self.broken or len(asked) < FEWEST_KEYS:
            return {}
        # The first one by itself: where nothing can be had, sixty requests need not find it out.
        first = _head(self._store, asked[0])
        self.broken = isinstance(first, Exception)
        if self.broken:
            return {}
        with ThreadPoolExecutor(self.in_flight) as pool:
            answers = [first, *pool.map(lambda key: _head(self._store, key), asked[1:])]
        if any(isinstance(it, Exception) for it in answers):
            self.in_flight = max(FEWEST_IN_FLIGHT, self.in_flight // 2)
        else:
            self.in_flight = min(MOST_IN_FLIGHT, self.in_flight + FEWEST_IN_FLIGHT)
        return {key: it for key, it in zip(asked, answers, strict=True) if isinstance(it, Present)}


_BESIDE: WeakKeyDictionary[S3Client, dict[str, FasterClient | None]] = WeakKeyDictionary()

_USED_BY: set[int] = set()
"""Process ids, this one's and of those that it was forked from."""


def faster_client(client: S3Client, bucket: str) -> FasterClient | None:
    """Return the one beside a client of botocore's; None where there can be none.

    Its threads do not come along with a fork, and would be waited for without end: a process that
    was forked from one that has used it goes through botocore.
    """
    if not _USED_BY.issubset({os.getpid()}):
        return None
    known = _BESIDE.setdefault(client, {})
    if bucket not in known:
        known[bucket] = _beside(client, bucket)
    return known[bucket]


def _head(store: S3Store, key: str) -> Present | Exception | None:
    """Ask for one; None when it says that there is none."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 (a library of five megabytes)

    try:
        answer = store.head(key)
    except FileNotFoundError:
        return None
    except (BaseError, OSError, ValueError) as error:
        return error
    if answer["path"] != key:
        return ValueError(f"asked for {key!r}, it answered of {answer['path']!r}")
    return Present(without_quotes(answer["e_tag"] or ""), answer["size"], answer["last_modified"])


def _is_path(key: str) -> bool:
    return key.isprintable() and _NO_SEGMENTS.isdisjoint(key.split("/"))


def _beside(client: S3Client, bucket: str) -> FasterClient | None:
    """Make one that reaches the bucket as botocore does; None where that cannot be known."""
    try:
        from obstore.store import S3Store  # noqa: PLC0415 (a library of five megabytes)
    except ImportError:
        # There is none for Python 3.10, and none for some platforms.
        return None
    credentials = client._get_credentials()  # type: ignore[attr-defined]  # noqa: SLF001
    if credentials is None:
        return None

    def current() -> Any:
        now = credentials.get_frozen_credentials()
        return {
            "access_key_id": now.access_key,
            "secret_access_key": now.secret_key,
            "token": now.token,
            "expires_at": datetime.now(timezone.utc) + CREDENTIALS_HOLD,
        }

    try:
        # botocore knows where the bucket's name goes: its address of any object tells.
        url = urlsplit(
            client.generate_presigned_url("head_object", Params={"Bucket": bucket, "Key": "k"})
        )
        address = f"{url.scheme}://{url.netloc}"
        options: ClientConfig = {
            "allow_http": url.scheme == "http",
            "connect_timeout": timedelta(seconds=SECONDS_TO_CONNECT),
            "timeout": timedelta(seconds=SECONDS_TO_READ),
            "user_agent": USER_AGENT,
        }
        if authorities := os.environ.get("AWS_CA_BUNDLE"):
            options["root_certificate"] = Path(authorities).read_bytes()
        store = S3Store(
            bucket,
            endpoint=address,
            aws_endpoint_url_s3=address,
            region=client.meta.region_name,
            virtual_hosted_style_request=url.path == "/k",
            credential_provider=current,
            client_options=options,
            # Once: what fails is asked for again through botocore.
            retry_config={"max_retries": 0},
        )
    except Exception:  # noqa: BLE001 (then there is none, and botocore does it)
        return None
    _USED_BY.add(os.getpid())
    return FasterClient(store)
