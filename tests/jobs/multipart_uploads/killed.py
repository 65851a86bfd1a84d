"""Runs the job in a process of its own, so that a test can kill it: FOLDER DATABASE_URL ADDRESS."""

from __future__ import annotations

import sys
from pathlib import Path

from filejobs_dagster.objects.client import make_client
from tests.installation import Installation
from tests.jobs.multipart_uploads.conftest import BUCKET, Sweeper
from tests.objects.buckets import BucketForTests


def main() -> None:
    """One live run; the bucket is adopted already."""
    folder, database_url, address = sys.argv[1:]
    client = make_client(BucketForTests(endpoint_url=address))
    installation = Installation(Path(folder), database_url, BUCKET, client, address)
    sweep = Sweeper(installation, client, adopted=False)
    outcome = sweep(batch_size=2)
    sys.exit(0 if outcome.ok else 1)


if __name__ == "__main__":
    main()
