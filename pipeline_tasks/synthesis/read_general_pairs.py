"""GD-MTP: pairs of public sets, each with the intent and by the rule that the paper gives it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import Field, PrivateAttr

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.local_files import where_to_name
from pipeline_tasks.core.run import Inputs, Run
from pipeline_tasks.core.step import StepParams, step
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.intents import load_intents
from pipeline_tasks.synthesis.found_pairs import Found, Rules, in_parts, pairs_of
from pipeline_tasks.synthesis.general_sets import GeneralSet, general_sets, present
from pipeline_tasks.synthesis.pair_files import folder_of


class ReadGeneralPairsParams(StepParams):
    """Which sets, and how much of each."""

    source: str = Field(description="folder with a folder of files for each set, here or as s3://bucket/prefix")
    sets: tuple[str, ...] = Field((), description="sets that are read; empty: those that the folder has")
    most: dict[str, int] = Field(
        {}, description="set -> pairs of it at most, 0 for all; the others as many as in Table 10"
    )
    intents: dict[str, str] = Field({}, description="intent of the paper -> what the domain calls it")
    most_characters: int = Field(8_000, ge=1, description="longer queries and positives are rejects")
    dev_fraction: float = Field(0.0, ge=0, lt=1, description="share of positives whose pairs choose checkpoints")
    _folder: Path = PrivateAttr()
    _read: dict[str, str] = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Find the files of every set, and its intent."""
        folder = folder_of(self.source)
        names = self.sets or tuple(present(folder))
        if folder is None or not names:
            raise InputError(
                f"source={self.source!r} has no folder of a set{where_to_name()}; there are {', '.join(general_sets())}"
            )
        if unknown := sorted({*names, *self.most} - general_sets().keys()):
            raise InputError(f"no set is called {unknown[0]!r}; there are {', '.join(general_sets())}")
        self._folder = folder
        known = load_intents(domain_folder())
        for name in names:
            if self.intent_of(general_sets()[name]) not in known:
                intent = general_sets()[name].intent
                raise InputError(
                    f"set {name!r} is of intent {intent!r}, and the domain has {', '.join(known)}; say which it is in "
                    f"intents={{{intent!r}: …}}, or leave the set out of sets="
                )
        self._read = {name: general_sets()[name].identity(name, str(folder / name)) for name in names}

    def intent_of(self, one: GeneralSet) -> str:
        """What the domain calls the intent of a set."""
        return self.intents.get(one.intent, one.intent)

    def identity(self) -> dict[str, Any]:
        """The parameters, the sets as they are described, and what their files hold, wherever they lie."""
        described = {name: general_sets()[name].model_dump(mode="json") for name in self._read}
        return super().identity() | {"source": self._read, "sets": described}

    def names(self) -> tuple[str, ...]:
        """The sets that are read."""
        return tuple(self._read)

    def found(self, name: str) -> Found:
        """The rows of a set."""
        return general_sets()[name].found(name, str(self._folder / name))

    def most_of(self, name: str) -> int:
        """How many pairs of a set are taken at most; 0 for all."""
        one = general_sets()[name]
        return self.most.get(name, one.pairs if one.sampled else 0)


@step(reads={}, writes=PAIRS, kind="reduce", dataset="mtp/gd")
def read_general_pairs(inputs: Inputs, params: ReadGeneralPairsParams, run: Run) -> Iterator[pa.Table]:
    """Pairs of the paper's general-domain sets; the origin of each is ``gd/<set>``, and parts are of one set.

    Of a set with more pairs than are wanted those with the lowest hashes stay. Counters ``pairs/gd/<set>/<intent>`` are
    the composition. Rows that are no pairs are rejects, as in :func:`~pipeline_tasks.synthesis.read_pairs.read_pairs`.

    Source: DMRetriever 3.3.1, appendix B, Algorithm 2 lines 8 to 12; Table 10. Departures: the paper does not say which
    rows its samples are, and draws which of two like sentences is the query; here hashes say both.

    Raises:
        InputError: a file lacks a column, or a set has no pair.
    """
    intents = load_intents(domain_folder())
    for name in params.names():
        one = general_sets()[name]
        rules = Rules(f"gd/{name}", params.intent_of(one), intents, params.most_characters, params.dev_fraction)
        pairs = pairs_of(partial(params.found, name), rules, run, params.most_of(name))
        n_pairs = 0
        for table in in_parts(pairs):
            n_pairs += table.num_rows
            yield table
        if not n_pairs:
            raise InputError(f"set {name!r}: no row below {params.source}/{name} is a pair; leave it out of sets=")
        run.count(f"pairs/gd/{name}/{rules.intent}", n_pairs)
