# Two commands are all one needs: `make run` opens the app, `make test` checks everything.

PYTHON ?= $(shell for candidate in python3.14 python3.13 python3.12 python3.11 python3 python; do \
	command -v $$candidate >/dev/null 2>&1 && $$candidate -c 'import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	&& echo $$candidate && break; done)
BIN := .venv/bin

.PHONY: run test check bench-engine bench-sccl bench-clusterbert bench-live gpu-check clean

run: .venv/app-ready
	$(BIN)/python -m streamlit run app.py

# Two files at a time: the tests of one share their server and their weights.
test: check
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder

check: .venv/test-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Measurements, printed as ratios; needs TOPICSCOPE_DATA and a machine that does nothing else.
bench-engine: .venv/test-ready
	$(BIN)/python -m tests.benchmarks.engine

# Quality on the benchmark sets, resumable: what is in tests/benchmarks/RESULTS.jsonl is not run again.
bench-sccl: .venv/test-ready
	$(BIN)/python -m tests.benchmarks.quality sccl

bench-clusterbert: .venv/test-ready
	$(BIN)/python -m tests.benchmarks.quality clusterbert

# What pictures cost a training, and how soon they follow.
bench-live: .venv/test-ready
	$(BIN)/python -m tests.benchmarks.live

# A short training on CUDA or MPS, compared with the CPU; for people who have one.
gpu-check: .venv/test-ready
	$(BIN)/python -m tests.benchmarks.gpu_check

.venv/app-ready: requirements.txt
	@test -n "$(PYTHON)" || { echo "Topicscope needs Python 3.11 to 3.14 with venv; none was found."; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	@touch $@

# One command for both files: with torch pinned in it, nothing can ask for another build.
.venv/test-ready: .venv/app-ready tests/requirements.txt
	$(BIN)/python -m pip install --quiet --requirement requirements.txt --requirement tests/requirements.txt
	@touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
