"""Domains are data: one folder each with hazards, intents, prompts and a sample corpus."""

from __future__ import annotations

import hashlib
from pathlib import Path

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings

_ROOT = Path(__file__).parent


def domain_folder() -> Path:
    """The folder of the configured domain.

    Raises:
        InputError: there is no such domain.
    """
    folder = _ROOT / settings().domain
    if not (folder / "intents.toml").is_file():
        known = sorted(p.parent.name for p in _ROOT.glob("*/intents.toml"))
        raise InputError(f"no domain is called {settings().domain!r}; FOUNDRY_DOMAIN may be: {', '.join(known)}")
    return folder


def prompts_sha256(*intents: str) -> str:
    """sha256 over the domain's prompt files of ``intents``: what they say decides what the LLM writes."""
    digest = hashlib.sha256()
    for intent in sorted(intents):
        digest.update((domain_folder() / "prompts" / f"{intent}.toml").read_bytes())
    return digest.hexdigest()
