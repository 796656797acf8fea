"""What the agent may ask."""

from __future__ import annotations

from typing import NamedTuple

from churnbench.sources import DocumentSource, SaasSource, SqlSource, StagedSource, TableSource

__all__ = ["AgentSources"]


class AgentSources(NamedTuple):
    """The sources behind the routes; one that is None cannot be asked.

    Attributes:
        staged: the staged cache, its document generation included.
        warehouse: the live warehouse.
        operations: the live operational store.
        saas: the SaaS.
        documents: the live document index.
    """

    staged: StagedSource | None = None
    warehouse: SqlSource | None = None
    operations: TableSource | None = None
    saas: SaasSource | None = None
    documents: DocumentSource | None = None
