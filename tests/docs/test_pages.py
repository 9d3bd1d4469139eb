"""Links lead somewhere, and commands in examples are commands with options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from disarray.cli.main import make_app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "examples").rglob("*.md"),
        ROOT / "benchmarks" / "results" / "README.md",
    ]
)
COMMAND = re.compile(r"^(?:\$ )?(disarray .*)$", re.MULTILINE)


def anchors_of(page: Path) -> set[str]:
    """The anchors that a forge makes of headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_file_and_a_heading_of_it(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", page.read_text("utf-8")):
        name, _, anchor = link.partition("#")
        target = page if not name else (page.parent / name)
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_page_that_is_named_without_a_link_is_there(page: Path) -> None:
    named = re.findall(r"`(docs/[\w./-]+\.md)`", page.read_text("utf-8"))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_decisions_are_numbered_without_gaps() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    assert [page.name[:5] for page in pages] == [f"{number:04}-" for number in range(1, len(pages) + 1)]
    headed = [page.read_text("utf-8").split(" · ")[0] for page in pages]
    assert headed == [f"# {number}" for number in range(1, len(pages) + 1)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_link_to_a_decision_has_the_number_of_its_page(page: Path) -> None:
    links = re.findall(r"\[decision (\d+)\]\([^)]*?(\d{4})-[^)]*\)", page.read_text("utf-8"))
    assert [link for link in links if int(link[0]) != int(link[1])] == []


def problem_of(line: str) -> str | None:
    """Why a line of an example could not be typed, or None."""
    words = shlex.split(line, comments=True)[1:]
    context = typer.Context(typer.main.get_command(make_app()), info_name="disarray")
    known = {
        option
        for parameter in context.command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for word in words:
        if word in ("|", "&&", "beside", ">"):
            break
        if word.startswith("--"):
            if word.partition("=")[0] not in known | {"--help", "--version"}:
                return f"{line}: no option {word}"
            continue
        below = getattr(context.command, "commands", None)
        if below is None:
            continue
        if word not in below:
            # The value of an option of `disarray` itself.
            if known and context.parent is None and words[max(0, words.index(word) - 1)].startswith("--"):
                continue
            return f"{line}: no command {word}"
        context = typer.Context(below[word], info_name=word, parent=context)
        known |= {
            option
            for parameter in context.command.get_params(context)
            for option in (*parameter.opts, *parameter.secondary_opts)
        }
    return missing_option(line, words, context)


def missing_option(line: str, words: list[str], context: typer.Context) -> str | None:
    """Which option of its command has to be given and is not, or None."""
    given = {word.partition("=")[0] for word in words}
    if "--help" in given:
        return None
    for parameter in context.command.get_params(context):
        if parameter.param_type_name == "option" and parameter.required and not given & {*parameter.opts}:
            return f"{line}: {parameter.opts[0]} is missing"
    return None


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "cli.md"], ids=lambda page: str(page.relative_to(ROOT))
)
def test_every_command_in_an_example_can_be_typed(page: Path) -> None:
    blocks = re.findall(r"^```(?:console|sh)?\n(.*?)^```$", page.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [re.split(r" {2,}", line)[0] for block in blocks for line in COMMAND.findall(block)]
    assert [problem for line in lines if (problem := problem_of(line)) is not None] == []


@pytest.mark.parametrize(
    "line",
    [
        "disarray vlaue TOOL07",
        "disarray value TOOL07 total --att",
        "disarray db begin",
        "disarray series TOOL07 total --from 2026-09-01",
    ],
)
def test_a_command_that_cannot_be_typed_is_noticed(line: str) -> None:
    assert problem_of(line) is not None


@pytest.mark.parametrize("name", ["project.toml", "with_table.toml", "with_events.toml"])
def test_every_command_in_a_comment_of_a_new_project_can_be_typed(name: str) -> None:
    text = (ROOT / "src" / "disarray" / "cli" / name).read_text("utf-8")
    lines = re.findall(r"#.*?(?:`|: )(disarray [^`\n]+)", text)
    assert lines
    assert [problem for line in lines if (problem := problem_of(line)) is not None] == []


def test_images_to_deploy_are_pinned_to_a_version() -> None:
    """What is pulled tomorrow is what was tested today."""
    named = [
        (file.name, image)
        for file in sorted((ROOT / "deploy").rglob("*"))
        if (file.is_file() and file.suffix in (".yml", ".yaml")) or file.name.startswith("Dockerfile")
        for image in re.findall(r"^\s*(?:image:|FROM)\s+(\S+)", file.read_text("utf-8"), re.MULTILINE)
    ]
    assert named
    assert [each for each in named if not re.search(r":v?\d+\.\d+(\.\d+)?(-\S+)?$|@sha256:", each[1])] == []
