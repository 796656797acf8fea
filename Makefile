# `make` alone lists the targets. Arguments go through ARGS: make run ARGS="--window 28", make test ARGS="-k log".
.DEFAULT_GOAL := help
.PHONY: help run test lint bench docs lock clean venv venv-dev

ARGS ?=
export PYTHON

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | awk -F@ '{ printf "%-14s %s\n", $$1, $$2 }'

run: venv ## the reference study on the embedded profile: no server, no key
	.venv/bin/churnbench run $(ARGS)

test: venv-dev ## the test suite, without servers
	.venv/bin/python -m pytest -n auto --maxprocesses 4 --dist loadfile $(ARGS)

lint: venv-dev ## ruff, mypy --strict and the import rules
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: venv-dev ## speed, as ratios beside the bare limit of the same run
	.venv/bin/python -m benchmarks $(ARGS)

docs: venv-dev ## the documentation as pages in site/, its generated parts anew; a warning is an error
	.venv/bin/python -m tools.docs
	NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict $(ARGS)

lock: ## requirements/*.txt anew from pyproject.toml (needs uv; ARGS=--upgrade takes the newest versions)
	tools/lock.sh $(ARGS)

clean: ## remove .venv and what tools left behind; runs and worlds stay
	rm -rf .venv build dist site .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

venv:
	@tools/venv.sh base

venv-dev:
	@tools/venv.sh dev
