"""An exported encoder is a sentence-transformers model with the same embeddings and the same bytes each time."""

import hashlib
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout, layout_of_folder
from pipeline_tasks.encoders.trunk import load
from pipeline_tasks.retrieval.open_encoder import load_encoder
from pipeline_tasks.training.data.examples import Examples
from pipeline_tasks.training.data.rows import tokenized
from pipeline_tasks.training.model.export import export
from pipeline_tasks.training.validation import embed as embed_tokens

CARD = {"name": "Tiny", "summary": "A test model.", "data": {"mtp": "pairs | more", "rows": 3}, "seed": 0}
PROMPTS = {"qa": "wa wb ", "sts": "wc "}
LAYOUT = Layout("mean", 32, prefixes=PROMPTS)
TEXTS = ["ta wb wc", "tb", "tc wa wb wc wd we wf wg wh wi wj wk wl tq"]


@pytest.fixture(scope="module")
def exported(tiny_bert, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    export(load(tiny_bert), folder, card=CARD, layout=LAYOUT)
    return folder


def embed(folder: Path, texts: list[str]) -> np.ndarray:
    encoder = load(folder)
    encoder.model.eval()
    ids = encoder.tokenizer(texts, truncation=True, max_length=32)["input_ids"]
    with torch.no_grad():
        return encoder.encode(encoder.features([np.array(row) for row in ids])).numpy()


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(f.relative_to(folder)): hashlib.sha256(f.read_bytes()).hexdigest() for f in files}


def test_what_a_killed_export_left_is_no_part_of_the_model(exported, tiny_bert, tmp_path) -> None:
    (tmp_path / "m" / "1_Pooling").mkdir(parents=True)
    (tmp_path / "m" / ".tmpKILLED").write_bytes(b"half of the weights")
    (tmp_path / "m" / "1_Pooling" / "config.json.part").write_bytes(b"{")
    export(load(tiny_bert), tmp_path / "m", card=CARD, layout=LAYOUT)
    assert digests(tmp_path / "m") == digests(exported)


def test_sentence_transformers_gives_our_embeddings(exported, tiny_bert) -> None:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(exported), device="cpu", local_files_only=True)
    theirs = model.encode(TEXTS)
    assert model.max_seq_length == 32
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling", "Normalize"]
    assert ((theirs * embed(exported, TEXTS)).sum(axis=1) > 0.9999).all()
    assert ((theirs * embed(tiny_bert, TEXTS)).sum(axis=1) > 0.9999).all()
    prompted = model.encode(TEXTS, prompt_name="qa")
    np.testing.assert_allclose(prompted, embed(exported, [PROMPTS["qa"] + text for text in TEXTS]), rtol=0, atol=1e-5)
    assert not np.allclose(prompted, theirs, atol=1e-3)


def test_a_prompt_that_is_not_pooled_gives_one_vector_in_training_in_search_and_in_sentence_transformers(
    tiny_bert, tmp_path
) -> None:
    from sentence_transformers import SentenceTransformer

    export(load(tiny_bert), tmp_path / "m", card=CARD, layout=replace(LAYOUT, pools_prefix=False))
    encoder = load(tmp_path / "m")
    encoder.model.eval()
    asked = [PROMPTS["qa"] + text for text in TEXTS]
    rows = Examples.of(asked, ["ta"] * 3, prompts=[PROMPTS["qa"]] * 3)
    data = tokenized(rows, encoder.tokens, tmp_path / "tokens", max_query_length=32, max_passage_length=32)
    ours = embed_tokens(encoder, data.queries, 1024, False, data.unpooled)
    searched = load_encoder(tmp_path / "m", tmp_path, threads=1).encode_queries(TEXTS, ["qa"] * 3)
    theirs = SentenceTransformer(str(tmp_path / "m"), device="cpu", local_files_only=True)
    assert (data.unpooled == 3).all()
    np.testing.assert_allclose(theirs.encode(TEXTS, prompt_name="qa"), ours, rtol=0, atol=1e-5)
    np.testing.assert_allclose(searched, ours, rtol=0, atol=1e-5)
    assert ((embed(tmp_path / "m", asked) * ours).sum(axis=1) < 0.999).any()


