# Everything uses .venv and sets itself up; `make help` lists the targets.
PY := .venv/bin/python
READY := .venv/.ready
AXE := axe-core@4.14.1
AS_ROOT := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
COMPOSE_GO := github.com/compose-spec/compose-go/v2/cmd@v2.16.2
VERSITYGW := github.com/versity/versitygw/cmd/versitygw@v1.8.0
TEST_PROCESSES := 3# the tests on Kafka mostly wait: three keep two cores busy

.PHONY: help system check test demo up bench evidence evidence-gates evidence-results evidence-approval evidence-report evidence-audit evidence-faults soak schemas clean

help:
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/'

$(READY): pyproject.toml constraints.txt
	python3 -m venv .venv
	.venv/bin/pip install -q --disable-pip-version-check -c constraints.txt -e '.[embedded,dev]'
	@touch $@

system: ## install what lies outside .venv: a browser, axe-core, the commands' sandbox, traversal texts, a clock that jumps (Debian's apt, npm), the compose file's checker, an S3 server, gitleaks' samples (Go)
	command -v chromium && command -v chromedriver && command -v npm || \
	  { $(AS_ROOT) apt-get update && $(AS_ROOT) apt-get install -y --no-install-recommends chromium chromium-driver npm; }
	command -v bwrap && test -d /usr/share/wfuzz || \
	  { $(AS_ROOT) apt-get update && $(AS_ROOT) apt-get install -y --no-install-recommends bubblewrap util-linux wfuzz; }
	ls /usr/lib/*/faketime/libfaketimeMT.so.1 || \
	  { $(AS_ROOT) apt-get update && $(AS_ROOT) apt-get install -y --no-install-recommends libfaketime; }
	npm install --silent --no-audit --no-fund --prefix build/npm $(AXE)
	mkdir -p build/bin
	GOBIN=$(CURDIR)/build/bin go install $(COMPOSE_GO)
	mv -f build/bin/cmd build/bin/compose-go
	GOBIN=$(CURDIR)/build/bin go install $(VERSITYGW)
	cd tests/corpora/gitleaks_samples && go mod download

check: $(READY) ## format, lint, types, import contracts, topology = README = compose = schemas (seconds)
	.venv/bin/ruff format --check -q services tests
	.venv/bin/ruff check -q services tests
	.venv/bin/mypy
	.venv/bin/lint-imports --no-cache
	$(PY) -m pytest -q tests/architecture tests/schemas

test: $(READY) ## everything that must pass, real Kafka and ClickHouse's engine included
	FOURGATES_TEST_KAFKA=required $(PY) -m pytest -q -n $(TEST_PROCESSES) --no-loadscope-reorder

demo: $(READY) ## the whole story, scene by scene; figures in build/demo.json
	FOURGATES_KAFKA_LIBS=build/kafka-libs .venv/bin/fourgates demo

up: $(READY) ## leave everything running with the demo's shop, open the approver's page, say what to try
	FOURGATES_KAFKA_LIBS=build/kafka-libs .venv/bin/fourgates up --demo --open

bench: $(READY) ## figures of one run on one broker, in build/bench.json
	$(PY) tests/benchmarks/run.py

evidence: evidence-gates evidence-results evidence-approval evidence-report evidence-audit evidence-faults bench demo ## everything that writes a figure to build/

evidence-gates: $(READY) ## the corpora, into build/corpora (long; retail on Kafka)
	mkdir -p build/corpora
	$(PY) tests/corpora/json_test_suite.py --data ../shared/data/json-test-suite/test_parsing --json build/corpora/json_test_suite.json
	$(PY) tests/corpora/json_schema_suite.py --json build/corpora/json_schema_suite.json
	$(PY) tests/corpora/bfcl.py --json build/corpora/bfcl.json
	$(PY) tests/corpora/agentdyn.py --data ../shared/data/agentdyn --json build/corpora/agentdyn.json
	$(PY) tests/corpora/retail.py --data ../shared/data/retail --json build/corpora/retail.json --bus kafka

evidence-approval: $(READY) ## a hundred thousand waiting calls, expiry on time, agentack's judgement, in build/approval.json
	$(PY) tests/evidence/approval.py --json build/approval.json

evidence-results: $(READY) ## what the redaction finds, leaves alone and costs, in build/sanitizer.json
	$(PY) tests/evidence/sanitizer.py --data ../shared/data/agentdyn --json build/sanitizer.json

evidence-audit: $(READY) ## what the audit takes in, loses (nothing), answers in time and finds, in build/audit.json (ten million rows: long)
	$(PY) tests/evidence/audit.py --json build/audit.json

evidence-report: $(READY) ## the page of reports over two weeks of calls, light, dark and on a phone, in build/screens
	$(PY) tests/evidence/report_page.py

evidence-faults: $(READY) ## crashes, zombies, network, broker, log, clocks, disk, and mutants; figures in build/faults.json
	$(PY) tests/evidence/faults.py --json build/faults.json

MINUTES := 60
soak: $(READY) ## faults with other seeds again and again, for MINUTES (60); figures in build/soak.json
	$(PY) tests/evidence/faults.py --json build/soak.json --minutes $(MINUTES)

schemas: $(READY) ## write schemas/*.avsc from the record classes
	$(PY) -m fourgates.contract.avro_schema schemas

clean: ## remove what the targets made, but for .venv
	rm -rf build .fourgates .mypy_cache .ruff_cache .pytest_cache .hypothesis
