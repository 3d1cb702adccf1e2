"""Texts are tokenised for training with the tokenizer of the model that is trained, or not at all."""

from functools import partial

import pyarrow as pa
import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.datasets import PAIRS
from pipeline_tasks.training.adapt_backbone import AdaptParams, adapt
from pipeline_tasks.training.pretrain import pretrain
from tests import shapes
from tests.stores import go, put

SHORT = {"batch_size": 2, "max_passage_length": 16, "device": "cpu"}
TOO_HIGH = r"tokenizer of .* gives token 99 \('zz'\), and its embeddings have 4[12] rows: save there the tokenizer that"


@pytest.mark.parametrize("split", ["train", "dev"])
@pytest.mark.parametrize("shape", ["bert", "qwen3"])
def test_a_token_without_an_embedding_is_refused_before_the_first_step(store, tmp_path, shape, split):
    folder = shapes.with_tokens(shapes.make(shape, tmp_path / "right"), tmp_path / "m", zz=99)
    rows = [
        {"query_id": f"q{number}", "intent": "qa", "query": "ta", "passage_id": f"p{number}", "positive": "wb"}
        | {"passage": "zz" if number == 3 else "wc", "split": split if number == 3 else "train"}
        for number in range(4)
    ]
    put(store, PAIRS, rows, dataset="mtp")
    chosen = {"size": "22m", "backbone": str(folder), "causal": shape == "qwen3", "max_query_length": 16}
    with pytest.raises(InputError, match=TOO_HIGH):
        go(store, pretrain, **chosen, **SHORT)


@pytest.mark.parametrize(("texts", "mask_text"), [(["ta zz"], "_"), (["ta wb"], "zz")])
def test_adapting_refuses_one_in_a_text_and_in_place_of_a_masked_one(tmp_path, texts, mask_text):
    folder = shapes.with_tokens(shapes.make("qwen3", tmp_path / "right"), tmp_path / "m", zz=99)
    params = AdaptParams(mask_text=mask_text, **SHORT)
    with pytest.raises(InputError, match=TOO_HIGH):
        adapt(folder, partial(iter, [pa.array(texts)]), [], params, tmp_path / "work", lambda *_: None)
