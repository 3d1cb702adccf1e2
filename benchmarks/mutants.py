"""PDFs made to break a reader: real ones with damaged bytes, and small ones that unfold into something huge. Seeded."""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache


def mutants(originals: Sequence[bytes], n: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """``n`` files as (name of what was done, bytes); the same for the same originals and seed."""
    rng = random.Random(seed)
    for number in range(n):
        if number % 4 == 3:
            trap = _TRAPS[number // 4 % len(_TRAPS)]
            yield trap.__name__.strip("_"), trap(rng)
        else:
            damage = _DAMAGES[number % len(_DAMAGES)]
            yield damage.__name__.strip("_"), damage(rng.choice(originals), rng)


def _flipped(pdf: bytes, rng: random.Random) -> bytes:
    found = bytearray(pdf)
    for _ in range(rng.choice([1, 10, 100, 1000])):
        found[rng.randrange(len(found))] = rng.randrange(256)
    return bytes(found)


def _truncated(pdf: bytes, rng: random.Random) -> bytes:
    return pdf[: rng.randrange(1, len(pdf))]


def _hollowed(pdf: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(pdf))
    end = min(len(pdf), start + rng.randrange(1, 20_000))
    return pdf[:start] + bytes(end - start) + pdf[end:]


def _shuffled(pdf: bytes, rng: random.Random) -> bytes:
    at = sorted(rng.randrange(len(pdf)) for _ in range(3))
    return pdf[: at[0]] + pdf[at[1] : at[2]] + pdf[at[0] : at[1]] + pdf[at[2] :]


def _renumbered(pdf: bytes, rng: random.Random) -> bytes:
    """Digits changed in the structure: references, lengths and offsets that lie."""
    places = [i for i, byte in enumerate(pdf) if 48 <= byte <= 57]
    found = bytearray(pdf)
    for at in rng.sample(places, min(len(places), rng.choice([3, 30, 300]))):
        found[at] = rng.randrange(48, 58)
    return bytes(found)


def _doubled(pdf: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(pdf))
    return pdf[:start] + pdf[start : start + rng.randrange(1, 50_000)] * rng.choice([2, 20]) + pdf[start:]


def _bomb(rng: random.Random) -> bytes:
    """A page whose text unfolds to between 50 MB and 2 GB, by one or two rounds of deflate."""
    size = rng.choice([50, 400, 2000]) << 20
    if rng.random() < 0.5:
        return _with_content(_deflated_repeat(b"(abc def) Tj 1 0 0 1 9 9 Tm ", size), b"/FlateDecode")
    return _with_content(zlib.compress(_deflated_repeat(b" ", size)), b"[/FlateDecode /FlateDecode]")


def _long_string(rng: random.Random) -> bytes:
    body = b"BT /F1 9 Tf (" + b"word " * (rng.choice([1, 4]) << 20) + b") Tj ET"
    return _with_content(zlib.compress(body), b"/FlateDecode")


def _nested(rng: random.Random) -> bytes:
    depth = rng.choice([1_000, 100_000, 1_000_000])
    inner = rng.choice([(b"[", b"]"), (b"<<" + b"/A ", b">>")])
    return _pdf([b"<</Type/Catalog/Pages 2 0 R>>", inner[0] * depth + inner[1] * depth])


def _endless_pages(rng: random.Random) -> bytes:
    """A page tree that claims up to two thousand million pages and is its own child."""
    count = rng.choice([b"2147483647", b"-1", b"100000"])
    return _pdf([b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count " + count + b"/Kids[2 0 R 3 0 R]>>", _PAGE])


def _many_pages(rng: random.Random) -> bytes:
    n = rng.choice([10_000, 200_000])
    kids = b"3 0 R " * n
    return _pdf(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count %d/Kids[" % n + kids + b"]>>",
            _PAGE,
            _stream(_HELLO),
        ]
    )


def _self_drawing(_: random.Random) -> bytes:
    """Forms that draw one another, doubling each time, and a last one that draws the first."""
    names = [b"/X%d %d 0 R" % (i, i + 5) for i in range(40)]
    resources = b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>/XObject<<%s>>>>" % b"".join(
        names
    )
    forms = [
        _stream(b"/X%d Do /X%d Do BT /F1 9 Tf (again) Tj ET" % ((i + 1) % 40, (i + 1) % 40),
                b"/Type/XObject/Subtype/Form/BBox[0 0 600 800]" + resources)
        for i in range(40)
    ]  # fmt: skip
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R" + resources + b">>"
    return _pdf([*_TREE, page, _stream(b"/X0 Do"), *forms])


def _giant_page(rng: random.Random) -> bytes:
    side = rng.choice([b"1e9", b"14400", b"-5", b"1e38"])
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 %s %s]/Contents 4 0 R%s>>" % (side, side, _FONT)
    return _pdf([*_TREE, page, _stream(_HELLO)])


def _giant_type(rng: random.Random) -> bytes:
    """Text of absurd sizes and places, to upset whoever computes with them."""
    numbers = [b"1e30", b"-1e30", b"0", b"1e-30", b"99999999999999999999", b"12"]
    moves = b"".join(
        b"/F1 %s Tf 1 0 0 1 %s %s Tm (x%d y) Tj " % (rng.choice(numbers), rng.choice(numbers), rng.choice(numbers), i)
        for i in range(3000)
    )
    return _with_content(zlib.compress(b"BT " + moves + b"ET"), b"/FlateDecode")


def _giant_image(_: random.Random) -> bytes:
    image = _stream(zlib.compress(bytes(1 << 20)), b"/Type/XObject/Subtype/Image/Width 60000/Height 60000"
                    b"/BitsPerComponent 8/ColorSpace/DeviceRGB/Filter/FlateDecode")  # fmt: skip
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R/Resources<</XObject<</I 5 0 R>>>>>>"
    return _pdf([*_TREE, page, _stream(b"q 600 0 0 800 0 0 cm /I Do Q"), image])


def _looping_table(_: random.Random) -> bytes:
    """A cross-reference section whose predecessor is itself."""
    pdf = _pdf([*_TREE, _PAGE, _stream(_HELLO)])
    at = pdf.rindex(b"startxref")
    place = pdf[at + 9 :].split()[0]
    return pdf.replace(b"/Root 1 0 R", b"/Root 1 0 R/Prev " + place)


def _columns_of_dust(rng: random.Random) -> bytes:
    """A hundred thousand single letters all over one page."""
    dots = b"".join(b"1 0 0 1 %d %d Tm (a) Tj " % (rng.randrange(600), rng.randrange(800)) for _ in range(100_000))
    return _with_content(zlib.compress(b"BT /F1 4 Tf " + dots + b"ET"), b"/FlateDecode")


_FONT = b"/Resources<</Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>"
_PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 800]/Contents 4 0 R" + _FONT + b">>"
_TREE = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Count 1/Kids[3 0 R]>>"]
_HELLO = b"BT /F1 12 Tf 72 700 Td (Move to higher ground before the water comes.) Tj ET"

