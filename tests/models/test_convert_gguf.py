"""A Llama out of a GGUF file is the model that it was made of, and reads texts as llama.cpp does."""

from __future__ import annotations

import httpx
import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.settings import settings
from pipeline_tasks.models.convert import llama_from_gguf
from pipeline_tasks.models.fetch import is_here, path_of
from pipeline_tasks.models.registry import get
from pipeline_tasks.models.serve_llm import serve

TEXTS = [
    "After a flood, boil tap water for 1 minute (3 minutes above 2,000 m).\n\n- Call 911\tor  +1-800-621-3362!  ",
    "Größe: ½ Tasse, ① naïve café, 北京 2024年 ٣٤ Ⅷ – “quotes” it's we'LL don't",
    "  leading\n\n\n   spaces\r\n\t\tx\u2028\u3000and emoji 😀👩‍👩‍👧, e\u0301, zero\u200bwidth, \u00a0no break",
    "<|im_start|>user\nFill _ in __ please<|im_end|>\n",
]
TOKENS = ["<|endoftext|>", "1", "2", "12", "a", "b", "ab", "Ġ", "Ġab"]


def write(folder, pre="smollm"):
    """A small Llama with random weights, as llama.cpp's own converter would have it in a GGUF file."""
    from gguf import MODEL_ARCH, GGUFWriter, TokenType, get_tensor_name_map

    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2, "tie_word_embeddings": True}
    torch.manual_seed(7)
    size = {"hidden_size": 32, "intermediate_size": 48, "vocab_size": len(TOKENS), "max_position_embeddings": 64}
    model = LlamaForCausalLM(LlamaConfig(**size, **heads, rope_theta=5000.0, initializer_range=0.5)).eval()
    names, file = get_tensor_name_map(MODEL_ARCH.LLAMA, 2), GGUFWriter(folder / "model.gguf", "llama")
    file.add_block_count(2)
    file.add_context_length(64)
    file.add_embedding_length(32)
    file.add_feed_forward_length(48)
    file.add_head_count(4)
    file.add_head_count_kv(2)
    file.add_layer_norm_rms_eps(1e-6)
    file.add_rope_freq_base(5000.0)
    file.add_vocab_size(len(TOKENS))
    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre(pre)
    file.add_token_list(TOKENS)
    file.add_token_types([TokenType.CONTROL] + [TokenType.NORMAL] * (len(TOKENS) - 1))
    file.add_token_merges(["1 2", "a b", "Ġ ab"])
    for add in (file.add_bos_token_id, file.add_eos_token_id, file.add_unk_token_id, file.add_pad_token_id):
        add(0)
    for name, weights in model.model.state_dict(prefix="model.").items():
        values, rotated = weights.numpy(), {"q_proj": 4, "k_proj": 2}.get(name.split(".")[-2])
        if rotated:
            values = values.reshape(rotated, 2, -1, 32).swapaxes(1, 2).reshape(values.shape)
        file.add_tensor(names.get_name(name, (".weight",)), np.ascontiguousarray(values))
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return model


def test_a_llama_is_the_model_that_the_file_was_made_of(tmp_path):
    model = write(tmp_path)
    llama_from_gguf(tmp_path)
    made = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in tmp_path.iterdir()} == made
    ids = torch.tensor([[4, 1, 8, 2, 5, 6]])
    with torch.inference_mode():
        assert torch.equal(AutoModelForCausalLM.from_pretrained(tmp_path).eval()(ids).logits, model(ids).logits)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.tokenize("ab 12 ab<|endoftext|>") == ["ab", "Ġ", "1", "2", "Ġab", "<|endoftext|>"]
    assert (tokenizer.pad_token, tokenizer.decode(tokenizer("ab 12")["input_ids"])) == ("<|endoftext|>", "ab 12")


def test_another_tokenizer_is_refused_and_nothing_is_written(tmp_path):
    write(tmp_path, pre="llama-bpe")
    with pytest.raises(InputError, match=r"model\.gguf is .*'llama-bpe'.*take the package version of the registry"):
        llama_from_gguf(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.gguf"]


@pytest.fixture(scope="module")
def url(fetched):
    """Where llama.cpp serves the file that ``smollm2-135m`` was made of."""
    if not is_here(get("smollm2-135m"), settings().cache):
        pytest.skip(f"smollm2-135m is not in {settings().cache}; run `foundry models fetch smollm2-135m` first")
    with serve(next(fetched("smollm2-135m-instruct").glob("*.gguf"))) as base_url:
        yield base_url.removesuffix("/v1")


def asked(url, path, **body):
    return httpx.post(f"{url}/{path}", json=body, timeout=120).raise_for_status().json()


def test_the_tokens_of_smollm_are_those_of_llama_cpp(url):
    tokenizer = AutoTokenizer.from_pretrained(path_of(get("smollm2-135m"), settings().cache))
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == asked(url, "tokenize", content=text, parse_special=True)["tokens"]


def test_the_next_tokens_of_smollm_are_as_likely_as_llama_cpp_finds_them(url):
    """That rounds what it multiplies by these weights to 8 bits."""
    folder = path_of(get("smollm2-135m"), settings().cache)
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder).eval()
    for text in (TEXTS[0], "Before a hurricane, store water and learn your"):
        found = asked(url, "completion", prompt=text, n_predict=1, n_probs=20, temperature=0)
        theirs = {one["id"]: one["logprob"] for one in found["completion_probabilities"][0]["top_logprobs"]}
        with torch.inference_mode():
            ours = torch.log_softmax(model(**tokenizer(text, return_tensors="pt")).logits[0, -1], -1)
        assert int(ours.argmax()) == max(theirs, key=theirs.__getitem__)
        assert np.mean([abs(float(ours[token]) - value) for token, value in theirs.items()]) < 0.2
