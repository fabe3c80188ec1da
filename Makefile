# Two commands: `make demo` and `make test`. Both do all set-up themselves.
VENV := .venv
PYTHON ?= python3
BIN := $(VENV)/bin
READY := $(VENV)/.ready

# Some container images set this. Every process of the tests would compile all its modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint docs bench-runs bench-silence bench-kills bench-bugs bench-prefail bench-hunt bench-triage bench-sieve bench-fcatch bench-deminer bench-cofi bench-agent bench-jvm bench-trace bench-heap bench-linearizability bench-report bench-regions bench-zookeeper bench-scale case transparency clean

demo: $(READY)
	$(BIN)/undermine demo

# One run decides: a test that fails now and then is a defect of the test or of the product.
test: $(READY) lint
	$(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/mypy

# The page about the objects of plug-ins, from the docstrings of the code.
docs: $(READY)
	$(BIN)/python docs/generate.py

bench-runs: $(READY)
	$(BIN)/python -m bench.runs

bench-bugs: $(READY)
	$(BIN)/python -m bench.bugs $(ARGS)

bench-silence: $(READY)
	$(BIN)/python -m bench.silence

bench-kills: $(READY)
	$(BIN)/python -m bench.kills $(ARGS)

bench-prefail: $(READY)
	$(BIN)/python -m bench.prefail $(ARGS)

bench-hunt: $(READY)
	$(BIN)/python -m bench.hunt $(ARGS)

bench-triage: $(READY)
	$(BIN)/python -m bench.triage $(ARGS)

bench-sieve: $(READY)
	$(BIN)/python -m bench.sieve $(ARGS)

bench-fcatch: $(READY)
	$(BIN)/python -m bench.fcatch $(ARGS)

bench-deminer: $(READY)
	$(BIN)/python -m bench.deminer $(ARGS)

bench-cofi: $(READY)
	$(BIN)/python -m bench.cofi $(ARGS)

case: $(READY)
	$(BIN)/python -m bench.case $(CASE) $(N)

$(READY): pyproject.toml undermine/__init__.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	touch $(READY)

bench-trace: $(READY)
	$(BIN)/python -m bench.trace $(ARGS)

bench-heap: $(READY)
	$(BIN)/python -m bench.heap $(ARGS)

bench-linearizability: $(READY)
	$(BIN)/python -m bench.linearizability $(ARGS)

bench-report: $(READY)
	$(BIN)/python -m bench.report $(ARGS)

bench-regions: $(READY)
	$(BIN)/python -m bench.regions

bench-zookeeper: $(READY)
	$(BIN)/python -m bench.zookeeper $(ARGS)

bench-scale: $(READY)
	$(BIN)/python -m bench.scale $(ARGS)

bench-agent: $(READY)
	$(BIN)/python -m bench.agent

bench-jvm: $(READY)
	$(BIN)/python -m bench.jvm $(ARGS)

transparency: $(READY)
	$(BIN)/python -m bench.transparency

clean:
	rm -rf $(VENV) .venv-bench .mypy_cache .ruff_cache .pytest_cache undermine-demo
