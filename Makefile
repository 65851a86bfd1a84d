# Everything a person types. `make` alone explains itself.
#
# The virtual environment holds exactly the versions in constraints.txt. It is made when it is needed
# and again when pyproject.toml or constraints.txt changed.

VENV ?= .venv
ARGS ?=

# The newest Python that can make a virtual environment. Debian has the parts for that in a package
# of its own, python3-venv.
PYTHON ?= $(shell for candidate in python3.13 python3.12 python3.11 python3.10 python3; do \
	if $$candidate -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' \
	2>/dev/null; then command -v $$candidate; break; fi; done)

INSTALLED := $(VENV)/installed
BIN := $(VENV)/bin

# uv does not read pip's configuration, so the two things that decide whether it reaches a package
# index at all are handed over: the index itself and the certificates.
LIKE_PIP = \
	index="$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}"; \
	certificates="$${PIP_CERT:-$$($(BIN)/python -m pip config get global.cert 2>/dev/null)}"; \
	if [ -n "$$index" ]; then \
		export UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$$index}"; fi; \
	if [ -n "$$certificates" ]; then \
		export SSL_CERT_FILE="$${SSL_CERT_FILE:-$$certificates}"; fi;

.DEFAULT_GOAL := help
.PHONY: help demo dev up test bench thorough conformance browser chart lint check constraints sbom vulnerabilities release clean ready

help: ## Show this.
	@echo 'Usage: make TARGET'
	@echo
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS='|' read -r target text; do printf '  %-16s%s\n' "$$target" "$$text"; done
	@echo
	@echo 'Needed: Python 3.10 or newer with venv (on Debian: apt-get install python3-venv). The'
	@echo 'first target installs everything else into $(VENV), PostgreSQL included.'
	@echo
	@echo 'Variables: PYTHON=python3.12 chooses the Python, VENV=DIRECTORY the environment,'
	@echo 'ARGS="tests/ledger -k stale" is passed to pytest, `filejobs demo` or `filejobs dev`;'
	@echo 'ARGS="memory --full" to the benchmarks, where ARGS=--help tells what there is.'

demo: ready ## Show a collector at work on a database and a bucket made for it, then its record.
	@$(BIN)/filejobs demo $(ARGS)

dev: ready ## Open the web UI on the demo's data; Ctrl-C stops the UI.
	@$(BIN)/filejobs dev $(ARGS)

up: ## Start the containers, for a trial unless .env says otherwise: web UI on port 3000.
	@deploy/prepare.sh
	@docker compose up --build --detach --wait

# pytest keeps its own bytecode of the tests, too: making it is two thirds of what collecting takes.
test thorough conformance browser: export PYTHONDONTWRITEBYTECODE :=

# A third of a test's time is waiting, so there is one more of them at once than processors of a
# small machine. Neighbours stay together: what a file's tests share is made once.
AT_ONCE = -n 3 --dist worksteal

# Few examples are drawn here, all of them in `make thorough`.
test: ready ## Run every test, on servers that start and end with it.
	@HYPOTHESIS_PROFILE=quick $(BIN)/python -m pytest $(AT_ONCE) -m 'not conformance and not thorough and not browser' $(ARGS)

bench: ready ## Measure speed, memory and delays, each against its alternative, in one table.
	@$(BIN)/python -m benchmarks $(ARGS)

thorough: ready ## Run the long tests: a million rows, drawn schedules, daemons, benchmarks.
	@$(BIN)/python -m pytest $(AT_ONCE) -m 'thorough or drawn' $(ARGS)

# Skipped where Ceph is not installed, unless FILEJOBS_PROMISED_CEPH=1 says that it is.
conformance: ready ## Delete from real S3 implementations, Ceph and SeaweedFS, and see what is left.
	@$(BIN)/python -m pytest -rs -m conformance tests/conformance $(ARGS)

