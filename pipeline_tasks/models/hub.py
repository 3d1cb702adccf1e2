"""Weights on a model hub, always those of one commit: a branch is asked once where it stands, and then left alone."""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path

from pipeline_tasks.core.errors import InputError, TransientError
from pipeline_tasks.models.convert import PICKLE, safetensors_from_pickle
from pipeline_tasks.models.registry import WEIGHT_SUFFIXES, HubSource

_COMMIT = re.compile(r"[0-9a-f]{40}")
_CLIENTS = ("httpx", "httpx2")
"""What huggingface_hub 1 and 2 speak HTTP with; they let errors of it through."""


def is_commit(revision: str) -> bool:
    """Whether a revision names one state for ever; a branch or a tag may move."""
    return bool(_COMMIT.fullmatch(revision))


def commit_at(source: HubSource) -> str:
    """The commit that the source's revision names now.

    Raises:
        InputError: the hub has no such model or revision, or wants a token.
        TransientError: it cannot be asked.
    """
    from huggingface_hub import HfApi

    with asking(source.pin):
        return str(HfApi().model_info(source.id, revision=source.revision).sha)


def download(source: HubSource, folder: Path) -> str:
    """Put the files of one commit into ``folder``, weights as safetensors; returns the commit.

    What an earlier call for that commit put there is not asked for again.

    Where the hub has the weights as a pickle alone, that is converted; where it has both, the pickle is left there.

    Raises:
        InputError: as :func:`commit_at`, or the model has no weights, or a pickle holds more than tensors.
        TransientError: the network failed.
    """
    from huggingface_hub import HfApi, snapshot_download

    with asking(source.pin):
        found = HfApi().model_info(source.id, revision=source.revision)
        names = [file.rfilename for file in found.siblings or ()]
        wanted = [name for name in names if any(fnmatch(name, pattern) for pattern in source.files)]
        if not any(name.endswith(WEIGHT_SUFFIXES) for name in wanted):
            wanted += [name for name in names if name == PICKLE]
        snapshot_download(source.id, revision=found.sha, local_dir=folder, allow_patterns=wanted)
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    if missing := [name for name in wanted if not (folder / name).is_file()]:  # the client takes what is there for all
        raise TransientError(f"the hub did not give {source.pin}: {missing[0]} is missing")
    if PICKLE in wanted:
        safetensors_from_pickle(folder)
    if not any(path.suffix in WEIGHT_SUFFIXES for path in folder.rglob("*")):
        raise InputError(f"{source.pin} has neither safetensors nor one {PICKLE}: choose a revision that does")
    return str(found.sha)


@contextmanager
def asking(pin: str) -> Iterator[None]:
    """Within the block the hub is asked for ``pin``, which is ``id@revision``.

    Raises:
        InputError: the hub has no such thing, or wants a token for it.
        TransientError: it cannot be asked.
    """
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    clients = [importlib.import_module(name) for name in _CLIENTS if importlib.util.find_spec(name)]
    lost = (HfHubHTTPError, OSError, *(client.TransportError for client in clients))
    try:
        yield
    except GatedRepoError as error:
        raise InputError(
            f"the hub gives {pin} to those alone who accepted its terms: accept them on its page, and set HF_TOKEN to "
            f"a token of that account: {error}"
        ) from error
    except (RepositoryNotFoundError, RevisionNotFoundError, EntryNotFoundError) as error:
        raise InputError(f"the hub has no {pin}, or it wants a token: {error}") from error
    except lost as error:
        raise TransientError(f"the hub did not give {pin}: {error}") from error
