"""Readers: who turns a question into an answer; and the one that never errs in reasoning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Protocol

import msgspec

from churnbench.errors import TransientError, UsageError
from churnbench.records import Question, Retrieval
from churnbench_agent._router import Router
from churnbench_agent._routes import Routes

__all__ = ["Outcome", "Reader", "Reply", "ScriptedReader"]

Outcome = Literal["answered", "unanswered", "refusal", "parse_failure", "transport_failure", "tool_error", "step_limit"]


class Reply(msgspec.Struct, frozen=True):
    """What a reader says; fields as in `churnbench.records.Answer`."""

    outcome: Outcome
    trace: list[Retrieval]
    raw: str | None = None
    value: int | float | str | None = None
    error: str | None = None
    cost_usd: float | None = 0.0
    tokens: Mapping[str, int] = {}


class Reader(Protocol):
    """Answers questions along the routes.

    Attributes:
        name: as answers and the manifest state it.
    """

    name: str

    async def answer(self, question: Question, routes: Routes) -> Reply:
        """The reply to one question; called for several at once.

        A source or a model that fails is an outcome, not an error: what is raised ends the run.
        """


class ScriptedReader:
    """Carries out the template of the question's measure: its errors are the data layer's alone.

    `raw` is the value's text. Without a template, or with one that finds no answer, it is `unanswered`; a source
    that does not answer makes a `transport_failure`, one that refuses a `tool_error`.

    Args:
        router: the router; None: by the registry of the routes.
    """

    name = "scripted"

    def __init__(self, router: Router | None = None) -> None:
        self._router = router

    async def answer(self, question: Question, routes: Routes) -> Reply:
        """See `Reader.answer`."""
        router = self._router or Router(routes.registry)
        template = router.route(question.measure, question.params)
        if template is None:
            return Reply("unanswered", [])
        trace: list[Retrieval] = []
        try:
            results = await routes.run(template, question.params, question.at_ms, trace)
        except TransientError as error:
            return Reply("transport_failure", trace, error=str(error))
        except UsageError as error:
            return Reply("tool_error", trace, error=str(error))
        value = template.answer(results, question.params, question.at_ms)
        if value is None:
            return Reply("unanswered", trace)
        return Reply("answered", trace, str(value), value)
