"""The SaaS: a slow, rate-limited REST service over the projected tables, on loopback.

`GET /v1/{resource}?{filters}&page_size=N&cursor=C` answers `{"items", "next", "cut", "at"}`: a page of the items
ordered by id, the cursor of the next page (null: this is the last), the cut that they are of, and the view's time in
milliseconds (null: no event yet). All pages of one listing are of the cut of its first; once that is no longer kept,
a cursor of it is 410. Errors are `{"error": {"code", "message"}}`.
"""

from __future__ import annotations

import hashlib
import logging
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from types import TracebackType
from typing import Self

import msgspec
from aiohttp import web

from churnbench.errors import NotFoundError, UsageError
from churnbench_projectors._saas_pace import Pace, SlidingWindow, VirtualPace
from churnbench_projectors._saas_projector import SaasProjector, Snapshot
from churnbench_projectors._saas_wire import (
    CLIENT,
    LATENCY,
    PACE,
    VIRTUAL_TIME,
    ApiError,
    Cursor,
    ErrorBody,
    Page,
    SaasLimits,
)

__all__ = ["SaasServer"]

_log = logging.getLogger(__name__)

_CONTROLS = ("page_size", "cursor")
_MOST_CLIENTS = 1024


class _Client:
    """What the server knows of a client: its pace and the requests it made."""

    def __init__(self, pace: Pace, limits: SaasLimits) -> None:
        self.pace = pace
        self.window = SlidingWindow(limits.requests, limits.window_seconds)


_encoder = msgspec.json.Encoder()


