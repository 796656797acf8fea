"""Projectors: the consumer host, and the four sources' stores and servers."""

from churnbench_projectors._chunks import chunk_text, chunks_fingerprint, folded_chunks
from churnbench_projectors._contracts import ContractsProjector
from churnbench_projectors._embedders import HashingEmbedder, MiniLmEmbedder, make_embedder
from churnbench_projectors._following import catch_up
from churnbench_projectors._host import ProjectorHost, Rebuildable, rebuild
from churnbench_projectors._operations import OperationsProjector
from churnbench_projectors._saas_client import ClientOptions, SaasClient
from churnbench_projectors._saas_pace import Pace, RealPace, VirtualPace
from churnbench_projectors._saas_projector import SaasProjector
from churnbench_projectors._saas_server import SaasServer
from churnbench_projectors._saas_view import retained_fingerprint
from churnbench_projectors._saas_wire import SaasLimits
from churnbench_projectors._warehouse import WarehouseProjector

__all__ = [
    "ClientOptions",
    "ContractsProjector",
    "HashingEmbedder",
    "MiniLmEmbedder",
    "OperationsProjector",
    "Pace",
    "ProjectorHost",
    "RealPace",
    "Rebuildable",
    "SaasClient",
    "SaasLimits",
    "SaasProjector",
    "SaasServer",
    "VirtualPace",
    "WarehouseProjector",
    "catch_up",
    "chunk_text",
    "chunks_fingerprint",
    "folded_chunks",
    "make_embedder",
    "rebuild",
    "retained_fingerprint",
]
