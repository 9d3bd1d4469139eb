"""A table in PostgreSQL cleared of subjects that its destination is not to have: counted, then deleted one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.sinks.destination_database import target_errors
from disarray.sinks.destination_deletes import deletes_of

if TYPE_CHECKING:
    from disarray.sinks.destination_database import TableLoader
    from disarray.sinks.destination_deletes import Deletes
    from disarray.sinks.destination_targets import ListUnasked


def count_table_deletes(loader: TableLoader, list_unasked: ListUnasked) -> Deletes:
    """What a sweep would delete."""
    with target_errors(loader.destination), loader.connection.transaction():
        loader.give_time()
        subjects = _list_subjects(loader)
        unasked = list_unasked(subjects)
        query = loader.statements.count_rows()
        # Where nothing goes, nobody has to look at the whole table.
        counted = loader.connection.execute(query.encode(), {"subjects": subjects}) if unasked else ()
        rows = dict.fromkeys(subjects, 0) | dict(counted)
    return deletes_of(rows, unasked)


def sweep_table(loader: TableLoader, fence: int, list_unasked: ListUnasked) -> None:
    """Delete what subjects have that are not asked for; who still loads one of them is refused.

    Each is asked about again while nobody can load it: it may be asked for, and loaded, since.
    """
    statements = loader.statements
    about: dict[str, object] = {"destination": loader.destination.name, "fence": fence, "commit_seq": 0}
    with target_errors(loader.destination):
        with loader.connection.transaction():
            loader.give_time()
            subjects = _list_subjects(loader)
        for subject_key in list_unasked(subjects):
            with loader.connection.transaction():
                loader.give_time()
                about |= {"subject": subject_key}
                lock = statements.lock_loads() if loader.is_same else statements.lock_position()
                loader.connection.execute(lock.encode(), about)
                if not list_unasked([subject_key]):
                    continue
                if not loader.is_same:
                    loader.connection.execute(statements.move_position().encode(), about)
                loader.connection.execute(statements.delete_subject().encode(), about)


def _list_subjects(loader: TableLoader) -> list[str]:
    """Subjects that may have rows: of a database that others load as well, only those that we loaded."""
    statements = loader.statements
    found = statements.list_subjects() if loader.is_same else statements.list_positions()
    about = {"destination": loader.destination.name}
    return [subject for (subject,) in loader.connection.execute(found.encode(), about)]
