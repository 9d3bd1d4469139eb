"""Examples of requests and answers, made from the same types as the schemas: each name has its value here, once."""

from __future__ import annotations

from dataclasses import is_dataclass
from datetime import datetime
from enum import Enum
from typing import Any, get_args, get_origin

from disarray import __version__
from disarray.web.schema import members_of, undecorated, without_none

_FILE = "file:///data/reports/TOOL07/2026-10-02.csv"
_HASH = "9f2a6d1be7c04f58"
_RUN = "3f8a1c5e-9f0b-4c53-8d7e-2b1a6c4d5e6f"
_NAMES: dict[str, object] = {
    "aggregate": "mean",
    "attempts": 5,
    "available": 3,
    "base": 1498.75,
    "bucket": "clock",
    "causes": "2026-10-02.csv",
    "channel": "",
    "claimed_by_instance_name": None,
    "columns": ["watts", "good"],
    "content_hash": _HASH,
    "created_by": "ada",
    "dataset": "tools",
    "delta": 24.5,
    "description": "Hourly reports of the tools",
    "detail": "expected 1 to 1000",
    "discarded_at": None,
    "event_type": "completed",
    "failed_at": None,
    "failed_request": None,
    "files": 17,
    "final": True,
    "first_old": 1474.25,
    "first_new": 1498.75,
    "function": "avg",
    "greatest": 24.5,
    "held_by": None,
    "input": "watts",
    "instance_name": "Worker01",
    "kind": "read",
    "label": "",
    "lane": "live",
    "last_error": None,
    "lease_expires_at": None,
    "least": 24.5,
    "length_us": 3_600_000_000,
    "limit": 100,
    "local": 24.5,
    "loser": "file:///data/reports/TOOL07/copy.csv",
    "message": None,
    "metadata": {"reason": "file_notification", "content_hash": _HASH},
    "metric": "energy",
    "new": 1523.25,
    "next": None,
    "old": 1498.75,
    "parked_at": None,
    "parked_hash": None,
    "paused_at": None,
    "queue_id": 17,
    "reason": "the export was mended",
    "rejected_hash": None,
    "repair_amplification": 1.25,
    "revoked_at": None,
    "revoked_by": None,
    "rollup": "hourly",
    "run_id": _RUN,
    "segment": {
        "segment_us": 1_790_928_000_000_000,
        "readings": 120,
        "files": [{"source_uri": _FILE, "readings": 120}],
    },
    "segment_us": 3_600_000_000,
    "source_uri": _FILE,
    "stale_from": None,
    "store": "lake",
    "subject_key": "TOOL07",
    "subject_patterns": ["TOOL0*"],
    "token_name": "grafana",
    "type": "float64",
    "unit": "Wh",
    "value": 1523.25,
    "where": None,
    "why": "beyond the horizon",
    "winner": _FILE,
    "zone": "UTC",
}
# Of lists and objects: what one entry is called.
_ENTRIES = {
    "metrics": "metric",
    "rollups": "rollup",
    "source_uris": "source_uri",
    "subject_keys": "subject_key",
}
_OBJECTS: dict[str, object] = {
    "files": {"processed": 17},
    "queue_ids": {_FILE: 17},
    "values": {"mean": 24.5},
}
_BACKFILL: dict[str, object] = {
    "kind": "update",
    "name": "fill_net",
    "target": "shop.orders",
    "state": "running",
    "rows_estimated": 5_000_000,
    "rows_done": 1_250_000,
    "rows_written": 1_250_000,
    "rows_per_second": 21_000.0,
    "eta_seconds": 178.6,
    "rate_limit": 25_000.0,
    "held_by": "rate",
    "held_reason": "25000 rows a second is the limit; the next chunk is due in 0.12 s",
    "ended_at": None,
    "verdict": None,
    "verified_at": None,
    "state_reason": None,
    "started_by": "ada",
}
# Where a name has another meaning than elsewhere.
_IN_TYPE: dict[str, dict[str, object]] = {
    "Backfill": _BACKFILL,
    "BackfillDetails": {**_BACKFILL, "verdict_details": None, "dead_chunks": [], "findings": []},
    "Verification": {
        "subjects_identical": 37,
        "subjects_identical_in_part": 2,
        "subjects_different": 1,
        "subjects_unproven": 0,
        "subjects_not_final": 0,
        "subjects_never": 2,
        "different": ["TOOL07"],
    },
    "DeadLetter": {"reason": "file_notification", "last_error": "no column of the dataset is in the file"},
    "Duplicates": {
        "readings_seen": 500,
        "readings_kept": 470,
        "readings_duplicate": 20,
        "readings_rejected": 5,
        "readings_parked": 4,
        "lines_blank": 1,
    },
    "InitialLoadProgress": {
        "state": "running",
        "chunks_done": 12,
        "chunks": 50,
        "is_cut": False,
        "open_transactions": 0,
        "rows_estimated": 5_000_000,
        "rows_taken": 1_200_000,
        "rows_rejected": 0,
        "rows_per_second": 110_000.0,
        "ended_at": None,
        "notices": [],
    },
    "Sink": {
        "name": "hourly",
        "target": "plant.hourly in the database of environment WAREHOUSE_URL",
        "load": "upsert",
        "state": "current",
        "subjects_behind": 0,
        "subjects_failing": 0,
        "lag_commits": 0,
        "lag_seconds": 0.0,
        "pause_reason": None,
        "last_error_at": None,
    },
    "SinkSubject": {"lag_commits": 0, "lag_seconds": 0.0, "whole_due": False, "last_error_at": None},
    "View": {
        "name": "cells_by_day",
        "schema_name": "telemetry",
        "unique_key": ["subject_key", "day"],
        "depends_on": ["cells"],
        "at_most_every_seconds": 300.0,
        "timeout_seconds": 600,
        "state": "fresh",
        "lag_commits": 0,
        "lag_seconds": 0.0,
        "commit_position": 17,
        "failure_count": 0,
        "last_error_at": None,
        "applied_by": "ada",
    },
    "ViewRefresh": {"commit_position": 17, "seconds": 0.8, "error": None},
    "ViewStory": {"query": "select subject_key, count(*) as readings from cells_running group by 1"},
    "EventRejected": {"index": 2, "reason": "it has no stroke, which tells events apart"},
    "EventsRecorded": {"seen": 3, "new": 1, "duplicate": 1},
    "File": {"status": "processed", "retry_count": 0, "parent_uri": None},
    "FileStory": {
        "status": "processed",
        "retry_count": 0,
        "metadata": {"lines": {"seen": 120, "kept": 120}},
        "fragments": {"active": {"fragments": 1, "readings": 120}},
        "rejected_count": 0,
        "conflicts": {"won": 0, "lost": 0},
        "blacklist": None,
        "delivery": None,
        "parent_uri": None,
        "parts": [],
    },
    "Health": {"version": __version__},
    "Hook": {
        "hook_name": "quality",
        "kind": "webhook",
        "causes": ["restatement"],
        "subject_patterns": ["*"],
        "dataset_patterns": ["tools"],
        "larger_than": {"energy": 0.5},
        "no_data_since_seconds": None,
        "stale_longer_than_seconds": None,
        "definition": {
            "kind": "webhook",
            "timeout_seconds": 10.0,
            "url": "https://hooks.example.com/disarray",
        },
        "ended_at": None,
        "pending": 0,
        "sending": 0,
        "done": 17,
        "dead": 0,
        "last_reason": None,
    },
    "BackfillOrder": {"reason": "the shop has its sale"},
    "BackfillPaceAsked": {"rate_limit": 25_000.0, "max_concurrency": 2, "reason": "the shop has its sale"},
    "BackfillPace": {"rate_limit": 25_000.0, "max_concurrency": 2},
    "BackfillStanding": {"state": "running"},
    "InstanceStanding": {"state": "paused"},
    "MetricDefinition": {"kind": "integral"},
    "Misfit": {"pointer": None, "parameter": "limit"},
    "ProblemDocument": {
        "type": "urn:disarray:problem:not-as-documented",
        "title": "not as documented",
        "status": 400,
        "detail": "limit: expected 1 to 1000. Nothing was done. See /api/v1/openapi.json.",
        "request_id": "5d1f0c0e8a7b4b3c9d2e1f0a6b7c8d9e",
    },
    "QueueItem": {"reason": "file_notification", "retry_count": 0, "max_retries": 5},
    "QueueItemStory": {"status": "completed", "item": None},
    "SideEffect": {
        "effect_id": 17,
        "idempotency_key": "afbf78e9b8357556b1366e18a818e1923a34e2324cdb485dc3d012b7213c6c52",
        "hook_name": "quality",
        "cause": "restatement",
        "summary": "published values of TOOL07 in tools changed in 1 span of time",
        "details": {"run_id": _RUN, "span_count": 1},
        "state": "done",
        "attempts": 1,
        "accepted": [],
        "answer_status": "200 OK",
        "answer": '{"ok": true}',
        "reason": None,
    },
    "Source": {
        "pipeline_name": "historian",
        "table_name": "public.readings",
        "watermark": "timestamp",
        "settled": ["2026-10-02T08:00:00Z"],
        "cursor_to": "2026-10-02T08:00:07Z",
        "last_error_at": None,
        "paused_at": None,
        "pause_reason": None,
        "notices": [],
    },
    "Status": {"unserved_subjects": []},
    "TokenEnded": {"revoked_now": True},
}
_INSTANTS = {"last": "2026-10-02T08:59:30Z", "end": "2026-10-02T09:00:00Z", "to": "2026-10-02T09:00:00Z"}


