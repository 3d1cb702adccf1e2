"""How texts become vectors with a model: read from the registry, or from a sentence-transformers folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.model_files import LONGEST, lowers_case, modules_of, number_of, object_in, optional_object
from pipeline_tasks.encoders.projection import Dense, read_dense
from pipeline_tasks.models.registry import INSTRUCTION, SEPARATOR, ModelSpec, Pooling

_POOLING: dict[str, Pooling] = {"mean": "mean", "cls": "cls", "lasttoken": "last"}
_OLD_POOLING: dict[str, Pooling] = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "last",
}
_PASSAGE_PROMPTS = ("document", "passage", "corpus")
"""The first that is there counts, as in sentence-transformers."""
_FIRST_BEHIND_PADDING = {"roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet", "data2vec-text"}
"""Kinds of models whose first token is at the position behind that of padding."""


@dataclass(frozen=True)
class Layout:
    """One way from text to vector.

    Attributes:
        pooling: how hidden states become one vector.
        max_length: tokens after which an input is cut, special tokens included.
        pad_id: token that fills short rows.
        prefixes: ``query``, ``passage``, and each intent whose queries have an instruction of their own.
        pools_prefix: off: the prefix's tokens are read by the model but left out of a mean.
        append: token that every input ends in.
        causal: whether tokens attend to earlier ones alone; None: as the model's config says.
        needs_intent: its queries cannot be encoded without an instruction.
        template: how it is given the instruction of one query, which ``{instruction}`` stands for; empty: after what
            goes before every query, with a colon.
        projection: what a pooled vector goes through, in order.
        n_tokens: rows of its token embeddings; None where its config does not say.
    """

    pooling: Pooling
    max_length: int
    pad_id: int = 0
    prefixes: dict[str, str] = field(default_factory=dict)
    pools_prefix: bool = True
    append: str = ""
    causal: bool | None = None
    needs_intent: bool = False
    template: str = ""
    projection: tuple[Dense, ...] = ()
    n_tokens: int | None = field(default=None, compare=False)

    def width(self, hidden_size: int) -> int:
        """Numbers in a vector of a trunk whose hidden states have ``hidden_size``."""
        return len(self.projection[-1].weights) if self.projection else hidden_size

    def query_prefix(self, intent: str | None, instruction: str | None = None) -> str:
        """What goes before a query of that intent; before one with an ``instruction`` of its own, that.

        Raises:
            InputError: the model wants an instruction, and there is none for that intent.
        """
        if instruction:
            template = self.template or self.prefixes.get("query", "") + INSTRUCTION + SEPARATOR
            return template.replace(INSTRUCTION, instruction)
        if self.needs_intent and intent not in self.prefixes:
            known = ", ".join(name for name in self.prefixes if name != "passage")
            raise InputError(f"no instruction for queries of intent {intent!r}: the domain has {known or 'none'}")
        return self.prefixes.get(intent or "query", self.prefixes.get("query", ""))

    def passage_prefix(self) -> str:
        """What goes before a passage."""
        return self.prefixes.get("passage", "")


def layout_of_spec(spec: ModelSpec, folder: Path | None, instructions: dict[str, str]) -> Layout:
    """The registry's word on a model, with the padding token of its folder where it has one."""
    config = object_in(folder / "config.json") if folder else {}
    return Layout(
        pooling=spec.pooling,
        max_length=spec.max_length,
        pad_id=_pad_id(config),
        prefixes=spec.prefixes(instructions),
        append=spec.append,
        causal=spec.causal,
        needs_intent=spec.is_instructed,
        template=spec.query_prefix if spec.is_instructed else "",
        n_tokens=_n_tokens(config),
    )


def layout_of(folder: Path) -> Layout:
    """What a model's folder says of itself: see :func:`layout_of_folder`; a plain one, a mean over all tokens.

    Raises:
        InputError: it is no model's folder, or holds a module or pooling that is not supported.
    """
    if (folder / "modules.json").is_file():
        return layout_of_folder(folder)
    config = object_in(folder / "config.json")
    return Layout("mean", _max_length(folder, config), _pad_id(config), n_tokens=_n_tokens(config))


def layout_of_folder(folder: Path) -> Layout:
    """What a sentence-transformers folder says of itself (versions 2 to 6 of that library).

    Raises:
        InputError: it is no such folder, or holds a module or pooling that is not supported.
    """
    pooling: Pooling | None = None
    pools_prefix = True
    projection: list[Dense] = []
    before = ""
    for kind, within in modules_of(folder):
        path = folder / within
        if not path.is_relative_to(folder) or ".." in Path(within).parts:
            raise InputError(f"{folder / 'modules.json'} leads out of the model's folder, to {within!r}")
        if kind == "Pooling":
            pooling = _pooling(path / "config.json")
            pools_prefix = bool(object_in(path / "config.json").get("include_prompt", True)) or pooling == "last"
            if pooling == "cls" and not pools_prefix:
                raise InputError(
                    f"{path / 'config.json'} leaves the prompt out of cls pooling, which is of one token: set "
                    "include_prompt to true, or make the model again"
                )
        elif kind == "Dense" and before in {"Pooling", "Dense"}:
            projection.append(read_dense(path))
        elif kind not in {"Transformer", "Normalize"} or (kind == "Transformer" and path != folder):
            raise InputError(
                f"{folder} has a module {kind} at {within!r}: only Transformer, Pooling, Dense after it, and "
                "Normalize work"
            )
        before = kind
    if pooling is None:
        raise InputError(
            f"{folder / 'modules.json'} names no Pooling module: save the model with SentenceTransformer.save"
        )
    _check_case(folder)
    _check_side(folder)
    config = object_in(folder / "config.json")
    return Layout(
        pooling,
        _max_length(folder, config),
        _pad_id(config),
        _prompts(folder),
        pools_prefix,
        _end(folder),
        projection=tuple(projection),
        n_tokens=_n_tokens(config),
    )


