"""Software asset management: the domain of the reference world."""

from churnbench_sam._domain import DOMAIN, SamDomain

__all__ = ["DOMAIN", "SamDomain"]
