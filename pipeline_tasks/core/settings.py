"""Where things are and who pays: the only module that reads environment variables.

Settings never enter a version id by themselves: two machines with different settings build the same versions, where a
step's parameters do not say that it sees another world under one of them (other weights, other hosts).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.paths import absolute_path

OURS = ("FOUNDRY_", "AWS_", "OPENAI_", "BRAVE_", "RAY_ADDRESS", "RAY_AUTH_", "HF_TOKEN")
SECRET = {"KEY", "SECRET", "TOKEN", "PASSWORD"}
BARE = (
    "PATH",
    "LD_LIBRARY_PATH",
    "TESSDATA_PREFIX",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "OMP_NUM_THREADS",
    "OMP_THREAD_LIMIT",
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")  # one slash: a Path has no two in a row
Dollars = Annotated[float | None, BeforeValidator(lambda value: 0 if value == "free" else value)]
"""A price that may be said to be free; None where nobody said anything."""
Secret = Literal["store", "engine", "llm", "embeddings", "search", "hub"]
SECRETS: dict[Secret, tuple[str, ...]] = {
    "store": ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"),
    "engine": ("RAY_AUTH_TOKEN",),
    "llm": ("OPENAI_API_KEY",),
    "embeddings": ("FOUNDRY_EMBEDDINGS_API_KEY",),
    "search": ("BRAVE_API_KEY",),
    "hub": ("HF_TOKEN",),
}
"""Secret -> its variables. A step declares those it needs; every step needs those of the store and the engine."""
OWN_IDENTITY = (
    "AWS_ROLE_ARN",
    "AWS_ROLE_SESSION_NAME",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
)
"""Who this machine is to AWS, by its own files and addresses; another one has its own, which these would displace."""
OF_A_NODE = ("FOUNDRY_CACHE", "FOUNDRY_STORE_CACHE", "FOUNDRY_STORE_CACHE_GIB")
"""What a node of a cluster says itself: where it keeps what it fetched, and how much."""
MACHINE_NAMES = """
    PATH HOME USER LOGNAME LANG LANGUAGE TZ TMPDIR LD_LIBRARY_PATH LD_PRELOAD VIRTUAL_ENV BUILT_IMAGE TESSDATA_PREFIX
    TOKENIZERS_PARALLELISM REQUESTS_CA_BUNDLE CURL_CA_BUNDLE HTTP_PROXY HTTPS_PROXY ALL_PROXY NO_PROXY
    """.split()
MACHINE_PREFIXES = """
    LC_ PYTHON XDG_ SSL_CERT_ OMP_ MKL_ ONEDNN_ OPENBLAS_ GOMP_ KMP_ NUMBA_ MALLOC_ CUDA_ CUBLAS_ NVIDIA_ NCCL_ HIP_
    ROCR_ TORCH PYTORCH_ HF_ TRANSFORMERS_
    """.split()
"""What a process needs to know of its machine."""
FOR_LIBRARIES = {"OMP_WAIT_POLICY": "PASSIVE", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "64"}
"""What libraries read from the environment once, on first use; a value that is there already goes first.

