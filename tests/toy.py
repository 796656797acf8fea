"""A second domain, of three event kinds: parcels that are registered, moved between depots, and scanned.

It goes through everything that the real one goes through, so that nothing outside `domains/` can know what a
real domain is about.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from churnbench.domain import (
    Assertion,
    Documents,
    EntityClass,
    FactView,
    Measure,
    PresetInfo,
    Resource,
    Saas,
    Store,
    Task,
)
from churnbench.errors import NotFoundError, UsageError
from churnbench.events import Codec, Event, EventKind, from_millis, time_text
from churnbench.registry import (
    DAY_MS,
    ClassPolicy,
    Query,
    QueryResult,
    Registry,
    StagedDocuments,
    StagedTable,
    Template,
)
from churnbench.tables import Column, EntityTable, FactTable, Relations, Row, View

START_MS = 1_704_067_200_000
DEPOTS = ("north", "east", "south", "west")


class Registered(msgspec.Struct, frozen=True):
    depot: str
    weight: float


class Moved(msgspec.Struct, frozen=True):
    depot: str


class Scanned(msgspec.Struct, frozen=True):
    seconds: int


def _lift_scan(payload: dict[str, Any]) -> dict[str, Any]:
    """Version 1 counted minutes."""
    return {"seconds": payload["minutes"] * 60}


KINDS = (
    EventKind("parcel_registered", "parcel", Registered),
    EventKind("parcel_moved", "parcel", Moved),
    EventKind("parcel_scanned", "parcel", Scanned, 2, {1: _lift_scan}),
)


def event(seq: int, at_ms: int, parcel: str, payload: Any) -> Event:
    kind = {Registered: "parcel_registered", Moved: "parcel_moved", Scanned: "parcel_scanned"}[type(payload)]
    return Event(seq, at_ms, kind, "parcel", parcel, payload, 2 if kind == "parcel_scanned" else 1)


def _step_parcel(row: Row | None, e: Event) -> Row | None:
    if isinstance(e.payload, Registered):
        return (e.entity_id, e.payload.depot, e.payload.weight, e.at)
    return None if row is None else (row[0], e.payload.depot, row[2], row[3])


def _step_place(row: Row | None, e: Event) -> Row | None:
    if e.payload.depot == "lost":
        return None
    return (e.entity_id, e.payload.depot)


_LIFE = frozenset({"parcel_registered", "parcel_moved"})
PARCELS = EntityTable(
    "parcels",
    (Column("parcel", "text"), Column("depot", "text"), Column("weight", "float"), Column("registered_at", "time")),
    _LIFE,
    _step_parcel,
    indexes=("depot",),
)
PLACES = EntityTable("places", (Column("parcel", "text"), Column("depot", "text")), _LIFE, _step_place)
SCANS = FactTable(
    "scans",
    (Column("seq", "int"), Column("at", "time"), Column("parcel", "text"), Column("seconds", "int")),
    frozenset({"parcel_scanned"}),
    lambda e: (e.seq, e.at, e.entity_id, e.payload.seconds),
    indexes=("parcel",),
)


def _depots(relations: Relations) -> Iterable[Row]:
    totals: dict[str, list[float]] = {}
    for _, depot, weight, _ in relations["parcels"]:
        totals.setdefault(depot, []).append(weight)
    return [(depot, len(weights)) for depot, weights in totals.items()]


DEPOT_VIEW = View(
    "depots",
    (Column("depot", "text"), Column("parcels", "int")),
    ("parcels",),
    _depots,
    "SELECT depot, count(*) AS parcels FROM parcels GROUP BY depot",
)


def _activity(relations: Relations, at_ms: int, filters: Mapping[str, str]) -> list[dict[str, Any]]:
    since = from_millis(at_ms) - timedelta(days=30)
    seconds: dict[str, int] = {}
    for _, at, parcel, spent in relations["scans"]:
        if at >= since:
            seconds[parcel] = seconds.get(parcel, 0) + spent
    wanted = filters.get("parcel")
    return [
        {"id": parcel, "seconds": seconds[parcel]} for parcel in sorted(seconds) if wanted is None or parcel == wanted
    ]


def _places(relations: Relations, at_ms: int, filters: Mapping[str, str]) -> list[dict[str, Any]]:
    depot = filters.get("depot")
    rows = sorted(relations["places"])
    return [{"id": parcel, "depot": place} for parcel, place in rows if depot is None or place == depot]


def _render(row: Row, seq: int) -> tuple[str, str]:
    parcel, depot, weight, registered_at = row
    text = (
        f"Waybill of parcel {parcel}.\n\n"
        f"Registered on {registered_at.date().isoformat()} and kept at depot {depot}.\n\n"
        f"The parcel {parcel} weighs {weight!r} kg. Revision {seq}."
    )
    return f"Waybill {parcel}", text


CLASSES = (
    EntityClass("registration", ("exists",)),
    EntityClass("location", ("depot",)),
    EntityClass("weight", ("weight",)),
    EntityClass("scans", columns=(Column("seconds", "int"),)),
    EntityClass("activity", rows_of="scans"),
    EntityClass("moves", columns=(Column("depot", "text"),)),
)


def _in_depot(facts: FactView, params: Mapping[str, Any], at_ms: int) -> int:
    exists = facts.values("registration", "exists")
    return sum(depot == params["depot"] and p in exists for p, depot in facts.values("location", "depot").items())


def _fullest(facts: FactView, params: Mapping[str, Any], at_ms: int) -> str:
    exists = facts.values("registration", "exists")
    counts: dict[str, int] = {}
    for parcel, depot in facts.values("location", "depot").items():
        if parcel in exists:
            counts[depot] = counts.get(depot, 0) + 1
    return min(counts, key=lambda depot: (-counts[depot], depot)) if counts else ""


def _scans(facts: FactView, params: Mapping[str, Any], at_ms: int) -> int:
    since = at_ms - params["days"] * DAY_MS
    return int(facts.query("SELECT count(*) FROM {scans} WHERE at_ms >= ?", [since])[0][0])


def _scanned_in_depot(facts: FactView, params: Mapping[str, Any], at_ms: int) -> int:
    since = at_ms - params["days"] * DAY_MS
    scanned = {row[0] for row in facts.query("SELECT DISTINCT entity FROM {scans} WHERE at_ms >= ?", [since])}
    return sum(d == params["depot"] and p in scanned for p, d in facts.values("location", "depot").items())


def _activity_gold(facts: FactView, params: Mapping[str, Any], at_ms: int) -> int:
    rows = facts.query(
        "SELECT coalesce(sum(seconds), 0) FROM {activity} WHERE entity = ? AND at_ms >= ?",
        [params["parcel"], at_ms - 30 * DAY_MS],
    )
    return int(rows[0][0])


def _moves(facts: FactView, params: Mapping[str, Any], at_ms: int) -> int:
    since = at_ms - params["days"] * DAY_MS
    return int(facts.query("SELECT count(*) FROM {moves} WHERE at_ms > ?", [since])[0][0])


def _weight(facts: FactView, params: Mapping[str, Any], at_ms: int) -> float:
    return float(facts.values("weight", "weight").get(params["parcel"], 0.0))


MEASURES = {
    measure.name: measure
    for measure in (
        Measure(
            "parcels_in_depot",
            {"depot": str},
            "int",
            {"registration": ("exists",), "location": ("depot",)},
            _in_depot,
        ),
        Measure("fullest_depot", {}, "str", {"registration": ("exists",), "location": ("depot",)}, _fullest),
        Measure("weight_of", {"parcel": str}, "float", {"weight": ("weight",)}, _weight, "kg"),
        Measure("scans_recent", {"days": int}, "int", {"scans": ()}, _scans),
        Measure(
            "scanned_in_depot",
            {"depot": str, "days": int},
            "int",
            {"location": ("depot",), "scans": ()},
            _scanned_in_depot,
        ),
        Measure("activity_of", {"parcel": str}, "int", {"activity": ()}, _activity_gold, "seconds"),
        Measure("moves_window", {"days": int}, "int", {"moves": ()}, _moves),
    )
}


def _weight_from(results: Mapping[str, QueryResult], params: Mapping[str, Any], at_ms: int) -> float | None:
    for document, text in results["waybill"].rows:
        if document == params["parcel"] and " weighs " in text:
            return float(text.split(" weighs ")[1].split(" kg")[0])
    return None


TEMPLATES = (
    Template(
        "parcels_in_depot",
        "staged",
        (
            Query(
                "count",
                "staged",
                "SELECT count(*) FROM staged.locations WHERE depot = %(depot)s",
                ("locations",),
            ),
        ),
        {"location": "locations", "registration": "locations"},
        lambda results, params, at_ms: results["count"].rows[0][0],
    ),
    Template(
        "fullest_depot",
        "staged",
        (
            Query(
                "top",
                "staged",
                "SELECT l.depot FROM staged.locations l JOIN staged.stock s USING (parcel) "
                "GROUP BY l.depot ORDER BY count(*) DESC, l.depot LIMIT 1",
                ("locations", "stock"),
            ),
        ),
        {"location": "locations", "registration": "stock"},
        lambda results, params, at_ms: results["top"].rows[0][0] if results["top"].rows else "",
    ),
    Template(
        "weight_of",
        "documents",
        (Query("waybill", "documents", "weight of parcel {parcel}", ("documents",), key="parcel"),),
        {"weight": "documents"},
        _weight_from,
    ),
    Template(
        "scans_recent",
        "warehouse",
        (
            Query(
                "count",
                "warehouse",
                "SELECT count(*) FROM warehouse.scans WHERE at >= %(since)s",
                ("scans",),
                {"since": "@at-days:days"},
            ),
        ),
        {"scans": "scans"},
        lambda results, params, at_ms: results["count"].rows[0][0],
    ),
    Template(
        "scanned_in_depot",
        "federated",
        (
            Query("here", "staged", "SELECT parcel FROM staged.locations WHERE depot = %(depot)s", ("locations",)),
            Query(
                "scanned",
                "warehouse",
                "SELECT DISTINCT parcel FROM warehouse.scans WHERE at >= %(since)s",
                ("scans",),
                {"since": "@at-days:days"},
            ),
        ),
        {"location": "locations", "scans": "scans"},
        lambda results, params, at_ms: len(set(results["here"].rows) & set(results["scanned"].rows)),
    ),
    Template(
        "activity_of",
        "saas",
        (Query("activity", "saas", "activity", ("activity",), {"parcel": "parcel"}),),
        {"activity": "activity"},
        lambda results, params, at_ms: sum(row[0]["seconds"] for row in results["activity"].rows),
    ),
)

REGISTRY = Registry(
    "paper",
    (
        ClassPolicy("location", "operations", "hot", DAY_MS),
        ClassPolicy("registration", "warehouse", "warm", 3 * DAY_MS),
        ClassPolicy("weight", "contracts", "cold", 5 * DAY_MS),
        ClassPolicy("scans", "warehouse", "live"),
        ClassPolicy("activity", "saas", "live"),
        ClassPolicy("moves", "warehouse", "live"),
    ),
    (
        StagedTable("locations", "location", "operations", "places", ("parcel", "depot"), ("registration",)),
        StagedTable("stock", "registration", "warehouse", "parcels", ("parcel", "registered_at")),
        StagedTable("depots", "registration", "warehouse", "depots", ("depot", "parcels"), ("location",)),
    ),
    StagedDocuments("weight"),
    TEMPLATES,
)


class ToyDomain:
    """Implements `churnbench.domain.Domain`."""

    name = "toy"
    version = 1
    codec = Codec(KINDS)
    classes = CLASSES
    warehouse = Store((PARCELS, SCANS), (DEPOT_VIEW,))
    operations = Store((PLACES,))
    saas = Saas(
        (PLACES, SCANS),
        (
            Resource("activity", ("scans",), _activity, ("parcel",)),
            Resource("places", ("places",), _places, ("depot",)),
        ),
        31 * DAY_MS,
    )
    documents = Documents(PARCELS, _render)
    registries: Mapping[str, Registry] = {"paper": REGISTRY}
    measures: Mapping[str, Measure] = MEASURES
    presets: Mapping[str, PresetInfo] = {
        "small": PresetInfo("small", "a few parcels for 20 days", {"days": 20, "parcels": 30, "moves": 5, "scans": 20})
    }

    def parameters(self, preset: str, overrides: Mapping[str, str]) -> dict[str, Any]:
        if preset not in self.presets:
            raise NotFoundError(f"no preset {preset!r}; known: {', '.join(self.presets)}")
        parameters = dict(self.presets[preset].parameters)
        for name, value in overrides.items():
            if name not in parameters:
                raise UsageError(f"no parameter {name!r}; known: {', '.join(parameters)}")
            parameters[name] = int(value)
        return parameters

    def simulate(self, parameters: Mapping[str, Any], seed: int) -> Iterator[Event]:
        draw = random.Random(seed)
        seq = 0
        for day in range(parameters["days"]):
            at = START_MS + day * DAY_MS
            number = parameters["parcels"]
            payloads: list[tuple[str, Any]] = [
                (f"p{n:03d}", Registered(draw.choice(DEPOTS), round(draw.uniform(1, 50), 2)))
                for n in range(number if day == 0 else 0)
            ]
            for _ in range(parameters["moves"]):
                payloads += [(f"p{draw.randrange(number):03d}", Moved(draw.choice(DEPOTS)))]
            for _ in range(parameters["scans"]):
                payloads += [(f"p{draw.randrange(number):03d}", Scanned(draw.randint(1, 90)))]
            for parcel, payload in payloads:
                yield event(seq, at, parcel, payload)
                seq += 1

    def span(self, parameters: Mapping[str, Any]) -> tuple[int, int]:
        return START_MS, START_MS + parameters["days"] * DAY_MS

    def assertions(self, event: Event) -> Iterable[Assertion]:
        payload, parcel = event.payload, event.entity_id
        if isinstance(payload, Registered):
            return (
                Assertion("registration", parcel, "exists", True),
                Assertion("location", parcel, "depot", payload.depot),
                Assertion("weight", parcel, "weight", payload.weight),
            )
        if isinstance(payload, Moved):
            return (
                Assertion("location", parcel, "depot", None if payload.depot == "lost" else payload.depot),
                Assertion("moves", parcel, "", (payload.depot,)),
            )
        return (Assertion("scans", parcel, "", (payload.seconds,)),)

    def generate_tasks(
        self, preset: str, gold: Callable[[str, Mapping[str, Any]], Any], facts: FactView, n: int, seed: int
    ) -> list[Task]:
        draw = random.Random(seed)
        parcels = sorted(facts.values("registration", "exists"))
        tasks = []
        for number in range(n):
            measure = draw.choice(sorted(self.measures))
            params = {
                name: draw.choice(parcels if name == "parcel" else DEPOTS) if kind is str else draw.choice((3, 7, 14))
                for name, kind in self.measures[measure].parameters.items()
            }
            kind = self.measures[measure].answer_type
            tasks.append(Task(f"toy_{number:04d}", measure[:2].upper(), 1 + number % 3, measure, params, kind, "tests"))
        return tasks

    def question(self, task: Task, at_ms: int) -> str:
        return f"As of {time_text(at_ms)}: {task.measure} {task.params}?"

    def describe(self, events: Iterable[Event], parameters: Mapping[str, Any]) -> list[tuple[str, float, float]]:
        count = sum(e.kind == "parcel_moved" for e in events)
        return [("moves", float(parameters["moves"]), count / parameters["days"])]


TOY = ToyDomain()
