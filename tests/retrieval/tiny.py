"""Small random models in sentence-transformers folders, for what no published model is needed for."""

from __future__ import annotations

import json
from pathlib import Path

WORDS = "flood storm fire smoke ash wave river shelter water road bridge camp".split()
END = "</s>"


def tokenizer(ends: bool):
    """One token a word; with ``ends`` every input ends in END by itself."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    vocabulary = {token: i for i, token in enumerate(["<pad>", "<unk>", "<s>", END, *WORDS])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    made.add_special_tokens(["<pad>", "<unk>", "<s>", END])
    tail = f" {END}" if ends else ""
    specials = [("<s>", 2), (END, 3)]
    made.post_processor = processors.TemplateProcessing(single=f"<s> $A{tail}", special_tokens=specials)
    return made


def decoder(folder: Path, *, pooling: str = "lasttoken", ends: bool = False, add_end: bool = True, length: int = 12):
    """A Qwen3 of random weights, whose tokenizer adds END where ``ends`` says so and should where ``add_end`` does."""
    import torch
    from transformers import Qwen3Config, Qwen3Model

    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=len(WORDS) + 4, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, pad_token_id=0, initializer_range=0.5,
    )  # fmt: skip
    Qwen3Model(config).save_pretrained(folder)
    tokenizer(ends).save(str(folder / "tokenizer.json"))
    (folder / "1_Pooling").mkdir()
    written = {
        "modules.json": [{"path": "", "type": "a.Transformer"}, {"path": "1_Pooling", "type": "a.Pooling"}],
        "1_Pooling/config.json": {"pooling_mode": pooling, "word_embedding_dimension": 32},
        "tokenizer_config.json": {"model_max_length": length, "eos_token": END, "add_eos_token": add_end},
    }
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content))
    return folder
