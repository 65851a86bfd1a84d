"""What the users of a Directus did with its library of files, and what went wrong."""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path
from typing import Any

import boto3
import psycopg
from botocore.config import Config

BUCKET, WORK = os.environ["S3_BUCKET"], Path(os.environ["WORK"])
PACKAGES = Path(sys.argv[1])
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    PORT = free.getsockname()[1]
SERVER = f"http://127.0.0.1:{PORT}"
PASSWORD = "not-a-secret"
SETTINGS = {
    "HOST": "127.0.0.1",
    "PORT": str(PORT),
    "PUBLIC_URL": SERVER,
    "LOG_LEVEL": "warn",
    "KEY": "key",
    "SECRET": "0" * 40,
    "TELEMETRY": "false",
    "CACHE_ENABLED": "false",
    "DB_CLIENT": "pg",
    "DB_HOST": "127.0.0.1",
    "DB_PORT": os.environ["DATABASE_PORT"],
    "DB_DATABASE": "app",
    "DB_USER": "postgres",
    "DB_PASSWORD": "x",
    "ADMIN_EMAIL": "admin@example.com",
    "ADMIN_PASSWORD": PASSWORD,
    "STORAGE_LOCATIONS": "s3",
    "STORAGE_S3_DRIVER": "s3",
    "STORAGE_S3_BUCKET": BUCKET,
    "STORAGE_S3_KEY": os.environ["S3_KEY"],
    "STORAGE_S3_SECRET": os.environ["S3_SECRET"],
    "STORAGE_S3_REGION": os.environ["S3_REGION"],
    "STORAGE_S3_ROOT": "media",
    "STORAGE_S3_ENDPOINT": os.environ["S3_ENDPOINT"],
    "STORAGE_S3_FORCE_PATH_STYLE": "true",
    "TUS_ENABLED": "true",
    "TUS_CHUNK_SIZE": "5mb",
    "RATE_LIMITER_ENABLED": "false",
    "EXTENSIONS_PATH": str(WORK / "extensions"),
    "WEBSOCKETS_ENABLED": "false",
}

s3 = boto3.client(
    "s3",
    endpoint_url=os.environ["S3_ENDPOINT"],
    config=Config(s3={"addressing_style": "path"}),
)
token = ""


def call(
    method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
) -> tuple[Any, bytes]:
    sent = dict(headers or {})
    if token:
        sent["Authorization"] = f"Bearer {token}"
    if body is not None and not isinstance(body, bytes):
        body, sent["Content-Type"] = json.dumps(body).encode(), "application/json"
    request = urllib.request.Request(SERVER + path, data=body, method=method, headers=sent)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.headers, answer.read()


def data(*told: Any) -> Any:
    return json.loads(call(*told)[1])["data"]


def sql(statement: str, *values: Any) -> list[tuple[Any, ...]]:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def below(prefix: str) -> list[str]:
    found = s3.list_objects_v2(Bucket=BUCKET, Prefix=prefix).get("Contents", [])
    return [entry["Key"] for entry in found]


def family(file: dict[str, Any]) -> list[str]:
    """A file and its variants."""
    return below(f"media/{file['filename_disk'].rsplit('.', 1)[0]}")


def picture(number: int) -> bytes:
    """A PNG of one colour, made by hand: 40 by 30."""
    import struct  # noqa: PLC0415
    import zlib  # noqa: PLC0415

    def chunk(kind: bytes, body: bytes) -> bytes:
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    rows = (b"\0" + bytes((number * 7 % 255, number * 13 % 255, 80)) * 40) * 30
    head = struct.pack(">IIBBBBB", 40, 30, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", head)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def upload(
    name: str, body: bytes, kind: str = "image/png", to: str = "/files", **fields: str
) -> dict[str, Any]:
    edge = uuid.uuid4().hex
    parts = io.BytesIO()
    for field, value in fields.items():
        parts.write(f"--{edge}\r\nContent-Disposition: form-data; name={field}\r\n\r\n".encode())
        parts.write(f"{value}\r\n".encode())
    parts.write(f'--{edge}\r\nContent-Disposition: form-data; name="file"; '.encode())
    parts.write(f'filename="{name}"\r\nContent-Type: {kind}\r\n\r\n'.encode())
    parts.write(body + f"\r\n--{edge}--\r\n".encode())
    method = "POST" if to == "/files" else "PATCH"
    header = {"Content-Type": f"multipart/form-data; boundary={edge}"}
    made: dict[str, Any] = data(method, to, parts.getvalue(), header)
    return made


def look(file: dict[str, Any]) -> None:
    """Pages ask for a file in some sizes; each becomes an object."""
    for how in ("width=10", "width=8&height=8&fit=cover", "width=9&format=webp"):
        call("GET", f"/assets/{file['id']}?{how}")


