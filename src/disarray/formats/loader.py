"""Instrument descriptions from TOML: the shipped ones, and a project's own beside its disarray.toml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from disarray.config import parse_toml, read_toml
from disarray.errors import ConfigError, FormatUnknownError, SpecError
from disarray.model.description.dataset_reader import read_datasets
from disarray.model.description.format_reader import read_format
from disarray.model.description.spec_table import Problems, Table, near_miss
from disarray.model.description.table_source import read_sources

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from disarray.model.description.dataset import Dataset
    from disarray.model.description.format import Format
    from disarray.model.description.table_source import TableSource

OWN_FORMATS_FOLDER = "formats"


@dataclass(frozen=True, slots=True)
class Description:
    """A format as written and as read."""

    name: str
    text: str
    table: Mapping[str, object]
    format: Format
    shipped: bool


def shipped_descriptions() -> dict[str, Description]:
    """What comes with disarray, by name."""
    return dict(_shipped())


@cache
def _shipped() -> Mapping[str, Description]:
    found = sorted((entry for entry in files("disarray.formats").iterdir()), key=lambda entry: entry.name)
    return {
        entry.name.removesuffix(".toml"): _describe(entry, shown=entry.name, shipped=True)
        for entry in found
        if entry.name.endswith(".toml")
    }


def all_descriptions(project: Path | None = None) -> dict[str, Description]:
    """The shipped descriptions and those in `formats/` of the project folder; no name is in both."""
    known = shipped_descriptions()
    folder = project / OWN_FORMATS_FOLDER if project else None
    for entry in sorted(folder.glob("*.toml")) if folder else []:
        if entry.stem in known:
            raise SpecError(
                (f"{entry}: a shipped format is named '{entry.stem}' too; choose another file name",)
            )
        known[entry.stem] = _describe(entry, shown=str(entry), shipped=False)
    return known


def find_description(name: str, known: Mapping[str, Description]) -> Description:
    """The description of that name; an unknown name is answered with the nearest."""
    if name not in known:
        raise FormatUnknownError(f"there is no format '{name}'; {near_miss(name, list(known))}")
    return known[name]


def describe_text(name: str, text: str, *, shown: str = "") -> Description:
    """A description from its text, for one that is being written."""
    shown = shown or f"{name}.toml"
    return _read(name, text, parse_toml(text, shown=shown), shown=shown, shipped=False)


def load_datasets(path: Path) -> tuple[Dataset, ...]:
    """The datasets of a disarray.toml, validated as a whole; roots and own formats are sought beside it."""
    try:
        _, document = read_toml(path, shown=str(path))
    except FileNotFoundError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}); nothing was changed") from error
    folder = path.absolute().parent
    problems = Problems(str(path))
    tables = {name: known.table for name, known in all_descriptions(folder).items()}
    datasets = read_datasets(document, problems=problems, descriptions=tables, folder=folder)
    problems.raise_if_any()
    return datasets


def load_sources(path: Path, datasets: Mapping[str, Dataset]) -> tuple[TableSource, ...]:
    """The table sources of a disarray.toml whose datasets are these; none where there is no file."""
    try:
        _, document = read_toml(path, shown=str(path))
    except FileNotFoundError:
        return ()
    problems = Problems(str(path))
    sources = read_sources(document, problems=problems, datasets=datasets)
    problems.raise_if_any()
    return sources


def _describe(entry: Traversable, *, shown: str, shipped: bool) -> Description:
    text, table = read_toml(entry, shown=shown)
    return _read(entry.name.removesuffix(".toml"), text, table, shown=shown, shipped=shipped)


def _read(name: str, text: str, table: Mapping[str, object], *, shown: str, shipped: bool) -> Description:
    problems = Problems(shown)
    described = read_format(name, Table(table, path="", kind="format", problems=problems))
    problems.raise_if_any()
    return Description(name=name, text=text, table=table, format=described, shipped=shipped)
