"""Whether a version was made from the rows that it is used with."""

from __future__ import annotations

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.versions import Version, manifest_key


def check_corpus(queries: Version, passages: Version, name: str = "passages") -> None:
    """Do nothing where ``queries`` may be scored over ``passages``, which a step reads as its input ``name``.

    Raises:
        InputError: they were judged on others, so that a passage that answers may be missing, or judged by nobody.
    """
    if other := read_instead(queries, "passages", passages):
        here, step = passages.manifest.ref, queries.manifest.step
        raise InputError(
            f"{queries.manifest.ref} was judged on {other}, not {here}: give --input {name}={other}, or run {step} "
            f"on {here} first"
        )


def read_instead(made: Version, name: str, given: Version) -> str:
    """What ``made`` read as its input ``name`` where that has other rows than ``given``; empty where it has the same.

    Empty also for what was made by hand, of which nobody knows what it was made from.
    """
    for text in made.manifest.inputs.get(name, ()):
        ref, now = Ref.parse(text), given.manifest
        was = now if ref == now.ref else Manifest.read(made.store.read(manifest_key(ref)))
        if was is None or (was.parts, was.removals) != (now.parts, now.removals):
            return text
    return ""
