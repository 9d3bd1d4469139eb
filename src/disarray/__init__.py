"""disarray keeps metrics and rollups right while instrument files arrive late, twice and half-written.

`disarray.open(folder)` reads a project back in Python: docs/python.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os

    from disarray.notebook.plant import Plant

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(project: str | os.PathLike[str] = ".", *, lake: str | os.PathLike[str] | None = None) -> Plant:  # noqa: A001
    """A project to be asked from Python: its folder, or the DSN of its database. Needs neither Java nor Spark.

    `lake` says where the fragments lie, where it is not where the configuration says. Errors are those of
    `disarray.errors`: `ConfigError` where there is no such project, `DatabaseUnreachableError` where its database
    cannot be had, and of the answers `UnknownNameError`, `AmbiguousNameError`, `InvalidRequestError`.
    """
    # Late, so that importing disarray loads neither Arrow nor a database driver.
    try:
        from disarray.notebook.plant import open_plant
    except ModuleNotFoundError as error:
        from disarray.errors import ConfigError

        raise ConfigError(
            f"reading from Python needs {error.name}; install it with `pip install 'disarray-pipeline[read]'`"
        ) from error
    return open_plant(project, lake=lake)