Threads that wait give way: where several tasks share the cores, threads that spin halve the speed of all of them. And
of the kernels that oneDNN compiles in bfloat16 for each shape it keeps 64 and not 1,024: texts of ever other lengths
bring ever other shapes, and those that have gone by would fill gigabytes.
"""


class Settings(BaseModel):
    """One machine's settings; each field is read from ``FOUNDRY_<NAME>`` unless noted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    store: Path | str = Field(Path(".foundry/store"), description="folder of the store, or s3://bucket/prefix")
    store_cache: Path = Field(
        Path("~/.cache/retriever-foundry/stores"), description="what of an s3:// store is on this machine"
    )
    store_cache_gib: float = Field(20.0, ge=0, description="GiB that copies of a store's objects there may come to")
    scratch: Path | None = Field(
        None, description="where steps on an s3:// store leave what they go on from; empty: in store_cache"
    )
    cache: Path = Field(Path("~/.cache/retriever-foundry"), description="model weights, once per machine")
    resources: Path | None = Field(None, description="TOML file: memory, time, cards and retries of steps")
    handed_resources: str = Field("", description="what that file says, as JSON; a back-end sets it for its steps")
    parameters: Path | None = Field(None, description="TOML file: parameters of steps where nobody gives any")
    sql_memory_mib: int = Field(0, ge=0, description="MiB of DuckDB for one question; 0: by the container's limit")
    log_format: Literal["text", "json"] = Field("text", description="lines of the log: text, or a JSON object each")
    profile: Literal["offline", "hub"] = Field("offline", description="where weights come from: packages or a hub")
    hub_revisions: str = Field("", description="commits of hub models that the registry has by a branch: NAME=COMMIT,…")
    hf_token: SecretStr = Field(SecretStr(""), description="HF_TOKEN: of an account on the hub")
    domain: str = Field("disaster", description="a domain of the package by its name, any other by its folder")
    workers: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, description="processes per step")
    threads: int = Field(2, ge=1, description="threads of one numeric kernel; results depend on it in the last bit")
    assignment: str = Field("", description="reference models per intent: offline or table-5; empty: by the profile")
    allow_noncommercial: bool = Field(True, description="false refuses data made with non-commercial weights")
    devices: str = Field("", description="where encoders run, cuda:0,cuda:1; empty: every GPU, else the CPU")
    embeddings_base_url: str = Field("", description="an OpenAI-compatible embeddings endpoint, with its version path")
    embeddings_api_key: SecretStr = Field(SecretStr(""), description="its key")
    embeddings_price: Dollars = Field(None, ge=0, description="dollars per million tokens embedded, or free")
    embeddings_usd_per_month: float | None = Field(None, ge=0, description="dollars a month (UTC) for embeddings")
    embeddings_tokens_per_month: float | None = Field(None, ge=0, description="tokens a month (UTC) to embed")
    served_models: str = Field("", description="names of models, joined by commas, that the endpoint is asked for")
    llm_price_in: Dollars = Field(None, ge=0, description="dollars per million prompt tokens, or free")
    llm_price_out: Dollars = Field(None, ge=0, description="dollars per million completion tokens, or free")
    llm_prices: Path | None = Field(None, description="TOML file: prices of models, before those that are known")
    llm_usd_per_month: float | None = Field(None, ge=0, description="dollars a month (UTC) for the LLM, of this store")
    llm_tokens_per_month: float | None = Field(None, ge=0, description="tokens a month (UTC) of the LLM, of this store")
    llm_licence: str = Field("", description="licence of what the LLM writes; empty: that of its weights, if known")
    searxng_url: str = Field("", description="address of a SearXNG server with JSON answers")
    brave_url: str = Field("https://api.search.brave.com", description="address of the Brave Search API")
    brave_price: float = Field(5.0, ge=0, description="dollars per thousand requests to Brave")
    brave_api_key: SecretStr = Field(SecretStr(""), description="BRAVE_API_KEY")
    common_crawl_url: str = Field("https://index.commoncrawl.org", description="address of Common Crawl's URL index")
    allow_hosts: str = Field("", description="hosts on private networks, joined by commas, that may be crawled")
    source_roots: str = Field("", description="folders, joined by colons, that sources named in a form lie below")
    caller: Literal["operator", "form"] = Field("operator", description="who gives the parameters; Airflow sets form")
    ask_url: str = Field("", description="address of a `foundry ask --serve` that the lineage page leads to")
    engine: Literal["local", "ray"] = Field("local", description="who computes parts of steps, and trains")
    ray_address: str = Field("", description="RAY_ADDRESS: a Ray cluster; empty: the one that runs on this machine")
    built_image: str = Field("", description="BUILT_IMAGE: the image that this runs in, with the revision of its code")
    openai_base_url: str = Field("", description="OPENAI_BASE_URL: the OpenAI-compatible endpoint")
    openai_api_key: SecretStr = Field(SecretStr(""), description="OPENAI_API_KEY")

    @staticmethod
    def store_place(address: Path | str) -> Path | str:
        """The address of a bucket as it is, anything else as an absolute folder.

        Raises:
            InputError: it is an address of another kind, in no home that is here, or DuckDB opens no database in it.
        """
        given = address.strip() if isinstance(address, str) else str(address)
        if given.startswith("s3:"):
            return given
        if _SCHEME.match(given):
            raise InputError(f"{given!r} is no address of a store; give a folder, or s3://bucket/prefix")
        place = absolute_path(given)
        if {"?", "\\"} & set(str(place)):
            raise InputError(f"{str(place)!r} is no folder for a store: leave out question marks and backslashes")
        return place

    @staticmethod
    def domain_place(domain: str) -> str:
        """The name of a domain of the package as it is, a folder (with a slash in it) as an absolute path.

        Raises:
            InputError: it is in the home of nobody.
        """
        return str(absolute_path(domain)) if "/" in domain else domain

    @property
    def served(self) -> frozenset[str]:
        """Names in ``served_models``."""
        return frozenset(name.strip() for name in self.served_models.split(",") if name.strip())

    @property
    def revisions(self) -> dict[str, str]:
        """Model -> revision, as in ``hub_revisions``.

        Raises:
            InputError: one is not NAME=COMMIT.
        """
        pairs = [[half.strip() for half in pair.split("=")] for pair in self.hub_revisions.split(",") if pair.strip()]
        if any(len(pair) != 2 or not all(pair) for pair in pairs):
            raise InputError(f"FOUNDRY_HUB_REVISIONS={self.hub_revisions!r}: write NAME=COMMIT, joined by commas")
        return dict(pairs)

    @property
    def allowed_hosts(self) -> tuple[str, ...]:
        """Names in ``allow_hosts``, in one order."""
        return tuple(sorted({name.strip().lower() for name in self.allow_hosts.split(",") if name.strip()}))

    @property
    def roots(self) -> tuple[Path, ...]:
        """Folders in ``source_roots``.

        Raises:
            InputError: one is in the home of nobody.
        """
        return tuple(absolute_path(folder) for folder in self.source_roots.split(os.pathsep) if folder)


