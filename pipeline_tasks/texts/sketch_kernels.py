"""Compiled loops from UTF-8 bytes to shingle hashes and MinHash signatures; imported inside functions only.

Words never become Python objects: that, and not the hashing, is what de-duplication in Python spends its time on.
"""

from __future__ import annotations

import numpy as np

from pipeline_tasks.core.compiled import compiled
from pipeline_tasks.texts.letters import ALONE

_PRIME = np.uint64(0x100000001B3)
_OFFSET = np.uint64(0xCBF29CE484222325)
_BASE = np.uint64(0x9E3779B97F4A7C15)


@compiled
def _mix(h: np.uint64) -> np.uint64:
    """A bijection in which every bit of the result depends on every bit of ``h`` (MurmurHash3's finaliser)."""
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    h = (h ^ (h >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return h ^ (h >> np.uint64(33))


@compiled
def _decode(data: np.ndarray, at: int, end: int) -> tuple[np.uint32, int]:
    """The code point at byte ``at`` and its length in bytes; damaged UTF-8 gives U+0000, one byte long."""
    lead = np.uint32(data[at])
    if lead < 0x80:
        return lead, 1
    if 0xC0 <= lead < 0xE0 and at + 1 < end:
        return (lead & np.uint32(0x1F)) << np.uint32(6) | np.uint32(data[at + 1] & 0x3F), 2
    if 0xE0 <= lead < 0xF0 and at + 2 < end:
        high = (lead & np.uint32(0x0F)) << np.uint32(12) | np.uint32(data[at + 1] & 0x3F) << np.uint32(6)
        return high | np.uint32(data[at + 2] & 0x3F), 3
    if lead >= 0xF0 and at + 3 < end:
        high = (lead & np.uint32(0x07)) << np.uint32(18) | np.uint32(data[at + 1] & 0x3F) << np.uint32(12)
        return high | np.uint32(data[at + 2] & 0x3F) << np.uint32(6) | np.uint32(data[at + 3] & 0x3F), 4
    return np.uint32(0), 1


@compiled
def hash_words(data: np.ndarray, start: int, end: int, letters: np.ndarray, words: np.ndarray) -> int:
    """Hash the words of ``data[start:end]`` into ``words``; returns how many there are (FNV-1a over folded letters)."""
    n, inside, h = 0, False, _OFFSET
    at = start
    while at < end:
        point, size = _decode(data, at, end)
        at += size
        letter = letters[point] if point < letters.size else np.uint32(0)
        alone = letter & ALONE
        if inside and (alone or not letter):
            words[n] = _mix(h)
            n, inside, h = n + 1, False, _OFFSET
        if alone:
            words[n] = _mix((_OFFSET ^ np.uint64(letter ^ ALONE)) * _PRIME)
            n += 1
        elif letter:
            h = (h ^ np.uint64(letter)) * _PRIME
            inside = True
    if inside:
        words[n] = _mix(h)
        n += 1
    return n


@compiled
def hash_shingles(words: np.ndarray, n: int, size: int, shingles: np.ndarray) -> int:
    """Hash every run of ``size`` of the ``n`` words, rolling; a shorter text is one run. Returns how many runs."""
    size = min(size, n)
    out, h = np.uint64(1), np.uint64(0)
    for i in range(size):
        h = h * _BASE + words[i]
        out *= _BASE
    shingles[0] = _mix(h)
    for i in range(size, n):
        h = h * _BASE + words[i] - words[i - size] * out
        shingles[i - size + 1] = _mix(h)
    return n - size + 1


@compiled
def sort_distinct(values: np.ndarray, n: int, spare: np.ndarray, counts: np.ndarray) -> int:
    """Sort ``values[:n]`` and drop repeats; returns how many are left. Radix sort: no input makes it slow."""
    for digit in range(8):
        shift = np.uint64(8 * digit)
        counts[:] = 0
        for i in range(n):
            counts[(values[i] >> shift) & np.uint64(255)] += 1
        total = 0
        for d in range(256):
            counts[d], total = total, total + counts[d]
        for i in range(n):
            d = (values[i] >> shift) & np.uint64(255)
            spare[counts[d]] = values[i]
            counts[d] += 1
        values, spare = spare, values
    left = 1
    for i in range(1, n):
        if values[i] != values[i - 1]:
            values[left] = values[i]
            left += 1
    return left


@compiled
def min_hash(shingles: np.ndarray, a: np.ndarray, b: np.ndarray, signature: np.ndarray) -> None:
    """MinHash of the low 32 bits, as datasketch's scheme ``affine32`` has it: min of ``a * fmix32(h) + b``."""
    signature[:] = np.uint32(0xFFFFFFFF)
    for shingle in shingles:
        h = np.uint32(shingle)
        h = np.uint32((h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B))
        h = np.uint32((h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35))
        h = h ^ (h >> np.uint32(16))
        for p in range(a.size):
            signature[p] = min(signature[p], np.uint32(np.uint32(a[p] * h) + b[p]))


@compiled
def jaccard(a: np.ndarray, b: np.ndarray, threshold: float) -> float:
    """Exact Jaccard similarity of two sorted sets without repeats; 0 as soon as ``threshold`` is out of reach."""
    needed = threshold / (1 + threshold) * (a.size + b.size) - 1e-6
    i, j, shared = 0, 0, 0
    while i < a.size and j < b.size:
        if shared + min(a.size - i, b.size - j) < needed:
            return 0.0
        x, y = a[i], b[j]
        shared += x == y
        i += x <= y
        j += y <= x
    found = shared / (a.size + b.size - shared)
    return found if found >= threshold else 0.0


@compiled
def jaccards(
    left: np.ndarray,
    left_offsets: np.ndarray,
    right: np.ndarray,
    right_offsets: np.ndarray,
    pairs: np.ndarray,
    threshold: float,
) -> np.ndarray:
    """:func:`jaccard` of every pair of a left and a right text.

    Shapes: left, right, and their offsets as in ``Sketches``; pairs [n, 2] int64; result [n] float64.
    """
    found = np.empty(len(pairs))
    for i in range(len(pairs)):
        a, b = pairs[i]
        one, other = left[left_offsets[a] : left_offsets[a + 1]], right[right_offsets[b] : right_offsets[b + 1]]
        found[i] = jaccard(one, other, threshold)
    return found


@compiled
def sketch(
    data: np.ndarray,
    bounds: np.ndarray,
    letters: np.ndarray,
    size: int,
    a: np.ndarray,
    b: np.ndarray,
    shingles: np.ndarray,
    offsets: np.ndarray,
    signatures: np.ndarray,
) -> None:
    """Sketch every text ``data[bounds[i]:bounds[i + 1]]``.

    Shapes: bounds [n + 1]; out: shingles [half the bytes + n], offsets [n + 1], signatures [n, p].
    """
    longest = 0
    for i in range(bounds.size - 1):
        longest = max(longest, bounds[i + 1] - bounds[i])
    words = np.empty(longest // 2 + 1, np.uint64)
    spare = np.empty(longest // 2 + 1, np.uint64)
    counts = np.empty(256, np.int64)
    for i in range(bounds.size - 1):
        mine = shingles[offsets[i] :]
        n = hash_words(data, bounds[i], bounds[i + 1], letters, words)
        n = sort_distinct(mine, hash_shingles(words, n, size, mine), spare, counts)
        min_hash(mine[:n], a, b, signatures[i])
        offsets[i + 1] = offsets[i] + n
