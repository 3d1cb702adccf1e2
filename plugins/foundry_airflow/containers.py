"""What a call needs of an engine, whichever it is: image, command, limits, environment. All options are read here."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

from airflow.sdk.configuration import conf

from foundry_airflow import calls
from foundry_airflow.calls import FROM_A_FORM, Call
from pipeline_tasks import __version__
from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.resources import handed_on
from pipeline_tasks.core.settings import passed_on, secret_variables, settings
from pipeline_tasks.core.step import Resources

LABEL = "retriever-foundry"
TMP = "/tmp"  # noqa: S108
CERTIFICATES = "AWS_CA_BUNDLE"


@dataclass(frozen=True)
class Container:
    """A call as a container.

    Attributes:
        gpus: whole cards.
        cpus: cores at most; 0: no limit.
        timeout_s: it is ended after that, also where nobody watches any more; 0: never.
        environment: settings that anyone may see.
        secrets: settings that nobody may, of this step alone; empty where this process has none of that name.
    """

    name: str
    image: str
    command: tuple[str, ...]
    labels: dict[str, str]
    memory_mib: int
    cpus: float
    gpus: int
    timeout_s: int
    environment: dict[str, str]
    secrets: dict[str, str]


def option(name: str, fallback: str = "") -> str:
    """``[foundry] NAME`` of Airflow's configuration."""
    return str(conf.get("foundry", name, fallback=fallback)).strip()


def number(name: str, fallback: float) -> float:
    """The option ``name`` as a number that is not negative.

    Raises:
        InputError: it is none.
    """
    text = option(name, str(fallback))
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"[foundry] {name} is {text!r}; give a number, for example {fallback:g}")
    return value


def gpus_of(needs: Resources) -> int:
    """Whole cards that the container of a step gets."""
    usual = int(number("gpus", 1)) if needs.image == "gpu" else 0
    return usual if needs.gpus is None else needs.gpus


def container_of(call: Call) -> Container:
    """The container for ``call``: what its step may take, and the options of this installation."""
    needs = call.resources
    cpus = number("cpus", 0)
    gpus = gpus_of(needs)
    image = "gpu" if gpus else "cpu"
    known = passed_on(needs.secrets) | _places()
    secrets = {name: known.pop(name, "") for name in secret_variables(needs.secrets)}
    base = {"HOME": TMP} | ({"FOUNDRY_WORKERS": str(math.ceil(cpus))} if cpus else {})
    return Container(
        name=call.name,
        image=option(f"image_{image}", f"retriever-foundry/{image}:{__version__}"),
        command=(*calls.COMMAND, *call.arguments),
        labels={"app": LABEL, f"{LABEL}/step": call.step, f"{LABEL}/version": call.version},
        memory_mib=math.ceil(needs.memory_gib * 1024 * number("memory_factor", 1)),
        cpus=cpus,
        gpus=gpus,
        timeout_s=math.ceil(needs.timeout_minutes * 60),
        environment=base | known | certificates() | FROM_A_FORM | handed_on(call.step),
        secrets=secrets,
    )


def _places() -> dict[str, str]:
    """Settings that name a file or a folder, with its whole path: a container has a working directory of its own."""
    here = settings()
    places = {
        "STORE": here.store,
        "CACHE": here.cache,
        "STORE_CACHE": here.store_cache,
        "DOMAIN": here.domain,
        "SCRATCH": here.scratch,
        "LLM_PRICES": here.llm_prices,
        "SOURCE_ROOTS": os.pathsep.join(map(str, here.roots)),
    }
    return {f"FOUNDRY_{name}": str(place) for name, place in places.items() if place}


def folders() -> dict[str, str]:
    """What must be mounted: ``store``, ``cache``, ``store_cache``, ``domain`` and ``scratch`` -> their paths here.

    A store behind an address, its copies and scratch in the cache, and a domain of the package need nothing.
    """
    here = settings()
    names = ("store", "cache", "store_cache", "domain", "scratch")
    found = {name: path for name in names if Path(path := str(getattr(here, name) or "")).is_absolute()}
    if here.store_cache.is_relative_to(here.cache):
        del found["store_cache"]
    return found


def only_read() -> list[Path]:
    """What must be mounted to be read, under its path here: folders of sources, files of prices and of certificates.

    Raises:
        InputError: there is no such file of certificates.
    """
    named = [*settings().roots, *filter(None, [settings().llm_prices])]
    bundles = [Path(path) for path in certificates().values()]
    if missing := [path for path in bundles if not path.is_file()]:
        raise InputError(
            f"{CERTIFICATES}={missing[0]} is no file here, and steps know the store's server by it; "
            "put it there, or mend or unset the variable"
        )
    return [path for path in named if path.exists()] + bundles


def certificates() -> dict[str, str]:
    """``AWS_CA_BUNDLE`` with its whole path, if it is set."""
    path = passed_on(()).get(CERTIFICATES)
    return {CERTIFICATES: str(Path(path).absolute())} if path else {}
