# Verbs of the house. Each sets up what it needs by itself; CI uses the same ones.
#
#   make setup   .venv with everything, hot modules compiled where a C compiler is found
#   make demo    the product end to end, in a minute
#   make test    all tests that need PyPI and Java alone (compiled build, Spark, then the pure source)
#   make check   lint, types, import contracts, generated files up to date
#   make explore property tests and simulation on new random seeds (MINUTES=10)
#   make sim     1,000 simulation seeds and every planted bug
#   make fault   the long fault runs: kill -9 rounds, fuzzing, compaction at scale
#   make attack  a live broker under seeded rudeness, hunger and damage, with figures (MINUTES=15 SEED=7)
#   make bench   moldau and Apache Kafka side by side
#   make interop tests against Kafka's own tools, clients in other languages, and Kafka itself, answer by answer

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
STAMPS := .make
SOURCES := $(shell find src/moldau src/pyspark_moldau -name '*.py' -o -name '*.json') setup.py pyproject.toml

.PHONY: setup demo test test-compiled test-spark test-pure check explore sim fault attack bench interop docs clean

setup: $(STAMPS)/installed

$(STAMPS)/dependencies: pyproject.toml
	@mkdir -p $(STAMPS)
	@test -x $(PY) || $(PYTHON) tools/check_python.py
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "setup: installing dependencies into $(VENV)"
	@$(PY) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(PY) -m pip install --quiet --disable-pip-version-check --group dev
	@$(PY) tools/install_extras.py
	@touch $@

$(STAMPS)/installed: $(STAMPS)/dependencies $(SOURCES)
	@rm -rf build/lib* build/temp* build/bdist*
	@$(PY) tools/build_and_install.py
	@touch $@

demo: setup
	@$(BIN)/moldau demo

test: setup check test-compiled test-spark test-pure

test-compiled: setup
	@echo "test: the installed build"
	@$(PY) -m pytest tests --ignore=tests/interop --ignore=tests/simulation --ignore=tests/spark -n 2 --dist loadscope -q

# Each worker has a Spark session of its own, so whole files go to one of them.
test-spark: setup
	@echo "test: Spark"
	@$(PY) -m moldau.spark.java
	@$(PY) -m pytest tests/spark -n 2 --dist loadfile -q

# The same cores from source, uncompiled; simulation always runs here.
test-pure: setup
	@echo "test: the pure source"
	@PYTHONPATH=src $(PY) -m pytest tests/unit tests/property tests/transcripts tests/simulation -n 2 --dist loadscope -q

check: setup
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@PYTHONPATH=src $(BIN)/mypy
	@PYTHONPATH=src $(BIN)/lint-imports --no-cache

sim: setup
	@PYTHONPATH=src $(PY) -m moldau_sim --seeds 1000 --planted all

explore: MINUTES ?= 10
explore: setup
	@$(PY) tools/explore.py --minutes $(MINUTES)

fault: setup
	@$(PY) -m pytest tests/fault -q -m "not interop"

attack: MINUTES ?= 15
attack: SEED ?= 7
attack: setup
	@$(PY) -m tests.attack --minutes $(MINUTES) --seed $(SEED)

interop: setup
	@$(PY) -m pytest tests -q -rs -m interop

bench: setup
	@$(PY) -m bench.run

docs: setup
	@PYTHONPATH=src $(PY) tools/generate_reference.py

clean:
	rm -rf build dist .make $(VENV) .pytest_cache .mypy_cache .ruff_cache
