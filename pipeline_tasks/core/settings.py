"""Where things are and who pays: the only module that reads environment variables.

Settings never enter a version id: two machines with different settings build the same versions.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError

from pipeline_tasks.core.errors import InputError

PASSED_ON = ("FOUNDRY_", "AWS_", "OPENAI_", "BRAVE_API_KEY")
STAYS = "FOUNDRY_IMAGE"
SECRET = ("KEY", "SECRET", "TOKEN", "PASSWORD")
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
Dollars = Annotated[
    float | None, BeforeValidator(lambda value: 0 if value == "free" else value), Field(allow_inf_nan=False)
]
"""A price that may be said to be free; None where nobody said anything."""


class Settings(BaseModel):
    """One machine's settings; each field is read from ``FOUNDRY_<NAME>`` unless noted."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    sql_memory_mib: int = Field(0, ge=0, description="MiB of DuckDB for one question; 0: by the container's limit")
    log_format: Literal["text", "json"] = Field("text", description="lines of the log: text, or a JSON object each")
    profile: Literal["offline", "hub"] = Field("offline", description="where weights come from: packages or a hub")
    domain: str = Field("disaster", description="folder below pipeline_tasks/domains")
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
    llm_usd_per_month: float | None = Field(None, ge=0, description="dollars a month (UTC) for the LLM, of this store")
    llm_tokens_per_month: float | None = Field(None, ge=0, description="tokens a month (UTC) of the LLM, of this store")
    llm_licence: str = Field("", description="licence of what the LLM writes; empty: that of its weights, if known")
    searxng_url: str = Field("", description="address of a SearXNG server with JSON answers")
    brave_url: str = Field("https://api.search.brave.com", description="address of the Brave Search API")
    brave_price: float = Field(5.0, ge=0, description="dollars per thousand requests to Brave")
    brave_api_key: SecretStr = Field(SecretStr(""), description="BRAVE_API_KEY")
    common_crawl_url: str = Field("https://index.commoncrawl.org", description="address of Common Crawl's URL index")
    built_image: str = Field("", description="BUILT_IMAGE: the image that this runs in, with the revision of its code")
    openai_base_url: str = Field("", description="OPENAI_BASE_URL: the OpenAI-compatible endpoint")
    openai_api_key: SecretStr = Field(SecretStr(""), description="OPENAI_API_KEY")

    @staticmethod
    def store_place(address: Path | str) -> Path | str:
        """The address of a bucket as it is, anything else as an absolute folder."""
        is_bucket = isinstance(address, str) and address.startswith("s3://")
        return address if is_bucket else Path(address).expanduser().absolute()

    @property
    def served(self) -> frozenset[str]:
        """Names in ``served_models``."""
        return frozenset(name.strip() for name in self.served_models.split(",") if name.strip())


def _environment() -> dict[str, str]:
    unprefixed = {"openai_base_url", "openai_api_key", "brave_api_key", "built_image"}
    names = {f: f.upper() if f in unprefixed else f"FOUNDRY_{f.upper()}" for f in Settings.model_fields}
    return {field: os.environ[name] for field, name in names.items() if os.environ.get(name)}


def passed_on() -> dict[str, str]:
    """The variables that a step in a container gets: ours, those of the services it asks, not what names an image."""
    return {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON) and name != STAYS}


def bare_environment() -> dict[str, str]:
    """The variables that a process gets which reads what strangers made: where programs are, language, threads."""
    return {name: os.environ[name] for name in BARE if name in os.environ}


def is_secret(name: str) -> bool:
    """Whether the variable ``name`` holds something that nobody may read in a log, a label or a command line."""
    return any(word in name.upper().replace("_TOKENS_", "_") for word in SECRET)


@cache
def settings() -> Settings:
    """The settings of this process, read once.

    Raises:
        InputError: a variable has a value of the wrong kind.
    """
    try:
        found = Settings.model_validate(_environment())
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(x) for x in first["loc"])
        raise InputError(
            f"setting {name!r} is {first['input']!r}: {first['msg']}; mend the environment variable"
        ) from error
    named = {name: getattr(found, name) for name in ("cache", "store_cache", "scratch", "resources")}
    folders = {name: path.expanduser().absolute() for name, path in named.items() if path}
    return found.model_copy(update=folders | {"store": Settings.store_place(found.store)})