def resumable(name: str, size: int, sent: int) -> None:
    def encoded(text: str) -> str:
        return base64.b64encode(text.encode()).decode()

    said = {"filename_download": name, "type": "application/octet-stream", "storage": "s3"}
    told = ",".join(f"{what} {encoded(value)}" for what, value in said.items())
    protocol = {"Tus-Resumable": "1.0.0"}
    begun, _ = call(
        "POST",
        "/files/tus",
        b"",
        {**protocol, "Upload-Length": str(size), "Upload-Metadata": told},
    )
    where, body, offset = begun["Location"].removeprefix(SERVER), os.urandom(size), 0
    kind = {"Content-Type": "application/offset+octet-stream"}
    while offset < sent:
        part = body[offset : min(offset + 5 * 1024**2, sent)]
        call("PATCH", where, part, {**protocol, **kind, "Upload-Offset": str(offset)})
        offset += len(part)


def use() -> None:
    global token  # noqa: PLW0603
    login = {"email": "admin@example.com", "password": PASSWORD}
    token = data("POST", "/auth/login", login)["access_token"]
    files = [upload(f"picture {number}.png", picture(number)) for number in range(14)]
    papers = [
        upload(f"paper{number}.pdf", b"%PDF " + bytes([65 + number]) * 50, "application/pdf")
        for number in range(4)
    ]
    for file in files:
        look(file)
    look(upload("own.png", picture(40), filename_disk="logo-main.png"))
    # By its own doors it cleans up by itself.
    upload("new.png", picture(30), to=f"/files/{files[0]['id']}")
    call("DELETE", f"/files/{files[2]['id']}")
    call("POST", "/collections", ARTICLE)
    relation = {"collection": "article", "field": "cover", "related_collection": "directus_files"}
    call("POST", "/relations", relation)
    body = f'<img src="{SERVER}/assets/{files[5]["id"]}?width=10">'
    call("POST", "/items/article", {"cover": files[4]["id"], "body": body, "status": "archived"})

    dead = {"the row was deleted by SQL": [*family(files[3]), *family(papers[0])]}
    for file in (files[3], papers[0]):
        sql("DELETE FROM directus_files WHERE id = %s", file["id"])
    temporary = f"media/temp_{files[6]['filename_disk']}"
    crashed = [f"media/{uuid.uuid4()}.png" for _ in range(2)]
    for key in (temporary, *crashed):
        s3.put_object(Bucket=BUCKET, Key=key, Body=picture(60))
    dead["a replacement that died"] = [temporary]
    dead["a crash before the row"] = crashed

    resumable("whole.bin", 7_000_000, 7_000_000)
    for number, sent in enumerate((5 * 1024**2, 5 * 1024**2, 0)):
        resumable(f"half{number}.bin", 12_000_000, sent)
    half = sql(
        "SELECT 'media/' || filename_disk FROM directus_files WHERE tus_id IS NOT NULL"
        " AND (tus_data->>'size')::bigint IS DISTINCT FROM (tus_data->>'offset')::bigint"
    )
    reservations = {"a resumable upload that never ended": [key for (key,) in half]}
    said = {"orphans": dead, "reservations": reservations}
    (WORK / "dead.json").write_text(json.dumps(said))


ARTICLE = {
    "collection": "article",
    "schema": {},
    "meta": {},
    "fields": [
        {
            "field": "id",
            "type": "integer",
            "schema": {"is_primary_key": True, "has_auto_increment": True},
            "meta": {"hidden": True},
        },
        {
            "field": "cover",
            "type": "uuid",
            "schema": {},
            "meta": {"interface": "file-image", "special": ["file"]},
        },
        {"field": "body", "type": "text", "meta": {"interface": "input-rich-text-html"}},
        {"field": "status", "type": "string", "schema": {}},
    ],
}


def serve() -> subprocess.Popen[bytes]:
    (WORK / "extensions").mkdir()
    (WORK / "package.json").write_text("{}")
    # What runs the scripts of flows would have to be built. There is no flow here.
    unbuilt = PACKAGES / "node_modules/isolated-vm/out/isolated_vm.js"
    unbuilt.parent.mkdir(exist_ok=True)
    unbuilt.write_text("exports.ivm = {};\n")
    command = ["node", str(PACKAGES / "node_modules/directus/cli.js")]
    environment = {**os.environ, **SETTINGS}
    subprocess.run([*command, "bootstrap"], check=True, env=environment, cwd=WORK)
    process = subprocess.Popen([*command, "start"], env=environment, cwd=WORK)
    for _ in range(240):
        try:
            with urllib.request.urlopen(f"{SERVER}/server/ping"):
                return process
        except OSError:
            time.sleep(1)
    raise SystemExit("the server did not start")


server = serve()
try:
    use()
finally:
    server.terminate()
    server.wait()
