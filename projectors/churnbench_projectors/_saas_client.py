"""The client of the SaaS: whole listings at one cut, within the service's limits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from types import SimpleNamespace, TracebackType
from typing import Any, NamedTuple, Self
from zlib import crc32

import aiohttp
import msgspec
import numpy as np
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type, stop_after_attempt

from churnbench.cuts import Cut
from churnbench.errors import NotFoundError, SourceUnavailableError, UsageError
from churnbench.sources import Listing
from churnbench_projectors._saas_pace import Pace, RequestBudget
from churnbench_projectors._saas_wire import CLIENT, LATENCY, PACE, VIRTUAL_TIME, ApiError, Page

__all__ = ["ClientOptions", "SaasClient"]


class ClientOptions(msgspec.Struct, frozen=True):
    """How a client behaves.

    Attributes:
        requests: most requests in any `window_seconds`.
        window_seconds: length of that window.
        page_size: items to ask for at once.
        attempts: how often one request is sent before the source counts as unavailable.
        restarts: how often a listing is begun anew because its cut was gone.
        backoff_seconds: bound of the first random wait after a failure; it doubles with each attempt.
        most_backoff_seconds: largest bound.
        timeout_seconds: wall-clock seconds that one request may take.
        cached_listings: how many listings are kept for their ETag.
    """

    requests: int = 60
    window_seconds: float = 60.0
    page_size: int = 500
    attempts: int = 6
    restarts: int = 3
    backoff_seconds: float = 0.5
    most_backoff_seconds: float = 20.0
    timeout_seconds: float = 60.0
    cached_listings: int = 32


class _FailedError(Exception):
    """An attempt that may be repeated, after `wait` seconds if the server said so."""

    def __init__(self, why: str, wait: float | None = None) -> None:
        super().__init__(why)
        self.wait = wait


class _GoneError(Exception):
    """The listing's cut is no longer kept."""


