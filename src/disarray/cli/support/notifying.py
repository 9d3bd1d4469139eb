"""Files named on the command line, as the notifications that an agent would have sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.agent.preamble import read_subject
from disarray.control.files import Notification, Reason
from disarray.errors import ConfigError, UnreadableFileError
from disarray.kernels.reading.opening import open_beneath
from disarray.model.matching import match_file
from disarray.model.uris import file_uri

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.description.dataset import Dataset


def notifications_of(files: Sequence[str], datasets: Mapping[str, Dataset]) -> list[Notification]:
    """A notification for each file: they are said to be complete, so that their last line counts as well."""
    return [_notification(str(Path(file).absolute()), datasets) for file in files]


def _notification(path: str, datasets: Mapping[str, Dataset]) -> Notification:
    uri = file_uri(path)
    match = match_file(uri, list(datasets.values()))
    if match is None:
        roots = sorted({root for dataset in datasets.values() for root in dataset.roots})
        raise ConfigError(
            f"no dataset of disarray.toml takes {path}; their files lie below {', '.join(roots)}. Nothing was "
            "queued. Run 'disarray formats try' on it: it proposes a dataset"
        )
    if match.dataset.is_delivered:
        raise ConfigError(
            f"{path} belongs to dataset {match.dataset.name}, whose files are delivered by a source. Nothing was "
            "queued: what the source delivered is queued already. To read it again: disarray files reingest"
        )
    subject = match.subject or _subject_inside(uri, path, match.dataset)
    return Notification(uri, subject, Reason.QUIET, {"dataset": match.dataset.name})


def _subject_inside(uri: str, path: str, dataset: Dataset) -> str:
    try:
        descriptor = open_beneath(path, dataset.roots)
        try:
            subject = read_subject(descriptor, os.fstat(descriptor).st_size, uri=uri, dataset=dataset)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise UnreadableFileError(
            f"there is no file {path}. Nothing was queued. Check the path; `ls {Path(path).parent}` shows what is there"
        ) from error
    except OSError as error:
        raise UnreadableFileError(f"{path} does not tell its subject: {error}. Nothing was queued") from error
    if subject is None:
        raise UnreadableFileError(
            f"{path} does not tell its subject: its preamble is not complete. Nothing was queued"
        )
    return subject
