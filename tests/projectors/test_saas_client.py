"""The SaaS's client: whole listings of one cut, patient and within the limits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web
from hypothesis import given, settings
from hypothesis import strategies as st

from churnbench.clock import SystemClock
from churnbench.cuts import Cut
from churnbench.errors import NotFoundError, SourceUnavailableError, UsageError
from churnbench_projectors._saas_client import ClientOptions, SaasClient
from churnbench_projectors._saas_pace import RealPace, RequestBudget, SlidingWindow, VirtualPace
from churnbench_projectors._saas_projector import SaasProjector
from churnbench_projectors._saas_server import SaasServer
from churnbench_projectors._saas_wire import SaasLimits
from tests.toy import START_MS, TOY, Registered, event

SMALL = ClientOptions(page_size=2)


async def _projector(parcels: int = 5) -> SaasProjector:
    projector = SaasProjector(TOY.saas, 1)
    events = [event(n, START_MS, f"p{n}", Registered("north", 1.0)) for n in range(parcels)]
    await projector.apply(events, Cut({0: parcels - 1}, START_MS))
    return projector


async def test_a_listing_is_every_page_at_one_cut_with_its_calls_and_seconds() -> None:
    projector = await _projector()
    async with (
        SaasServer(projector, VirtualPace()) as server,
        SaasClient(server.url, VirtualPace(), "r", SMALL) as client,
    ):
        listing = await client.list("places", {"depot": "north"})
    assert [item["id"] for item in listing.items] == ["p0", "p1", "p2", "p3", "p4"]
    assert listing.cut == Cut({0: 4})
    assert listing.cut.at_ms == START_MS
    assert (listing.calls, listing.seconds) == (3, pytest.approx(3 * 0.35))


async def test_an_unchanged_listing_is_one_call() -> None:
    projector = await _projector()
    async with (
        SaasServer(projector, VirtualPace()) as server,
        SaasClient(server.url, VirtualPace(), "r", SMALL) as client,
    ):
        first = await client.list("places", {})
        first.items.clear()
        again = await client.list("places", {})
        assert (len(again.items), again.calls, again.cut) == (5, 1, Cut({0: 4}))
        await projector.apply([], Cut({0: 9}))
        moved = await client.list("places", {})
        assert (len(moved.items), moved.calls, moved.cut) == (5, 3, Cut({0: 9}))


async def test_a_client_waits_by_itself_before_the_limit_and_no_real_time_passes() -> None:
    projector = await _projector()
    clock = SystemClock()
    begun = clock.monotonic()
    async with SaasServer(projector, VirtualPace()) as server, SaasClient(server.url, VirtualPace(), "r") as client:
        listings = [await client.list("places", {}) for _ in range(61)]
    assert [listing.calls for listing in listings] == [1] * 61
    assert listings[59].seconds == pytest.approx(0.35)
    assert listings[60].seconds == pytest.approx(60.35 - 60 * 0.35 + 0.35)
    assert clock.monotonic() - begun < 30


async def test_what_another_client_of_the_same_run_used_up_is_waited_for() -> None:
    projector = await _projector()
    async with SaasServer(projector, VirtualPace()) as server:
        async with SaasClient(server.url, VirtualPace(), "r") as other:
            for _ in range(60):
                await other.list("places", {})
        async with SaasClient(server.url, VirtualPace(), "r") as client:
            listing = await client.list("places", {})
    assert (listing.calls, listing.seconds) == (2, pytest.approx(39 + 0.35))


async def test_a_listing_whose_cut_is_gone_is_begun_anew() -> None:
    projector = await _projector()
    async with (
        SaasServer(projector, VirtualPace(), SaasLimits(pinned_listings=1)) as server,
        SaasClient(server.url, VirtualPace(), "other") as other,
        SaasClient(server.url, VirtualPace(), "r", SMALL) as client,
    ):
        positions = iter((5, 6))
        send = client._send

        async def send_after_others(resource, query, etag):
            position = next(positions, None) if "cursor" in query else None
            if position is not None:
                await projector.apply([], Cut({0: position}))
                await other.list("activity", {})
            return await send(resource, query, etag)

        client._send = send_after_others
        listing = await client.list("places", {})
    assert (len(listing.items), listing.cut, listing.calls) == (5, Cut({0: 6}), 2 + 2 + 3)


PAGE = {"items": [{"id": "a"}], "next": None, "cut": {"positions": {"0": 3}, "at": None}, "at": None}


@asynccontextmanager
async def _scripted(*answers: web.Response | None) -> AsyncIterator[tuple[str, list[web.Request]]]:
    """A service that gives the answers in order, the last again and again; None breaks the connection."""
    seen: list[web.Request] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request)
        answer = answers[min(len(seen), len(answers)) - 1]
        if answer is None:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        return web.Response(status=answer.status, body=answer.body, headers=answer.headers)

    app = web.Application()
    app.router.add_get("/v1/{resource}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", seen
    finally:
        await runner.cleanup()


async def test_failures_are_retried_with_growing_waits() -> None:
    broken = web.Response(status=200, text="not json")
    async with (
        _scripted(web.Response(status=503), None, broken, web.json_response(PAGE)) as (url, seen),
        SaasClient(url, VirtualPace(), "r") as client,
    ):
        listing = await client.list("any", {})
    assert (listing.items, listing.calls, len(seen)) == ([{"id": "a"}], 4, 4)
    assert 0 < listing.seconds < 0.5 + 1 + 2


async def test_a_source_that_stays_away_is_unavailable_in_one_line() -> None:
    async with _scripted(web.Response(status=502)) as (url, seen), SaasClient(url, VirtualPace(), "r") as client:
        with pytest.raises(SourceUnavailableError, match=r"did not list any in 6 attempts, at last because status 502"):
            await client.list("any", {})
    assert len(seen) == 6


async def test_nobody_listening_is_unavailable() -> None:
    async with _scripted(None) as (url, _):
        pass
    async with SaasClient(url, VirtualPace(), "r") as client:
        with pytest.raises(SourceUnavailableError, match="connection failed"):
            await client.list("any", {})


async def test_a_listing_that_is_always_gone_is_unavailable() -> None:
    async with _scripted(web.Response(status=410)) as (url, seen), SaasClient(url, VirtualPace(), "r") as client:
        with pytest.raises(SourceUnavailableError, match="changed under the listing of any 4 times"):
            await client.list("any", {})
    assert len(seen) == 4


async def test_unknown_resources_and_filters_are_not_retried() -> None:
    projector = await _projector()
    async with SaasServer(projector, VirtualPace()) as server, SaasClient(server.url, VirtualPace(), "r") as client:
        with pytest.raises(NotFoundError, match="no resource 'parcels'; known: activity, places"):
            await client.list("parcels", {})
        with pytest.raises(NotFoundError, match="no filter 'color'"):
            await client.list("places", {"color": "red"})


async def test_another_refusal_is_passed_on() -> None:
    options = ClientOptions(page_size=501)
    projector = await _projector()
    async with (
        SaasServer(projector, VirtualPace()) as server,
        SaasClient(server.url, VirtualPace(), "r", options) as client,
    ):
        with pytest.raises(UsageError, match="page_size is 1 to 500, not '501'"):
            await client.list("places", {})


async def test_client_and_server_of_different_paces_are_refused() -> None:
    projector = await _projector()
    async with (
        SaasServer(projector, VirtualPace()) as server,
        SaasClient(server.url, RealPace(SystemClock()), "r") as client,
    ):
        with pytest.raises(UsageError, match="virtual pace, this client at a real one"):
            await client.list("places", {})


async def test_at_a_real_pace_the_clock_counts() -> None:
    projector = await _projector()
    limits = SaasLimits(latency_seconds=0.03, requests=2, window_seconds=0.2)
    options = ClientOptions(requests=2, window_seconds=0.2)
    pace = RealPace(SystemClock())
    async with SaasServer(projector, pace, limits) as server, SaasClient(server.url, pace, "r", options) as client:
        listings = [await client.list("places", {}) for _ in range(3)]
    assert [listing.calls for listing in listings] == [1, 1, 1]
    assert listings[0].seconds >= 0.03
    assert sum(listing.seconds for listing in listings) >= 0.25


async def test_concurrent_listings_share_the_budget() -> None:
    projector = await _projector()
    limits = SaasLimits(requests=4)
    options = ClientOptions(requests=4, page_size=2)
    async with (
        SaasServer(projector, VirtualPace(), limits) as server,
        SaasClient(server.url, VirtualPace(), "r", options) as client,
    ):
        listings = await asyncio.gather(*(client.list("places", {}) for _ in range(6)))
    assert all(len(listing.items) == 5 for listing in listings)
    assert sum(listing.calls for listing in listings) == 18  # none was refused


@given(gaps=st.lists(st.floats(0, 20), max_size=60), limit=st.integers(1, 6))
@settings(deadline=None)
def test_no_window_ever_admits_more_than_the_limit(gaps, limit) -> None:
    window, now, admitted = SlidingWindow(limit, 60.0), 0.0, []
    for gap in gaps:
        now += gap
        wait = window.admit(now)
        if wait > 0:
            now += wait
            assert window.admit(now) == 0.0
        admitted.append(now)
    for n in range(len(admitted) - limit):
        assert admitted[n + limit] - admitted[n] >= 60.0 - 1e-5


@given(latencies=st.lists(st.floats(0, 5), max_size=40), limit=st.integers(1, 5))
@settings(deadline=None)
def test_a_budget_never_sends_what_a_server_could_refuse(latencies, limit) -> None:
    async def scenario() -> None:
        pace = VirtualPace()
        budget = RequestBudget(pace, limit, 60.0)
        spans = []
        for latency in latencies:
            await budget.begin()
            begun = pace.now()
            await pace.sleep(latency)
            budget.end()
            spans.append((begun, pace.now()))
        for n in range(len(spans) - limit):
            assert spans[n + limit][0] - spans[n][1] >= 60.0 - 1e-5

    asyncio.run(scenario())
