"""The registry: which class of data is kept how fresh, what is staged, and how each measure is answered.

A registry is data that a domain declares; router, refresher and reports read it, and nothing else decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from churnbench.errors import NotFoundError
from churnbench.tables import Row

__all__ = [
    "ClassPolicy",
    "Query",
    "QueryResult",
    "Registry",
    "Route",
    "StagedDocuments",
    "StagedTable",
    "Template",
    "Tier",
]

DAY_MS = 86_400_000

Tier = Literal["hot", "warm", "cold", "live"]
Route = Literal["staged", "federated", "warehouse", "saas", "documents"]
QuerySource = Literal["staged", "warehouse", "operations", "saas", "documents", "live_documents"]


class ClassPolicy(msgspec.Struct, frozen=True):
    """How one class of data is kept.

    Attributes:
        name: the class.
        source: the source that owns it.
        tier: its tier; `live` classes are never staged.
        ttl_ms: age at which it lapses, milliseconds; None for `live`.
    """

    name: str
    source: str
    tier: Tier
    ttl_ms: int | None = None


class StagedTable(msgspec.Struct, frozen=True):
    """A table of the staged cache.

    Attributes:
        name: its name in the staged schema.
        owner: the class whose lapse refreshes it.
        source: the source that it is read from.
        relation: the table or view of that source that it copies.
        columns: those that it keeps, the key first.
        embeds: further classes whose values it holds, as of the same read.
    """

    name: str
    owner: str
    source: Literal["warehouse", "operations"]
    relation: str
    columns: tuple[str, ...]
    embeds: tuple[str, ...] = ()


class StagedDocuments(msgspec.Struct, frozen=True):
    """The staged generation of the document index.

    Attributes:
        owner: the class whose lapse rebuilds it.
        name: its name among the staged tables.
    """

    owner: str
    name: str = "documents"


class Query(msgspec.Struct, frozen=True):
    """One retrieval of a template.

    Attributes:
        name: what the template's `answer` knows the result as.
        source: what is asked.
        statement: SQL with `%(name)s` parameters (staged, warehouse); the resource's name (saas); the search
            text with `{name}` parameters (documents).
        tables: staged tables, warehouse relations or resources read.
        arguments: parameter -> name of the task's parameter, or `@at` for the question's time and
            `@at-days:NAME` for that many days earlier. Those of the task's own names need no entry.
        key: for documents, the task's parameter that holds the document's id.
    """

    name: str
    source: QuerySource
    statement: str
    tables: tuple[str, ...] = ()
    arguments: Mapping[str, str] = {}
    key: str | None = None


class QueryResult(msgspec.Struct, frozen=True):
    """What a query gave: rows as tuples in the statement's column order.

    For SaaS resources each row is a 1-tuple of the item (a dict); for documents a 2-tuple (document id, text).
    """

    rows: Sequence[Row]


class Template(msgspec.Struct, frozen=True):
    """How a measure is answered without a model.

    Attributes:
        measure: the measure.
        route: the kind of path.
        queries: the retrievals, in order.
        reads: class -> the staged table, warehouse relation or resource whose columns of that class it reads.
        answer: the answer from the results by query name, the task's parameters and the question's time
            (milliseconds); None where the data holds no answer.
        when: whether it serves these parameters; the first template of a measure that does is taken.
    """

    measure: str
    route: Route
    queries: tuple[Query, ...]
    reads: Mapping[str, str]
    answer: Callable[[Mapping[str, QueryResult], Mapping[str, Any], int], Any]
    when: Callable[[Mapping[str, Any]], bool] = lambda params: True


class Registry(msgspec.Struct, frozen=True):
    """Classes, staged tables and templates under one name.

    Attributes:
        name: the preset's name.
        classes: every class of the domain.
        tables: the staged tables.
        documents: the staged document index; None where the domain has no documents.
        templates: those of all measures that can be answered; a measure without one stays unanswered.
    """

    name: str
    classes: tuple[ClassPolicy, ...]
    tables: tuple[StagedTable, ...]
    documents: StagedDocuments | None
    templates: tuple[Template, ...]

    def policy(self, name: str) -> ClassPolicy:
        """The class `name`.

        Raises:
            NotFoundError: there is none.
        """
        for policy in self.classes:
            if policy.name == name:
                return policy
        raise NotFoundError(f"no class {name!r}; known: {', '.join(policy.name for policy in self.classes)}")

    def template(self, measure: str, params: Mapping[str, Any]) -> Template | None:
        """The first template of `measure` that serves `params`; None where the measure has none."""
        for template in self.templates:
            if template.measure == measure and template.when(params):
                return template
        return None

    def staged(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Staged name -> (owner class, embedded classes), the document index included."""
        staged = {table.name: (table.owner, table.embeds) for table in self.tables}
        if self.documents is not None:
            staged[self.documents.name] = (self.documents.owner, ())
        return staged
