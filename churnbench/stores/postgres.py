"""PostgreSQL: the server, embedded or by URL, and the database that each run has of its own."""

from churnbench.stores._postgres_embedded import embedded_running, embedded_server, stop_embedded
from churnbench.stores._postgres_server import PostgresServer, ServerFacts, answering, server_facts
from churnbench.stores._run_database import SCHEMAS, RunDatabase, database_name, list_databases, list_half_made

__all__ = [
    "SCHEMAS",
    "PostgresServer",
    "RunDatabase",
    "ServerFacts",
    "answering",
    "database_name",
    "embedded_running",
    "embedded_server",
    "list_databases",
    "list_half_made",
    "server_facts",
    "stop_embedded",
]
