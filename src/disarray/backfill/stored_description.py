"""The description of a backfill as it is stored with its job, and read again by whoever works on it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, assert_never

from disarray.backfill.description import (
    HealthLimits,
    KindName,
    Processing,
    Rebuild,
    RebuildSpec,
    Replay,
    ReplaySpec,
    RepublishSpec,
    Resync,
    ResyncSpec,
    RetryPolicy,
    Source,
    Update,
    UpdateSpec,
    Verification,
)
from disarray.errors import ConfigError
from disarray.model.description.secret import SecretSource

if TYPE_CHECKING:
    from collections.abc import Mapping

    from disarray.backfill.description import BackfillSpec


def document_of_spec(spec: BackfillSpec) -> dict[str, Any]:
    """A description as it is stored with the job: every default is written out, secrets are named only."""
    return asdict(spec) | {"target": spec.target}


def spec_of_document(kind: str, document: Mapping[str, Any]) -> BackfillSpec:
    """The description behind what was stored."""
    if kind not in tuple(KindName):
        raise ConfigError(
            f"backfill '{document.get('name')}' is of kind '{kind}', which this program does not know. Nothing was "
            "changed; a newer one goes on with it"
        )
    name = KindName(kind)
    processing = dict(document["processing"])
    common: dict[str, Any] = {
        "name": document["name"],
        "processing": Processing(**{**processing, "retry": RetryPolicy(**processing["retry"])}),
        "health": HealthLimits(**document["health"]),
        "alert_threshold": document["alert_threshold"],
    }
    match name:
        case KindName.UPDATE:
            return _update_of_document(document, common)
        case KindName.REPUBLISH:
            return RepublishSpec(destination=document["destination"], **common)
        case KindName.REBUILD:
            rebuild = dict(document["rebuild"])
            subjects = rebuild["subjects"]
            return RebuildSpec(
                rebuild=Rebuild(
                    subjects=None if subjects is None else tuple(subjects),
                    versions={name: (parse, scan) for name, (parse, scan) in rebuild["versions"].items()},
                ),
                **common,
            )
        case KindName.REPLAY:
            replay = dict(document["replay"])
            lists = {
                name: None if replay[name] is None else tuple(replay[name])
                for name in ("datasets", "subjects")
            }
            versions = {name: (parse, scan) for name, (parse, scan) in replay["versions"].items()}
            return ReplaySpec(replay=Replay(**{**replay, **lists, "versions": versions}), **common)
        case KindName.RESYNC:
            return ResyncSpec(resync=Resync(**document["resync"]), **common)
        case _:
            assert_never(name)


def _update_of_document(document: Mapping[str, Any], common: dict[str, Any]) -> UpdateSpec:
    source, update = dict(document["source"]), dict(document["update"])
    url = source.pop("url")
    return UpdateSpec(
        source=Source(
            **{**source, "cursor": tuple(source["cursor"])},
            url=None if url is None else SecretSource(env=url["env"] or "", file=url["file"] or ""),
        ),
        update=Update(
            **{
                **update,
                "columns": tuple(update["columns"]),
                "set_columns": tuple(update["set_columns"]),
            }
        ),
        verification=Verification(**document["verification"]),
        **common,
    )
