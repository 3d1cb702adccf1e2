"""``make demo``: the sample corpus, served and crawled, becomes a trained and evaluated retriever, through Airflow."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from rich.console import Console

from pipeline_tasks.core.errors import FoundryError, InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import open_store
from pipeline_tasks.demo.airflow import local_run, web
from pipeline_tasks.demo.gate import check_trained, check_written
from pipeline_tasks.demo.progress import followed
from pipeline_tasks.demo.report import Report
from pipeline_tasks.demo.runs import FOR_TWO_CORES, SIZE, corpus_runs, training_runs
from pipeline_tasks.demo.site import URL_LIST, build_site, serve_site
from pipeline_tasks.demo.writer import RECORDING, SMALL, Writer, writer
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.models.fetch import fetch, is_here
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.sizes import SIZES, backbone
from pipeline_tasks.models.use import LLM, REFERENCE_MODELS

SITE_PORT = 8741
"""Fixed, because a document's URL is part of its id."""


def main() -> int:
    """Run the demo, or with ``--ui`` keep its servers up behind Airflow's own scheduler and web pages."""
    parser = argparse.ArgumentParser(prog="make demo", description=main.__doc__)
    parser.add_argument("--home", type=Path, default=Path(".foundry"), help="folder for store, site and Airflow")
    parser.add_argument("--ui", action="store_true", help="Airflow's web pages on loopback instead of one run")
    parser.add_argument("--port", type=int, default=8080, help="port of Airflow's web pages")
    parser.add_argument("--llm", default="", help=f"who writes: {RECORDING}, {SMALL}, or a model of OPENAI_BASE_URL")
    parser.add_argument("--size", default=SIZE, choices=SIZES, help="size of the model to train")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    console = Console(markup=False) if sys.stdout.isatty() else Console(width=140, markup=False)
    home = options.home.absolute()
    try:
        sizes = tuple(FOR_TWO_CORES) if options.ui else (options.size,)
        fetch_models(console, sizes, small=options.ui or options.llm == SMALL)
        otherwise = SMALL if options.ui else RECORDING
        with writer(options.llm, settings(), otherwise) as chosen, servers(home, chosen) as environment:
            if options.ui:
                return web(home / "airflow", options.port, environment)
            return run(home, environment, chosen, options.size, console)
    except FoundryError as error:
        console.print(f"demo: {error}", style="red")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def fetch_models(console: Console, sizes: Sequence[str], *, small: bool) -> None:
    """Bring every model that the demo uses into the cache, unless it is there; ``small``: the one that writes, too."""
    wanted = (*REFERENCE_MODELS, *((LLM,) if small else ()), *(backbone(size).name for size in sizes))
    missing = [spec for spec in map(get, dict.fromkeys(wanted)) if not is_here(spec, settings().cache)]
    clock = time.monotonic()
    for spec in missing:
        console.print(f"fetching {spec.name} ({spec.n_params / 1e6:.0f} M parameters)")
        fetch(spec, settings().cache, settings().profile)
    if missing:
        console.print(f"fetched {len(missing)} models in {time.monotonic() - clock:.0f} s; the next run has them")


@contextmanager
def servers(home: Path, chosen: Writer) -> Iterator[dict[str, str]]:
    """The sample site on loopback; yields the environment in which steps find it and the writer."""
    site = home / "site"
    build_site(domain_folder() / "sample", site)
    environment = os.environ | {
        "FOUNDRY_STORE": str(home / "store"),
        "FOUNDRY_CACHE": str(settings().cache),
        "FOUNDRY_DOMAIN": settings().domain,
        "AIRFLOW_VAR_FOUNDRY_SOURCE": f"http://127.0.0.1:{SITE_PORT}/{URL_LIST}",
        "FOUNDRY_ALLOW_HOSTS": f"127.0.0.1:{SITE_PORT}",
    }
    with serve_site(site, port=SITE_PORT):
        yield environment | chosen.environment


def run(home: Path, environment: dict[str, str], chosen: Writer, size: str, console: Console) -> int:
    """Run the chain through the DAGs; show what each stage did, then what came out."""
    store = open_store(home / "store")
    report = Report(store, home, datetime.now(UTC), console)
    console.print(check_written(domain_folder()))
    log = home / "airflow" / "logs" / "local_run.log"
    for runs in (corpus_runs(chosen), training_runs(size)):
        with followed(log, partial(console.print, style="dim", highlight=False)):
            code = local_run(home / "airflow", environment, runs)
        if code:
            raise InputError(f"the chain stopped; its log is {log}")
        report.show_stages()
    console.print(check_trained(store))
    report.finish(size)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except subprocess.SubprocessError as error:
        sys.exit(f"demo: {error}")
