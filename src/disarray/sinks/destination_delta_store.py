"""Where a Delta table lies: a folder or a bucket, opened with keys that are read when they are used.

A version of a table in a bucket is a put that succeeds only where there is no object of this name. So of two loaders
that commit at once, one is told that it came second, as in a folder.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.errors import DestinationMisfitError, DestinationUnavailableError
from disarray.sinks.destination_secrets import read_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from deltalake import DeltaTable
    from pyarrow.fs import FileSystem

    from disarray.errors import DestinationError
    from disarray.model.description.destination import DeltaTarget

# A server that is away is noticed by the loader, whose breaker tries again; waiting in here would hide it.
_PATIENCE = {"max_retries": "3", "retry_timeout": "15s", "connect_timeout": "5s", "timeout": "60s"}
_COLOUR = re.compile("\x1b\\[[0-9;]*m|↳")
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

    def delete_log(self, name: str) -> None:
        """Delete an entry of the log, unless it is gone."""
        try:
            self._files().delete_file(f"_delta_log/{name}")
        except FileNotFoundError:
            return

    def _files(self) -> FileSystem:
        """All files of the table, through the client that writes it."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow import fs

        return fs.PyFileSystem(DeltaStorageHandler(self.path, dict(self.options)))

    def failure(self, error: Exception) -> DestinationError:
        """What an error of the store means: who has to do something, and that nothing was changed."""
        reason = self._without_secrets(" ".join(_COLOUR.sub(" ", str(error)).split()))
        shown, access = self.target.shown, self.target.access
        if access is not None:
            code = next(iter(_CODE.findall(reason)), "")
            if code == "NoSuchBucket":
                return DestinationMisfitError(
                    f"there is no bucket {self.target.bucket} for {shown}. Nothing was loaded. Create the bucket"
                )
            if "403 Forbidden" in reason or "401 Unauthorized" in reason:
                return DestinationMisfitError(
                    f"{shown} refuses the keys of {access.access_key.shown} and {access.secret_key.shown}"
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
    return DeltaStore(
        target,
        {
            "aws_access_key_id": read_secret(access.access_key),
            "aws_secret_access_key": read_secret(access.secret_key),
            "aws_region": access.region,
            "aws_endpoint_url": access.endpoint,
            "aws_allow_http": str(access.endpoint.startswith("http://")).lower(),
            "aws_conditional_put": "etag",
            **_PATIENCE,
        },
    )
