"""The command line: a module per verb, each of which puts the stages together."""

from churnbench_cli._main import main

__all__ = ["main"]
