"""The router: which template answers a question. Deterministic, from the registry, without a model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from churnbench.registry import Registry, Template

__all__ = ["Router"]


class Router:
    """Routes by what a question means.

    Args:
        registry: the templates.
    """

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def route(self, measure: str, params: Mapping[str, Any]) -> Template | None:
        """The first template of the measure that serves `params`; None where the data holds no answer."""
        return self.registry.template(measure, params)
