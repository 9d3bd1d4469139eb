"""Where a Delta table lies: a folder or a bucket, opened with keys that are read when they are used.

A version of a table in a bucket is a put that succeeds only where there is no object of this name. So of two loaders
that commit at once, one is told that it came second, as in a folder.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.errors import DestinationMisfitError, DestinationUnavailableError, UnloadableRowsError
from disarray.sinks.destination_secrets import destination_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

    from disarray.errors import DestinationError
    from disarray.model.description.destination import DeltaTarget

# A server that is away is noticed by the loader, whose breaker tries again; waiting in here would hide it.
_PATIENCE = {"max_retries": "3", "retry_timeout": "15s", "connect_timeout": "5s", "timeout": "60s"}
_IMPATIENCE = {"max_retries": "0", "retry_timeout": "5s", "connect_timeout": "2s", "timeout": "5s"}
# Said here because the client would take them from the environment otherwise: where it writes, and whom it trusts.
_OURS = {
    "aws_virtual_hosted_style_request": "false",
    "aws_skip_signature": "false",
    "aws_s3_express": "false",
    "aws_ec2_metadata_disabled": "true",
    "allow_invalid_certificates": "false",
}
# Whatever is said of these, even nothing, is something else than not to say it.
_STRAY = {
    *("aws_session_token", "aws_token", "session_token", "token"),
    *("aws_copy_if_not_exists", "copy_if_not_exists"),
    *("aws_proxy_url", "proxy_url"),
}
_COLOUR = re.compile("\x1b\\[[0-9;]*m|↳")
# Frames of the client, of use to nobody who reads a message.
_TRACE = re.compile(" 0: <unknown>")
_REFUSED_ROWS = re.compile("([0-9]+) rows failed validation check")
_CODE = re.compile("<Code>([A-Za-z]+)</Code>")


@dataclass(frozen=True, slots=True)
class DeltaStore:
    """The folder or bucket of one Delta table. Its options hold secrets, and are shown nowhere."""

    target: DeltaTarget
    options: Mapping[str, str] = field(repr=False)

    @property
    def path(self) -> str:
        return self.target.path

    def open(self) -> DeltaTable:
        """The table at its newest version."""
        from deltalake import DeltaTable

        return DeltaTable(self.path, storage_options=dict(self.options))

    def create(self, schema: pa.Schema, *, partition_by: list[str]) -> DeltaTable:
        """The table, made unless somebody else just did."""
        from deltalake import DeltaTable

        if self.target.access is None:
            Path(self.path).mkdir(parents=True, exist_ok=True)
        return DeltaTable.create(
            self.path, schema, partition_by=partition_by, mode="ignore", storage_options=dict(self.options)
        )

    def log_names(self) -> list[str]:
        """The names of all entries of the log."""
        from pyarrow import fs

        return [each.base_name for each in self._files().get_file_info(fs.FileSelector("_delta_log"))]

    def delete(self, path: str) -> None:
        """Delete a file of the table, unless it is gone."""
        with suppress(FileNotFoundError):
            self._files().delete_file(path)

    def _files(self) -> FileSystem:
        """All files of the table, through the client that writes it.

        Unlike the table, it lets no other thread of this process run while it waits: so it does not wait for long.
        """
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        options = {**self.options, **(_IMPATIENCE if self.options else {})}
        return fs.PyFileSystem(DeltaStorageHandler(self.path, options))

    def failure(self, error: Exception) -> DestinationError:
        """What an error of the store means: who has to do something, and that nothing was changed."""
        text = _TRACE.split(" ".join(_COLOUR.sub(" ", str(error)).split()))[0]
        reason = self._without_secrets(text)
        shown, access = self.target.shown, self.target.access
        if (refused := _REFUSED_ROWS.search(reason)) is not None:
            return UnloadableRowsError(
                f"{shown} refuses {refused[1]} rows: a check or a not-null of the table. Nothing of this subject was "
                "loaded"
            )
        if access is not None:
            code = next(iter(_CODE.findall(reason)), "")
            if code == "NoSuchBucket":
                return DestinationMisfitError(
                    f"there is no bucket {self.target.bucket} for {shown}. Nothing was loaded. Create the bucket"
                )
            if "403 Forbidden" in reason or "401 Unauthorized" in reason:
                return DestinationMisfitError(
                    f"{shown} refuses the keys of {access.access_key} and {access.secret_key}"
                    f" ({code or 'AccessDenied'}). Nothing was loaded. They need to list, read, write and delete"
                )
            if "Server returned non-2xx" not in reason and "error sending request" in reason:
                return DestinationUnavailableError(
                    f"{shown} does not answer: {reason[-300:]}. What is due waits"
                )
        return DestinationUnavailableError(f"{shown} cannot be written: {reason[:500]}. What is due waits")

    def _without_secrets(self, text: str) -> str:
        # A server may repeat the key that it does not know.
        for name in "aws_access_key_id", "aws_secret_access_key":
            if name in self.options:
                text = text.replace(self.options[name], "********")
        return text


def open_store(target: DeltaTarget) -> DeltaStore:
    """The store of a target, with its keys as they are now."""
    access = target.access
    if access is None:
        return DeltaStore(target, {})
    _refuse_stray_variables(target)
    return DeltaStore(
        target,
        {
            "aws_access_key_id": destination_secret(access.access_key),
            "aws_secret_access_key": destination_secret(access.secret_key),
            "aws_region": access.region,
            "aws_endpoint_url": access.endpoint,
            "aws_endpoint_url_s3": access.endpoint,
            "aws_allow_http": str(access.endpoint.startswith("http://")).lower(),
            "aws_conditional_put": "etag",
            **_OURS,
            **_PATIENCE,
        },
    )


def _refuse_stray_variables(target: DeltaTarget) -> None:
    """Refuse an environment from which the client would take what nobody said of this bucket."""
    stray = sorted(name for name in os.environ if name.lower() in _STRAY)
    if stray:
        raise DestinationMisfitError(
            f"{target.shown} cannot be written as it is described: the client for buckets would also take "
            f"{', '.join(stray)} from the environment, and send it along, go through it, or commit in another way. "
            "Nothing was loaded. Start this process without"
        )