# Mostly they wait for daemons, so there are more of them at once than processors.
# Skipped where Chromium is not installed, unless FILEJOBS_PROMISED_CHROMIUM=1 says that it is.
browser: ready ## Use the web UI as an operator does, in a real browser, and keep a picture of each page.
	@$(LIKE_PIP) $(BIN)/uv pip install --quiet --python $(BIN)/python --constraints constraints.txt \
		--group browser
	@$(BIN)/python -m pytest -n 3 -rs -m browser tests/browser $(ARGS)

# The chart of the release of Dagster that pyproject.toml names, unpacked: make chart CHART=FOLDER
chart: ready ## Render deploy/helm/values.yaml with Dagster's chart in CHART, and check what comes out.
	@$(LIKE_PIP) $(BIN)/uv pip install --quiet --python $(BIN)/python --constraints constraints.txt \
		--group chart
	@FILEJOBS_PROMISED_CHART='$(CHART)' $(BIN)/python -m pytest -rs tests/embedded/test_elsewhere.py \
		$(ARGS)

lint: ready ## Check style, format and strict types.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy --strict

check: lint test thorough browser conformance ## Do what the continuous integration does.

constraints: ready ## Choose the newest versions that fit pyproject.toml, for Python 3.10 to 3.13.
	@sed -n '/^#/p' constraints.txt > constraints.txt.new
	@$(LIKE_PIP) $(BIN)/uv pip compile pyproject.toml --all-extras --group dev --group browser --group chart \
		--universal --python-version 3.10 --no-emit-index-url --no-header --no-annotate --quiet \
		>> constraints.txt.new
	@mv constraints.txt.new constraints.txt
	@echo 'constraints.txt is written. `make check` installs it and tells whether it holds.'

sbom: ready ## Write the bill of materials (CycloneDX) of what is installed to build/sbom.json.
	@mkdir -p build
	@$(BIN)/python -m tests.docs.supply > build/sbom.json

# Asks the package index about each pinned package, so it runs where the network allows that.
vulnerabilities: ready ## Look for known vulnerabilities in what constraints.txt pins.
	@$(LIKE_PIP) $(BIN)/uv tool run pip-audit --requirement constraints.txt --no-deps --disable-pip

release: ready ## Build sdist, wheel and man pages into dist, and run the demo from the wheel alone.
	rm -rf dist
	@$(LIKE_PIP) $(BIN)/uv build --quiet --build-constraints constraints.txt
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; $(LIKE_PIP) \
		$(BIN)/uv venv --quiet --python $(BIN)/python "$$folder/venv"; \
		$(BIN)/uv pip install --quiet --python "$$folder/venv/bin/python" \
			--constraints constraints.txt "$$(ls dist/*.whl)[embedded]"; \
		cd "$$folder" && venv/bin/filejobs demo && venv/bin/filejobs demo --stop
	@$(BIN)/filejobs man --to dist/man1
	@ls dist

clean: ## Remove the virtual environment, the demo's data and everything that was compiled.
	@test ! -x $(BIN)/filejobs || $(BIN)/filejobs demo --stop
	rm -rf $(VENV) .filejobs .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find filejobs_dagster tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +

# Dagster's imports take most of the time of every start, twice as much without bytecode. It is
# written here whatever PYTHONDONTWRITEBYTECODE says, which forbids it to running programs only.
ready: $(INSTALLED)
	@$(BIN)/python -m compileall -q filejobs_dagster tests benchmarks

$(INSTALLED): pyproject.toml constraints.txt
	@if [ -z "$(PYTHON)" ]; then \
		echo 'No Python 3.10 or newer that can make a virtual environment was found.' >&2; \
		echo 'On Debian and Ubuntu: apt-get install python3-venv' >&2; \
		echo 'Elsewhere: make PYTHON=/path/to/python3 TARGET' >&2; \
		exit 1; \
	fi
	@echo 'Installing into $(VENV) with $(PYTHON)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt uv
	@$(LIKE_PIP) $(BIN)/uv pip install --quiet --python $(BIN)/python --compile-bytecode \
		--constraints constraints.txt --build-constraints constraints.txt \
		--editable '.[embedded,inventory,scan]' --group dev
	@touch $@
