"""Domains are data: one folder each with intents, prompts, searches, judged questions and a sample corpus."""

from __future__ import annotations

import hashlib
import shlex
from pathlib import Path

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import Settings, settings
from pipeline_tasks.domains.intents import FILE, load_intents

_ROOT = Path(__file__).parent


def domain_folder() -> Path:
    """The folder of the configured domain.

    Raises:
        InputError: there is no such domain.
    """
    return folder_of(settings().domain)


def folder_of(domain: str) -> Path:
    """The folder of a domain of the package by its name, or of any other by its path, which has a slash in it.

    Raises:
        InputError: there is no such domain.
    """
    folder = _ROOT / Settings.domain_place(domain)
    if (folder / FILE).is_file():
        return folder
    if "/" in domain:
        remedy = "name another folder" if folder.exists() else f"`foundry domain new {shlex.quote(domain)}` writes one"
        raise InputError(f"{folder} is no domain: it has no {FILE}; {remedy}")
    known = sorted(path.parent.name for path in _ROOT.glob(f"*/{FILE}"))
    raise InputError(
        f"no domain is called {domain!r}; FOUNDRY_DOMAIN may be {', '.join(known)}, or a folder: ./{domain}"
    )


def domain_told() -> str:
    """The configured domain, its intents, and what names another, in words.

    Raises:
        InputError: there is no such domain, or it has no intents.
    """
    intents = ", ".join(load_intents(domain_folder()))
    return f"domain {settings().domain} (intents {intents}); FOUNDRY_DOMAIN names another"


def prompts_sha256(*intents: str) -> str:
    """sha256 over the domain's prompt files of ``intents``, by name: they decide what the LLM writes for which intent.

    Raises:
        InputError: one of them has no prompt file.
    """
    digest = hashlib.sha256()
    for intent in sorted(intents):
        file = domain_folder() / "prompts" / f"{intent}.toml"
        if not file.is_file():
            raise InputError(f"{file} does not exist; every intent of {FILE} has such a file: write it")
        content = file.read_bytes()
        digest.update(f"{intent} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()
