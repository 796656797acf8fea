"""The message log: its Protocol, its engines, and the ledger's rules on top of it."""

from churnbench.log._kafka import KafkaLog
from churnbench.log._ledger import LedgerBatch, LedgerReader, LedgerWriter, cut_at, ledger_end
from churnbench.log._protocol import Headers, Log, NewRecord, Record
from churnbench.log._sqlite import SqliteLog
from churnbench.log._topics import Topic

__all__ = [
    "Headers",
    "KafkaLog",
    "LedgerBatch",
    "LedgerReader",
    "LedgerWriter",
    "Log",
    "NewRecord",
    "Record",
    "SqliteLog",
    "Topic",
    "cut_at",
    "ledger_end",
]
