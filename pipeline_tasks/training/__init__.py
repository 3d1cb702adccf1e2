"""From a backbone to a retriever: adaptation, the three stages, distillation; to a corpus; means; ordered ones.

A step such as ``finetune`` names its rows, ``stage`` trains and exports, ``contrastive`` makes a task of the rows, and
``loop`` learns it. What these need is in a folder that says so. ``objective``, ``sampler``, ``policy``, ``bench``,
``guided`` and ``descent`` cannot move: the files of ``objectives/`` and ``samplers/`` import them, and the ids of
models hold what those files say, imports included.
"""

STEPS = (
    "adapt_backbone",
    "pretrain",
    "finetune",
    "distill",
    "adapt_to_corpus",
    "follow_instructions",
    "average_models",
    "order_dimensions",
)
