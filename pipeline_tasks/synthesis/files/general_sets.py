"""Sets of the general domain as data: where each one's files come from, and how its rows become pairs.

``models/data/general_sets.toml`` has those of the paper. Files are read in the layout that they have on the hub.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.ids import unit_hash
from pipeline_tasks.domains.intents import read_toml
from pipeline_tasks.models.registry import DATA, Entry
from pipeline_tasks.synthesis.files.found_pairs import FIELDS, Fields, Found
from pipeline_tasks.synthesis.files.general_layouts import Chosen, Judged, Rows, Source

_FILE = DATA / "general_sets.toml"


class GeneralSet(Entry):
    """One set."""

    hub: str = Field(description="its name on the hub, or the page that its files are got from")
    revision: str = Field(description="commit on the hub that the layout was read from; empty: not known")
    pairs: int = Field(ge=1, description="how many the paper has of it")
    sampled: bool = Field(False, description="whether these are a sample; the others are the whole set")
    licence: str = Field("", exclude=True, description="that forbids some use; empty: none that is known")
    intent: str = Field(description="search intent of its queries")
    layout: Literal["seen", "told"] = Field(description="whether the layout was seen on the hub, or only described")
    rule: str = Field(description="what a query and its positive are")
    either_way: bool = Field(False, description="which of the two texts is the query is drawn by their hash")
    cut: int = Field(0, ge=0, description="characters that are kept of a positive; 0: all")
    rows: Rows | None = None
    chosen: Chosen | None = None
    judged: Judged | None = None

    @model_validator(mode="after")
    def _one_layout(self) -> Self:
        if sum(each is not None for each in (self.rows, self.chosen, self.judged)) != 1:
            raise ValueError("has one of rows, chosen and judged")
        return self

    @property
    def _read(self) -> Rows | Chosen | Judged:
        return next(each for each in (self.rows, self.chosen, self.judged) if each)

    def identity(self, name: str, folder: str) -> str:
        """What its files hold.

        Raises:
            InputError: there are none; the message says how to get them.
        """
        try:
            return self._read.identity(folder)
        except InputError as error:
            raise InputError(f"set {name!r}: {error}; get them: {self.command(folder)}") from error

    @property
    def is_judged(self) -> bool:
        """Whether its pairs are in judgements, so that all of these are read."""
        return self.judged is not None

    def repositories(self, name: str) -> dict[str, str]:
        """Data sets on the hub that have its files -> their revision.

        Raises:
            InputError: no hub has it.
        """
        if "://" in self.hub:
            raise InputError(
                f"set {name!r} is on no hub: leave it out of sets=, or {self.command(f'FOLDER/{name}')}, and read that "
                "with source=FOLDER"
            )
        others = {table.hub: "" for table in self._read.tables() if table.hub}
        return {self.hub: self.revision} | others

    def command(self, folder: str) -> str:
        """How its files come into ``folder``."""
        patterns = [pattern for table in self._read.tables() for pattern in table.files]
        if "://" in self.hub:
            return f"download {', '.join(patterns)} from {self.hub} into {folder}"
        at = ["--revision", self.revision] if self.revision else []
        wanted = [word for pattern in patterns for word in ("--include", pattern)]
        return shlex.join(["hf", "download", self.hub, "--repo-type", "dataset", *at, *wanted, "--local-dir", folder])

    def fields_of_rows(self, name: str, source: Source) -> Found:
        """Its rows as fields of pairs.

        Raises:
            InputError: a file lacks a column; the message names set, file, column and what was found.
        """
        for place, texts in self._read.pairs(name, source):
            yield str(place), self._fields(*texts) if isinstance(texts, tuple) else texts

    def _fields(self, query: str, positive: str) -> Fields:
        if self.either_way:
            query, positive = sorted((query, positive))
            if unit_hash("either_way", query, positive) < 0.5:
                query, positive = positive, query
        return dict.fromkeys(FIELDS, "") | {"query": query, "positive": positive[: self.cut or None]}


@cache
def general_sets() -> dict[str, GeneralSet]:
    """The sets of the paper's Table 10 by name."""
    return read_toml(_FILE, dict[str, GeneralSet])


def present(folder: Path | None) -> Iterator[str]:
    """Names of the sets that a folder has a folder of."""
    return (name for name in general_sets() if folder is not None and (folder / name).is_dir())
