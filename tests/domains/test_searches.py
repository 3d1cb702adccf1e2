import pytest

from pipeline_tasks.core.errors import InputError
from pipeline_tasks.domains import domain_folder
from pipeline_tasks.domains.searches import files_sha256, load_plan, searches


def write(folder, text, **lists):
    (folder / "search.toml").write_text(text, encoding="utf-8")
    for name, lines in lists.items():
        (folder / name.replace("_", ".")).write_text(lines, encoding="utf-8")
    return folder


def test_the_grid_is_301_hazards_by_50_states():
    plan = load_plan(domain_folder(), "web")
    found = list(searches(domain_folder(), plan))
    assert len(found) == 301 * 50 == 15_050
    assert len({query for query, _ in found}) == 15_050
    assert len({terms["hazard"] for _, terms in found}) == 301
    assert len({terms["place"] for _, terms in found}) == 50
    assert found[0] == ("Ammonia Alabama .pdf", {"hazard": "Ammonia", "place": "Alabama"})
    assert found[-1][1]["place"] == "Wyoming"
    assert all(len(query) <= 400 and len(query.split()) <= 50 for query, _ in found), "what Brave allows"


def test_another_domain_has_axes_of_its_own(tmp_path):
    text = """
    [guides]
    template = "{crop} {pest} {season} guide"
    lists = { crop = "crops.txt", pest = "pests.csv", season = "seasons.txt" }
    """
    lists = {"crops_txt": "# a comment\nrice\n\n  maize  \n", "seasons_txt": "spring\n"}
    folder = write(tmp_path, text, pests_csv='latin,pest\nx,stem borer\ny,\nz,"weevil, red"\n', **lists)
    plan = load_plan(folder, "guides")
    assert [query for query, _ in searches(folder, plan)] == [
        "rice stem borer spring guide",
        "rice weevil, red spring guide",
        "maize stem borer spring guide",
        "maize weevil, red spring guide",
    ]


PLAN = "[p]\ntemplate = '{a} {b}'\nlists = {a = 'a.txt', b = 'b.csv'}"


@pytest.mark.parametrize(
    ("text", "lists", "said"),
    [
        (PLAN.replace("[p]", "[q]"), {}, "no plan 'p'; its plans are: q"),
        (PLAN.replace("{b}", "{c}"), {}, r"axes \['a', 'c'\], its lists are \['a', 'b'\]"),
        (PLAN.replace("{b}", "{b"), {}, "template of 'p'"),
        (PLAN.replace("{b}", "{b:10d}"), {}, "template of 'p': {b} has a format or a conversion; write {axis}"),
        (PLAN.replace("{b}", "{b!x}"), {}, "{b} has a format or a conversion"),
        (PLAN.replace("{b}", "{b:{a}}"), {}, "{b} has a format or a conversion"),
        (PLAN, {"b_csv": "b\nx\n"}, "a.txt of 'a' cannot be read"),
        (PLAN, {"a_txt": "# nothing\n", "b_csv": "b\nx\n"}, "a.txt of 'a' is empty"),
        (PLAN, {"a_txt": "x\n", "b_csv": "c\nx\n"}, "no column 'b'; its columns are: c"),
        ("[p", {}, "not TOML"),
        ("[p]\ntemplate = 'x'", {}, "lists"),
    ],
)
def test_a_wrong_plan_says_what_is_wrong(tmp_path, text, lists, said):
    folder = write(tmp_path, text, **lists)
    with pytest.raises(InputError, match=said):
        list(searches(folder, load_plan(folder, "p")))


def test_what_the_files_say_is_the_plans_identity(tmp_path):
    folder = write(tmp_path, PLAN, a_txt="x\n", b_csv="b\ny\n")
    first = files_sha256(folder, load_plan(folder, "p"))
    (folder / "a.txt").write_text("# only a comment\nx\n")
    assert files_sha256(folder, load_plan(folder, "p")) == first
    (folder / "a.txt").write_text("x\nz\n")
    assert files_sha256(folder, load_plan(folder, "p")) != first
