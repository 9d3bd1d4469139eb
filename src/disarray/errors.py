"""Every error a person can meet: what happened, what state the data is in, what to do next."""

from __future__ import annotations


class DisarrayError(Exception):
    """The root of all errors that disarray raises on purpose; the CLI prints them without a traceback."""


class ConfigError(DisarrayError):
    """A configuration or dataset description cannot be used as written. Nothing was read or changed."""


class DurationError(ConfigError):
    """A text is not a duration."""


class SegmentRangeError(DisarrayError):
    """A time lies outside what segments can hold."""


class ExpressionError(ConfigError):
    """An expression cannot be read or does not fit the columns; `position` counts characters from 0."""

    def __init__(self, message: str, *, position: int = 0) -> None:
        super().__init__(message)
        self.position = position


class SpecError(ConfigError):
    """A description is not valid; `problems` holds every fault found in the file, one line each."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class FormatUnknownError(ConfigError):
    """No instrument description has this name."""


class DatasetOverlapError(ConfigError):
    """A file matches two datasets; it was given to neither."""


class SubjectMissingError(DisarrayError):
    """A file belongs to a dataset but does not say which subject it is about; nothing was read from it."""


class FingerprintError(DisarrayError):
    """A stored fingerprint cannot be used. Nothing was read; a reingest of the file makes a new one."""


class UnsafePathError(DisarrayError):
    """A path is a link, a device, a directory, or outside the allowed roots. Nothing was read."""


class UnreadableFileError(DisarrayError):
    """A file as a whole cannot be read as its format says. Nothing of it is kept."""


class FragmentWriteError(DisarrayError):
    """Fragments could not be written. The catalog knows nothing of them; free space or mend the lake, then retry."""


class FormatCheckError(DisarrayError):
    """A description does not read its sample as it should; `failures` names every check that failed."""

    def __init__(self, failures: tuple[str, ...]) -> None:
        super().__init__("\n".join(failures))
        self.failures = failures


class ExpressionOverflowError(DisarrayError):
    """An expression over whole numbers left int64 where its value is used. Nothing was changed."""


class FoldOverflowError(DisarrayError):
    """A metric or rollup grew beyond what its type can hold. Nothing of the segment was changed."""


class FragmentMismatchError(DisarrayError):
    """A fragment does not hold what the catalog says about it. Nothing of the segment was changed."""
