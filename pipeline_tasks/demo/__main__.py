"""``make demo``: the sample corpus, served and crawled, becomes a trained and evaluated retriever, through Airflow."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from pipeline_tasks.core.errors import FoundryError, InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.demo.airflow import local_run, web
from pipeline_tasks.demo.report import write_report
from pipeline_tasks.demo.site import URL_LIST, build_site, serve_site
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.models.fetch import fetch, is_here, weights_of
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.serve_llm import serve
from pipeline_tasks.models.sizes import backbone
from pipeline_tasks.models.use import LLM, REFERENCE_MODELS

SITE_PORT = 8741
"""Fixed, because a document's URL is part of its id."""


def main() -> int:
    """Run the demo, or with ``--ui`` keep its servers up behind Airflow's own scheduler and web pages."""
    parser = argparse.ArgumentParser(prog="make demo", description=main.__doc__)
    parser.add_argument("--home", type=Path, default=Path(".foundry"), help="folder for store, site and Airflow")
    parser.add_argument("--ui", action="store_true", help="Airflow's web pages on loopback instead of one run")
    parser.add_argument("--port", type=int, default=8080, help="port of Airflow's web pages")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    console = Console() if sys.stdout.isatty() else Console(width=140)
    home = options.home.absolute()
    try:
        fetch_models(console)
        with servers(home) as environment:
            if options.ui:
                return web(home / "airflow", options.port, environment)
            return run(home, environment, console)
    except FoundryError as error:
        console.print(f"demo: {error}", style="red")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def fetch_models(console: Console) -> None:
    """Bring every model that the demo uses into the cache, unless it is there."""
    for name in (*REFERENCE_MODELS, LLM, backbone("33m").name):
        spec = get(name)
        if not is_here(spec, settings().cache):
            console.print(f"fetching {name} ({spec.n_params / 1e6:.0f} M parameters)")
            fetch(spec, settings().cache, settings().profile)


@contextmanager
def servers(home: Path) -> Iterator[dict[str, str]]:
    """The sample site and the LLM on loopback; yields the environment in which steps find them.

    A configured OPENAI_BASE_URL is used as it is, and no LLM is started.
    """
    site = home / "site"
    build_site(domain_folder() / "sample", site)
    found = settings()
    environment = os.environ | {
        "FOUNDRY_STORE": str(home / "store"),
        "FOUNDRY_CACHE": str(found.cache),
        "AIRFLOW_VAR_FOUNDRY_SOURCE": f"http://127.0.0.1:{SITE_PORT}/{URL_LIST}",
        "FOUNDRY_ALLOW_HOSTS": f"127.0.0.1:{SITE_PORT}",
    }
    with serve_site(site, port=SITE_PORT):
        if found.openai_base_url:
            yield environment
            return
        with serve(weights_of(get(LLM), found.cache), alias=LLM) as base_url:
            yield environment | {"OPENAI_BASE_URL": base_url}


def run(home: Path, environment: dict[str, str], console: Console) -> int:
    """Run the chain through the DAGs, then show what each stage did and what came out."""
    started, clock = datetime.now(UTC), time.monotonic()
    code = local_run(home / "airflow", environment)
    if code != 0:
        raise InputError(f"the chain stopped; its log is {home / 'airflow' / 'logs' / 'local_run.log'}")
    seconds = time.monotonic() - clock
    write_report(home / "store", home / "report.md", started, seconds, console)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as error:
        sys.exit(f"demo: {error}")