@pytest.mark.parametrize("pooling", ["cls", "last"])
def test_one_tokens_vector_is_the_same_whether_or_not_instructions_are_pooled(tiny_bert, tmp_path, pooling) -> None:
    from sentence_transformers import SentenceTransformer

    layout = replace(LAYOUT, pooling=pooling, pools_prefix=False)
    encoder = load(tiny_bert)
    encoder.layout = layout
    encoder.model.eval()
    rows = Examples.of([PROMPTS["qa"] + text for text in TEXTS], ["ta"] * 3, prompts=[PROMPTS["qa"]] * 3)
    data = tokenized(rows, encoder.tokens, tmp_path / "tokens", max_query_length=32, max_passage_length=32)
    trained = embed_tokens(encoder, data.queries, 1024, False, data.unpooled)
    export(encoder, tmp_path / "m", card=CARD, layout=layout)
    searched = load_encoder(tmp_path / "m", tmp_path, threads=1).encode_queries(TEXTS, ["qa"] * 3)
    theirs = SentenceTransformer(str(tmp_path / "m"), device="cpu", local_files_only=True)
    np.testing.assert_allclose(theirs.encode(TEXTS, prompt_name="qa"), trained, rtol=0, atol=1e-5)
    np.testing.assert_allclose(searched, trained, rtol=0, atol=1e-5)


@pytest.mark.parametrize("form", ["$A", "[CLS] $A", "[CLS] $A [MASK]"])
def test_a_token_that_training_puts_at_the_end_is_there_in_search_and_in_sentence_transformers(
    tiny_bert, tmp_path, form
) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = load(tiny_bert)
    encoder.layout = replace(LAYOUT, pooling="last", append="[SEP]")
    backend = encoder.tokenizer.backend_tokenizer
    special = [(token, backend.token_to_id(token)) for token in ("[CLS]", "[MASK]")]
    backend.post_processor = TemplateProcessing(single=form, pair=f"{form} $B", special_tokens=special)
    encoder.model.eval()
    own = encoder.tokens.ids(TEXTS, 6)
    assert [ids[-1] for ids in own] == [encoder.tokenizer.sep_token_id] * 3
    with torch.no_grad():
        ours = encoder.encode(encoder.features(own)).numpy()
    export(encoder, tmp_path / "m", card=CARD, layout=encoder.layout)
    again = load(tmp_path / "m")
    assert [ids.tolist() for ids in again.tokens.ids(TEXTS, 6)] == [ids.tolist() for ids in own]
    theirs = SentenceTransformer(str(tmp_path / "m"), device="cpu", local_files_only=True)
    theirs.max_seq_length = 6
    assert ((theirs.encode(TEXTS) * ours).sum(axis=1) > 0.9999).all(), "as many at once, so it pads, too"


def words_alone(folder: Path, **special: str) -> Path:
    """A trunk whose tokenizer has no token to pad with, and at number 0 a part of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    tokenizer, parts = Tokenizer(models.BPE()), pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = parts
    trainer = trainers.BpeTrainer(vocab_size=270, initial_alphabet=sorted(parts.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(["wow!! great!!"], trainer)
    assert tokenizer.id_to_token(0) == "!" and tokenizer.token_to_id("!!")
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    BertModel(BertConfig(vocab_size=280, **size)).save_pretrained(folder)
    return folder


def test_no_word_becomes_a_token_to_pad_with(tmp_path) -> None:
    from sentence_transformers import SentenceTransformer

    encoder = load(words_alone(tmp_path / "start", eos_token="<|end|>"))
    texts = ["wow!! great! yes!!", "great"]
    encoder.model.eval()
    own = encoder.tokens.ids(texts, 16)
    with torch.no_grad():
        ours = encoder.encode(encoder.features(own)).numpy()
    export(encoder, tmp_path / "m", card=CARD, layout=replace(LAYOUT, prefixes={}))
    again = load(tmp_path / "m")
    assert again.tokenizer.pad_token == "<|end|>"
    assert [ids.tolist() for ids in again.tokens.ids(texts, 16)] == [ids.tolist() for ids in own]
    theirs = SentenceTransformer(str(tmp_path / "m"), device="cpu", local_files_only=True).encode(texts)
    assert ((theirs * ours).sum(axis=1) > 0.9999).all()


def test_a_tokenizer_of_words_alone_is_refused_before_it_trains(tmp_path) -> None:
    with pytest.raises(InputError, match="start has no token to pad with: name a pad_token that no text"):
        load(words_alone(tmp_path / "start"))


def test_texts_are_cut_where_training_cut_them(tiny_bert, tmp_path) -> None:
    """Though the trunk's tokenizer cuts them at their beginning."""
    from sentence_transformers import SentenceTransformer

    trunk = shutil.copytree(tiny_bert, tmp_path / "trunk")
    config = json.loads((trunk / "tokenizer_config.json").read_text())
    (trunk / "tokenizer_config.json").write_text(json.dumps(config | {"truncation_side": "left"}))
    encoder, texts = load(trunk), ["ta wb wc wd we wf wg wh tq"]
    with torch.no_grad():
        ours = encoder.encode(encoder.features(encoder.tokens.ids(texts, 6))).numpy()
    export(encoder, tmp_path / "m", card=CARD, layout=Layout("mean", 6))
    theirs = SentenceTransformer(str(tmp_path / "m"), device="cpu", local_files_only=True).encode(texts)
    np.testing.assert_allclose(theirs, ours, atol=1e-5)
    assert layout_of_folder(tmp_path / "m").max_length == 6


