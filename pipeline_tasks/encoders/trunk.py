"""A transformer trunk: loaded from its folder alone, run on token ids, pooled into one vector a text.

Training and the torch encoder of retrieval run these functions and no others, so what was trained is what is served.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.encoders.layout import Layout, layout_of
from pipeline_tasks.encoders.projection import Dense
from pipeline_tasks.encoders.states import ENCODERS, check_decoder, check_is_one_part, check_looks_ahead, hidden_states
from pipeline_tasks.encoders.tokens import TextTokens, padded
from pipeline_tasks.models.registry import Pooling
from pipeline_tasks.models.use import load_tokenizer as load_fast
from pipeline_tasks.models.use import refuse_adapters

if TYPE_CHECKING:
    import torch
    from torch import Tensor

DType = Literal["float32", "bfloat16", "auto"]
"""What weights are held in; ``auto``: as they were saved."""
Head = Literal["next_token", "score"]
"""What is on top of a trunk: a prediction of the next token, or scores of a text or of a pair of texts."""


@dataclass
class TrainableEncoder:
    """A trunk (``transformers`` model) that can be trained, its tokenizer, and how both want texts."""

    model: Any
    tokenizer: Any
    layout: Layout

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.model.parameters()).device

    @cached_property
    def tokens(self) -> TextTokens:
        """Its tokenizer, as its layout wants texts to end."""
        words, layout = self.tokenizer, self.layout
        return TextTokens(words.backend_tokenizer, layout.append, layout.n_tokens, words.name_or_path)

    @property
    def width(self) -> int:
        """Numbers in a vector."""
        return self.layout.width(self.model.config.hidden_size)

    def features(self, sequences: Sequence[np.ndarray], unpooled: np.ndarray | None = None) -> dict[str, Tensor]:
        """A batch on the model's device; see :func:`~pipeline_tasks.encoders.tokens.padded`."""
        return on_device(padded(sequences, self.layout.pad_id, unpooled), self.device)

    def encode(self, features: Mapping[str, Tensor]) -> Tensor:
        """L2-normalised vectors of a batch, float32 whatever the autocast type.

        Shapes:
            features: [b, s] each; returns [b, d].
        """
        from torch.nn.functional import normalize

        return normalize(vectors(self.model, features, self.layout), dim=-1)

    def trained(self) -> dict[str, Tensor]:
        """The weights that training changes, by name: all of them, or the adapters."""
        return {name: weights.detach() for name, weights in self.model.named_parameters() if weights.requires_grad}

    def restore(self, trained: Mapping[str, Tensor]) -> None:
        """Put back what :meth:`trained` gave."""
        missing = self.trained().keys() - trained.keys()
        unknown = self.model.load_state_dict(trained, strict=False).unexpected_keys
        if missing or unknown:
            raise InputError(f"these weights are of another model: they lack {sorted(missing)}, have {unknown} besides")


def load(folder: Path, device: str | torch.device = "cpu", dtype: DType = "float32") -> TrainableEncoder:
    """The encoder in a plain ``transformers`` folder (its mean over all tokens) or a sentence-transformers one.

    Raises:
        InputError: no model in safetensors there, weights missing from it, modules that are not supported, or a model
            that does not look ahead as its config says.
    """
    folder = Path(folder)
    model = load_model(folder, dtype=dtype).to(device)
    check_looks_ahead(folder, model)
    return TrainableEncoder(model, padding_tokenizer(folder), layout_of(folder))


def load_tokenizer(folder: Path | str) -> Any:
    """The folder's tokenizer as ``transformers`` reads and saves it.

    It makes of texts what ``tokenizer.json`` says, as search does: where the class that the folder's other files name
    would put parts of its own in their place, it is read without a class.

    Raises:
        InputError: its files are damaged.
    """
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    folder = Path(folder)
    try:
        found = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        said = TextTokens(load_fast(folder)) if (folder / "tokenizer.json").is_file() else None
        if said and TextTokens(found.backend_tokenizer).meaning != said.meaning:
            found = PreTrainedTokenizerFast.from_pretrained(folder, local_files_only=True)
        return found
    except Exception as error:  # the library raises bare ones
        raise InputError(
            f"{folder} has no tokenizer that can be read ({error}): save or fetch the model again"
        ) from error


def padding_tokenizer(folder: Path | str) -> Any:
    """The folder's tokenizer with a token to pad with, as a model is saved with: where there is none, a special one.

    A word would be cut out of all texts before they are split.

    Raises:
        InputError: its files are damaged, or have no special token at all.
    """
    found = load_tokenizer(folder)
    if found.pad_token is None:
        if not found.all_special_tokens:
            raise InputError(
                f"{folder} has no token to pad with: name a pad_token that no text has in its tokenizer_config.json"
            )
        found.pad_token = found.eos_token or found.all_special_tokens[0]
    return found


