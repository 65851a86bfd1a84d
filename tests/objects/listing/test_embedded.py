"""The embedded server, with real objects."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from filejobs_dagster.objects.listing import list_objects
from filejobs_dagster.objects.listing.ask import Asker
from tests.objects.listing.bucket import keys_of
from tests.objects.odd_keys import ODD_KEYS

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from filejobs_dagster.streams import Scratch


def put(client: S3Client, bucket: str, keys: list[str]) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: client.put_object(Bucket=bucket, Key=key, Body=b"12345"), keys))


def test_objects_are_listed_as_they_are(client: S3Client, bucket: str, scratch: Scratch) -> None:
    keys = [key for key in ODD_KEYS if key.startswith("files/")]
    put(client, bucket, [*keys, "other/x"])
    listed = list_objects(client, bucket, ["files/"], parts=2, scratch=scratch)
    assert keys_of(listed) == sorted(key.encode() for key in keys)
    assert listed.bytes == 5 * len(keys)
    [page] = listed.pages()
    head = client.head_object(Bucket=bucket, Key=keys[0])
    at = page.keys.index(keys[0].encode())
    assert page.etags[at].decode() == head["ETag"].strip('"')
    assert page.modified[at] // 1000 == int(head["LastModified"].timestamp())


def test_pages_follow_each_other(client: S3Client, bucket: str) -> None:
    keys = [f"files/{number:02}" for number in range(12)]
    put(client, bucket, keys)
    asker = Asker(client, bucket)
    texts: list[bytes] = []
    token, more = None, True
    while more:
        answer = asker.ask(b"", token=token, limit=5)
        texts += answer.texts
        token, more = answer.token, answer.truncated
    assert texts == [key.encode() for key in keys]
