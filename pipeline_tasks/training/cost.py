"""What a training takes of a GPU, by arithmetic: bytes at once and multiplications, before any weight is loaded.

With N parameters, T of them trained, n tokens whose activations are held at once, L layers and the widths h (model),
q, kv (queries, keys) and f (MLP):

- weights: 4 bytes each; 2 where they are frozen in bfloat16, and 4 for each adapter's. Under autocast a bfloat16 copy
  of the matrices comes to 4-byte weights: 2 more.
- gradients 4 T, AdamW's two moments 8 T, or 8 T / c where c cards divide them (Rajbhandari et al. 2020, arXiv
  1910.02054, sections 3.1 and 5.1).
- activations: n L ((4h + 2q + 2kv + 2f) b + 2h) bytes, b bytes a number, the last 2h for dropout: the 34 h of
  Korthikanti et al. 2022 (arXiv 2205.05198, equation 1) where q = kv = h, f = 4h and b = 2, without its term for
  attention probabilities, which fused attention never holds. A gated MLP holds 4f, and drops nothing. Recomputed:
  n L h b, and one layer in full.
- scores of masked tokens over v words, 12 bytes each: bfloat16, float32, and their gradients.
- work: 2 M a token forward for the M parameters of the matrices, and 4 L s q for attention over s tokens; backward
  twice that, or once where the weights are frozen and only activations have a gradient, and 6 for each adapter's
  parameter (Kaplan et al. 2020, arXiv 2001.08361, section 2.1; LoRA: Hu et al. 2021, arXiv 2106.09685). Recomputed
  activations, and the first pass of the gradient cache, are one more forward pass each.

Not counted: padding, workspaces of kernels, fragments; :data:`ROOM` is left for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from pipeline_tasks.models.shapes import Shape

ROOM = 1.1
"""A training is said to fit where this many times the counted bytes are there."""


@dataclass(frozen=True)
class Cost:
    """What a training of one shape takes.

    Attributes:
        shape: of the trunk.
        rank: of the adapters that train; 0: all weights do.
        targets: the matrices that get adapters.
        half: arithmetic is in bfloat16.
        recompute: activations are computed again for the gradient.
    """

    shape: Shape
    rank: int = 0
    targets: tuple[str, ...] = ()
    half: bool = True
    recompute: bool = False

    @property
    def trained(self) -> int:
        """Parameters that training changes."""
        if self.rank:
            return self.shape.adapter_params(self.rank, self.targets)
        return self.shape.n_params - self.shape.pooler_params

    def memory(self, tokens: int, masked: float = 0, *, head: bool = False, keepers: int = 1) -> dict[str, int]:
        """Bytes at once, by what they hold.

        Args:
            tokens: whose activations are held at once.
            masked: how many of them are predicted.
            head: the head that predicts tokens is loaded.
            keepers: how many cards divide the optimiser's moments.
        """
        shape, number = self.shape, 2 if self.half else 4
        n_params = shape.n_params + (shape.width * shape.vocabulary if head and not shape.tied else 0)
        if self.rank:
            weights = n_params * number + 4 * self.trained
        else:
            weights = 4 * n_params + (2 * shape.matrix_params if self.half else 0)
        h, mlp = shape.width, (4 if shape.gated else 2) * shape.mlp_width
        layer = (4 * h + 2 * shape.query_width + 2 * shape.key_value_width + mlp) * number
        layer += 0 if shape.gated else 2 * h
        held = shape.layers * h * number + layer if self.recompute else shape.layers * layer
        return {
            "weights": weights,
            "gradients": 4 * self.trained,
            "optimiser": -(-8 * self.trained // keepers),
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