def load_model(
    folder: Path,
    *,
    dtype: DType = "float32",
    causal: bool | None = None,
    attention: str | None = None,
    head: Head | None = None,
) -> Any:
    """The transformers model of a folder, in evaluation mode; the same folder always gives the same weights.

    The folder is read and nothing else: no hub, no code from the folder, no pickles. A pooler, which no pooling here
    uses, is not trained, and is zero where it is missing.

    Args:
        folder: config and weights.
        dtype: what the weights are held in.
        causal: whether tokens attend to earlier ones alone; None: as its config says. It is set on the config, which
            is saved with the model, and which the masks of transformers follow for most kinds of models:
            :func:`~pipeline_tasks.encoders.states.check_looks_ahead` refuses the others.
        attention: name of an attention kernel; None: the model's own best.
        head: with what is on top of the trunk; None: the trunk alone.

    Raises:
        InputError: the folder holds no model that transformers can load without pickles or code of its own, or weights
            are missing from it, or adapters lie beside them, or it has a decoder that wants a text of its own, or its
            text model is one of several parts.
    """
    refuse_adapters(Path(folder))
    import torch
    from huggingface_hub.errors import StrictDataclassError
    from safetensors import SafetensorError
    from transformers import AutoConfig

    damaged = (OSError, ValueError, RuntimeError, TypeError, AttributeError, StrictDataclassError, SafetensorError)
    safely: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
    kind = dtype if dtype == "auto" else getattr(torch, dtype)
    try:
        config = AutoConfig.from_pretrained(folder, **safely)
        if head is None or causal is not None:
            check_is_one_part(folder, config)
        if causal is not None:
            config.is_causal = causal
        chosen = safely | ({"attn_implementation": attention} if attention else {})
        with quiet(), torch.random.fork_rng():
            model, report = _auto(config, head).from_pretrained(
                folder, config=config, dtype=kind, use_safetensors=True, output_loading_info=True, **chosen
            )
    except damaged as error:
        raise InputError(f"{folder} holds no model that transformers can load: {error}") from error
    absent = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    if absent:
        raise InputError(f"{folder} lacks {len(absent)} weights, among them {absent[0]!r}: get the whole model")
    _freeze_pooler(model, is_missing=bool(report["missing_keys"]))
    if head is None and config.model_type not in ENCODERS and type(config).is_encoder_decoder:
        check_decoder(folder, model)
    return model.eval()


def _freeze_pooler(model: Any, *, is_missing: bool) -> None:
    """No pooling here uses a pooler: it is not trained, and is zero where its folder lacks weights of it."""
    pooler = getattr(model, "pooler", None)
    if pooler is not None:
        pooler.requires_grad_(False)
        if is_missing:
            for weights in pooler.parameters():
                weights.zero_()


def _auto(config: Any, head: Head | None) -> Any:
    """The class of transformers that loads a model with that head."""
    import transformers

    if head == "next_token":
        return transformers.AutoModelForCausalLM
    if head == "score":
        return transformers.AutoModelForSequenceClassification
    return transformers.AutoModelForTextEncoding if config.model_type in ENCODERS else transformers.AutoModel


def vectors(model: Any, features: Mapping[str, Tensor], layout: Layout) -> Tensor:
    """One vector of any length per text of a batch: pooled, and projected.

    Shapes:
        features: [b, s] each; returns [b, d] float32.
    """
    mask = features["pooling_mask" if layout.pooling == "mean" else "attention_mask"]
    return _projected(pool(hidden_states(model, features), mask, layout.pooling), layout.projection)


def _projected(pooled: Tensor, layers: Sequence[Dense]) -> Tensor:
    """See :func:`~pipeline_tasks.encoders.projection.project`; in float32 whatever the autocast type."""
    import torch
    from torch.nn.functional import linear

    with torch.autocast(pooled.device.type, enabled=False):
        for layer in layers:
            bias = None if layer.bias is None else torch.from_numpy(layer.bias).to(pooled)
            pooled = linear(pooled, torch.from_numpy(layer.weights).to(pooled), bias)
            pooled = pooled.tanh() if layer.tanh else pooled
    return pooled


def pool(hidden: Tensor, mask: Tensor, pooling: Pooling) -> Tensor:
    """One vector per text out of its hidden states; what is padding (on the right) has no say.

    Shapes:
        hidden: [b, s, d]; mask: [b, s], 1 for tokens; returns [b, d].

    Source:
        DMRetriever 3.1 pools by the mean.
    """
    if pooling == "cls":
        return hidden[:, 0]
    if pooling == "last":
        last = mask.sum(dim=1) - 1
        return hidden[last.new_tensor(range(len(last))), last]
    weights = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1.0)


def on_device(batch: Mapping[str, np.ndarray], device: str | torch.device) -> dict[str, Tensor]:
    """A padded batch as tensors."""
    import torch

    return {name: torch.from_numpy(array).to(device) for name, array in batch.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Keep ``transformers`` from drawing bars and load reports while weights are read or written."""
    from transformers.utils import logging

    had_bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if had_bars:
            logging.enable_progress_bar()
