"""What the users of an MLflow server did with runs, models and traces, and what went wrong."""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

BUCKET, WORK = os.environ["S3_BUCKET"], Path(os.environ["WORK"])
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    SERVER = f"http://127.0.0.1:{free.getsockname()[1]}"
os.environ |= {
    "MLFLOW_S3_ENDPOINT_URL": os.environ["S3_ENDPOINT"],
    "MLFLOW_TRACKING_URI": SERVER,
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}

import boto3
import mlflow
import mlflow.pyfunc
import psycopg2
from botocore.config import Config

s3 = boto3.client(
    "s3",
    endpoint_url=os.environ["S3_ENDPOINT"],
    config=Config(s3={"addressing_style": "path"}),
)
STORE = os.environ["DATABASE_URL"].replace("postgresql://", "postgresql+psycopg2://")
client = mlflow.MlflowClient()


class Echo(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input, params=None):
        return model_input


def listed():
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    return [entry["Key"] for page in pages for entry in page.get("Contents", [])]


def run(experiment, number):
    made = client.create_run(experiment).info.run_id
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "sub").mkdir()
        for name in ("file 0.txt", "sub/file 1.txt", "sub/file 2.txt"):
            Path(folder, name).write_text(f"run {number}, {name}")
        client.log_artifacts(made, folder)
    client.set_terminated(made)
    return made


def use():
    first, second = client.create_experiment("first"), client.create_experiment("second")
    custom = client.create_experiment("custom", artifact_location=f"s3://{BUCKET}/own/custom")
    runs = [run(first, number) for number in range(6)]
    runs += [run(second, number) for number in range(3)] + [
        run(custom, number) for number in (1, 2)
    ]

    mlflow.set_experiment("first")
    with mlflow.start_run():
        mlflow.pyfunc.log_model(
            name="model",
            python_model=Echo(),
            registered_model_name="registered",
            pip_requirements=["mlflow"],
        )
    mlflow.set_experiment("second")
    with mlflow.start_span("asked") as span:
        span.set_inputs({"a": 1})
    mlflow.flush_trace_async_logging()
    time.sleep(3)

    client.delete_run(runs[0])  # into the bin: it may come back
    dead = {"a run was purged and its files were not": [it for it in listed() if runs[1] in it]}
    with psycopg2.connect(os.environ["DATABASE_URL"]) as connection:
        cursor = connection.cursor()
        for table in ("latest_metrics", "metrics", "params", "tags", "runs"):
            cursor.execute(f"delete from {table} where run_uuid = %s", [runs[1]])
    never = f"mlruns/{first}/{'0' * 32}/artifacts/x.txt"
    s3.put_object(Bucket=BUCKET, Key=never, Body=b"x")
    dead["a run that never was"] = [never]
    (WORK / "dead.json").write_text(json.dumps({"orphans": dead}))


def serve():
    """The server that puts artefacts into the bucket by itself, as `mlflow server` is set up."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mlflow", "server", "--port", SERVER.rpartition(":")[2]]
        + ["--backend-store-uri", STORE, "--workers", "1"]
        + ["--artifacts-destination", f"s3://{BUCKET}/mlruns"],
        cwd=WORK,
        start_new_session=True,
    )
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"{SERVER}/health"):
                return process
        except OSError:
            time.sleep(1)
    raise SystemExit("the server did not start")


process = serve()
try:
    use()
finally:
    os.killpg(process.pid, 15)
    process.wait()
