"""A stand-in endpoint that echoes prompts with log-probabilities of a real small model, as vLLM does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.synthesis.conftest import StandInEndpoint


class EchoEndpoint(StandInEndpoint):
    """``/completions`` of one causal model, read anew for every request; a token's text begins behind the one before.

    Args:
        folder: of the model.
        special: a first token that is counted in offsets and in the echo, as vLLM's are.
    """

    def __init__(self, folder: Path, special: str = "") -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        super().__init__((200, self._told))
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModelForCausalLM.from_pretrained(folder)
        self._special = special

    def _told(self, body: dict[str, Any]) -> dict[str, Any]:
        import torch

        prompt = body["prompt"]
        read = self._tokenizer(prompt, return_offsets_mapping=True)
        ids, ends = read["input_ids"], [end for _, end in read["offset_mapping"]]
        starts = [0, *ends[:-1]]
        with torch.inference_mode():
            log_probs = self._model(torch.tensor([ids])).logits[0].log_softmax(dim=-1)
        tokens = [prompt[start:end] for start, end in zip(starts, ends, strict=True)]
        of_tokens = [None, *log_probs[range(len(ids) - 1), ids[1:]].tolist()]
        top = log_probs[-1].topk(min(body["logprobs"], log_probs.shape[1]))
        tops = {
            f" {self._tokenizer.convert_ids_to_tokens(i)}": p
            for p, i in zip(*map(torch.Tensor.tolist, top), strict=True)
        }
        likeliest = next(iter(tops))
        if not body.get("echo"):
            tokens, of_tokens, starts = [], [], []
        elif self._special:
            tokens, of_tokens = [self._special, *tokens], [None, -1.0, *of_tokens[1:]]
            starts = [0, *(start + len(self._special) for start in starts)]
        ended = starts[-1] + len(tokens[-1]) if tokens else len(prompt)
        told = {
            "tokens": [*tokens, likeliest],
            "token_logprobs": [*of_tokens, tops[likeliest]],
            "text_offset": [*starts, ended],
            "top_logprobs": [*([None] * len(tokens)), tops],
        }
        text = (prompt if body.get("echo") else "") + likeliest
        usage = {"prompt_tokens": len(ids), "completion_tokens": 1}
        choice = {"index": 0, "text": text, "finish_reason": "length", "logprobs": told}
        return {"model": body["model"], "created": 1_700_000_000, "choices": [choice], "usage": usage}
