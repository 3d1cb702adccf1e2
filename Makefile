# `make demo` and `make test` need Python 3.11+ and make, nothing else; they set up .venv by themselves.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := torch==2.13.0
CPU_WHEELS := https://download.pytorch.org/whl/cpu
IMAGES := airflow cpu seaweedfs dockerproxy
SETS = ^[[:space:]]*(export[[:space:]]+)?$(1)[[:space:]]*[=:][[:space:]]*
COMPOSE = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || command -v docker-compose || echo $(BIN)/docker-compose)

.DEFAULT_GOAL := help
.PHONY: help install bench-install demo test test-containers test-airflow lint ui lock lock-images images up down logs clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

install: $(VENV)/.installed ## create .venv with everything

# torch comes first: its CPU build where no GPU is seen, so that nobody downloads gigabytes of CUDA for nothing.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, this is " + sys.version) if sys.version_info < (3, 11) else None'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv
	command -v nvidia-smi >/dev/null || $(BIN)/python -c 'import torch' 2>/dev/null \
		|| $(BIN)/python -m pip install -q --no-deps --retries 0 --index-url $(CPU_WHEELS) $(TORCH) \
		|| $(BIN)/python -m pip install -q --no-deps $(TORCH)
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install -q --compile-bytecode -c constraints.txt -e '.[steps,airflow,llm,s3,dev]'
	touch $@

bench-install: install ## what the scripts in benchmarks/ compare with, too
	VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install -c constraints.txt -e '.[bench]'

demo: install ## raw PDFs become a better retriever, through Airflow: make demo [LLM=smollm2] [SIZE=33m]
	$(BIN)/python -m pipeline_tasks.demo $(if $(LLM),--llm $(LLM)) $(if $(SIZE),--size $(SIZE))

# Bytecode is kept even where the environment forbids it: tests start hundreds of processes of this checkout.
test: lint ## lint, types and all tests
	PYTHONDONTWRITEBYTECODE= OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test-containers: install ## tests that need a Docker engine; one is started where none answers
	tests/containers/engine.sh run sh -c 'containers/build $(IMAGES) && $(BIN)/python -m pytest -m containers tests/containers'

test-airflow: install ## the page and DAG runs on the oldest and the newest Airflow that pyproject.toml allows
	tests/oldest_and_newest_airflow.sh

lint: install ## format check, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

ui: install ## Airflow with these DAGs at http://127.0.0.1:8080
	$(BIN)/python -m pipeline_tasks.demo --ui

lock: install ## newest versions into constraints.txt, and their hashes into what the images install
	containers/lock --upgrade

lock-images: ## the digests of the base images into images.lock; needs registries
	containers/lock --images

images: ## build the images: make images IMAGES=gpu
	containers/build $(IMAGES)

up: ## Airflow, Postgres and an object store in containers, at http://127.0.0.1:8080
	$(PYTHON) containers/write_env.py
	containers/build $(IMAGES) $$(grep -qE '$(call SETS,GPUS)[[:punct:]]?[1-9]' .env && echo gpu) \
		$$(grep -qE '$(call SETS,COMPOSE_PROFILES).*llm-cpu' .env && echo llm)
	$(COMPOSE) up --detach --wait --no-build
	@echo "http://127.0.0.1:$$(sed -nE 's/$(call SETS,PORT)//p' .env): log in as $$(sed -nE 's/$(call SETS,ADMIN_USER)//p' .env), password in .env"

# Steps are no part of the project of Compose, and hold its network. First what would try them again, then they.
down: ## stop them, and the steps that run; what they hold stays
	$(COMPOSE) stop
	steps=$$(docker ps --all --quiet --filter \
		label=retriever-foundry/network=$$($(COMPOSE) config | sed -n 's/^name: //p')_steps) \
		&& { [ -z "$$steps" ] || { docker stop $$steps && docker rm $$steps; }; }
	$(COMPOSE) down

logs: ## follow what they say
	$(COMPOSE) logs --follow --tail 100

# An answer that was paid for cannot be had again for nothing; those of the demo's own writers cost 0.
clean: ## forget the demo: its store, its Airflow, the environment; with answers that were paid for: ANSWERS=gone
	@[ "$(ANSWERS)" = gone ] || ! { [ -d .foundry/store/spending ] \
		|| grep -rqsE '"cost_usd":[0-9.]*[1-9]' .foundry/store/responses; } \
		|| { echo ".foundry/store has answers that were paid for: move it and set FOUNDRY_STORE," \
			"or delete them too with 'make clean ANSWERS=gone'" >&2; exit 2; }
	rm -rf .foundry $(VENV)