def test_of_folders_that_cut_texts_at_their_beginning_only_an_earlier_release_s_export_is_read(exported, tmp_path):
    folder = shutil.copytree(exported, tmp_path / "m")
    config = folder / "tokenizer_config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"truncation_side": "left"}))
    assert layout_of_folder(folder).max_length == 32
    told, of_normalize = folder / "config_sentence_transformers.json", folder / "2_Normalize" / "config.json"
    for file, others in ((told, "{}"), (told, '{"__version__": {}}'), (of_normalize, '{"module_input_name": "x"}')):
        own = file.read_text()
        file.write_text(others)
        with pytest.raises(InputError, match="cuts long texts at their beginning"):
            layout_of_folder(folder)
        file.write_text(own)
    for file in (told, of_normalize):
        moved = file.rename(tmp_path / "moved")
        with pytest.raises(InputError, match="cuts long texts at their beginning"):
            layout_of_folder(folder)
        moved.rename(file)
    assert layout_of_folder(folder).max_length == 32


def test_an_empty_prompt_of_an_intent_stays_one(tiny_bert, tmp_path) -> None:
    export(load(tiny_bert), tmp_path / "m", card=CARD, layout=replace(LAYOUT, prefixes={"query": "wa ", "sts": ""}))
    found = layout_of_folder(tmp_path / "m")
    assert (found.query_prefix("sts"), found.query_prefix("qa")) == ("", "wa ")


def test_sentence_transformers_cuts_it_to_its_first_dimensions(exported) -> None:
    """As the loss of Matryoshka has them: a prefix of the vector, of length 1 again."""
    from sentence_transformers import SentenceTransformer

    cut = SentenceTransformer(str(exported), device="cpu", local_files_only=True, truncate_dim=5)
    whole = embed(exported, TEXTS)
    prefix = whole[:, :5] / np.linalg.norm(whole[:, :5], axis=1, keepdims=True)
    np.testing.assert_allclose(cut.encode(TEXTS, normalize_embeddings=True), prefix, atol=1e-5)
    assert cut.encode(TEXTS).shape == (3, 5) and whole.shape[1] > 5


def test_same_bytes_wherever_and_after_use(exported, tiny_bert, tmp_path) -> None:
    encoder = load(tiny_bert)
    encoder.tokenizer(TEXTS, truncation=True, max_length=4, padding=True)
    export(encoder, tmp_path / "elsewhere", card=CARD, layout=LAYOUT)
    export(load(exported), tmp_path / "again", card=CARD, layout=LAYOUT)
    assert digests(tmp_path / "elsewhere") == digests(exported)
    assert digests(tmp_path / "again") == digests(exported)


def test_nothing_of_this_machine_is_in_it(exported, tiny_bert) -> None:
    texts = [f.read_text() for f in exported.rglob("*") if f.suffix in {".json", ".md"}]
    assert not any(str(place) in text for text in texts for place in (exported, tiny_bert, Path.home()))
    assert all(os.access(f, os.R_OK) and f.stat().st_mode & 0o044 for f in exported.rglob("*"))


def test_card_shows_facts_sections_and_prompts(exported) -> None:
    card = (exported / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: sentence-transformers\n")
    for line in (
        "# Tiny",
        "| seed | 0 |",
        "## Data",
        r"| mtp | pairs \| more |",
        'prompt_name="qa"',
        "| sts | wc |",
    ):
        assert line in card
