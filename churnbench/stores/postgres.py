"""PostgreSQL: the server, embedded or by URL, and the database that each run has of its own."""

from churnbench.stores._postgres_embedded import embedded_running, embedded_server, stop_embedded
from churnbench.stores._postgres_server import PostgresServer, ServerFacts, answering, server_facts
from churnbench.stores._run_database import SCHEMAS, RunDatabase, list_databases

__all__ = [
    "SCHEMAS",
    "PostgresServer",
    "RunDatabase",
    "ServerFacts",
    "answering",
    "embedded_running",
    "embedded_server",
    "list_databases",
    "server_facts",
    "stop_embedded",
]
