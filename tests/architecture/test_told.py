"""What pages and messages tell a reader to install, and of versions, is so."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import typer

from pipeline_tasks.cli.main import MODULES, app
from pipeline_tasks.core.registry import get_step, step_names

ROOT = Path(__file__).parents[2]
SAYS_EXTRA = re.compile(r"installed_with\(['\"]([\w-]+)|-e '?\.\[([\w,-]+)\]|the extras? `([\w-]+)`")


def told() -> dict[str, str]:
    """Every text file of the project but this one, and what is in it."""
    names = ["*.md", "*.py", "Makefile"]
    listing = subprocess.run(["git", "ls-files", *names], cwd=ROOT, capture_output=True, text=True, check=True)
    return {
        name: (ROOT / name).read_text("utf-8")
        for name in listing.stdout.split()
        if (ROOT / name).is_file() and not Path(__file__).samefile(ROOT / name)
    }


def test_nobody_is_sent_to_a_package_index_for_the_project_and_every_extra_that_is_named_is_there():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    assert [name for name, text in told().items() if re.search(r"retriever-foundry\\?\[", text)] == []
    named = {
        extra for text in told().values() for found in SAYS_EXTRA.findall(text) for extra in ",".join(found).split(",")
    }
    assert {"airflow", "docker", "ray", "s3", "steps"} <= named - {""} <= extras.keys()


def test_the_changelog_has_a_row_for_every_step_whose_version_rose_with_the_version_that_it_has():
    table = (ROOT / "CHANGELOG.md").read_text("utf-8").partition("### Versions of steps\n")[2]
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| \S.*\|$", table, re.MULTILINE)
    versions = ((name, get_step(name).version) for name in sorted(step_names()))
    assert rows == [(name, version) for name, version in versions if version != "1"]


def test_the_page_of_commands_has_every_command_and_no_other():
    page = (ROOT / "docs/commands.md").read_text("utf-8")
    assert set(re.findall(r"`foundry (\w+)", page)) == MODULES.keys()


def test_no_help_text_has_the_markup_of_docstrings():
    group = typer.main.get_command(app)
    commands = [group, *(group.get_command(typer.Context(group), name) for name in MODULES)]
    commands += [below for command in commands[1:] for below in getattr(command, "commands", {}).values()]
    assert [command.name for command in commands if re.search("``|:[a-z]+:`", command.help or "")] == []


def test_the_commands_of_adapting_name_the_versions_that_those_before_them_print():
    page = (ROOT / "docs/adapt.md").read_text("utf-8").replace("\\\n", "")
    reads = re.findall(r"(?:foundry run|foundry sweep) (?:sample_rank_lists|adapt_to_corpus) .*", page)
    inputs = {"sample_rank_lists": ["rankings=$rankings", "pairs=$queries"], "adapt_to_corpus": ["queries=$queries"]}
    wanted = {line: [f"--input {one}" for name, of in inputs.items() if name in line for one in of] for line in reads}
    assert len(reads) == 7 and [line for line in reads if not all(one in line for one in wanted[line])] == []


def anchors_of(page: str) -> set[str]:
    """What a link into a page of Markdown may name: its headings as GitHub spells them, and explicit ids."""
    headings = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).strip().replace(" ", "-") for h in headings} | set(
        re.findall(r'<a id="([^"]+)"', page)
    )


def test_every_link_of_a_page_leads_to_a_file_and_a_heading_that_are_there():
    pages = {name: text for name, text in told().items() if name.endswith(".md")}
    assert {"README.md", "docs/concepts.md"} <= pages.keys()
    broken = []
    for name, text in pages.items():
        for link in re.findall(r"\]\((?!\w+:)([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
            path, _, anchor = link.partition("#")
            target = (ROOT / name).parent / path if path else ROOT / name
            there = target.exists() and (not anchor or anchor in anchors_of(target.read_text("utf-8")))
            broken += [] if there else [f"{name}: {link}"]
    assert broken == []


def test_the_readme_leads_to_every_page():
    readme = (ROOT / "README.md").read_text("utf-8")
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f"](docs/{page.name}" not in readme] == []


def test_every_page_that_a_message_or_a_file_names_is_there():
    broken = []
    for name, text in told().items():
        for page, anchor in re.findall(
            r"(?<![\w/])(docs/[\w-]+\.md)(?:#([\w-]+))?", "" if name.endswith(".md") else text
        ):
            there = (ROOT / page).is_file() and (not anchor or anchor in anchors_of((ROOT / page).read_text("utf-8")))
            broken += [] if there else [f"{name}: {page}#{anchor}"]
    assert broken == []


def test_the_table_of_a_store_names_every_folder_that_it_has():
    table = (ROOT / "docs/operations.md").read_text("utf-8").partition("## Backup")[0]
    core = "".join(text for name, text in told().items() if name.startswith("pipeline_tasks/core/"))
    keys = set(re.findall(r"f\"([a-z]+)/\{", core)) - {"sql"}  # that is the project's
    assert {"locks", "pins", "refs"} <= keys
    assert {key for key in keys if not re.search(rf"`(<store>/)?{key}`", table)} == set()
