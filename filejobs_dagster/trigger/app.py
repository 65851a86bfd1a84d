"""The ASGI app: from a request to an answer that tells a status and times, nothing else."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
from anyio import to_thread
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Route

from filejobs_dagster.trigger.reporting import RUN_NAME, SAID, Report
from filejobs_dagster.trigger.tokens import KnownTokens, TokenHolder

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from filejobs_dagster.ledger.outcome import Mode
    from filejobs_dagster.trigger.starting import Answer, Status

Starting = Callable[[TokenHolder, str, "Mode | None"], "Answer"]
Reporting = Callable[[TokenHolder, str, Report], "Answer"]
Describe = Callable[[Exception], str]

LONGEST_BODY = 4096
"""Bytes."""

BODY_WITHIN = 10
"""Seconds in which the body must have arrived."""

AT_ONCE = 8
"""Requests that may wait for a start; more are told to come back."""

COME_BACK = 30
"""Seconds, for whoever met a database or a code server that is away."""

LONGEST_SHOWN_PATH = 200
"""Characters of a path in the access log."""

HEALTH = "/healthz"

_CODES: dict[Status, int] = {
    "queued": 202,
    "at work": 409,
    "too often": 429,
    "unknown job": 404,
    "not allowed": 403,
    "recorded": 200,
    "recorded before": 409,
}

_UNKNOWN = {"status": "unknown"}

log = logging.getLogger("filejobs.trigger")


class NotUnderstood(Exception):
    """The body is not what a start takes; carries the code of the answer."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def build_app(
    tokens: KnownTokens, start: Starting, describe: Describe, report: Reporting | None = None
) -> Starlette:
    """The app.

    Args:
        tokens: Whoever may ask.
        start: Starts a job; called in a thread.
        describe: An error without secrets, for the log.
        report: Takes what something else says of a job that it runs; called in a thread.
    """
    endpoint = _Starts(start, describe, report)
    app = Starlette(
        routes=[
            Route(HEALTH, _healthy, methods=["GET"]),
            Route("/jobs/{job}/runs", endpoint.answer, methods=["POST"]),
            Route("/jobs/{job}/reports", endpoint.take_report, methods=["POST"]),
        ],
        middleware=[Middleware(_Logged), Middleware(_Authenticated, tokens=tokens)],
        exception_handlers={404: _unknown_path, 405: _wrong_method},
    )
    # An address that is nearly right is unknown. A redirect would name whatever host the request
    # has named, and a client that follows it would take its token there.
    app.router.redirect_slashes = False
    return app


async def _healthy(request: Request) -> JSONResponse:
    del request
    return _answer(200, {"status": "ok"})


async def _unknown_path(request: Request, error: Exception) -> JSONResponse:
    del request, error
    return _answer(404, _UNKNOWN)


async def _wrong_method(request: Request, error: Exception) -> JSONResponse:
    del error
    allowed = "GET" if request.url.path == HEALTH else "POST"
    return _answer(405, {"status": "refused"}, Allow=allowed)


def _answer(code: int, said: dict[str, Any], **headers: str) -> JSONResponse:
    return JSONResponse(said, code, {"Cache-Control": "no-store", **headers})


class _Starts:
    """`POST /jobs/{job}/runs`."""

    def __init__(self, start: Starting, describe: Describe, report: Reporting | None) -> None:
        self._start = start
        self._report = report
        self._describe = describe
        self._waiting = 0

    async def answer(self, request: Request) -> JSONResponse:
        try:
            asked = _mode_in(await _document(request))
        except NotUnderstood as error:
            return _answer(error.code, {"status": "not understood"})
        return await self._in_a_thread(request, self._start, asked)

    async def take_report(self, request: Request) -> JSONResponse:
        """`POST /jobs/{job}/reports`."""
        if self._report is None:
            return _answer(404, _UNKNOWN)
        try:
            said = _report_in(await _document(request))
        except NotUnderstood as error:
            return _answer(error.code, {"status": "not understood"})
        return await self._in_a_thread(request, self._report, said)

    async def _in_a_thread(
        self, request: Request, act: Callable[[TokenHolder, str, Any], Answer], asked: Any
    ) -> JSONResponse:
        if self._waiting >= AT_ONCE:
            return _unavailable()
        self._waiting += 1
        try:
            holder: TokenHolder = request.scope["holder"]
            found = await to_thread.run_sync(act, holder, request.path_params["job"], asked)
        except Exception as error:  # noqa: BLE001 (whatever it is, the answer must not tell it)
            log.error("A start or report failed: %s", self._describe(error))  # noqa: TRY400 (no traceback)
            return _unavailable()
        finally:
            self._waiting -= 1
        return _said(found)


