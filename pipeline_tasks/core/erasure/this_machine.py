"""What an erasure drops of the machine it runs on: nobody can say what is in work in progress."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline_tasks.core.lineage.fold import no_other_fold
from pipeline_tasks.core.store import TEMPORARY, Store


def clean_this_machine(store: Store) -> list[str]:
    """Drop work in progress, unfinished files and copies of what is gone; what cannot go, and why.

    For when no step runs; a fold is waited for. A folder that the scratch folder only links to is not emptied, but
    told.
    """
    left: list[str] = []
    for folder in (store.scratches, store.folder / TEMPORARY):
        with no_other_fold(store), _noting(left, folder):
            for path in list(folder.iterdir()) if folder.exists() or folder.is_symlink() else ():
                with _noting(left, path):
                    if path.is_dir():
                        shutil.rmtree(path)
                    else:
                        path.unlink(missing_ok=True)
    store.drop_lost_copies()
    return left


@contextmanager
def _noting(left: list[str], path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        left.append(f"{path} ({error})")
