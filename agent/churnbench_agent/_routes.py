"""The routes: a template's queries, carried out and traced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from churnbench.clock import Clock, SystemClock
from churnbench.cuts import Cut
from churnbench.errors import SourceUnavailableError, UsageError
from churnbench.events import from_millis
from churnbench.records import Retrieval
from churnbench.registry import DAY_MS, Query, QueryResult, Registry, Template
from churnbench.sources import Chunk
from churnbench.tables import Row
from churnbench_agent._sources import AgentSources

__all__ = ["RouteOptions", "Routes", "arguments", "claims"]

S = TypeVar("S")


class RouteOptions(NamedTuple):
    """How sources are asked.

    Attributes:
        attempts: how often a store that does not answer is asked; the SaaS's client has retries of its own.
        most_wait_seconds: longest wait between two attempts.
        pieces: most pieces of one document.
        free_pieces: most pieces of a search over all documents.
    """

    attempts: int = 4
    most_wait_seconds: float = 2.0
    pieces: int = 50
    free_pieces: int = 5


class _Read(NamedTuple):
    """What one query gave, with the cuts and refresh times of the tables or classes it read."""

    rows: list[Row]
    statement: str
    cut: Cut | None = None
    staged: Mapping[str, Mapping[str, Cut]] = {}
    refreshed: Mapping[str, int] = {}
    calls: int = 1
    seconds: float = 0.0


def arguments(query: Query, params: Mapping[str, Any], at_ms: int) -> dict[str, Any]:
    """The parameters of a query, by name: the question's own, and those that the query names.

    `@at` is the question's time and `@at-days:NAME` that many days earlier, both as aware UTC times.

    Raises:
        UsageError: the query names a parameter that the question does not have.
    """
    found = dict(params)
    for name, source in query.arguments.items():
        if source == "@at":
            found[name] = from_millis(at_ms)
            continue
        days = source.startswith("@at-days:")
        wanted = source.removeprefix("@at-days:")
        if wanted not in params:
            raise UsageError(
                f"the query {query.name} takes {name} from {source!r}, which the question has not; "
                f"it has {', '.join(params) or 'no parameters'}"
            )
        found[name] = from_millis(at_ms - params[wanted] * DAY_MS) if days else params[wanted]
    return found


def claims(template: Template, registry: Registry) -> dict[str, set[str]]:
    """Query name -> classes whose columns it reads.

    A class is read by the queries that read its table. Where a staged table and a live relation share a name, the
    staged table's own classes are its queries' and all others the live ones'.

    Raises:
        UsageError: the template says that it reads a class from a table that none of its queries reads.
    """
    staged = registry.staged()
    found: dict[str, set[str]] = {query.name: set() for query in template.queries}
    for cls, table in template.reads.items():
        reading = [query for query in template.queries if table in query.tables]
        held = table in staged and cls in (staged[table][0], *staged[table][1])
        cached = [query for query in reading if held and query.source in ("staged", "documents")]
        live = [query for query in reading if query.source not in ("staged", "documents")]
        if not cached and not live:
            raise UsageError(
                f"the template of {template.measure} reads {cls} from {table!r}, which none of its queries reads as a "
                "table of that class; mend the registry"
            )
        for query in cached or live:
            found[query.name].add(cls)
    return found


class Routes:
    """Carries out templates against the sources.

    Args:
        registry: the registry that the templates are of.
        sources: what may be asked.
        clock: for durations.
        options: limits and retries.
    """

    def __init__(
        self,
        registry: Registry,
        sources: AgentSources,
        clock: Clock | None = None,
        options: RouteOptions | None = None,
    ) -> None:
        self.registry = registry
        self.sources = sources
        self.clock = clock or SystemClock()
        self.options = options or RouteOptions()

    async def run(
        self, template: Template, params: Mapping[str, Any], at_ms: int, trace: list[Retrieval]
    ) -> dict[str, QueryResult]:
        """The results of a template's queries by name.

        Args:
            template: what to carry out; its queries are asked in order.
            params: the question's parameters.
            at_ms: the question's time.
            trace: takes a `Retrieval` for each query as it is answered, so that it holds those before a failure.

        Raises:
            SourceUnavailableError: a source did not answer after the retries.
            UsageError: a source refuses a query or is not there.
        """
        classes = claims(template, self.registry)
        results = {}
        for query in template.queries:
            begun = self.clock.monotonic()
            read = await self._retried(query, arguments(query, params, at_ms), params)
            wall = self.clock.monotonic() - begun
            cuts: dict[str, Cut] = {}
            refreshed: dict[str, int] = {}
            for cls in sorted(classes[query.name]):
                table = template.reads[cls]
                if read.cut is not None:
                    cuts[cls] = read.cut
                elif cls in read.staged.get(table, {}):
                    cuts[cls] = read.staged[table][cls]
                    refreshed[cls] = read.refreshed[table]
            trace.append(
                Retrieval(
                    route=template.route,
                    source=query.source,
                    measure=template.measure,
                    tables=list(query.tables),
                    statement=read.statement,
                    rows=len(read.rows),
                    # A virtual source states more than the wall clock saw.
                    seconds=max(wall, read.seconds),
                    classes=cuts,
                    refreshed=refreshed,
                    calls=read.calls,
                )
            )
            results[query.name] = QueryResult(read.rows)
        return results

    async def _retried(self, query: Query, values: dict[str, Any], params: Mapping[str, Any]) -> _Read:
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(SourceUnavailableError),
            stop=stop_after_attempt(1 if query.source == "saas" else self.options.attempts),
            wait=wait_exponential(0.05, self.options.most_wait_seconds),
            reraise=True,
        ):
            with attempt:
                return await self._ask(query, values, params)
        raise AssertionError("unreachable")

    async def _ask(self, query: Query, values: dict[str, Any], params: Mapping[str, Any]) -> _Read:
        match query.source:
            case "staged":
                got = await self._source(self.sources.staged, query).query(query.statement, values, query.tables)
                return _Read(got.rows, query.statement, None, got.cuts, got.refreshed_ms)
            case "warehouse":
                rows, cut = await self._source(self.sources.warehouse, query).query(query.statement, values)
                return _Read(rows, query.statement, cut)
            case "operations":
                rows, cut = await self._source(self.sources.operations, query).read(query.statement)
                return _Read(rows, query.statement, cut)
            case "saas":
                return await self._list(query, values)
            case "documents" | "live_documents":
                return await self._search(query, values, params)

    async def _list(self, query: Query, values: Mapping[str, Any]) -> _Read:
        filters = {name: _text(values[name]) for name in query.arguments}
        listing = await self._source(self.sources.saas, query).list(query.statement, filters)
        path = query.statement + ("?" + "&".join(f"{k}={v}" for k, v in sorted(filters.items())) if filters else "")
        rows: list[Row] = [(item,) for item in listing.items]
        return _Read(rows, path, listing.cut, calls=listing.calls, seconds=listing.seconds)

    async def _search(self, query: Query, values: Mapping[str, Any], params: Mapping[str, Any]) -> _Read:
        text = query.statement.format_map(values)
        if query.key is not None and query.key not in params:
            raise UsageError(f"the query {query.name} looks up the document {query.key!r}, which the question has not")
        document = None if query.key is None else str(params[query.key])
        limit = self.options.free_pieces if document is None else self.options.pieces
        if query.source == "live_documents":
            chunks, cut = await self._source(self.sources.documents, query).search(text, limit, document)
            return _Read(_pieces(chunks), text, cut)
        chunks, cuts, at_ms = await self._source(self.sources.staged, query).search(text, limit, document)
        return _Read(_pieces(chunks), text, None, dict.fromkeys(query.tables, cuts), dict.fromkeys(query.tables, at_ms))

    def _source(self, source: S | None, query: Query) -> S:
        if source is None:
            raise UsageError(f"the query {query.name} asks {query.source}, which this agent was not given")
        return source


def _pieces(chunks: list[Chunk]) -> list[Row]:
    return [(chunk.document, chunk.text) for chunk in chunks]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