def _unavailable() -> JSONResponse:
    return _answer(503, {"status": "unavailable"}, **{"Retry-After": str(COME_BACK)})


def _said(found: Answer) -> JSONResponse:
    said: dict[str, Any] = {"status": found.status}
    if found.run_id is not None:
        said["run_id"] = found.run_id
    if found.mode is not None:
        said["mode"] = found.mode
    if found.since is not None:
        said["since"] = found.since.isoformat(timespec="seconds")
    headers = {}
    if found.retry_after is not None:
        said["retry_after_seconds"] = found.retry_after
        headers["Retry-After"] = str(found.retry_after)
    return _answer(_CODES[found.status], said, **headers)


async def _document(request: Request) -> dict[str, Any]:
    """The body; empty where there is none.

    Raises:
        NotUnderstood: It is too long (413), too slow (408), not such a body or broken off (400).
    """
    body = bytearray()
    try:
        with anyio.fail_after(BODY_WITHIN):
            async for piece in request.stream():
                body += piece
                if len(body) > LONGEST_BODY:
                    raise NotUnderstood(413)
    except TimeoutError:
        raise NotUnderstood(408) from None
    except ClientDisconnect:
        raise NotUnderstood(400) from None
    if not body:
        return {}
    try:
        document = json.loads(body, object_pairs_hook=_each_once)
    except (ValueError, RecursionError):
        raise NotUnderstood(400) from None
    if not isinstance(document, dict):
        raise NotUnderstood(400)
    return document


def _mode_in(document: dict[str, Any]) -> Mode | None:
    """The mode that a body names; None where it names none."""
    if not document.keys() <= {"mode"}:
        raise NotUnderstood(400)
    mode = document.get("mode")
    if mode is not None and mode not in ("dry", "live"):
        raise NotUnderstood(400)
    asked: Mode | None = mode
    return asked


def _report_in(document: dict[str, Any]) -> Report:
    """What a body reports."""
    said = document.get("said")
    run, error = document.get("run"), document.get("error")
    counts = [document.get("scanned"), document.get("acted")]
    if (
        not document.keys() <= {"said", "run", "error", "scanned", "acted"}
        or said not in SAID
        or not (run is None or (isinstance(run, str) and RUN_NAME.fullmatch(run)))
        or not (error is None or (isinstance(error, str) and said == "failure"))
        or not all(count is None or _is_count(count) for count in counts)
    ):
        raise NotUnderstood(400)
    return Report(said, run, error, *counts)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose keys differ: of two modes nobody knows which one was meant.

    Raises:
        ValueError: A key stands twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice")
    return found


class _Authenticated:
    """Lets nobody further without a token, before a byte of the body is read."""

    def __init__(self, app: ASGIApp, tokens: KnownTokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not _is_health(scope):
            holder = self._tokens.holder(_authorization(scope))
            if holder is None:
                refused = _answer(401, {"status": "unauthorized"}, **{"WWW-Authenticate": "Bearer"})
                await refused(scope, receive, send)
                return
            scope["holder"] = holder
        await self._app(scope, receive, send)


def _is_health(scope: Scope) -> bool:
    return bool(scope["path"] == HEALTH and scope["method"] in ("GET", "HEAD"))


def _authorization(scope: Scope) -> bytes | None:
    """The one `Authorization` header; with two of them nobody is known."""
    found: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    return found[0] if len(found) == 1 else None


class _Logged:
    """One line for each request: who, what, how it was answered. No header, no query string."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        code = 500

        async def sending(message: Message) -> None:
            nonlocal code
            if message["type"] == "http.response.start":
                code = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, sending)
        finally:
            holder = scope.get("holder")
            client = scope.get("client") or ("-", 0)
            log.info(
                "%s %s %s %s %d %d ms",
                client[0],
                "-" if holder is None else holder.name,
                scope["method"],
                _shown(scope["path"]),
                code,
                round((time.monotonic() - began) * 1000),
            )


def _shown(path: str) -> str:
    """A path on one line, in quotes, bounded."""
    return json.dumps(path[:LONGEST_SHOWN_PATH])
