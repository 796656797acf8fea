"""What a domain declares: its events, worlds, classes, sources, registries, measures and questions.

Everything outside `domains/` works on these declarations alone. A domain joins by an entry point of the group
`churnbench.domains` that names an instance of `Domain`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Literal, NamedTuple, Protocol

import msgspec

from churnbench.errors import NotFoundError, UsageError
from churnbench.events import Codec, Event
from churnbench.registry import Registry
from churnbench.tables import Column, EntityTable, Relations, Row, Table, View

__all__ = [
    "AnswerType",
    "Assertion",
    "Documents",
    "Domain",
    "EntityClass",
    "FactView",
    "Measure",
    "PresetInfo",
    "Resource",
    "Saas",
    "Store",
    "Task",
    "find_domain",
    "load_domains",
]

AnswerType = Literal["int", "float", "str"]


class EntityClass(msgspec.Struct, frozen=True):
    """A class of data whose staleness is told apart from that of others.

    A class is either *attributes* of entities, or *rows* (one per event, never changed).

    Attributes:
        name: the class.
        attributes: its attributes, for a class of attributes; empty for rows.
        columns: the columns of its rows after seq and time; empty for attributes.
        rows_of: another class whose rows this one shares, with cuts of its own.
    """

    name: str
    attributes: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    rows_of: str | None = None


class Assertion(NamedTuple):
    """What an event says: from now on, `entity`'s `attribute` of `cls` is `value` (None: no longer known).

    For a class of rows, `attribute` is "" and `value` the row's values as a tuple.
    """

    cls: str
    entity: str
    attribute: str
    value: Any


class FactView(Protocol):
    """The ledger as of a vector of cuts: what a measure computes gold from. Never to be changed."""

    def values(self, cls: str, attribute: str) -> Mapping[str, Any]:
        """Entity -> value of `attribute` as of the class's cut; entities without one are left out.

        In the order in which the entities first got a value.
        """

    def query(self, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
        """Rows of a DuckDB SELECT over classes of rows.

        A class is named in braces, `{name}`, and has the columns seq, at_ms, entity and those declared, with
        the rows as of its cut. `?` takes `parameters`. The result is cached by its text, parameters and cuts.
        """


class Measure(msgspec.Struct, frozen=True):
    """A question's meaning.

    Attributes:
        name: the measure.
        parameters: name -> type of each parameter, in order.
        answer_type: how answers are compared: int exactly, float within 1 % of gold, str case-folded.
        reads: class -> the attributes that gold depends on, for any parameter values; for a class of rows the
            empty tuple.
        gold: the true answer from the facts, the parameters and the question's time in milliseconds.
        unit: of the answer, for people.
    """

    name: str
    parameters: Mapping[str, type]
    answer_type: AnswerType
    reads: Mapping[str, tuple[str, ...]]
    gold: Callable[[FactView, Mapping[str, Any], int], Any]
    unit: str = ""


class Task(msgspec.Struct, frozen=True):
    """A question to ask.

    Attributes:
        task_id: its id in its set.
        template_id: the template that it was drawn from.
        tier: difficulty, from 1.
        measure: what it asks.
        params: the measure's parameters.
        answer_type: as the measure's.
        intent: what a person wants it for.
    """

    task_id: str
    template_id: str
    tier: int
    measure: str
    params: dict[str, Any]
    answer_type: AnswerType
    intent: str


class Store(msgspec.Struct, frozen=True):
    """What a source of tables holds.

    Attributes:
        tables: folded from the ledger.
        views: derived when read.
    """

    tables: tuple[Table, ...]
    views: tuple[View, ...] = ()


class Resource(msgspec.Struct, frozen=True):
    """A listing of the SaaS.

    Attributes:
        name: its path, `/v1/NAME`.
        inputs: the tables that it reads.
        items: its items, each with an `id`, ordered by it, from the rows of `inputs`, the time of the view in
            milliseconds and the query's filters.
        filters: names that a query may carry.
    """

    name: str
    inputs: tuple[str, ...]
    items: Callable[[Relations, int, Mapping[str, str]], list[dict[str, Any]]]
    filters: tuple[str, ...] = ()


class Saas(msgspec.Struct, frozen=True):
    """The slow REST service: the tables that it keeps in memory and the resources that it lists.

    Attributes:
        tables: folded from the ledger.
        resources: its listings.
        keep_ms: fact rows older than this, before the view's time, may be dropped; None keeps all.
    """

    tables: tuple[Table, ...]
    resources: tuple[Resource, ...]
    keep_ms: int | None = None


class Documents(msgspec.Struct, frozen=True):
    """Documents rendered from entities.

    Attributes:
        table: folds the entity that a document is about.
        render: the document's title and text from the entity's row and the seq of its last event.
    """

    table: EntityTable
    render: Callable[[Row, int], tuple[str, str]]


class PresetInfo(msgspec.Struct, frozen=True):
    """A named set of parameters.

    Attributes:
        name: the preset.
        description: one line for people.
        parameters: every parameter by name, plain JSON values.
        sources: parameter -> where its figure comes from, or "assumed".
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    sources: Mapping[str, str] = {}


class Domain(Protocol):
    """A subject to benchmark: see the module."""

    name: str
    version: int
    codec: Codec
    classes: tuple[EntityClass, ...]
    warehouse: Store
    operations: Store
    saas: Saas
    documents: Documents | None
    registries: Mapping[str, Registry]
    measures: Mapping[str, Measure]
    presets: Mapping[str, PresetInfo]

    def parameters(self, preset: str, overrides: Mapping[str, str]) -> dict[str, Any]:
        """A preset's parameters with some replaced by values given as text.

        Raises:
            UsageError: an unknown preset or parameter, or a value that does not fit.
        """

    def simulate(self, parameters: Mapping[str, Any], seed: int) -> Iterator[Event]:
        """The whole world, in order; the same events for the same arguments, in any process."""

    def span(self, parameters: Mapping[str, Any]) -> tuple[int, int]:
        """First instant of the world and the first after it, milliseconds."""

    def assertions(self, event: Event) -> Iterable[Assertion]:
        """What an event says, class by class."""

    def generate_tasks(
        self, preset: str, gold: Callable[[str, Mapping[str, Any]], Any], facts: FactView, n: int, seed: int
    ) -> list[Task]:
        """`n` tasks over the facts, with their gold under the trivial-responder guard."""

    def question(self, task: Task, at_ms: int) -> str:
        """The task in words, as asked at a time; the same wording for the same task id."""

    def describe(self, events: Iterable[Event], parameters: Mapping[str, Any]) -> list[tuple[str, float, float]]:
        """(parameter, stated value, value measured in the events) for each stated rate."""


def load_domains() -> dict[str, Domain]:
    """The installed domains by name.

    Raises:
        UsageError: one fails to load, or two share a name.
    """
    found: dict[str, Domain] = {}
    for entry in entry_points(group="churnbench.domains"):
        try:
            domain = entry.load()
        except Exception as error:
            raise UsageError(f"the domain {entry.name!r} ({entry.value}) fails to load: {error}") from error
        if entry.name in found:
            raise UsageError(f"two installed packages provide the domain {entry.name!r}; remove one")
        found[entry.name] = domain
    return found


def find_domain(name: str) -> Domain:
    """The installed domain `name`.

    Raises:
        NotFoundError: there is none.
    """
    domains = load_domains()
    if name not in domains:
        raise NotFoundError(f"no domain {name!r}; installed: {', '.join(sorted(domains)) or 'none'}")
    return domains[name]
