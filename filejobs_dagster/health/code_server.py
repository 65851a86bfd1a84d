"""The code server: the health service that every gRPC server of Dagster answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

# No stubs are shipped with it.
import grpc  # type: ignore[import-untyped]

from filejobs_dagster.health.answer import no, yes

if TYPE_CHECKING:
    from datetime import timedelta

    from filejobs_dagster.health.answer import Answer

_METHOD = "/grpc.health.v1.Health/Check"
_SERVICE = b"DagsterApi"

# The messages of grpc.health.v1, each with one field of number 1: the name of the service in the
# request, the status in the answer. Spelled out, they need no compiled schema to be imported.
_REQUEST = b"\x0a" + bytes([len(_SERVICE)]) + _SERVICE
_SERVING = b"\x08\x01"


def code_server(host: str, port: int, timeout: timedelta) -> Answer:
    """Ask whether a code server serves; it does not answer while it loads its definitions."""
    where = f"code server at {host}:{port}"
    with grpc.insecure_channel(f"{host}:{port}") as channel:
        check = channel.unary_unary(_METHOD, lambda message: message, lambda message: message)
        try:
            answer = check(_REQUEST, timeout=timeout.total_seconds())
        except grpc.RpcError as error:
            status = error.code().name if isinstance(error, grpc.Call) else type(error).__name__
            return no(f"{where} does not answer: {status}")
    if answer == _SERVING:
        return yes(f"{where} serves")
    return no(f"{where} answers that it does not serve")
