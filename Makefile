# Everything uses .venv and sets itself up; `make help` lists the targets.
PY := .venv/bin/python
READY := .venv/.ready

.PHONY: help system check test demo up bench evidence schemas clean

help:
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(READY): pyproject.toml constraints.txt
	python3 -m venv .venv
	.venv/bin/pip install -q --disable-pip-version-check -c constraints.txt -e '.[embedded,dev]'
	@touch $@

check: $(READY) ## format, lint, types, import contracts, topology (seconds)
	.venv/bin/ruff format --check -q services tests
	.venv/bin/ruff check -q services tests
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache
	$(PY) -m pytest -q tests/architecture tests/schemas

schemas: $(READY) ## write schemas/*.avsc from the record classes
	$(PY) -m fourgates.contract.avro_schema schemas
