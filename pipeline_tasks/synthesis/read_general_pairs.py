"""GD-MTP: pairs of public sets, each with the intent and by the rule that the paper gives it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.licences import is_non_commercial
from pipeline_tasks.core.local_files import where_to_name
from pipeline_tasks.core.manifest import Part
from pipeline_tasks.core.partitions import Partition, PartitionedRun
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.settings import Secret, settings
from pipeline_tasks.core.step import StepParams, step, tuning
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.models.hub_files import DataFiles
from pipeline_tasks.synthesis.files.found_pairs import Rules, in_parts, pairs_of
from pipeline_tasks.synthesis.files.general_hub import HUB, OnHub, commits
from pipeline_tasks.synthesis.files.general_layouts import InFolder, Source
from pipeline_tasks.synthesis.files.general_sets import GeneralSet, general_sets, present
from pipeline_tasks.synthesis.files.pair_files import folder_of

_MIB = 1 << 20


class ReadGeneralPairsParams(StepParams):
    """Which sets, and how much of each."""

    source: str = Field(
        description="folder with a folder of files for each set, here or as s3://bucket/prefix; or hub: each set is "
        "read from the hub, as much as is wanted of it"
    )
    sets: tuple[str, ...] = Field((), description="sets that are read; empty: those that the folder has")
    most: dict[str, int] = Field(
        {}, description="set -> pairs at most, 0: all; other sets: as many as in the paper's Table 10"
    )
    intents: dict[str, str] = Field({}, description="intent of the paper -> what the domain calls it")
    most_characters: int = Field(
        8_000, ge=1, description="longest query or positive, in characters; longer ones are rejected"
    )
    dev_fraction: float = Field(0.0, ge=0, lt=1, description="dev split (checkpoint selection): fraction of positives")
    most_gib: float = tuning(64.0, gt=0, description="GiB that are read of a set on the hub at most")
    _folder: Path | None = PrivateAttr(None)
    _commits: dict[str, dict[str, str]] = PrivateAttr(default_factory=dict)
    _read: dict[str, str] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Find the files of every set, or its commit on the hub, and its intent."""
        names = self.sets
        if not self.is_on_hub:
            self._folder = folder_of(self.source)
            names = names or tuple(present(self._folder))
        if not names or not (self._folder or self.is_on_hub):
            what = "is given no sets=" if self.is_on_hub else f"has no folder of a set{where_to_name()}"
            raise InputError(f"source={self.source!r} {what}; there are {', '.join(general_sets())}")
        if unknown := sorted({*names, *self.most} - general_sets().keys()):
            raise InputError(f"no set is called {unknown[0]!r}; there are {', '.join(general_sets())}")
        for name in names:
            self._check_use(name, general_sets()[name])
        if self.is_on_hub:
            self._commits = {name: commits(name, general_sets()[name]) for name in names}
            self._read = {name: ", ".join(map("@".join, at.items())) for name, at in self._commits.items()}
        else:
            self._read = {name: general_sets()[name].identity(name, self.folder_of(name)) for name in names}

    def _check_use(self, name: str, one: GeneralSet) -> None:
        known = load_intents(domain_folder())
        if self.intent_of(one) not in known:
            raise InputError(
                f"set {name!r} is of intent {one.intent!r}, and the domain has {', '.join(known)}; say which it is in "
                f"intents={{{one.intent!r}: …}}, or leave the set out of sets="
            )
        if is_non_commercial(one.licence) and not settings().allow_noncommercial:
            raise InputError(
                f"set {name!r} has the licence {one.licence!r}: leave it out of sets=, or set "
                "FOUNDRY_ALLOW_NONCOMMERCIAL=true"
            )

    @property
    def is_on_hub(self) -> bool:
        """Whether the sets are read from the hub; a folder of that name is ``./hub``."""
        return self.source == HUB

    def secrets(self, declared: tuple[Secret, ...]) -> tuple[Secret, ...]:
        """The hub's token, where it is asked."""
        return declared if self.is_on_hub else ()

    def licences(self) -> dict[str, str]:
        """Set -> the licence that forbids some use of it; everything made of its pairs has it in its manifest."""
        return {f"gd/{name}": one.licence for name in self._read if (one := general_sets()[name]).licence}

    def intent_of(self, one: GeneralSet) -> str:
        """What the domain calls the intent of a set."""
        return self.intents.get(one.intent, one.intent)

    def identity(self) -> dict[str, Any]:
        """The parameters, the sets as they are described, and what their files hold, wherever they lie."""
        described = {name: general_sets()[name].model_dump(mode="json") for name in self._read}
        return super().identity() | {"source": self._read, "sets": described}

    def partition(self, name: str) -> Partition:
        """All that says which pairs of a set there are."""
        one = general_sets()[name]
        asked = {"most": self.most_of(name), "most_characters": self.most_characters, "dev": self.dev_fraction}
        described = {"is": one.model_dump(mode="json"), "intent": self.intent_of(one)}
        return Partition(values={"set": name, "holds": self._read[name], **asked, **described})

    def source_of(self, name: str, run: Run) -> Source:
        """Where the rows of a set are read."""
        if not self.is_on_hub:
            return InFolder(self.folder_of(name))

        def spend(n_bytes: int) -> None:
            run.count(f"hub_bytes/gd/{name}", n_bytes)
            if run.counters[f"hub_bytes/gd/{name}"] > self.most_gib * 2**30:
                raise InputError(f"set {name!r} wants more than most_gib={self.most_gib:g}: raise it, or lower most=")

        at = self._commits[name].items()
        repositories = {id_: DataFiles(id_, commit, run.scratch, spend) for id_, commit in at}
        return OnHub(name, general_sets()[name].hub, repositories)

    def folder_of(self, name: str) -> str:
        """Where the files of a set are; empty for the hub."""
        return str(self._folder / name) if self._folder else ""

    def names(self) -> tuple[str, ...]:
        """The sets that are read, in an order that does not depend on how they were named."""
        return tuple(sorted(self._read))

    def most_of(self, name: str) -> int:
        """How many pairs of a set are taken at most; 0 for all."""
        one = general_sets()[name]
        return self.most.get(name, one.pairs if one.sampled else 0)


