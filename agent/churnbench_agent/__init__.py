"""Answers questions from staged tables, live sources and documents."""

from churnbench_agent._readers import Outcome, Reader, Reply, ScriptedReader
from churnbench_agent._router import Router
from churnbench_agent._routes import RouteOptions, Routes
from churnbench_agent._service import Agent, AnswerTime
from churnbench_agent._sources import AgentSources

__all__ = [
    "Agent",
    "AgentSources",
    "AnswerTime",
    "Outcome",
    "Reader",
    "Reply",
    "RouteOptions",
    "Router",
    "Routes",
    "ScriptedReader",
]