def example_of(hint: Any, name: str = "") -> Any:
    """A value that a schema allows, such as it could be."""
    plain, _ = undecorated(hint)
    inner, is_nullable = without_none(plain)
    inner, _ = undecorated(inner)
    if is_nullable and name in _NAMES and _NAMES[name] is None:
        return None
    origin, arguments = get_origin(inner), get_args(inner)
    if isinstance(inner, type) and is_dataclass(inner):
        own = _IN_TYPE.get(inner.__name__, {})
        return {
            member.name: own[member.name] if member.name in own else example_of(member.type, member.name)
            for member in members_of(inner)
        }
    if isinstance(inner, type) and issubclass(inner, Enum):
        return next(iter(inner)).value
    if inner is datetime:
        return _INSTANTS.get(name, "2026-10-02T08:00:00Z")
    if origin is list:
        named = _NAMES.get(name)
        if isinstance(named, list) or get_origin(arguments[0]) is dict:
            return named or []
        return [example_of(arguments[0], _ENTRIES.get(name, name))]
    if origin is dict:
        named = _OBJECTS.get(name, _NAMES.get(name))
        return named if isinstance(named, dict) else {}
    if inner is bool:
        return _NAMES.get(name, False) is True
    if inner in (int, float):
        named = _NAMES.get(name)
        return named if isinstance(named, int | float) else 1
    named = _NAMES.get(name)
    return name if named is None else named