class _Spent:
    """What a listing has cost so far."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0


class _Answer(NamedTuple):
    page: Page | None
    etag: str | None


_page_decoder = msgspec.json.Decoder(Page)
_error_decoder = msgspec.json.Decoder(ApiError)


async def _send_once(session: aiohttp.ClientSession, context: SimpleNamespace, params: object) -> None:
    # aiohttp sends a GET again when its connection breaks, which the budget would not see. Each sending
    # makes a connection, because none is kept.
    if getattr(context, "sent", False):
        raise aiohttp.ClientConnectionError("the connection broke")
    context.sent = True


class SaasClient:
    """Implements `churnbench.sources.SaasSource`; an async context manager, to be shared by all readers of a run.

    A request that the rate limit refuses is sent again after the stated wait; one that fails (status 5xx, no or a
    broken answer) after a random wait that doubles. A listing whose first page is unchanged is not read again.

    Args:
        url: base address of the service.
        pace: the server's pace, of the same kind.
        client: name that the rate limit goes by: the run's id.
        options: limits and retries.
    """

    def __init__(self, url: str, pace: Pace, client: str, options: ClientOptions | None = None) -> None:
        self.url = url.rstrip("/")
        self.options = options or ClientOptions()
        self._pace = pace
        self._name = client
        self._budget = RequestBudget(pace, self.options.requests, self.options.window_seconds)
        # Jitter must differ between clients and be the same in a repeated run.
        self._jitter = np.random.default_rng(crc32(client.encode()))
        self._cached: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], tuple[str, Listing]] = OrderedDict()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections; a later listing opens them again."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def list(self, resource: str, filters: Mapping[str, str]) -> Listing:
        """See `SaasSource.list`.

        Raises:
            UsageError: the service runs at another pace, or refuses the request for another reason.
        """
        spent = _Spent()
        for _ in range(self.options.restarts + 1):
            try:
                return await self._listing(resource, filters, spent)
            except _GoneError:
                continue
        raise SourceUnavailableError(
            f"the SaaS changed under the listing of {resource} {self.options.restarts + 1} times; "
            "list less at once or ask again"
        )

    async def _listing(self, resource: str, filters: Mapping[str, str], spent: _Spent) -> Listing:
        key = (resource, tuple(sorted(filters.items())))
        known = self._cached.get(key)
        query = {**filters, "page_size": str(self.options.page_size)}
        first = await self._get(resource, query, known[0] if known else None, spent)
        if first.page is None:
            if known is None:
                raise SourceUnavailableError(f"the SaaS says that {resource} is unchanged, which was not asked")
            self._cached.move_to_end(key)
            return known[1]._replace(items=[*known[1].items], calls=spent.calls, seconds=spent.seconds)
        items: list[dict[str, Any]] = list(first.page.items)
        following, cut = first.page.next, Cut(first.page.cut.positions, first.page.at)
        while following is not None:
            page = (await self._get(resource, {**query, "cursor": following}, None, spent)).page
            if page is None or page.cut != cut or page.at != cut.at_ms:
                raise _GoneError
            items.extend(page.items)
            following = page.next
        if first.etag is not None:
            self._cached[key] = (first.etag, Listing([*items], cut, 0, 0.0))
            self._cached.move_to_end(key)
            while len(self._cached) > self.options.cached_listings:
                self._cached.popitem(last=False)
        return Listing(items, cut, spent.calls, spent.seconds)

    async def _get(self, resource: str, query: Mapping[str, str], etag: str | None, spent: _Spent) -> _Answer:
        async def sleep(seconds: float) -> None:
            await self._pace.sleep(seconds)
            spent.seconds += seconds

        try:
            async for attempt in AsyncRetrying(
                sleep=sleep,
                wait=self._wait,
                stop=stop_after_attempt(self.options.attempts),
                retry=retry_if_exception_type(_FailedError),
                reraise=True,
            ):
                with attempt:
                    return await self._attempt(resource, query, etag, spent)
        except _FailedError as failed:
            raise SourceUnavailableError(
                f"the SaaS at {self.url} did not list {resource} in {self.options.attempts} attempts, "
                f"at last because {failed}; see whether it runs, then ask again"
            ) from failed
        raise AssertionError("unreachable")

    def _wait(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        if isinstance(error, _FailedError) and error.wait is not None:
            return error.wait
        bound = min(self.options.most_backoff_seconds, self.options.backoff_seconds * 2 ** (state.attempt_number - 1))
        return float(self._jitter.uniform(0, bound))

    async def _attempt(self, resource: str, query: Mapping[str, str], etag: str | None, spent: _Spent) -> _Answer:
        spent.seconds += await self._budget.begin()
        spent.calls += 1
        begun = self._pace.now()
        latency: float | None = None
        try:
            status, headers, body = await self._send(resource, query, etag)
            latency = self._account(headers)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise _FailedError(f"the connection failed ({type(error).__name__}: {error})") from error
        finally:
            self._budget.end()
            spent.seconds += latency if latency is not None else self._pace.now() - begun
        return self._read(status, headers, body)

    async def _send(
        self, resource: str, query: Mapping[str, str], etag: str | None
    ) -> tuple[int, Mapping[str, str], bytes]:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=self.options.timeout_seconds)
            trace = aiohttp.TraceConfig()
            trace.on_connection_create_start.append(_send_once)
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(force_close=True),
                timeout=timeout,
                headers={CLIENT: self._name},
                trace_configs=[trace],
            )
        headers = {}
        if etag is not None:
            headers["If-None-Match"] = etag
        if self._pace.name == "virtual":
            headers[VIRTUAL_TIME] = repr(self._pace.now())
        url = f"{self.url}/v1/{resource}"
        async with self._session.get(url, params=query, headers=headers, allow_redirects=False) as response:
            return response.status, response.headers, await response.read()

    def _account(self, headers: Mapping[str, str]) -> float | None:
        """Moves virtual time by what the request took; the seconds, or None where the real clock counts them."""
        pace = headers.get(PACE)
        if pace is not None and pace != self._pace.name:
            raise UsageError(
                f"the SaaS at {self.url} runs at a {pace} pace, this client at a {self._pace.name} one; "
                "set saas_latency alike for both"
            )
        if self._pace.name == "real":
            return None
        try:
            self._pace.reach(float(headers.get(VIRTUAL_TIME, "0")))
            return float(headers.get(LATENCY, "0"))
        except ValueError:
            return 0.0

    def _read(self, status: int, headers: Mapping[str, str], body: bytes) -> _Answer:
        if status == 200:
            try:
                return _Answer(_page_decoder.decode(body), headers.get("ETag"))
            except msgspec.DecodeError as error:
                raise _FailedError(f"its answer is broken ({error})") from error
        if status == 304:
            return _Answer(None, headers.get("ETag"))
        try:
            problem = _error_decoder.decode(body).error
            code, message = problem.code, problem.message
        except msgspec.DecodeError:
            code, message = "", f"status {status}"
        if status == 429:
            try:
                wait = max(0.0, float(headers.get("Retry-After", "")))
            except ValueError:
                wait = self.options.window_seconds
            raise _FailedError(message, wait)
        if status >= 500:
            raise _FailedError(message)
        if status == 410:
            raise _GoneError
        if status == 404 or code == "unknown_filter":
            raise NotFoundError(f"the SaaS refuses: {message}")
        raise UsageError(f"the SaaS at {self.url} refuses the request: {message}")
