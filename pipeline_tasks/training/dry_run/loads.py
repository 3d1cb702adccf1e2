"""Texts that a training reads, counted before it begins.

Rows are exact, but for clusters, which are taken to be alike in size. Tokens are taken from the characters of the
texts, as no tokenizer may be at hand: :data:`CHARACTERS` of them a token, and the special tokens; a passage that
several rows of a batch share counts each time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipeline_tasks.core.run import Inputs
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.training import adapt_to_corpus, follow_instructions, pretrain, triplets
from pipeline_tasks.training.adapt_backbone import AdaptParams, dev_texts, training_texts
from pipeline_tasks.training.data.examples import CONTRASTS, Examples
from pipeline_tasks.training.params import TrainParams
from pipeline_tasks.training.stage import StageRows

CHARACTERS = 4
"""Of English, a token: the usual rule of thumb. Other languages and tokenizers need fewer."""
_SPECIAL = 2

Stage = (
    pretrain.PretrainParams
    | triplets.TripletParams
    | adapt_to_corpus.AdaptToCorpusParams
    | follow_instructions.FollowInstructionsParams
)
Training = AdaptParams | Stage
_ROWS_OF: Mapping[type[TrainParams], Callable[[Inputs, Any, Layout], StageRows]] = {
    pretrain.PretrainParams: pretrain.stage_rows,
    triplets.TripletParams: triplets.stage_rows,
    adapt_to_corpus.AdaptToCorpusParams: adapt_to_corpus.stage_rows,
    follow_instructions.FollowInstructionsParams: follow_instructions.stage_rows,
}


@dataclass(frozen=True)
class Load:
    """Texts that a training reads.

    Attributes:
        rows: source -> how many.
        n_texts: queries and passages of all rows.
        n_tokens: of all these.
    """

    rows: Mapping[str, int]
    n_texts: int
    n_tokens: int

    @property
    def per_row(self) -> float:
        """Tokens of a row."""
        return self.n_tokens / max(1, sum(self.rows.values()))

    @property
    def per_text(self) -> float:
        """Tokens of a text."""
        return self.n_tokens / max(1, self.n_texts)


def loads(inputs: Inputs, params: Training) -> tuple[Load, Load]:
    """Training and development rows, as the step of these parameters reads them."""
    if isinstance(params, AdaptParams):
        dev, most = pa.array(dev_texts(inputs, params), pa.string()), params.max_passage_length
        return _load_of_texts(training_texts(inputs)(), most), _load_of_texts([dev], most)
    rows, layout = _stage_rows(inputs, params)
    return _load(rows.train, params), _load(rows.dev(layout), params)


def target_loads(inputs: Inputs, params: Training) -> list[Load]:
    """The rows of each target that a sampler looks at; nothing where there is none."""
    if isinstance(params, AdaptParams) or not params.sampler:
        return []
    rows, layout = _stage_rows(inputs, params)
    sets = rows.targets(layout) or {"dev": rows.dev(layout)}
    return [_load(Examples(one.blocks), params) for one in sets.values()]


def _stage_rows(inputs: Inputs, params: Stage) -> tuple[StageRows, Layout]:
    """Rows of a stage, and how they are asked as far as it counts."""
    layout = Layout("mean", 0)
    if isinstance(params, triplets.TripletParams):
        layout = replace(layout, prefixes=params.instructions, needs_intent=params.instruct)
    rows_of = next(rows for kind, rows in _ROWS_OF.items() if isinstance(params, kind))
    return rows_of(inputs, params, layout), layout


def _load(examples: Examples, params: TrainParams) -> Load:
    longest = {"query": params.max_query_length, "positive": params.max_passage_length}
    rows: Counter[str] = Counter()
    n_texts, n_tokens = 0, 0.0
    for block in examples.blocks():
        rows.update(block["source"].to_pylist() if "source" in block.column_names else {"": len(block)})
        columns = [(block[name], most) for name, most in longest.items()]
        if "negatives" in block.column_names:
            columns.append((pc.list_flatten(block["negatives"]), params.max_passage_length))
        contrasts = (name for name in CONTRASTS if name in block.column_names)
        columns += [(pc.list_flatten(block[name]), params.max_query_length) for name in contrasts]
        n_texts += sum(len(texts) for texts, _ in columns)
        n_tokens += sum(_tokens(texts, most) for texts, most in columns)
    others = pa.array(examples.others, pa.string())
    rows = in_clusters(rows, params.clusters) if params.clusters else rows
    return Load(rows, n_texts + len(others), round(n_tokens + _tokens(others, params.max_passage_length)))


def in_clusters(rows: Mapping[str, int], k: int) -> Counter[str]:
    """Rows of each cluster, where the ``k`` of a source are alike in size."""
    parts = {(name, at): (n + at) // k for name, n in rows.items() for at in range(k)}
    return Counter({f"{name}/cluster-{at}": n for (name, at), n in parts.items() if n})


def _load_of_texts(blocks: Iterable[pa.Array], most: int) -> Load:
    n_texts, n_tokens = 0, 0.0
    for texts in blocks:
        n_texts += len(texts)
        n_tokens += _tokens(texts, most)
    return Load({"": n_texts}, n_texts, round(n_tokens))


def _tokens(texts: pa.Array | pa.ChunkedArray, most: int) -> float:
    """About how many tokens these texts are, each cut at ``most``."""
    lengths = pc.divide(pc.utf8_length(texts.cast(pa.string())).cast(pa.float64()), CHARACTERS)
    return pc.sum(pc.min_element_wise(pc.add(lengths, _SPECIAL), float(most))).as_py() or 0.0
