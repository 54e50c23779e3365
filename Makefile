# make validate    judge the shipped Mamba-2 kernels and one published kernel, and write reports
# make test        run every test
# make lint        ruff and mypy
# Each of these sets up .venv on its first run. With PYTHON=<interpreter> that interpreter is used as it is: nothing is
# installed and no network is needed (the published kernel is then judged only if it is in the cache).

VENV := .venv
STAMP := $(VENV)/.installed
OUT ?= replaycheck-report
CORES := $(shell nproc 2>/dev/null || echo 2)
WORKERS ?= $(shell [ $(CORES) -gt 8 ] && echo 8 || echo $(CORES))

ifeq ($(origin PYTHON),undefined)
PYTHON := $(VENV)/bin/python
READY := $(STAMP)
else
READY := imports
endif

export PYTHONPATH := .:kernels:reference
# one thread a process: several processes run side by side
export OMP_NUM_THREADS ?= 1

REQUIRED := torch triton numpy scipy hypothesis mpmath ml_dtypes safetensors jinja2 matplotlib rich pytest
TESTING := xdist pytest_timeout
OPTIONAL := flint jsonschema gfloat
FIND := import sys; from importlib.util import find_spec; print(*[m for m in sys.argv[1:] if find_spec(m) is None])

.PHONY: setup imports validate test lint clean

setup: $(STAMP)

$(STAMP): requirements.txt pyproject.toml
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python3 is $$(python3 -V); 3.11 or newer is needed" >&2; exit 2; }
	python3 -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.txt
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

imports:
	@missing=$$($(PYTHON) -c '$(FIND)' $(REQUIRED)) || exit 2; \
	if [ -n "$$missing" ]; then echo "$(PYTHON) lacks: $$missing" >&2; exit 2; fi
	@absent=$$($(PYTHON) -c '$(FIND)' $(OPTIONAL)); \
	if [ -n "$$absent" ]; then echo "$(PYTHON) has no $$absent: optional, what needs them is skipped and says so"; fi

validate: $(READY)
	@$(PYTHON) .ci/validate.py --out $(OUT)

test: $(READY)
	@missing=$$($(PYTHON) -c '$(FIND)' $(TESTING)) || exit 2; \
	if [ -n "$$missing" ]; then echo "$(PYTHON) lacks: $$missing" >&2; exit 2; fi
	$(PYTHON) -m pytest -q -n $(WORKERS) --dist worksteal $(ARGS)

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

clean:
	rm -rf $(VENV) build dist replaycheck-report .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
