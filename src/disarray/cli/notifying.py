"""Files named on the command line, as the notifications that an agent would have sent."""

from __future__ import annotations

from pathlib import Path
from time import time
from typing import TYPE_CHECKING

from disarray.control.files import Notification, Reason
from disarray.errors import ConfigError, UnreadableFileError
from disarray.kernels.outcome import ReadReason, ReadRequest
from disarray.kernels.preview import preview_file
from disarray.model.matching import match_file, subject_from_preamble
from disarray.model.uris import file_uri

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from disarray.model.dataset import Dataset


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
    subject = match.subject or _subject_inside(uri, path, match.dataset)
    return Notification(uri, subject, Reason.QUIET, {"dataset": match.dataset.name})


def _subject_inside(uri: str, path: str, dataset: Dataset) -> str:
    outcome = preview_file(
        ReadRequest.for_dataset(
            dataset, path, reason=ReadReason.NOTIFICATION, now_us=int(time() * 1e6), stored=None
        )
    ).outcome
    if outcome.fingerprint is None:
        raise UnreadableFileError(
            f"{path} does not tell its subject: {outcome.message or 'it cannot be read'}. Nothing was queued"
        )
    return subject_from_preamble(uri, dataset, dict(outcome.fingerprint.end.state.fields))
