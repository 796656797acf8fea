"""The command line: a module a verb, which puts the stages together."""
