"""A small random causal model that reads the prompts of relabelling, a token a word."""

from __future__ import annotations

from pathlib import Path

from pipeline_tasks.curation import relevance_prompts as prompts
from tests.shapes import FILLERS, TOPICS


def make(folder: Path, length: int = 512) -> Path:
    """A plain transformers folder; the same bytes every time."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    words = ["[UNK]", *sorted({*prompts.RELEVANCE_BEGINNING.split(), *TOPICS, *FILLERS})]
    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    config = LlamaConfig(
        vocab_size=len(words), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=length, initializer_range=0.3,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(3)
        LlamaForCausalLM(config).save_pretrained(folder)
    PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]").save_pretrained(folder)
    return folder
