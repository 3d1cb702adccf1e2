from __future__ import annotations

import pytest

from pipeline_tasks.corpus.pdf.facts import metadata_date, printed_date, title_of
from pipeline_tasks.corpus.pdf.model import Paragraph


@pytest.mark.parametrize(
    ("text", "iso"),
    [
        ("Issued 9 April 2024 by the county", "2024-04-09"),
        ("Rev. Sept. 3rd, 2019.", "2019-09-03"),
        ("Version of October 2017", "2017-10"),
        ("Updated 2023-11-05", "2023-11-05"),
        ("Printed 06/30/2021", "2021-06-30"),
        ("on 31 February 2020, then 1 March 2020", "2020-03-01"),
        ("may 40 people come, room 2045", ""),
    ],
)
def test_the_first_date_that_exists_is_found(text, iso):
    assert printed_date(text) == iso


@pytest.mark.parametrize(
    ("value", "iso"),
    [("D:20240131120000Z", "2024-01-31"), ("D:2024", "2024"), ("20199945", ""), ("yesterday", ""), ("", "")],
)
def test_dates_of_metadata(value, iso):
    assert metadata_date(value) == iso


@pytest.mark.parametrize(
    "metadata",
    ["", "Microsoft Word - plan_v3.doc", "untitled", "flyer.indd", "PowerPoint Presentation", "---"],
)
def test_a_title_that_says_nothing_gives_way_to_the_largest_text(metadata):
    page = [Paragraph(1, "County of Weldon", 10, False, 0, 9), Paragraph(1, "Flood\nPlan", 24, True, 20, 60)]
    page += [Paragraph(1, "Sandbags hold back a foot of water. " * 9, 10, False, 70, 200)]
    assert title_of(metadata, page) == "Flood Plan"
    assert title_of("Storm Guide", page) == "Storm Guide"