def _problem(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    body = _encoder.encode(ApiError(ErrorBody(code, message)))
    return web.Response(status=status, body=body, content_type="application/json", headers=headers)


class _Refused(Exception):  # noqa: N818 - becomes an answer, not an error
    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.response = _problem(status, code, message)


class SaasServer:
    """Serves a `SaasProjector` over HTTP; an async context manager.

    Clients are told apart by the header `X-Client`, else by their address. At a virtual pace each client has a time
    of its own, in seconds, which it states in `X-Virtual-Time` and which the server moves by the latency and sends
    back; at any pace `X-Latency` says what the request took and `X-Pace` which pace it is.

    Args:
        projector: whose view is served.
        pace: `RealPace` waits the latency, `VirtualPace` only accounts it.
        limits: latency, rate and page sizes.
        host: address to listen on.
        port: port to listen on; 0: a free one.
    """

    def __init__(
        self,
        projector: SaasProjector,
        pace: Pace,
        limits: SaasLimits | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self.projector = projector
        self.limits = limits or SaasLimits()
        self._pace = pace
        self._host = host
        self._port = port
        self._clients: OrderedDict[str, _Client] = OrderedDict()
        self._pinned: OrderedDict[tuple[str, str], Snapshot] = OrderedDict()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """The base address, without a slash at its end.

        Raises:
            UsageError: the server is not started.
        """
        if self._runner is None or not self._runner.addresses:
            raise UsageError("the SaaS is not started; enter `async with SaasServer(...)` first")
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    async def start(self) -> None:
        """Listens; a second start does nothing.

        Raises:
            UsageError: the address cannot be listened on.
        """
        if self._runner is not None:
            return
        app = web.Application(middlewares=[self._json_errors])
        app.router.add_get("/v1/{resource}", self._list, allow_head=False)
        app.router.add_get("/healthz", self._healthz, allow_head=False)
        app.router.add_get("/readyz", self._readyz, allow_head=False)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except OSError as error:
            await runner.cleanup()
            raise UsageError(
                f"the SaaS cannot listen on {self._host} port {self._port}: {error.strerror}; choose port 0"
            ) from error
        self._runner = runner

    async def close(self) -> None:
        """Stops listening and ends open requests; the view stays."""
        if self._runner is not None:
            runner, self._runner = self._runner, None
            await runner.cleanup()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @web.middleware
    async def _json_errors(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        try:
            return await handler(request)
        except web.HTTPMethodNotAllowed as error:
            allowed = ", ".join(sorted(error.allowed_methods))
            message = f"{request.method} is not allowed on {request.path}; allowed: {allowed}"
            return _problem(405, "method_not_allowed", message, {"Allow": allowed})
        except web.HTTPNotFound:
            message = f"nothing is at {request.path}; there are /v1/{{resource}}, /healthz and /readyz"
            return _problem(404, "not_found", message)
        except web.HTTPException as error:
            return _problem(error.status, "refused", error.reason)
        except Exception as error:
            _log.exception("GET %s failed", request.path_qs)
            return _problem(500, "internal", f"{type(error).__name__}: {error}")

    async def _healthz(self, request: web.Request) -> web.Response:
        return web.Response(body=b'{"status":"ok"}', content_type="application/json")

    async def _readyz(self, request: web.Request) -> web.Response:
        if self.projector.position.events == 0:
            return _problem(503, "not_ready", "no event is applied yet; ask again later")
        return web.Response(body=b'{"status":"ready"}', content_type="application/json")

    async def _list(self, request: web.Request) -> web.Response:
        client = self._client(request)
        wait = client.window.admit(client.pace.now())
        if wait > 0:
            message = (
                f"more than {self.limits.requests} requests in {self.limits.window_seconds:g} seconds; "
                f"wait {wait:.1f} seconds"
            )
            response = _problem(429, "rate_limited", message, {"Retry-After": str(math.ceil(wait))})
            self._stamp(response, client, 0.0)
            return response
        await client.pace.sleep(self.limits.latency_seconds)
        try:
            response = self._page(request)
        except _Refused as refused:
            response = refused.response
        self._stamp(response, client, self.limits.latency_seconds)
        return response

    def _client(self, request: web.Request) -> _Client:
        key = request.headers.get(CLIENT) or request.remote or ""
        client = self._clients.get(key)
        if client is None:
            pace: Pace = VirtualPace() if self._pace.name == "virtual" else self._pace
            client = self._clients[key] = _Client(pace, self.limits)
            if len(self._clients) > _MOST_CLIENTS:
                self._clients.popitem(last=False)
        self._clients.move_to_end(key)
        try:
            stated = float(request.headers.get(VIRTUAL_TIME, "0"))
        except ValueError:
            stated = 0.0
        if math.isfinite(stated):
            client.pace.reach(stated)
        return client

    def _stamp(self, response: web.Response, client: _Client, latency: float) -> None:
        response.headers[PACE] = self._pace.name
        response.headers[LATENCY] = repr(latency)
        if self._pace.name == "virtual":
            response.headers[VIRTUAL_TIME] = repr(client.pace.now())

    def _page(self, request: web.Request) -> web.Response:
        resource = request.match_info["resource"]
        declared = self.projector.resources.get(resource)
        if declared is None:
            known = ", ".join(sorted(self.projector.resources))
            raise _Refused(404, "unknown_resource", f"no resource {resource!r}; known: {known}")
        filters: dict[str, str] = {}
        controls: dict[str, str] = {}
        for name, value in request.query.items():
            target = controls if name in _CONTROLS else filters
            if name in target:
                raise _Refused(400, "repeated_parameter", f"{name!r} is given more than once")
            if target is filters and name not in declared.filters:
                known = ", ".join((*declared.filters, *_CONTROLS))
                raise _Refused(400, "unknown_filter", f"{resource} has no filter {name!r}; known: {known}")
            target[name] = value
        size = self._page_size(controls.get("page_size"))
        query = hashlib.blake2b(_encoder.encode([resource, sorted(filters.items())]), digest_size=8).hexdigest()
        cursor = self._cursor(controls.get("cursor"), query)
        snapshot = self._snapshot(cursor, query, resource, filters)
        stop = cursor.offset + size
        following = None
        if stop < len(snapshot.items):
            following = Cursor(cursor.version, query, stop).text()
        page = Page(snapshot.items[cursor.offset : stop], following, snapshot.cut, snapshot.cut.at_ms)
        body = _encoder.encode(page)
        etag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if _matches(request.headers.get("If-None-Match"), etag):
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, content_type="application/json", headers=headers)

    def _page_size(self, text: str | None) -> int:
        if text is None:
            return self.limits.page_size
        if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= self.limits.most_page_size):
            raise _Refused(400, "bad_page_size", f"page_size is 1 to {self.limits.most_page_size}, not {text[:40]!r}")
        return int(text)

    def _cursor(self, text: str | None, query: str) -> Cursor:
        if text is None:
            return Cursor(self.projector.version, query, 0)
        try:
            cursor = Cursor.parse(text)
        except ValueError as error:
            raise _Refused(400, "bad_cursor", f"{error}; start anew without a cursor") from None
        if cursor.query != query:
            raise _Refused(400, "bad_cursor", "the cursor is of another query; repeat the one that gave it")
        return cursor

    def _snapshot(self, cursor: Cursor, query: str, resource: str, filters: Mapping[str, str]) -> Snapshot:
        key = (cursor.version, query)
        found = self._pinned.get(key)
        if found is None:
            if cursor.version != self.projector.version:
                raise _Refused(410, "cut_gone", "the cut of this listing is no longer kept; start it anew")
            try:
                found = self._pinned[key] = self.projector.snapshot(resource, filters)
            except NotFoundError as error:
                raise _Refused(400, "refused", str(error)) from error
        self._pinned.move_to_end(key)
        held = sum(len(snapshot.items) for snapshot in self._pinned.values())
        while len(self._pinned) > 1 and (
            len(self._pinned) > self.limits.pinned_listings or held > self.limits.pinned_items
        ):
            _, dropped = self._pinned.popitem(last=False)
            held -= len(dropped.items)
        return found


def _matches(header: str | None, etag: str) -> bool:
    if header is None:
        return False
    return header.strip() == "*" or etag in [tag.strip().removeprefix("W/") for tag in header.split(",")]
