"""Whether a version was made from the rows that it is used with."""

from __future__ import annotations

from collections.abc import Sequence

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.versions import Version, manifest_key


def check_corpus(queries: Version, passages: Version, name: str = "passages") -> None:
    """:func:`check_corpora` of one set."""
    check_corpora([(queries, passages)], name)


def check_corpora(sets: Sequence[tuple[Version, Version]], name: str = "passages") -> None:
    """Do nothing where the queries of each set may be scored over its passages, all read as the input ``name``.

    Raises:
        InputError: some were judged on others, so that a passage that answers may be missing, or judged by nobody.
    """
    others = [read_instead(queries, "passages", passages) for queries, passages in sets]
    for (queries, passages), other in zip(sets, others, strict=True):
        if other:
            given = ",".join(was or str(now.manifest.ref) for (_, now), was in zip(sets, others, strict=True))
            here, step = passages.manifest.ref, queries.manifest.step
            raise InputError(
                f"{queries.manifest.ref} was judged on {other}, not {here}: give --input {name}={given}, or run {step} "
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
