"""A trained encoder as a sentence-transformers folder, the same bytes for the same weights and card."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeline_tasks.core.markdown import table
from pipeline_tasks.encoders.layout import Layout
from pipeline_tasks.encoders.lora import merged, save_adapters
from pipeline_tasks.encoders.projection import save_dense
from pipeline_tasks.encoders.trunk import TrainableEncoder, quiet

# The names that sentence-transformers has used since its first versions and still reads.
_TYPE = "sentence_transformers.models."
_POOLING_KEYS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "last": "pooling_mode_lasttoken"}
# Facts about the process that saved a tokenizer, not about the tokenizer.
_LOCAL_KEYS = ("is_local", "local_files_only", "name_or_path", "_name_or_path", "tokenizer_file")


def export(
    encoder: TrainableEncoder,
    out_dir: Path,
    *,
    card: Mapping[str, Any],
    layout: Layout,
    keep_adapters: bool = False,
) -> None:
    """Write ``encoder`` so that ``SentenceTransformer(out_dir)`` embeds as it does, asked as ``layout`` says.

    The folder alone tells how to ask: reading it with :func:`~pipeline_tasks.encoders.layout.layout_of_folder` gives
    the length, the prefixes and the pooling of ``layout`` again. A model that takes no prompts has none.

    Adapters are folded into the weights, in ``encoder`` as well, so that the folder needs nothing else to be loaded.
    Nothing in it depends on when or where it was written: what is already there, half a file of a killed process among
    it, is removed first.

    Args:
        out_dir: a folder of its own.
        card: the model card: ``name``, ``summary``, and further facts; a mapping becomes a section with a table.
        layout: where texts are cut, what is put before them (``model.encode(texts, prompt_name=intent)``), and whether
            the mean is over that as well.
        keep_adapters: also write them alone, to ``adapter/``, for the start of the training with this ``is_causal``.
    """
    prompts = _prompts(layout)
    shutil.rmtree(out_dir, ignore_errors=True)
    out_dir.mkdir(parents=True)
    if keep_adapters:
        save_adapters(encoder.model, out_dir / "adapter")
    encoder.model = merged(encoder.model)
    with quiet():
        encoder.model.save_pretrained(out_dir)
    _save_tokenizer(encoder, out_dir, layout)
    hidden_size = encoder.model.config.hidden_size
    dimension = layout.width(hidden_size)
    modules = _modules(len(layout.projection))
    _write_json(out_dir / "modules.json", modules)
    _write_json(out_dir / "sentence_bert_config.json", {"max_seq_length": layout.max_length, "do_lower_case": False})
    _write_json(
        out_dir / "1_Pooling" / "config.json",
        {
            "word_embedding_dimension": hidden_size,
            **dict.fromkeys(_POOLING_KEYS.values() if layout.pooling != "mean" else (), False),
            _POOLING_KEYS[layout.pooling]: True,
            "include_prompt": layout.pools_prefix or layout.pooling != "mean",
        },
    )
    for layer, module in zip(layout.projection, modules[2:-1], strict=True):
        save_dense(layer, out_dir / module["path"])
    _write_json(out_dir / modules[-1]["path"] / "config.json", {})
    of_documents = {"document": prompts["passage"]} if "passage" in prompts else {}  # what encode_document looks for
    _write_json(
        out_dir / "config_sentence_transformers.json",
        {"prompts": prompts | of_documents, "default_prompt_name": None, "similarity_fn_name": "cosine"},
    )
    (out_dir / "README.md").write_text(
        model_card(card, prompts, f"{dimension} dimensions, {layout.pooling} pooling"), encoding="utf-8"
    )
    for file in out_dir.rglob("*"):
        file.chmod(0o755 if file.is_dir() else 0o644)


def _prompts(layout: Layout) -> dict[str, str]:
    """Those that files name: an empty one of an intent is told where queries have one, which is then not for it."""
    of_queries = layout.prefixes.get("query", "")
    return {name: text for name, text in layout.prefixes.items() if text or (of_queries and name != "passage")}


def _modules(n_dense: int) -> list[dict[str, Any]]:
    """What ``modules.json`` lists, in order, so many Dense modules among it."""
    kinds = ["Transformer", "Pooling", *["Dense"] * n_dense, "Normalize"]
    paths = ["", *(f"{place}_{kind}" for place, kind in enumerate(kinds) if place)]
    return [
        {"idx": place, "name": str(place), "path": path, "type": _TYPE + kind}
        for place, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]


def model_card(card: Mapping[str, Any], prompts: Mapping[str, str], vector: str) -> str:
    """The README of a model: front matter for a hub, what it is, its facts, and how to use it."""
    facts = {key: value for key, value in card.items() if key not in ("name", "summary")}
    plain = {key: value for key, value in facts.items() if not isinstance(value, Mapping)}
    sections = {key: value for key, value in facts.items() if isinstance(value, Mapping)}
    name = card.get("name", "Dense retriever")
    lines = [
        "---",
        "library_name: sentence-transformers",
        "pipeline_tag: sentence-similarity",
        "tags: [sentence-transformers, feature-extraction, dense-retrieval]",
        "---",
        "",
        f"# {name}",
        "",
        f"{card.get('summary', '')}".strip(),
        "",
        *table({"embedding": f"{vector}, L2-normalised, cosine", **plain}),
        "## Use",
        "",
        "```python",
        "from sentence_transformers import SentenceTransformer",
        "",
        'model = SentenceTransformer("path/to/this/folder")',
    ]
    intent = next((name for name, prompt in prompts.items() if prompt and name != "passage"), None)
    prompt_argument = f", prompt_name={json.dumps(intent)}" if intent else ""
    passage_argument = ', prompt_name="passage"' if "passage" in prompts else ""
    lines += [
        f'queries = model.encode(["your query"]{prompt_argument})',
        f'passages = model.encode(["a passage"]{passage_argument})',
        "scores = queries @ passages.T",
        "```",
        "",
    ]
    if prompts:
        passages = "its own" if "passage" in prompts else "no prompt"
        lines += [f"A passage takes {passages}; a query takes the one of its intent.", ""]
        lines += table(dict(prompts), ("intent", "prompt"))
    else:
        lines += ["Neither queries nor passages take a prompt.", ""]
    for title, values in sections.items():
        lines += [f"## {str(title).replace('_', ' ').capitalize()}", "", *table(values)]
    return "\n".join(lines).rstrip() + "\n"


def _save_tokenizer(encoder: TrainableEncoder, out_dir: Path, layout: Layout) -> None:
    """Save without the padding and truncation that the last call happened to leave switched on.

    What is put behind every text is in the files, whoever reads them, and that texts are cut at their end.
    """
    tokenizer = encoder.tokenizer
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_padding()
        backend.no_truncation()
    tokenizer.save_pretrained(out_dir)
    path = out_dir / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    kept = {key: value for key, value in config.items() if key not in _LOCAL_KEYS}
    kept |= {"truncation_side": "right"} if "truncation_side" in kept else {}
    _write_json(path, kept | {"model_max_length": layout.max_length})
    if end := encoder.tokens.end:
        _append(out_dir / "tokenizer.json", end[0])


def _append(file: Path, token: int) -> None:
    """Let a tokenizer put ``token`` behind every text.

    Into the template that it has: a second one would go around the tokens that the first one puts there, too.
    """
    from tokenizers import Tokenizer

    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    named = Tokenizer.from_file(str(file)).id_to_token(token)
    before = tokenizer["post_processor"]
    steps = [] if before is None else before["processors"] if before["type"] == "Sequence" else [before]
    template = next((step for step in steps if step["type"] == "TemplateProcessing"), None)
    if template is None:
        single, second = ([{"Sequence": {"id": name, "type_id": 0}}] for name in "AB")
        template = {"type": "TemplateProcessing", "single": single, "pair": [*single, *second], "special_tokens": {}}
        steps.append(template)
    for form in ("single", "pair"):
        template[form] = [*template[form], {"SpecialToken": {"id": named, "type_id": 0}}]
    template["special_tokens"][named] = {"id": named, "ids": [token], "tokens": [named]}
    _write_json(file, tokenizer | {"post_processor": {"type": "Sequence", "processors": steps}})


def _write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