def check_comparison(folder: Path) -> None:
    """Make sure that what a folder says of its vectors' comparison is what cosines are.

    Raises:
        InputError: its vectors are of any length, and compared by something else.
    """
    compared = optional_object(folder / "config_sentence_transformers.json").get("similarity_fn_name")
    if compared in (None, "cosine") or not (folder / "modules.json").is_file():
        return
    if not any(kind == "Normalize" for kind, _ in modules_of(folder)):
        raise InputError(
            f"{folder} compares vectors of any length by {compared!r}, and here they are compared by cosine, which "
            "would be another model's scores: name one that has a Normalize module, or train from it"
        )


def _check_case(folder: Path) -> None:
    file = folder / "sentence_bert_config.json"
    if not optional_object(file).get("do_lower_case"):
        return
    if not lowers_case(optional_object(folder / "tokenizer.json").get("normalizer")):
        raise InputError(
            f"{file} makes texts small before a tokenizer that tells cases apart: save the model with a tokenizer "
            "whose normalizer does so, and without do_lower_case"
        )


def _check_side(folder: Path) -> None:
    """Refuse a tokenizer that cuts long texts at their beginning, which is where their instruction is.

    Exports of earlier releases may say so and were trained on texts cut at their end.
    """
    saved = optional_object(folder / "tokenizer.json").get("truncation") or {}
    side = optional_object(folder / "tokenizer_config.json").get("truncation_side") or saved.get("direction")
    if str(side).lower() == "left" and not _is_export(folder):
        raise InputError(
            f"the tokenizer of {folder} cuts long texts at their beginning (truncation_side 'left'), and here they are "
            "cut at their end: set truncation_side to right in tokenizer_config.json, or make the model again"
        )


def _is_export(folder: Path) -> bool:
    """Whether this project wrote the folder: an empty config of Normalize is in none that the library saved."""
    kind, within = modules_of(folder)[-1]
    config = folder / within / "config.json"
    keys = optional_object(folder / "config_sentence_transformers.json").keys()
    is_ours = keys == {"prompts", "default_prompt_name", "similarity_fn_name"}
    return is_ours and kind == "Normalize" and config.is_file() and not object_in(config)


def _pooling(path: Path) -> Pooling:
    config = object_in(path)
    old = [key for key, on in config.items() if key.startswith("pooling_mode_") and on]
    found = _OLD_POOLING.get(old[0]) if len(old) == 1 else _POOLING.get(str(config.get("pooling_mode")))
    if found is None:
        raise InputError(
            f"{path} asks for pooling {old or config.get('pooling_mode')}: only mean, cls and lasttoken work"
        )
    return found


def _max_length(folder: Path, config: dict[str, Any]) -> int:
    """The least of what the folder's files allow; tokenizers write a huge number for 'no limit'."""
    said = (("sentence_bert_config.json", "max_seq_length"), ("tokenizer_config.json", "model_max_length"))
    paths = [(folder / file, name) for file, name in said]
    stated = [*(number_of(path, optional_object(path), name) for path, name in paths), positions(config)]
    lengths = [length for length in stated if length and length < LONGEST]
    if not lengths:
        raise InputError(
            f"no file of {folder} says how long an input may be: set model_max_length in tokenizer_config.json"
        )
    return min(lengths)


def positions(config: dict[str, Any]) -> int | None:
    """How many tokens a backbone takes; RoBERTa's kind has none at the positions up to that of padding."""
    found = number_of(Path("config.json"), config, "max_position_embeddings")
    return found - _pad_id(config) - 1 if found and config.get("model_type") in _FIRST_BEHIND_PADDING else found


def _pad_id(config: dict[str, Any]) -> int:
    return max(0, number_of(Path("config.json"), config, "pad_token_id") or 0)  # some say -1 for none


def _n_tokens(config: dict[str, Any]) -> int | None:
    found = number_of(Path("config.json"), config, "vocab_size")
    return found if found and found < LONGEST else None


def _end(folder: Path) -> str:
    """The token that the folder's tokenizer is to put at the end; it may be written as an object."""
    config = optional_object(folder / "tokenizer_config.json")
    end = config.get("eos_token") if config.get("add_eos_token") else ""
    return str(end.get("content", "")) if isinstance(end, dict) else end or ""


def _prompts(folder: Path) -> dict[str, str]:
    """What is put before texts, by use; the folder's default prompt where it has none for queries, or for passages.

    An empty prompt is one, too; a default that is for queries is not put before passages.
    """
    config = optional_object(folder / "config_sentence_transformers.json")
    texts = config.get("prompts") or {}
    if not isinstance(texts, dict) or not all(text is None or isinstance(text, str) for text in texts.values()):
        raise InputError(f"{folder / 'config_sentence_transformers.json'}: prompts are no texts by name: mend them")
    prompts = {name: text or "" for name, text in texts.items()}
    by_default = config.get("default_prompt_name") or ""
    default = prompts.get(by_default, "")
    others = default if by_default != "query" else ""
    passage = next((texts[name] for name in _PASSAGE_PROMPTS if texts.get(name) is not None), others)
    of_queries = {name: text for name, text in prompts.items() if name not in _PASSAGE_PROMPTS}
    return {**({"query": default} if default else {}), **of_queries, "passage": passage}
