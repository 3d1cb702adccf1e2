"""Small random models of the architectures that the family starts from, over a toy vocabulary."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
TOPICS = [f"t{letter}" for letter in "abcdefghijklmnopqrstuvwx"]
FILLERS = [f"w{letter}" for letter in "abcdefghijkl"]
SIZE: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "pad_token_id": 0}
DECODERS = ("qwen3", "llama")
SHAPES = ("bert", "bert-large", "modernbert", *DECODERS)
WITH_DECODER = ("bart", "t5", "umt5", "longt5")
"""Encoders that have a decoder beside them."""


def make(shape: str, folder: Path) -> Path:
    """A plain transformers folder with weights of that shape; the same bytes every time."""
    import torch
    from transformers import PreTrainedTokenizerFast

    with torch.random.fork_rng():
        torch.manual_seed(7)
        _model(shape).save_pretrained(folder)
    known: dict[str, Any] = {"pad_token": "[PAD]", "unk_token": "[UNK]"}
    known |= {"model_max_length": 64} if shape in WITH_DECODER else {}
    encoder_words = {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": "[MASK]"}
    decoder = shape in DECODERS
    PreTrainedTokenizerFast(
        tokenizer_object=_tokenizer(shape), **known | ({} if decoder else encoder_words)
    ).save_pretrained(folder)
    return folder


def of_kind(kind: str, folder: Path, **config: Any) -> Path:
    """A causal language model of any kind, with the tokenizer of a decoder; the same bytes every time."""
    import torch
    import transformers as t

    make("qwen3", folder)
    size = SIZE | {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
    of = t.AutoConfig.for_model(kind, **size | {"vocab_size": len(words("qwen3"))} | config)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        t.AutoModelForCausalLM.from_config(of).save_pretrained(folder)
    return folder


def in_bfloat16(folder: Path, copy: Path) -> Path:
    """A copy of a folder of :func:`make` whose weights are those of bfloat16, as models are published."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(folder, copy)
    weights = {name: weights.bfloat16() for name, weights in load_file(copy / "model.safetensors").items()}
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    return copy


def words(shape: str) -> list[str]:
    """The vocabulary; a decoder has no mask token, but a word for a blank."""
    return [*SPECIAL, *TOPICS, *FILLERS, *(["_"] if shape in DECODERS else [])]


def _model(shape: str) -> Any:
    import transformers as t

    size = SIZE | {"vocab_size": len(words(shape))}
    if shape == "bert-large":  # as deep for its width as BERT-large is
        of_bert = {"max_position_embeddings": 64, "num_hidden_layers": 24, "num_attention_heads": 16}
        return t.BertModel(t.BertConfig(**size, **of_bert), add_pooling_layer=False)
    if shape == "bart":
        sides = [f"{side}_{what}" for side in ("encoder", "decoder") for what in ("layers", "attention_heads")]
        of_bart = {"encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64, "pad_token_id": 0}
        vocabulary = {"vocab_size": size["vocab_size"], "d_model": 32, "decoder_start_token_id": 3}
        return t.BartModel(t.BartConfig(**vocabulary, **of_bart, **dict.fromkeys(sides, 2)))
    if shape in WITH_DECODER:
        small = {"d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4, "decoder_start_token_id": 0}
        kinds = {"t5": (t.T5Config, t.T5Model), "umt5": (t.UMT5Config, t.UMT5Model)}
        config, model = kinds.get(shape, (t.LongT5Config, t.LongT5Model))
        return model(config(vocab_size=size["vocab_size"], **small))
    heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64}
    if shape == "bert":
        return t.BertModel(t.BertConfig(**size, **heads | {"num_attention_heads": 2}), add_pooling_layer=False)
    if shape == "modernbert":
        return t.ModernBertModel(t.ModernBertConfig(**size, **heads, local_attention=8))
    grouped = heads | {"num_key_value_heads": 2, "head_dim": 8, "initializer_range": 0.2, "tie_word_embeddings": True}
    if shape == "qwen3":
        return t.Qwen3ForCausalLM(t.Qwen3Config(**size, **grouped))
    return t.LlamaForCausalLM(t.LlamaConfig(**size, **grouped))


def _tokenizer(shape: str) -> Any:
    """One token a word; an encoder's puts [CLS] and [SEP] around a text, a decoder's nothing."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words(shape))}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if shape not in DECODERS:
        ends = [("[CLS]", 2), ("[SEP]", 3)]
        made.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return made


def with_tokens(folder: Path, copy: Path, **more: int) -> Path:
    """A copy whose tokenizer has ``more`` words than its model has embeddings of."""
    shutil.copytree(folder, copy)
    made = json.loads((copy / "tokenizer.json").read_text())
    made["model"]["vocab"] |= more
    (copy / "tokenizer.json").write_text(json.dumps(made))
    return copy
