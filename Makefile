# Each target makes its own .venv when needed; only Python 3.11 or newer and a C compiler must be there.
# `make repro PYTHON=/path/to/python3` chooses the interpreter.

BIN := .venv/bin
PYTHONS := python3.14 python3.13 python3.12 python3.11 python3
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help repro repro-onnxruntime diagnose test lint bench soak clean

help:
	@echo "make repro   make the hangs of two scenarios happen, catch them, print the tables (under two minutes)"
	@echo "make repro-onnxruntime  the real one: onnxruntime 1.27.0 is caught, 1.28.0 passes (under five minutes; downloads)"
	@echo "make diagnose  walk the checklist over the story as first told, qmoe-fp16-barrier"
	@echo "make test    the linters, then all tests but the soak"
	@echo "make lint    ruff, mypy and the workflows"
	@echo "make bench   the figures of docs/, on a quiet machine"
	@echo "make soak    long runs under load"
	@echo "make clean   remove what was built here: build/, dist/, .venv/ and caches"

RECORD = build/$@-$$(date -u +%Y%m%dT%H%M%SZ)-$$$$.db

repro: .venv/installed
	@mkdir -p build
	@db="$(RECORD)"; status=0; \
	for scenario in raw-spin-flag qmoe-fp16-barrier; do \
	    echo "livetrap run $$scenario --db $$db"; \
	    $(BIN)/livetrap run $$scenario --db "$$db" || { ended=$$?; [ $$status -eq 1 ] || status=$$ended; }; \
	    [ $$status -ne 130 ] || break; \
	done; \
	echo "the real ONNX Runtime, its wheels and all: make repro-onnxruntime"; exit $$status

repro-onnxruntime: .venv/installed
	@mkdir -p build
	$(BIN)/livetrap run onnxruntime-qmoe --db "$(RECORD)"

diagnose: .venv/installed
	@mkdir -p build
	$(BIN)/livetrap diagnose qmoe-fp16-barrier --db "$(RECORD)"

test: lint
	$(BIN)/python -m pytest -m "not soak" -n 2 --dist loadfile

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/zizmor --offline --quiet .github/workflows

bench: .venv/installed-test
	$(BIN)/python tests/bench/run.py

soak: .venv/installed-test
	$(BIN)/python -m pytest -m soak --timeout 3600

# The stamps are newer than pyproject.toml exactly when what it asks for is installed.
.venv/installed: pyproject.toml | .venv/made
	@echo "installing livetrap into .venv"
	@$(PIP) install --editable ".[qmoe]"
	@touch $@

.venv/installed-test: pyproject.toml | .venv/made
	@echo "installing livetrap and what its tests need into .venv"
	@$(PIP) install --editable ".[test]"
	@touch $@ .venv/installed

.venv/made:
	@python="$(PYTHON)"; \
	if [ -z "$$python" ]; then \
	    for each in $(PYTHONS); do \
	        if "$$each" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python="$$each"; break; fi; \
	    done; \
	fi; \
	if [ -z "$$python" ]; then \
	    echo "livetrap needs Python 3.11 or newer, and none of these is: $(PYTHONS)." >&2; \
	    echo "Install one (apt install python3 python3-venv, brew install python), or: make PYTHON=/path/to/python3" >&2; \
	    exit 3; \
	fi; \
	if ! "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
	    echo "livetrap needs Python 3.11 or newer; $$python is not." >&2; exit 3; \
	fi; \
	echo "making .venv with $$python"; \
	if ! "$$python" -m venv --clear .venv; then \
	    echo "$$python cannot make a virtual environment here; on Debian and Ubuntu: apt install python3-venv" >&2; exit 3; \
	fi
	@touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