def _variable(field: str) -> str:
    unprefixed = {"openai_base_url", "openai_api_key", "brave_api_key", "hf_token", "built_image", "ray_address"}
    return field.upper() if field in unprefixed else f"FOUNDRY_{field.upper()}"


def _environment() -> dict[str, str]:
    names = {field: _variable(field) for field in Settings.model_fields}
    return {field: os.environ[name] for field, name in names.items() if os.environ.get(name)}


def secret_variables(needs: Iterable[Secret]) -> tuple[str, ...]:
    """The variables behind the secrets that a step needs, and of the store and the engine where these are services."""
    wanted = set(needs) | ({"store"} if isinstance(settings().store, str) else set())
    wanted |= {"engine"} if settings().engine == "ray" else set()
    if "embeddings" in wanted and not settings().embeddings_base_url:
        wanted = wanted - {"embeddings"} | {"llm"}
    return tuple(name for secret, names in SECRETS.items() if secret in wanted for name in names)


def passed_on(needs: Iterable[Secret]) -> dict[str, str]:
    """The variables that a step on another machine gets: ours, and of all secrets those that it needs.

    What is empty is left out, as if it were not there.
    """
    allowed = set(secret_variables(needs))
    ours = {n: v for n, v in os.environ.items() if v and n.startswith(OURS) and not _stays_here(n)}
    return {name: value for name, value in ours.items() if name in allowed or not is_secret(name)}


def inherited(needs: Iterable[Secret]) -> dict[str, str]:
    """The variables that a step in a process of this machine gets: as :func:`passed_on`, and what the machine is like.

    Whatever else the caller's environment holds, such as the keys of a scheduler's database, stays with the caller.
    """
    here = {n: v for n, v in os.environ.items() if _is_of_machine(n) or (n.startswith(OURS) and _stays_here(n))}
    return here | passed_on(needs)


def unset_if_empty(variable: str) -> None:
    """For a library that takes an empty variable for a value, where here it is none."""
    if os.environ.get(variable) == "":
        del os.environ[variable]


def take_on(environment: dict[str, str]) -> None:
    """Go on as a process does that was started with the variables ``environment`` and no others."""
    os.environ.clear()
    os.environ.update(environment)
    settings.cache_clear()


def tell_libraries() -> None:
    """Set :data:`FOR_LIBRARIES`; to be called before any of them is imported."""
    os.environ.update(FOR_LIBRARIES | os.environ)


def secret_values() -> list[str]:
    """The values of all our secrets, of whatever step: what no log may show."""
    return [value for name, value in os.environ.items() if name.startswith(OURS) and is_secret(name)]


def bare_environment() -> dict[str, str]:
    """The variables that a process gets which reads what strangers made: where programs are, language, threads."""
    return {name: os.environ[name] for name in BARE if name in os.environ}


def is_secret(name: str) -> bool:
    """Whether the variable ``name`` holds something that nobody may read in a log, a label or a command line."""
    return not SECRET.isdisjoint(name.upper().split("_")) and not _names_a_file(name)


def _names_a_file(name: str) -> bool:
    return name.endswith("_FILE")


def _stays_here(name: str) -> bool:
    """Whether it names a file of this machine, or this machine; what the last two say is given to steps by value."""
    return _names_a_file(name) or name in (*OWN_IDENTITY, "FOUNDRY_PARAMETERS", "FOUNDRY_RESOURCES")


def _is_of_machine(name: str) -> bool:
    return name.upper() in MACHINE_NAMES or (name.startswith(tuple(MACHINE_PREFIXES)) and not is_secret(name))


@cache
def settings() -> Settings:
    """The settings of this process, read once.

    Raises:
        InputError: a variable has a value of the wrong kind, or names a home of nobody, or a store where none can be.
    """
    try:
        found = Settings.model_validate(_environment())
    except ValidationError as error:
        first = error.errors()[0]
        name = _variable(str(first["loc"][0]))
        raise InputError(f"{name}={first['input']!r}: {first['msg']}; mend the environment variable") from error
    named = {
        name: getattr(found, name)
        for name in ("cache", "store_cache", "scratch", "resources", "parameters", "llm_prices")
    }
    folders = {name: absolute_path(path) for name, path in named.items() if path}
    places = {"store": Settings.store_place(found.store), "domain": Settings.domain_place(found.domain)}
    return found.model_copy(update=folders | places)
