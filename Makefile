# Two commands on a fresh machine: `make plan` and `make test`. Everything lives in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: plan test lint bench clean

plan: .venv/ready
	$(BIN)/gangplan plan --site examples/ai2/site.yaml --snapshot examples/ai2/snapshot.json --out plan.json
	$(BIN)/gangplan verify --site examples/ai2/site.yaml --snapshot examples/ai2/snapshot.json --plan plan.json

test: .venv/ready lint
	$(BIN)/pytest -q -n 2 --dist worksteal

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/ready
	$(BIN)/python -m benchmarks.rounds

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv plan.json
