"""Jobs about the datasets of disarray.toml: what `backfill check` replays, and what `rebuild --as-job` moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from disarray.backfill.description import Rebuild, RebuildSpec, ReplaySpec
from disarray.backfill.job_file import parse_spec
from disarray.backfill.replay import resolved
from disarray.cli.support.project import chosen_dataset
from disarray.control import definitions, status
from disarray.errors import ConfigError, DurationError
from disarray.model.duration import parse_duration
from disarray.model.segments import datetime_of
from disarray.queries.names import find_subjects

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from disarray.config import Config
    from disarray.control.connections import Connection
    from disarray.model.description.dataset import Dataset


def check_spec(
    connection: Connection,
    config: Config,
    described: Mapping[str, Dataset],
    *,
    last: str | None,
    datasets: Sequence[str] | None,
    subjects: Sequence[str] | None,
    allow_vanished: bool,
) -> ReplaySpec:
    """The replay behind a check; limits are those of the configuration."""
    asked: dict[str, object] = {"vanished": "allow" if allow_vanished else "refuse"}
    if last is not None:
        duration_of("--last", last)
        asked["last"] = last
    if datasets:
        asked["datasets"] = sorted({chosen_dataset(described, name).name for name in datasets})
    if subjects:
        for subject in subjects:
            # A misspelt name has nothing that differs: without this it would be told as identical.
            find_subjects(connection, described, subject_key=subject)
        asked["subjects"] = sorted(set(subjects))
    now = datetime_of(status.current_us(connection))
    content = {
        "name": f"check_{now:%Y%m%d_%H%M%S_%f}",
        "kind": "replay",
        "replay": asked,
        # It is run where no worker runs as well: there the queue only grows older.
        "health": {"max_queue_age": "none"},
    }
    spec = parse_spec(content, shown="backfill check", config=config)
    assert isinstance(spec, ReplaySpec)
    return resolved(connection, spec, described)


def rebuild_spec(
    connection: Connection, config: Config, chosen: Sequence[Dataset], *, subject: str | None
) -> RebuildSpec:
    """The job that moves subjects to definitions that are in force; limits are those of the configuration."""
    now = datetime_of(status.current_us(connection))
    name = f"rebuild_{now:%Y%m%d_%H%M%S_%f}"
    limits = parse_spec({"name": name, "kind": "replay"}, shown="rebuild --as-job", config=config)
    return RebuildSpec(
        name=name,
        processing=limits.processing,
        health=limits.health,
        alert_threshold=limits.alert_threshold,
        rebuild=Rebuild(
            subjects=None if subject is None else (subject,),
            versions={each.name: (each.parse_version, each.scan_version) for each in chosen},
        ),
    )


def not_in_force_lines(connection: Connection, spec: ReplaySpec) -> Iterator[str]:
    """Datasets whose definition here is not the one in force: what is compared is what it would change."""
    for name, version in spec.replay.versions.items():
        in_force = definitions.definition_in_force(connection, name)
        if in_force is not None and (in_force.parse, in_force.scan) != tuple(version):
            yield f"… {name}: the definition of disarray.toml is not in force; what it would change is told"


def duration_of(option: str, text: str) -> int:
    """A duration that an option gives, in microseconds."""
    try:
        return parse_duration(text)
    except DurationError as error:
        raise ConfigError(f"{option}: {error}. Nothing was started") from None
