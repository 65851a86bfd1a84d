"""deploy/proxy, read by the proxies themselves, before a webserver that says what reached it."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.deployment import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.thorough

PROXY = Path(__file__).parents[2] / "deploy" / "proxy"
HOST = "filejobs.example.com"
LOOK = "filejobs-look.example.com"
LOGIN = {"Authorization": f"Basic {base64.b64encode(b'maria:secret').decode()}"}


class Upstream(BaseHTTPRequestHandler):
    """Answers with the port that was asked and the headers that arrived."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        port = self.connection.getsockname()[1]
        body = json.dumps({"port": port, **{k.lower(): v for k, v in self.headers.items()}})
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body.encode())

    do_GET = do_POST = do_HEAD = _answer  # noqa: N815 (as http.server calls them)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def upstream() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Upstream) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def nginx(folder: Path, port: int, ports: tuple[int, int]) -> list[str]:
    """Write the files as the comment in them says, without TLS, and return the command."""
    hashed = subprocess.run(
        ["openssl", "passwd", "-6", "secret"], capture_output=True, text=True, check=True
    ).stdout
    for group in ("operators", "spectators"):
        (folder / f"filejobs.{group}").write_text(f"maria:{hashed}")
    shutil.copy(PROXY / "filejobs-proxy.inc", folder)
    said = (PROXY / "nginx.conf").read_text().replace("/etc/nginx", str(folder))
    said = "\n".join(line for line in said.splitlines() if "ssl_certificate" not in line)
    said = said.replace("listen 443 ssl", f"listen 127.0.0.1:{port}")
    said = said.replace(":3000", f":{ports[0]}").replace(":3001", f":{ports[1]}")
    temporary = "".join(
        f"{kind}_temp_path {folder}/{kind};\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    (folder / "whole.conf").write_text(
        f"daemon off; user root; pid {folder}/pid; error_log {folder}/log; events {{}}\n"
        f"http {{ access_log off;\n{temporary}{said}\n}}\n"
    )
    return ["nginx", "-c", str(folder / "whole.conf"), "-e", str(folder / "log")]


def caddy(folder: Path, port: int, ports: tuple[int, int]) -> list[str]:
    hashed = subprocess.run(
        ["caddy", "hash-password", "--plaintext", "secret"],
        capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    said = (PROXY / "Caddyfile").read_text().replace("$2a$14$replace.this.hash", hashed)
    said = said.replace("guest", "maria").replace(":3000", f":{ports[0]}")
    said = said.replace(":3001", f":{ports[1]}")
    asked = subprocess.run(["caddy", "version"], capture_output=True, text=True, check=True)
    if [int(each) for each in re.findall(r"\d+", asked.stdout)[:2]] < [2, 8]:
        # As the comment in the file says.
        said = said.replace("\tbasic_auth {", "\tbasicauth {")
    for host in (HOST, LOOK):
        said = said.replace(f"\n{host} {{", f"\nhttp://{host}:{port} {{")
    (folder / "Caddyfile").write_text(f"{{\n\tadmin off\n\tauto_https off\n}}\n{said}")
    return ["caddy", "run", "--config", str(folder / "Caddyfile")]


def require(program: str) -> None:
    """Skip where the proxy is not installed, or fail where that was promised."""
    if shutil.which(program) is None:
        reason = f"{program} is not installed"
        if os.environ.get(f"FILEJOBS_PROMISED_{program.upper()}") == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(params=[nginx, caddy], ids=lambda made: made.__name__, scope="module")
def ask(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., tuple[int, Any]]]:
    """Ask the proxy; the answer's status, and what reached the webserver."""
    made: Callable[[Path, int, tuple[int, int]], list[str]] = request.param
    require(made.__name__)
    folder, port = tmp_path_factory.mktemp(made.__name__), free_port()

    def asked(method: str, path: str, host: str = HOST, **headers: str) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, headers={"Host": host, **named})
        answer = connection.getresponse()
        body = answer.read()
        assert answer.headers["X-Frame-Options"] == "DENY" or answer.status == 401
        connection.close()
        return answer.status, json.loads(body) if answer.status == 200 and body else None

    with upstream() as one, upstream() as other:
        command = made(folder, port, (one, other))
        with (folder / "said").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder)
        try:
            ends = time.monotonic() + 30
            while True:
                assert process.poll() is None, (folder / "said").read_text()
                try:
                    asked("GET", "/server_info")
                    break
                except OSError:
                    assert time.monotonic() < ends
                    time.sleep(0.1)
            yield asked
        finally:
            process.terminate()
            process.wait(20)


@pytest.mark.parametrize("host", [HOST, LOOK])
@pytest.mark.parametrize(
    "path", ["/", "/graphql", "/server_info", "/logs/x/y", "/report_asset_check/x"]
)
def test_nobody_passes_without_logging_in(ask: Any, host: str, path: str) -> None:
    for method in ("GET", "POST", "HEAD"):
        assert ask(method, path, host, Accept="text/html")[0] == 401
    wrong = f"Basic {base64.b64encode(b'maria:guess').decode()}"
    assert ask("GET", path, host, Accept="text/html", Authorization=wrong)[0] == 401


def test_graphql_is_refused_by_get_and_from_other_sites(ask: Any) -> None:
    for path in ("/graphql?query={version}", "//graphql?query={version}", "/graphql/?query=x"):
        for method in ("GET", "HEAD"):
            assert ask(method, path, Accept="image/png", **LOGIN)[0] in (403, 404, 405), path
    for origin in ("https://evil.example.com", "null", f"https://{HOST}.evil.example.com"):
        assert ask("POST", "/graphql", Origin=origin, **LOGIN)[0] == 403
        # A WebSocket is no exception: it begins as a GET, with its page's origin.
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade"}
        assert ask("GET", "/graphql", Origin=origin, **upgrade, **LOGIN)[0] == 403


def test_what_the_web_ui_itself_does_passes(ask: Any) -> None:
    assert ask("POST", "/graphql", Origin=f"https://{HOST}", **LOGIN)[0] == 200
    assert ask("GET", "/graphql", Accept="text/html", **LOGIN)[0] == 200
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": f"https://{HOST}"}
    status, seen = ask("GET", "/graphql", **upgrade, **LOGIN)
    assert (status, seen["upgrade"]) == (200, "websocket")


def test_the_name_that_logged_in_replaces_what_a_client_claims(ask: Any) -> None:
    _, seen = ask("POST", "/graphql", X_Forwarded_User="mallory", **LOGIN)
    assert seen["x-forwarded-user"] == "maria"
    assert "authorization" not in seen


def test_spectators_reach_the_webserver_that_only_reads(ask: Any) -> None:
    ports = {host: ask("GET", "/", host, **LOGIN)[1]["port"] for host in (HOST, LOOK)}
    assert len(set(ports.values())) == 2