_DAMAGES: list[Callable[[bytes, random.Random], bytes]] = [
    _flipped, _truncated, _hollowed, _shuffled, _renumbered, _doubled, _flipped
]  # fmt: skip
_TRAPS: list[Callable[[random.Random], bytes]] = [
    _bomb, _long_string, _nested, _endless_pages, _many_pages, _self_drawing, _giant_page, _giant_type, _giant_image,
    _looping_table, _columns_of_dust,
]  # fmt: skip


@cache
def _deflated_repeat(pattern: bytes, size: int) -> bytes:
    packer = zlib.compressobj(1)
    block = pattern * ((1 << 20) // len(pattern))
    packed = [packer.compress(b"BT /F1 9 Tf ")]
    packed += [packer.compress(block) for _ in range(size >> 20)]
    return b"".join([*packed, packer.flush()])


def _with_content(data: bytes, filters: bytes) -> bytes:
    return _pdf([*_TREE, _PAGE, _stream(data, b"/Filter " + filters)])


def _stream(data: bytes, entries: bytes = b"") -> bytes:
    return b"<</Length %d%s>>stream\n%s\nendstream" % (len(data), entries, data)


def _pdf(objects: list[bytes]) -> bytes:
    found, places = bytearray(b"%PDF-1.7\n"), []
    for number, body in enumerate(objects, start=1):
        places.append(len(found))
        found += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    start = len(found)
    found += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    found += b"".join(b"%010d 00000 n \n" % place for place in places)
    found += b"trailer<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start)
    return bytes(found)
