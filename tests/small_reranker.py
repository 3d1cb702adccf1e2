"""A small random model that scores pairs of texts, over the toy vocabulary of ``tests.shapes``."""

from __future__ import annotations

from pathlib import Path

from tests.shapes import SIZE, SPECIAL, words


def make(folder: Path, n_scores: int = 1, kind: str = "Bert") -> Path:
    """A plain transformers folder; the same bytes every time. A pair is read as ``[CLS] a [SEP] b [SEP]``."""
    import torch
    import transformers
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words("bert"))}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(name, SPECIAL.index(name)) for name in ("[CLS]", "[SEP]")],
    )
    config = getattr(transformers, f"{kind}Config")(
        **SIZE, vocab_size=len(words("bert")), num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=64,
        num_labels=n_scores, initializer_range=0.5,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(11)
        getattr(transformers, f"{kind}ForSequenceClassification")(config).save_pretrained(folder)
    named = {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=made, **named).save_pretrained(folder)
    return folder
