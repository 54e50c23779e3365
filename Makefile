# make validate    judge the shipped kernels and one published kernel, and write reports
# make test        run every test
# make lint        ruff and mypy
# Each of these sets up .venv on its first run. With PYTHON=<interpreter> that interpreter is used as it is: nothing is
# installed and no network is needed (where the published kernel is neither in the cache nor to be fetched, a line says so).

VENV := .venv
STAMP := $(VENV)/.installed
OUT ?= replaycheck-report
SUITE ?= quick
DEVICE ?= cpu
OURS := mamba2-step mamba2-replay mamba2-verify mamba2-saving \
        gdn-step gdn-replay gdn-replay-bf16 kda-step kda-replay kda-replay-bf16
PUBLISHED := sglang-selective-state-update
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
# an interpreter in which replaycheck is not installed finds no entry point
export PYTEST_PLUGINS := replaycheck.plugin

REQUIRED := torch triton numpy scipy hypothesis mpmath ml_dtypes safetensors jinja2 matplotlib rich pytest
TESTING := xdist pytest_timeout
OPTIONAL := flint jsonschema gfloat
JUDGE = $(PYTHON) -m replaycheck validate --suite $(SUITE) --device $(DEVICE) --out $(OUT)
FIND := import sys; from importlib.util import find_spec; print(*[m for m in sys.argv[1:] if find_spec(m) is None])

.PHONY: setup imports validate test lint clean

setup: $(STAMP)

$(STAMP): requirements.txt pyproject.toml
	@python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "python3 is $$(python3 -V); 3.11 or newer is needed" >&2; exit 2; }
	python3 -m venv $(VENV)
	$(VENV)/bin/python -m pip install -qq --disable-pip-version-check -r requirements.txt
	$(VENV)/bin/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

imports:
	@missing=$$($(PYTHON) -c '$(FIND)' $(REQUIRED)) || exit 2; \
	if [ -n "$$missing" ]; then echo "$(PYTHON) lacks: $$missing" >&2; exit 2; fi
	@absent=$$($(PYTHON) -c '$(FIND)' $(OPTIONAL)); \
	if [ -n "$$absent" ]; then echo "$(PYTHON) has no $$absent: optional, what needs them is skipped and says so"; fi

# Ours must pass. What is found in the published kernel is reported and does not fail the target (exit codes 1 and 3); an error of the
# tool or of the adapter does (2 and 4).
validate: $(READY)
	@ours=0; $(JUDGE) $(OURS) || ours=$$?; \
	published=0; if $(PYTHON) -m replaycheck.adapters.foreign; then $(JUDGE) $(PUBLISHED) || published=$$?; fi; \
	case $$published in 1|3) echo "$(PUBLISHED): reported as found; the kernels of this repository decide this target";; esac; \
	[ $$ours -eq 0 ] || exit $$ours; \
	case $$published in 0|1|3) ;; *) exit $$published;; esac

# a process that crashes after its last test fails none: the fault handler says at least where it was
test: $(READY)
	@missing=$$($(PYTHON) -c '$(FIND)' $(TESTING)) || exit 2; \
	if [ -n "$$missing" ]; then echo "$(PYTHON) lacks: $$missing" >&2; exit 2; fi
	PYTHONFAULTHANDLER=1 $(PYTHON) -m pytest -q -n $(WORKERS) --dist loadscope $(ARGS)

lint: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

clean:
	rm -rf $(VENV) build dist replaycheck-report .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
