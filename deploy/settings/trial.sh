# Runs in the trial's container each time it comes up: the bucket, its marker, and a dry run.
set -eu
python - <<'PYTHON'
import os

import boto3
import yaml

with open(os.environ["FILEJOBS_CONFIG"], encoding="utf-8") as file:
    bucket = yaml.safe_load(file)["buckets"]["uploads"]
storage = boto3.client("s3", endpoint_url=bucket["endpoint_url"])
if bucket["bucket"] not in [each["Name"] for each in storage.list_buckets()["Buckets"]]:
    storage.create_bucket(Bucket=bucket["bucket"])
PYTHON
filejobs bucket adopt uploads
filejobs run upload_reservations
