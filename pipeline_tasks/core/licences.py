"""Licences of the weights behind a dataset: in its manifest, and handed down to everything made from it."""

from __future__ import annotations

import re

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.plan import Job
from pipeline_tasks.core.settings import settings
from pipeline_tasks.core.store import Store
from pipeline_tasks.core.versions import load_manifest

_NON_COMMERCIAL = re.compile(r"(?<![a-z])nc(?![a-z])|non[-\s_]?commercial", re.IGNORECASE)


def is_non_commercial(licence: str) -> bool:
    """Whether a licence, by its SPDX name or in words, forbids commercial use."""
    return bool(_NON_COMMERCIAL.search(licence))


def licences_of(store: Store, job: Job) -> dict[str, str]:
    """Model -> licence of all weights behind what ``job`` makes: its own and those behind its inputs.

    Raises:
        InputError: one is non-commercial, and the settings refuse that.
    """
    found = job.params.licences_beside(job.inputs)
    for ref in (ref for refs in job.inputs.values() for ref in refs):
        found = load_manifest(store, ref).licences | found
    refused = sorted(name for name, licence in found.items() if is_non_commercial(licence))
    if refused and not settings().allow_noncommercial:
        raise InputError(
            f"{job.dataset} would be made with non-commercial weights ({', '.join(refused)}: {found[refused[0]]}); "
            "use other reference models, or set FOUNDRY_ALLOW_NONCOMMERCIAL=true"
        )
    return found
