"""The embedded PostgreSQL and a database for each test, as for the refresher."""

from tests.refresher.conftest import database, server

__all__ = ["database", "server"]
