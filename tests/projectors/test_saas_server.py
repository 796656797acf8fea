"""The SaaS over HTTP: pages of one cut, limits, and errors as JSON."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import pytest

from churnbench.clock import SystemClock
from churnbench.cuts import Cut
from churnbench.domain import Resource, Saas
from churnbench.errors import UsageError
from churnbench_projectors._saas_pace import RealPace, VirtualPace
from churnbench_projectors._saas_projector import SaasProjector
from churnbench_projectors._saas_server import SaasServer
from churnbench_projectors._saas_wire import Cursor, SaasLimits
from tests.toy import START_MS, TOY, Registered, event


class Api(NamedTuple):
    server: SaasServer
    projector: SaasProjector
    session: aiohttp.ClientSession

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, Any]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.session.request(method, self.server.url + path, headers=named) as response:
            text = await response.text()
            return response.status, (await response.json() if text else None), response.headers


@pytest.fixture
async def api() -> AsyncIterator[Api]:
    projector = SaasProjector(TOY.saas, 1)
    await projector.apply(
        [event(n, START_MS, f"p{n}", Registered("north" if n % 2 else "south", 1.0)) for n in range(5)],
        Cut({0: 4}, START_MS),
    )
    limits = SaasLimits(pinned_listings=2)
    async with SaasServer(projector, VirtualPace(), limits) as server, aiohttp.ClientSession() as session:
        yield Api(server, projector, session)


async def test_a_listing_has_items_by_id_the_cut_and_the_time(api: Api) -> None:
    status, body, headers = await api.get("/v1/places?depot=north")
    assert status == 200
    assert headers["Content-Type"].startswith("application/json")
    assert body == {
        "items": [{"id": "p1", "depot": "north"}, {"id": "p3", "depot": "north"}],
        "next": None,
        "cut": {"positions": {"0": 4}, "at": START_MS},
        "at": START_MS,
    }


async def test_pages_stay_at_the_cut_of_the_first_while_the_view_moves(api: Api) -> None:
    _, first, _ = await api.get("/v1/places?page_size=2")
    await api.projector.apply([event(9, START_MS, "p00", Registered("east", 1.0))], Cut({0: 9}))
    ids = [item["id"] for item in first["items"]]
    page = first
    while page["next"]:
        _, page, _ = await api.get(f"/v1/places?page_size=2&cursor={page['next']}")
        assert page["cut"]["positions"] == {"0": 4}
        ids += [item["id"] for item in page["items"]]
    assert ids == ["p0", "p1", "p2", "p3", "p4"]
    _, anew, _ = await api.get("/v1/places")
    assert anew["cut"]["positions"] == {"0": 9}
    assert len(anew["items"]) == 6


async def test_a_cursor_whose_cut_is_no_longer_kept_is_gone(api: Api) -> None:
    _, first, _ = await api.get("/v1/places?page_size=2")
    for position in (5, 6):
        await api.projector.apply([], Cut({0: position}))
        await api.get("/v1/places")
    status, body, _ = await api.get(f"/v1/places?page_size=2&cursor={first['next']}")
    assert (status, body["error"]["code"]) == (410, "cut_gone")


async def test_a_cursor_given_out_before_a_restart_goes_on_at_the_same_cut(api: Api) -> None:
    _, first, _ = await api.get("/v1/places?page_size=2")
    async with SaasServer(api.projector, VirtualPace()) as restarted:
        _, page, _ = await api._replace(server=restarted).get(f"/v1/places?page_size=2&cursor={first['next']}")
    assert [item["id"] for item in page["items"]] == ["p2", "p3"]


async def test_an_unchanged_page_is_not_sent_again(api: Api) -> None:
    _, _, headers = await api.get("/v1/places")
    status, body, again = await api.get("/v1/places", If_None_Match=headers["ETag"])
    assert (status, body, again["ETag"]) == (304, None, headers["ETag"])
    await api.projector.apply([], Cut({0: 5}))
    status, body, _ = await api.get("/v1/places", If_None_Match=headers["ETag"])
    assert (status, body["cut"]["positions"]) == (200, {"0": 5})


@pytest.mark.parametrize(
    ("path", "status", "code", "says"),
    [
        ("/v1/parcels", 404, "unknown_resource", "known: activity, places"),
        ("/v1/places?parcel=p1", 400, "unknown_filter", "known: depot, page_size, cursor"),
        ("/v1/places?depot=north&depot=south", 400, "repeated_parameter", "depot"),
        ("/v1/places?page_size=0", 400, "bad_page_size", "1 to 500, not '0'"),
        ("/v1/places?page_size=501", 400, "bad_page_size", "not '501'"),
        ("/v1/places?page_size=ten", 400, "bad_page_size", "not 'ten'"),
        ("/v1/places?page_size=%C2%B2", 400, "bad_page_size", "1 to 500"),
        ("/v1/places?cursor=", 400, "bad_cursor", "no cursor"),
        ("/v1/places?cursor=%00%C3%A9", 400, "bad_cursor", "no cursor"),
        ("/v1/places?cursor=WzFd", 400, "bad_cursor", "no cursor"),
        ("/v1/places?cursor=" + Cursor("x", "y", -3).text(), 400, "bad_cursor", "not -3"),
        ("/v1/places?cursor=" + Cursor("x", "y", 1).text(), 400, "bad_cursor", "another query"),
        ("/v2/places", 404, "not_found", "/v1/{resource}"),
        ("/v1/places/p1", 404, "not_found", "/v1/{resource}"),
    ],
)
async def test_what_cannot_be_answered_is_a_json_error(api: Api, path: str, status: int, code: str, says: str) -> None:
    got, body, headers = await api.get(path)
    assert (got, body["error"]["code"]) == (status, code)
    assert says in body["error"]["message"]
    assert "\n" not in body["error"]["message"]
    assert headers["Content-Type"].startswith("application/json")


async def test_a_cursor_of_other_filters_is_refused(api: Api) -> None:
    _, first, _ = await api.get("/v1/places?page_size=1&depot=north")
    status, body, _ = await api.get(f"/v1/places?page_size=1&depot=south&cursor={first['next']}")
    assert (status, body["error"]["code"]) == (400, "bad_cursor")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "HEAD"])
@pytest.mark.parametrize("path", ["/v1/places", "/healthz"])
async def test_only_get_is_allowed(api: Api, method: str, path: str) -> None:
    status, body, headers = await api.get(path, method)
    assert (status, headers["Allow"]) == (405, "GET")
    assert method == "HEAD" or body["error"]["code"] == "method_not_allowed"


async def test_sixty_requests_a_minute_then_429_until_the_stated_wait_is_over(api: Api) -> None:
    for _ in range(60):
        status, _, headers = await api.get("/v1/places", X_Client="run-1")
        assert status == 200
    assert float(headers["X-Virtual-Time"]) == pytest.approx(60 * 0.35)
    status, body, headers = await api.get("/v1/places", X_Client="run-1")
    assert (status, body["error"]["code"], headers["X-Latency"]) == (429, "rate_limited", "0.0")
    assert int(headers["Retry-After"]) == 39
    assert (await api.get("/v1/places", X_Client="run-2"))[0] == 200
    assert (await api.get("/v1/places", X_Client="run-1", X_Virtual_Time="59.9"))[0] == 429
    assert (await api.get("/v1/places", X_Client="run-1", X_Virtual_Time="60.0"))[0] == 200


async def test_refused_and_wrong_requests_count_too_but_health_does_not(api: Api) -> None:
    for _ in range(60):
        assert (await api.get("/v1/nothing"))[0] == 404
    assert (await api.get("/v1/places"))[0] == 429
    assert (await api.get("/healthz"))[:2] == (200, {"status": "ok"})


@pytest.mark.parametrize("stated", ["nan", "inf", "soon", "-5"])
async def test_a_time_that_is_none_does_not_move_the_clients(api: Api, stated: str) -> None:
    _, _, headers = await api.get("/v1/places", X_Virtual_Time=stated)
    assert headers["X-Virtual-Time"] == "0.35"


async def test_ready_once_an_event_is_applied() -> None:
    projector = SaasProjector(TOY.saas, 1)
    async with SaasServer(projector, VirtualPace()) as server, aiohttp.ClientSession() as session:
        api = Api(server, projector, session)
        assert (await api.get("/readyz"))[0] == 503
        status, body, _ = await api.get("/v1/places")
        assert (status, body["items"], body["at"]) == (200, [], None)
        await projector.apply([], Cut({0: 0}))
        assert (await api.get("/readyz"))[0] == 200


async def test_a_failing_resource_is_a_json_error(caplog: pytest.LogCaptureFixture) -> None:
    def fail(relations: Any, at_ms: int, filters: Any) -> list[dict[str, Any]]:
        raise ValueError("no such luck")

    projector = SaasProjector(Saas((), (Resource("bad", (), fail),)), 1)
    async with SaasServer(projector, VirtualPace()) as server, aiohttp.ClientSession() as session:
        status, body, _ = await Api(server, projector, session).get("/v1/bad")
    assert (status, body["error"]) == (500, {"code": "internal", "message": "ValueError: no such luck"})
    assert "no such luck" in caplog.text


async def test_a_real_pace_takes_its_latency() -> None:
    projector = SaasProjector(TOY.saas, 1)
    clock = SystemClock()
    limits = SaasLimits(latency_seconds=0.05)
    async with SaasServer(projector, RealPace(clock), limits) as server, aiohttp.ClientSession() as session:
        begun = clock.monotonic()
        _, _, headers = await Api(server, projector, session).get("/v1/places")
        assert clock.monotonic() - begun >= 0.05
    assert (headers["X-Pace"], headers["X-Latency"]) == ("real", "0.05")
    assert "X-Virtual-Time" not in headers


async def test_a_taken_port_is_named() -> None:
    projector = SaasProjector(TOY.saas, 1)
    async with SaasServer(projector, VirtualPace()) as server:
        port = int(server.url.rsplit(":", 1)[1])
        with pytest.raises(UsageError, match=f"port {port}"):
            await SaasServer(projector, VirtualPace(), port=port).start()
    with pytest.raises(UsageError, match="not started"):
        _ = server.url
