"""Projectors: the consumer host, and the four sources' stores and servers."""

from churnbench_projectors._chunks import chunk_text, chunks_fingerprint, folded_chunks
from churnbench_projectors._contracts import ContractsProjector
from churnbench_projectors._documents_weaviate import WeaviateContractsProjector
from churnbench_projectors._embedders import HashingEmbedder, MiniLmEmbedder, make_embedder
from churnbench_projectors._following import catch_up
from churnbench_projectors._host import ProjectorHost, Rebuildable, rebuild
from churnbench_projectors._mongo import MongoRun
from churnbench_projectors._operations import OperationsProjector
from churnbench_projectors._operations_mongo import MongoOperationsProjector
from churnbench_projectors._saas_client import ClientOptions, SaasClient
from churnbench_projectors._saas_pace import Pace, RealPace, VirtualPace
from churnbench_projectors._saas_projector import SaasProjector
from churnbench_projectors._saas_server import SaasServer
from churnbench_projectors._saas_view import retained_fingerprint
from churnbench_projectors._saas_wire import SaasLimits
from churnbench_projectors._warehouse import WarehouseProjector
from churnbench_projectors._weaviate import WeaviateAddress, WeaviateRun

__all__ = [
    "ClientOptions",
    "ContractsProjector",
    "HashingEmbedder",
    "MiniLmEmbedder",
    "MongoOperationsProjector",
    "MongoRun",
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
    "WeaviateAddress",
    "WeaviateContractsProjector",
    "WeaviateRun",
    "catch_up",
    "chunk_text",
    "chunks_fingerprint",
    "folded_chunks",
    "make_embedder",
    "rebuild",
    "retained_fingerprint",
]
