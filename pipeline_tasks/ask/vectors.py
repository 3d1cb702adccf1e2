"""Vectors of a corpus by one model: those that a step has made, else made once and left for the next question.

What is made here lies in a scratch folder of the store: the next takedown wipes it, and ``foundry gc`` takes it after
a week.
"""

from __future__ import annotations

from uuid import uuid4

import numpy as np

from pipeline_tasks.ask.corpus import Corpus
from pipeline_tasks.core import durable
from pipeline_tasks.core.ids import short_id
from pipeline_tasks.core.manifest import Manifest, Ref
from pipeline_tasks.core.progress import meter
from pipeline_tasks.core.vectors import checked, matrix
from pipeline_tasks.core.versions import Version, load_manifest
from pipeline_tasks.models.use import identity
from pipeline_tasks.retrieval.encoder import Encoder
from pipeline_tasks.retrieval.search import Shard

_BLOCK = 4096


def stored(corpus: Corpus, model: str) -> Manifest | None:
    """The version of ``embeddings/<model>`` that is of this corpus and of the weights that run here, if any."""
    folder = f"versions/embeddings/{model}/"
    wanted = {"passages": [str(corpus.manifest.ref)]}
    for key in corpus.store.keys(folder):
        ref = Ref(dataset=f"embeddings/{model}", version=key.removeprefix(folder).removesuffix(".json"))
        manifest = load_manifest(corpus.store, ref)
        if manifest.inputs == wanted and manifest.params.get("weights") == identity(model):
            return manifest
    return None


def stored_shards(corpus: Corpus, manifest: Manifest) -> list[Shard]:
    """The vectors of that version, part by part, each row with its place in the corpus."""
    shards = []
    for part in Version(corpus.store, manifest).parts(["passage_id", "embedding"]):
        if part.num_rows:
            vectors = checked(matrix(part["embedding"]), part["passage_id"], str(manifest.ref))
            shards.append((vectors, corpus.places(part["passage_id"])))
    return shards


def made_shards(corpus: Corpus, encoder: Encoder, name: str, model: object) -> list[Shard]:
    """The corpus as ``encoder`` gives it; a block that is finished outlives a kill.

    Args:
        corpus: what is encoded.
        encoder: by which model.
        name: the model's, for people.
        model: what its vectors depend on; names what is kept.
    """
    folder = corpus.store.scratch(f"vectors-{short_id(model, corpus.digest)}")
    shards: list[Shard] = []
    with meter(f"passages by {name}", len(corpus.texts), "passages") as progress_bar:
        for start in range(0, len(corpus.texts), _BLOCK):
            texts, file = corpus.texts[start : start + _BLOCK], folder / f"{start}.npy"
            if not file.is_file():
                partial = file.with_suffix(f".{uuid4().hex}.partial.npy")
                np.save(partial, encoder.encode_passages(texts, progress=progress_bar.advance))
                durable.replace(partial, file)
            places = np.arange(start, start + len(texts), dtype=np.int32)
            shards.append((np.load(file, mmap_mode="r"), places))
    return shards