@step(reads={}, writes=PAIRS, kind="partitioned", dataset="mtp/gd", version="3", processes=False, secrets=("hub",))
def read_general_pairs(inputs: Inputs, params: ReadGeneralPairsParams, run: PartitionedRun) -> Iterator[Part]:
    """Pairs of the paper's general-domain sets; the origin of each is ``gd/<set>``, and parts are of one set.

    A set that was read is kept: it is not read again for other sets beside it, or after a kill. Of a set with more
    pairs than are wanted those with the lowest hashes stay; on the hub, where a row is a pair, those that come first,
    and no more is read (:class:`~pipeline_tasks.synthesis.files.general_hub.OnHub` says which these are). Counters
    ``pairs/gd/<set>/<intent>`` are the composition, ``hub_bytes/gd/<set>`` what the hub was asked for. Rows that are no
    pairs are rejects, as in :func:`~pipeline_tasks.synthesis.read_pairs.read_pairs`.

    Source: DMRetriever 3.3.1, appendix B, Algorithm 2 lines 8 to 12; Table 10. Departures: the paper does not say which
    rows its samples are, and draws which of two like sentences is the query; here hashes say both.

    Raises:
        InputError: a file lacks a column, or a set has no pair.
    """
    names = params.names()
    found = run.spread(read_set, [params.partition(name) for name in names], final=True)
    for name, parts in zip(names, found, strict=True):
        run.count(f"pairs/gd/{name}/{params.intent_of(general_sets()[name])}", sum(part.rows for part in parts))
        yield from parts


def read_set(given: Partition, run: Run) -> Iterator[pa.Table]:
    """The pairs of one set.

    Raises:
        InputError: a file lacks a column, or changed while it was read, or no row is a pair.
    """
    params, name = run.job.params if run.job else None, given.values["set"]
    if not isinstance(params, ReadGeneralPairsParams):
        raise InputError("read_set reads for read_general_pairs alone; run that")
    one, most = general_sets()[name], given.values["most"]
    intent, source = given.values["intent"], params.source_of(name, run)
    rules = Rules(f"gd/{name}", intent, {intent}, params.most_characters, params.dev_fraction)
    stops = params.is_on_hub and not one.is_judged
    limit = {"enough": most} if stops else {"most": most}
    n_pairs = 0
    with run.progress(most or one.pairs, f"pairs of gd/{name}") as progress:
        for table in in_parts(pairs_of(partial(one.fields_of_rows, name, source), rules, run, **limit)):
            n_pairs += table.num_rows
            n_bytes = run.counters[f"hub_bytes/gd/{name}"]
            progress.advance(table.num_rows, f"{n_bytes / _MIB:,.0f} MiB" if params.is_on_hub else "")
            yield table
    if not params.is_on_hub and one.identity(name, params.folder_of(name)) != given.values["holds"]:
        raise InputError(f"set {name!r} changed while it was read: run the step again")
    if not n_pairs:
        raise InputError(f"set {name!r}: no row below {params.source}/{name} is a pair; leave it out of sets=")
