BIN := .venv/bin
READY := .venv/ready
PYTEST := $(BIN)/python -m pytest -q
# The numerical libraries' own threads cost ten times what they bring when processes share the cores.
export OMP_NUM_THREADS = 1
# A container may forbid Python to keep compiled modules; then every process that starts compiles all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo demo-kafka notebooks notebook-outputs quick test conformance check bench findings plots soak wheel lock clean
.DEFAULT_GOAL := help

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-16s  %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## make .venv: the pinned packages, this checkout, a Java where there is none

$(READY): pyproject.toml constraints.txt constraints-java.txt scripts/setup
	@scripts/setup
	@touch $@

demo: $(READY)  ## a first run, start to end; ENGINE=local needs no Java, FRESH=1 starts over
	@$(BIN)/python scripts/demo.py $(if $(ENGINE),--set engine.type=$(ENGINE)) $(if $(FRESH),--fresh)

demo-kafka: $(READY)  ## from topic to topics through a kill -9, with a broker of its own
	@$(BIN)/python scripts/demo_kafka.py

notebooks: $(READY) .venv/jupyter  ## open the notebooks in JupyterLab, which the first time installs; ARGS are passed on
	@$(BIN)/python -m jupyterlab --ServerApp.ip=127.0.0.1 --notebook-dir=notebooks $(ARGS)

.venv/jupyter: constraints-notebooks.txt | $(READY)
	@scripts/setup notebooks
	@touch $@

notebook-outputs: $(READY)  ## run the notebooks at full size and keep their outputs; ARGS="01 04" for some
	@$(BIN)/python scripts/notebooks.py $(ARGS)

quick: $(READY)  ## ruff, and the tests without Spark and brokers: for the edit loop
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(PYTEST) -m "not spark and not kafka and not long and not matrix and not soak" -n 2 --dist loadgroup

test: check  ## the checks, then every test but the rest of the matrix and the soak
	@$(PYTEST) -m "not matrix and not soak" -n 2 --dist loadgroup

conformance: $(READY)  ## the rest of the matrix, which `test` leaves out: every pipeline, delivery, engine and crash point
	@$(PYTEST) tests -m "matrix and not soak" -n 2 --dist load

check: $(READY)  ## ruff, mypy and the import contracts
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

bench: $(READY)  ## measure, print a table, write bench.json, extend the history; PEERS=1 adds other tools, ARGS are passed on
	@$(BIN)/python benchmarks/run.py $(if $(PEERS),--peers) $(ARGS)

findings: $(READY)  ## run all studies, write docs/findings and the evidence of advice; NEWS=, AG_NEWS= name labelled text
	@$(BIN)/python -m scripts.findings $(if $(NEWS),NEWS=$(NEWS)) $(if $(AG_NEWS),AG_NEWS=$(AG_NEWS))

plots: $(READY)  ## draw the pictures of docs/plots, on generated records; ARGS="trending joined" for some
	@$(BIN)/python -m scripts.plots $(ARGS)

soak: $(READY)  ## the tests that take long
	@$(PYTEST) -m soak

wheel: $(READY)  ## build dist/millstream-*.whl, with the pinned build tools
	@$(BIN)/python -m hatchling build --target wheel --directory dist

lock:  ## resolve the pins again (needs uv); ARGS="--upgrade" or ARGS="--upgrade-package NAME"
	@uv pip compile pyproject.toml --extra all --group dev --universal --python-version 3.11 --fork-strategy fewest \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --quiet $(ARGS) --output-file constraints.txt
	@echo 'jupyterlab>=4.4,<5' | uv pip compile - --constraints constraints.txt --universal --python-version 3.11 \
		--generate-hashes --no-header --no-annotate --no-emit-index-url --quiet $(ARGS) --output-file constraints-notebooks.txt

clean:  ## remove .venv, builds and caches; runs stay
	@rm -rf .venv .bench build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
	@find platform connectors models pipelines benchmarks tests scripts -name __pycache__ -prune -exec rm -rf {} +
