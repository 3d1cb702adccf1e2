"""Texts that break chunkers, drawn by hypothesis and by hand."""

from hypothesis import strategies as st

_pieces = st.one_of(
    st.sampled_from(
        [" ", "\n", "\n\n", ". ", "? ", '." ', "! (", ":\n\n- ", "\n- ", "A", "The ", "e.g. ", "U.S. ", "3.5 ", "1. "]
        + ["\u00a0", "\u2028", "\x0c", "\x00", "\x85", "\u200b", "[SEP]", "# Heading\n\n", "。", "」", "！"]
    ),
    st.sampled_from(
        ["洪水が来た。", "שלום עולם. ", "مرحبا بالعالم؟ ", "👨\u200d👩\u200d👧", "🌊🔥", "e\u0301", "नमस्ते। "]
        + ["ﷺ", "각"]
    ),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
    st.integers(1, 60).map(lambda n: "." * n),
    st.integers(1, 200).map(lambda n: "x" * n),
    st.integers(1, 80).map(lambda n: "洪" * n),
)
any_text = st.lists(_pieces, max_size=60).map("".join)

HARD = {
    "nothing": "",
    "newlines": "\n" * 5000,
    "spaces": " \u00a0\u3000\t" * 500,
    "dots": "." * 3000,
    "full stops": "\u3002" * 50_000 + "\u300d" * 50_000,
    "dots between sentences": "Before. " + "." * 700 + " After this.",
    "one sentence": "the river rises and " * 2500,
    "one word": "x" * 30_000,
    "no spaces": "\u6d2a\u6c34" * 4000,
    "japanese": "\u6d2a\u6c34\u304c\u6765\u305f\u3002\u300c\u9003\u3052\u308d\uff01\u300d" * 600,
    "thai": "\u0e19\u0e49\u0e33\u0e17\u0e48\u0e27\u0e21" * 2000,
    "emoji": "\U0001f30a" * 3000 + " \U0001f468\u200d\U0001f469\u200d\U0001f467" * 800,
    "hebrew": "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd. " * 900,
    "control characters": "a\x0cb\x1cc\x00d \x0c \x85 " * 500,
    "special tokens": "[SEP][CLS] [MASK]." * 700,
    "headings only": "Heading\n\n" * 1500,
    "items only": "- item\n" * 1500,
    "hex": "0f" * 20_000,
}
