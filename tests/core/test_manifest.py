from __future__ import annotations

import pytest
from pydantic import ValidationError

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.core.manifest import Manifest, Part, Ref, Removal, version_id

PART = Part(sha256="ab" * 32, rows=3, size_bytes=10)


@pytest.mark.parametrize("text", ["passages", "mtt/0.75", "mtt/0.75-kd@0123456789abcdef", "model/7.6b/finetune@latest"])
def test_a_name_is_read_and_written_back(text):
    ref = Ref.parse(text)
    assert str(ref) == (text if "@" in text else f"{text}@latest")


@pytest.mark.parametrize(
    "text",
    ["", "..", "../x", "a/../b", "a..b", "a@..", "a@../b", "/a", "a/", "a//b", "A", "a b", "a@", "a@b@c", "a\n", "a\0"],
)
def test_what_is_no_name_is_refused_with_its_value(text):
    with pytest.raises(InputError) as caught:
        Ref.parse(text)
    assert repr(text) in str(caught.value) and "passages@latest" in str(caught.value)


def test_version_id_depends_on_everything_and_on_no_order_of_keys():
    base = ("s", "1", {"a": 1, "b": 2}, {"x": ["d@1"]})
    assert version_id(*base) == version_id("s", "1", {"b": 2, "a": 1}, {"x": ["d@1"]})
    others = [
        ("t", *base[1:]),
        ("s", "2", *base[2:]),
        ("s", "1", {"a": 1, "b": 3}, base[3]),
        ("s", "1", base[2], {"x": ["d@2"]}),
    ]
    ids = {version_id(*made) for made in [base, *others]}
    assert len(ids) == 5 and all(len(i) == 16 for i in ids)


def test_bytes_are_canonical_and_round_trip():
    removal = Removal(part=PART, column="k", first=0, last=1)
    manifest = Manifest(
        dataset="d", id="0" * 16, step="s", code_version="1", rows_schema="d", key="k", params={"ü": 1.5},
        inputs={}, rows=3, parts=[PART], removals=[removal], rejects=[PART],
    )  # fmt: skip
    data = manifest.to_bytes()
    assert Manifest.model_validate_json(data) == manifest
    assert Manifest.model_validate_json(data).to_bytes() == data
    assert "ü".encode() in data
    assert manifest.size_bytes == 30 and len(manifest.objects) == 3
    with pytest.raises(ValidationError):
        Manifest.model_validate_json(data.replace(b'"step"', b'"stepp"'))


def test_a_shifted_removal_moves_its_parts_only():
    moved = Removal(part=PART, column="k", first=1, last=3).shifted(4)
    assert (moved.first, moved.last, moved.part, moved.column) == (5, 7, PART, "k")


def test_a_file_and_rows_of_the_same_bytes_have_keys_of_their_own():
    assert PART.key == f"objects/ab/{'ab' * 32}.parquet"
    assert Part(sha256="ab" * 32, rows=0, size_bytes=10, name="w.bin").key == f"objects/ab/{'ab' * 32}"


def test_what_equals_what_is_known_is_held_once_and_other_facts_of_the_same_bytes_are_not():
    def read() -> Manifest:
        removal = Removal(part=PART, column="k", first=0, last=1)
        named = PART.model_copy(update={"name": "w.bin"})
        return Manifest(
            dataset="d", id="0" * 16, step="s", code_version="1", rows_schema="d", key="k", params={}, inputs={},
            rows=3, parts=[PART.model_copy(), named], removals=[removal], rejects=[PART.model_copy()],
        )  # fmt: skip

    known: dict = {}
    first, second = read(), read()
    for manifest in (first, second):
        manifest.share(known)
    assert first == second == read() and second.to_bytes() == read().to_bytes()
    assert second.parts[0] is first.parts[0] is first.rejects[0] and second.parts[1] is first.parts[1]
    assert second.removals[0] is first.removals[0] and second.parts[1].name == "w.bin"
