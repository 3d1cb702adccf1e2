"""Event files: the checksum of its standard, and bytes as TensorBoard's own writer gives them."""

from __future__ import annotations

import pytest

from pipeline_tasks.training.curves.tensorboard import crc32c, events


@pytest.mark.parametrize(
    ("data", "checksum"),
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (b"", 0)],
)
def test_checksums_are_those_of_the_standard(data, checksum):
    assert crc32c(data) == checksum


def test_the_bytes_are_those_of_tensorboards_own_writer():
    rows = [
        {"optimiser_step": 0, "loss": None, "dev_score": 0.25},
        {"optimiser_step": 300, "loss": 1.5, "dev_score": None},
    ]
    assert [record.hex() for record in events(rows, 1.5)] == GOLDEN


GOLDEN = [
    "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c",
    "1d00000000000000602fdf2309000000000000f83f2a120a100a096465765f73636f7265150000803ed8e7d3ef",
    "1b000000000000001a0d9e1309000000000000f83f10ac022a0d0a0b0a046c6f7373150000c03f11f2d763",
]
"""Written by tensorboard 2.21."""
