"""What a training takes of a GPU, by arithmetic: bytes at once and multiplications, before any weight is loaded.

With N parameters, T of them trained, n tokens whose activations are held at once, L layers and the widths h (model),
q, kv (queries, keys) and f (MLP):

- weights: 4 bytes each; 2 where they are frozen in bfloat16, as they are if it holds them exactly, and 4 for each
  adapter's. Under autocast every piece of a batch whose graph is held has a bfloat16 copy of the matrices of 4-byte
  weights: 2 more a piece; recomputed, a block has one while it computes.
- gradients 4 T, AdamW's two moments 8 T, or 8 T / c where c cards divide them (Rajbhandari et al. 2020, arXiv
  1910.02054, sections 3.1 and 5.1). Where they divide all three, each is 1 / c, and beside it lies what is together at
  the time: embeddings and a block, each as it came and as it is used; the gradients of embeddings and of a block.
- activations: n L times what a block keeps for its gradient (:data:`_KEPT`), and 2h of dropout where there is any.
  These are counts of what PyTorch keeps, which a test repeats, not the 34 h of Korthikanti et al. 2022 (arXiv
  2205.05198, equation 1): under autocast normalisation works in float32, and each matrix, or each adapter, keeps a
  bfloat16 copy of its input of its own. Attention probabilities are in neither, for fused attention never holds them.
  Recomputed: the input of every block, and one block in full.
- scores of masked tokens over v words, 12 bytes each: bfloat16, float32, and their gradients.
- work: 2 M a token forward for the M parameters of the matrices, and 4 L s q for attention over s tokens; backward
  twice that, or once where the weights are frozen and only activations have a gradient, and 6 for each adapter's
  parameter (Kaplan et al. 2020, arXiv 2001.08361, section 2.1; LoRA: Hu et al. 2021, arXiv 2106.09685). Recomputed
  activations, and the first pass of the gradient cache, are one more forward pass each.

Not counted: padding, workspaces of kernels, fragments; :data:`ROOM` is left for them. On an H200 the most that was held
was up to 1.3 times the count (docs/recipes.md, "Before it costs").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pipeline_tasks.models.shapes import Shape
from pipeline_tasks.training.params import Sharding

ROOM = 1.3
"""A training is said to fit where this many times the counted bytes are there."""


class _ActivationBytes(NamedTuple):
    """Bytes of a token that a block keeps for its gradient, for each feature of h, q, kv and f."""

    h: int
    q: int
    kv: int
    f: int


_KEPT = {
    ("bert", "fp32"): _ActivationBytes(16, 8, 8, 8),
    ("bert", "fp32 adapters"): _ActivationBytes(16, 8, 8, 8),
    ("bert", "bf16"): _ActivationBytes(16, 4, 4, 4),
    ("bert", "bf16 adapters"): _ActivationBytes(14, 4, 4, 4),
    ("bert", "bf16 adapters on fp32"): _ActivationBytes(18, 4, 4, 4),
    ("llama", "fp32"): _ActivationBytes(24, 16, 0, 16),
    ("llama", "fp32 adapters"): _ActivationBytes(16, 16, 0, 16),
    ("llama", "bf16"): _ActivationBytes(26, 8, 0, 8),
    ("llama", "bf16 adapters"): _ActivationBytes(18, 10, 0, 8),
    ("llama", "bf16 adapters on fp32"): _ActivationBytes(18, 10, 0, 8),
    ("qwen3", "fp32"): _ActivationBytes(24, 24, 8, 16),
    ("qwen3", "fp32 adapters"): _ActivationBytes(16, 20, 4, 16),
    ("qwen3", "bf16"): _ActivationBytes(26, 14, 6, 8),
    ("qwen3", "bf16 adapters"): _ActivationBytes(18, 14, 4, 8),
    ("qwen3", "bf16 adapters on fp32"): _ActivationBytes(18, 14, 4, 8),
}
"""By architecture, and by what is computed and trained; adapters in bf16 are on weights held in it, if not told."""


@dataclass(frozen=True)
class Cost:
    """What a training of one shape takes.

    Attributes:
        shape: of the trunk.
        rank: of the adapters that train; 0: all weights do.
        targets: the matrices that get adapters; empty: all of them.
        half: arithmetic is in bfloat16.
        recompute: activations are computed again for the gradient.
        exact: frozen weights are held in float32, as bfloat16 would round away what they have learned.
    """

    shape: Shape
    rank: int = 0
    targets: tuple[str, ...] = ()
    half: bool = True
    recompute: bool = False
    exact: bool = False

    @property
    def held_half(self) -> bool:
        """Whether frozen weights are held in bfloat16."""
        return bool(self.half and self.rank and not self.exact)

    @property
    def trained(self) -> int:
        """Parameters that training changes."""
        if self.rank:
            return self.shape.adapter_params(self.rank, self.targets)
        return self.shape.n_params - self.shape.pooler_params

    @property
    def kept_bytes(self) -> int:
        """Bytes of a token that a block keeps for its gradient."""
        shape, kind = self.shape, ("bf16" if self.half else "fp32") + (" adapters" if self.rank else "")
        kind += " on fp32" if self.half and self.rank and self.exact else ""
        of = _KEPT[shape.architecture, kind]
        dropped = 0 if shape.gated else 2 * shape.width
        sides = of.q * shape.query_width + of.kv * shape.key_value_width
        return of.h * shape.width + sides + of.f * shape.mlp_width + dropped

    def memory(
        self,
        tokens: int,
        masked: float = 0,
        *,
        pieces: int = 1,
        head: bool = False,
        sharding: Sharding = "",
        n_cards: int = 1,
    ) -> dict[str, int]:
        """Bytes at once, by what they hold.

        Args:
            tokens: whose activations are held at once.
            pieces: that these tokens were encoded in.
            masked: how many of them are predicted.
            head: the head that predicts tokens is loaded.
            sharding: what cards divide.
            n_cards: how many do.
        """
        shape, number = self.shape, 2 if self.held_half else 4
        embeddings, block = shape.width * shape.vocabulary, shape.matrix_params // shape.layers
        weights = number * shape.n_params + (4 * self.trained if self.rank else 0)
        gradients, divided = 4 * self.trained, sharding == "fsdp" and n_cards > 1
        if divided:
            weights = -(-weights // n_cards) + 2 * number * (embeddings + block)
            together = self.trained // shape.layers if self.rank else embeddings + block
            gradients = -(-gradients // n_cards) + 4 * together
        if head and (divided or not shape.tied):
            weights += number * embeddings
        if self.half and not self.held_half:
            weights += 2 * (block if self.recompute else shape.matrix_params * pieces)
        entering = shape.width * (2 if self.held_half and shape.gated else 4)
        held = shape.layers * entering + self.kept_bytes if self.recompute else shape.layers * self.kept_bytes
        return {
            "weights": weights,
            "gradients": gradients,
            "optimiser": -(-8 * self.trained // (n_cards if sharding else 1)),
            "activations": tokens * held + round(12 * masked * shape.vocabulary),
        }

    def forward(self, length: float) -> float:
        """Floating-point operations of a token of a text of ``length`` tokens, going forward."""
        attention = 4 * self.shape.layers * length * self.shape.query_width
        return 2 * self.shape.matrix_params + attention

    def step(self, length: float, *, cached: bool = False) -> float:
        """Floating-point operations of a token that is learned from; ``cached``: through the gradient cache."""
        passes = (2 if self.rank else 3) + self.recompute + cached
        return passes * self.forward(length) + (6 * self.trained if self.rank else 0)
