"""``foundry doctor``: what this machine has and lacks."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import typer
from rich.markup import escape
from rich.table import Table

from pipeline_tasks.cli.inspect import sized, store
from pipeline_tasks.cli.terminal import console
from pipeline_tasks.core.confine import CALLS, LAYERS, NAMESPACE, held_here
from pipeline_tasks.core.errors import FoundryError
from pipeline_tasks.core.paid.endpoint import FREE
from pipeline_tasks.core.paid.spending import key_of, read_state, spent
from pipeline_tasks.core.parameters import of_installation
from pipeline_tasks.core.registry import get_step, step_names
from pipeline_tasks.core.resources import configured, resources_of
from pipeline_tasks.core.settings import Settings, settings
from pipeline_tasks.core.store.bucket import Bucket
from pipeline_tasks.core.store.conditions import check_conditions

_LOW_DISK_BYTES = 5 * 1024**3


@dataclass(frozen=True)
class Check:
    """One thing a machine has or lacks; ``needed`` where the pipeline cannot run without it."""

    name: str
    ok: bool
    found: str
    needed: bool = False


def doctor_command() -> None:
    """What this machine has and lacks; exit code 2 where something needed is missing."""
    table = Table("", "what", "found")
    found = list(checks(settings()))
    for check in found:
        mark = "[green]ok[/green]" if check.ok else "[red]missing[/red]" if check.needed else "[yellow]absent[/yellow]"
        table.add_row(mark, check.name, escape(check.found))
    console().print(table)
    if any(check.needed and not check.ok for check in found):
        raise typer.Exit(2)


def checks(found: Settings) -> Iterator[Check]:
    """The store, disk, limits, domain, models, LLM endpoint, GPU, processor, engine, Docker; nothing stays changed."""
    yield _store(found)
    folder = _existing(found.store if isinstance(found.store, Path) else found.store_cache)
    free = shutil.disk_usage(folder).free
    yield Check("disk", free > _LOW_DISK_BYTES, f"{sized(free)} free at {folder}")
    yield _resources(found)
    yield _parameters(found)
    yield _domain()
    yield _models(found)
    yield _endpoint(found)
    if found.openai_base_url:
        yield _budget(found)
    yield _gpu()
    yield _half_precision()
    yield from _engine(found)
    docker = shutil.which("docker")
    yield Check("Docker", docker is not None, docker or "no docker command; the process back-end does without")
    yield _readers()


def _store(found: Settings) -> Check:
    if isinstance(found.store, Path):
        return Check("store", os.access(_existing(found.store), os.W_OK), f"{found.store}", needed=True)
    try:
        next(iter(store().entries("refs")), None)
        check_conditions(Bucket(found.store))
    except FoundryError as error:
        return Check("store", False, str(error), needed=True)
    return Check("store", True, f"{found.store} answers; copies in {found.store_cache}", needed=True)


def _resources(found: Settings) -> Check:
    if found.resources is None:
        return Check("resources", True, "each step as it declares; FOUNDRY_RESOURCES names a file that changes it")
    try:
        tables = configured()
        for name in step_names():
            resources_of(get_step(name))
    except FoundryError as error:
        return Check("resources", False, str(error), needed=True)
    entries = [
        f"{name} ({', '.join(f'{field} {value:g}' for field, value in table.model_dump(exclude_none=True).items())})"
        for name, table in tables.items()
    ]
    return Check("resources", True, f"{found.resources}: {'; '.join(entries) or 'nothing'}", needed=True)


def _parameters(found: Settings) -> Check:
    if found.parameters is None:
        return Check("parameters", True, "as steps declare; FOUNDRY_PARAMETERS names a file that changes them")
    try:
        tables = of_installation().items()
    except FoundryError as error:
        return Check("parameters", False, str(error), needed=True)
    said = ", ".join(f"{table}.{name} = {value}" for table, values in tables for name, value in values.items())
    return Check("parameters", True, f"{found.parameters}: {said or 'nothing'}", needed=True)


def _domain() -> Check:
    from pipeline_tasks.domains import domain_told

    try:
        return Check("domain", True, domain_told().removeprefix("domain "), needed=True)
    except FoundryError as error:
        return Check("domain", False, str(error), needed=True)


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.parents) if p.exists())


def _models(found: Settings) -> Check:
    from pipeline_tasks.models.fetch import is_here
    from pipeline_tasks.models.registry import get, models
    from pipeline_tasks.models.sizes import SIZES
    from pipeline_tasks.models.use import is_served
    from pipeline_tasks.retrieval.reference_models import default_models

    if found.profile == "hub":
        usable = [spec for name in default_models() if not is_served(spec := get(name))]
    else:
        asked_for = {size.backbone for size in SIZES.values() if size.decoder}  # they are large, and no default
        usable = [spec for spec in models() if spec.offline and spec.name not in asked_for]
    lacking = [spec.name for spec in usable if not is_here(spec, found.cache)]
    text = f"all {len(usable)} that the {found.profile} profile needs"
    if lacking:
        text = f"not in {found.cache}: {', '.join(lacking)}; run `foundry models fetch NAME`"
    return Check("models", not lacking, text, needed=True)


def _endpoint(found: Settings) -> Check:
    if not found.openai_base_url:
        return Check("LLM endpoint", False, "OPENAI_BASE_URL is not set; `make demo` serves recorded answers instead")
    import httpx

    host = urlsplit(found.openai_base_url).hostname
    key = found.openai_api_key.get_secret_value()
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        answer = httpx.get(f"{found.openai_base_url.rstrip('/')}/models", headers=headers, timeout=5.0)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return Check("LLM endpoint", False, f"{host} does not answer ({type(error).__name__})", needed=True)
    fine = answer.status_code == httpx.codes.OK
    return Check("LLM endpoint", fine, f"{host} answers {answer.status_code}{_rooms(answer.content)}", needed=True)


def _rooms(models: bytes) -> str:
    """What an endpoint tells of its models, in words; nothing where it tells nothing."""
    from pipeline_tasks.synthesis.llm.context_check import contexts

    try:
        rooms = [f"{name} ({room:,} tokens)" for name, room in contexts(json.loads(models)).items() if room]
    except ValueError:
        return ""
    return f": {', '.join(rooms)}" if rooms else ""


def _engine(found: Settings) -> Iterator[Check]:
    """The cluster where one is configured, without which no step gets far then, and each of its nodes."""
    if found.engine == "local":
        yield Check("engine", True, f"this machine, {found.workers} processes; FOUNDRY_ENGINE=ray takes a cluster")
        return
    from pipeline_tasks.core.engines.cluster import nodes_at

    try:
        there = nodes_at(found.ray_address)
    except FoundryError as error:
        yield Check("engine", False, str(error), needed=True)
        return
    cpus, gpus, memory = (sum(of) for of in zip(*((n.cpus, n.gpus, n.memory_bytes) for n in there), strict=True))
    what = f"Ray, {len(there)} {'node' if len(there) == 1 else 'nodes'}: {cpus:g} CPUs, {gpus:g} GPUs, {sized(memory)}"
    yield Check("engine", cpus >= 1, what if cpus >= 1 else f"{what}: add a node that offers a CPU", needed=True)
    for node in there:
        cards = f"{node.gpus:g} GPUs" + (f" ({node.gpu_kind})" if node.gpu_kind else "")
        head = ", the head" if node.is_head else ""
        yield Check(f"node {node.name}", True, f"{node.cpus:g} CPUs, {cards}, {sized(node.memory_bytes)}{head}")


def _readers() -> Check:
    held = held_here()
    lacking = [layer for layer in LAYERS if layer not in held]
    text = "; ".join(["confined by " + ", ".join(held)] * bool(held) + ["not by " + ", ".join(lacking)] * bool(lacking))
    return Check("PDF readers", bool({NAMESPACE, CALLS} & set(held)), text)


def _budget(found: Settings) -> Check:
    from pipeline_tasks.synthesis.llm.endpoint import ACCOUNT, llm_limits

    try:
        costs = _costs(found)
        state = read_state(store(), key_of(ACCOUNT))
    except FoundryError as error:
        return Check("LLM budget", False, str(error), needed=True)
    usd, tokens = (spent(state, unit, "month") for unit in ("usd", "tokens"))
    of = ", ".join(f"{limit.name}={limit.most:g}" for limit in llm_limits(found)) or "no limit"
    return Check("LLM budget", True, f"{costs}; {usd:,.2f} dollars and {tokens:,.0f} tokens this month (UTC): {of}")


def _costs(found: Settings) -> str:
    """What an answer costs, in words: by model, where prices are listed and none is set."""
    from pipeline_tasks.models.prices import models_listed
    from pipeline_tasks.synthesis.llm.endpoint import llm_price

    models = models_listed(urlsplit(found.openai_base_url).hostname or "")
    if models and found.llm_price_in is found.llm_price_out is None:
        return f"listed prices of {', '.join(models)}"
    price = llm_price(found, "")
    return "free" if price == FREE else f"{price.prompt:g} and {price.completion:g} dollars per million tokens"


def _gpu() -> Check:
    if find_spec("torch") is None:
        return Check("GPU", False, "torch is not installed; the cpu image and steps need it")
    import torch

    names = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Check("GPU", bool(names), ", ".join(names) or "none; training runs on the processor")


def _half_precision() -> Check:
    if find_spec("torch") is None:
        return Check("half precision", False, "torch is not installed")
    from pipeline_tasks.encoders.half_precision import slow_here

    if why := slow_here("bfloat16", "cpu"):
        return Check("half precision", False, f"{why}: on it train with precision=fp32 and encode in float32")
    return Check("half precision", True, "this processor has instructions for bfloat16")
