"""Under which definition the numbers of a subject have to be read: the one that they were made with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.control import definitions
from disarray.errors import DefinitionChangedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset, Version


class KnownDefinitions:
    """The datasets of a project, and the former definitions of them, each looked up once."""

    def __init__(self, connection: Connection, configured: Mapping[str, Dataset]) -> None:
        self.configured = configured
        self._connection = connection
        self._former: dict[tuple[str, Version], Dataset] = {}

    def of(self, dataset: str, version: Version | None) -> Dataset:
        """A dataset as it was defined under a version; where that is the configured one, exactly that."""
        configured = self.configured[dataset]
        if version is None or version == configured.version:
            return configured
        if (dataset, version) not in self._former:
            self._former[dataset, version] = definitions.load_definition(self._connection, dataset, version)
        return self._former[dataset, version]


def definitions_of(
    connection: Connection, configured: Mapping[str, Dataset], subject_key: str
) -> dict[str, Dataset]:
    """The datasets as one subject has them: those that it waits to be rebuilt for are the former ones."""
    made = definitions.load_subject_versions(connection, [subject_key])
    known = KnownDefinitions(connection, configured)
    return {
        name: known.of(name, made[name, subject_key].version if (name, subject_key) in made else None)
        for name in configured
    }


def assert_made_under(connection: Connection, dataset: Dataset, subject_key: str) -> None:
    """Refuse to read numbers with a definition that is not theirs: a rebuild may have been committed just now."""
    made = definitions.load_subject_versions(connection, [subject_key]).get((dataset.name, subject_key))
    if made is not None and made.version != dataset.version:
        raise DefinitionChangedError(
            f"the numbers of {subject_key} are now of another definition of dataset '{dataset.name}'. "
            "Nothing was read; ask again"
        )
