"""Where one embedded server lives: its files, its socket and the two locks that keep it single."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.errors import EmbeddedServerError, ServerBusyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from disarray.embedded.account import Account

# Not XDG_RUNTIME_DIR: it is removed at logout while the server lives on, and a cron job has none.
_SOCKET_PARENT = Path("/tmp")  # noqa: S108 (the folder below it is private, and its ownership is checked)
_LOG_BYTES = 10 * 1024 * 1024
_TAIL_BYTES = 4096
_TAIL_LINES = 20


@dataclass(frozen=True)
class ServerFiles:
    """The files of one state folder."""

    state: Path

    @classmethod
    def of(cls, state_dir: Path) -> ServerFiles:
        return cls(Path(state_dir).resolve())

    @property
    def data(self) -> Path:
        return self.state / "postgres"

    @property
    def log(self) -> Path:
        return self.state / "postgres.log"

    @property
    def name(self) -> str:
        """The cluster name, which every process of this server bears in its title."""
        return "disarray-" + hashlib.sha256(os.fsencode(self.state)).hexdigest()[:16]

    @property
    def socket_directory(self) -> Path:
        """Short whatever the length of the project's path: a socket address holds 107 bytes."""
        return _SOCKET_PARENT / self.name

    @contextlib.contextmanager
    def turn(self, *, deadline: float) -> Iterator[None]:
        """Let one process at a time start or stop the server."""
        descriptor = _open_private(self.state / "postgres.lock", os.O_RDONLY)
        try:
            while not _try_lock(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise ServerBusyError(
                        f"Another process is still starting or stopping the server of {self.state}. "
                        f"Nothing was changed. See who: fuser -v {self.state / 'postgres.lock'}"
                    )
                time.sleep(0.05)
            yield
        finally:
            os.close(descriptor)

    def hold_alive_lock(self) -> int | None:
        """Return a descriptor that proves that no process of the server lives, or None while one does.

        Every process of the server inherits the descriptor and so keeps the lock: the kernel drops it with
        the last of them, be it the postmaster or a backend that outlived it. No pid can lie about that.
        """
        descriptor = _open_private(self._alive_lock, os.O_RDONLY)
        if _try_lock(descriptor, fcntl.LOCK_EX):
            return descriptor
        os.close(descriptor)
        return None

    def is_alive(self) -> bool:
        """Say whether any process of the server lives, without standing in the way of a start."""
        try:
            descriptor = os.open(self._alive_lock, os.O_RDONLY | os.O_NOFOLLOW)
        except FileNotFoundError:
            return False
        try:
            return not _try_lock(descriptor, fcntl.LOCK_SH)
        finally:
            os.close(descriptor)

    @property
    def _alive_lock(self) -> Path:
        return self.state / "postgres.alive"

    def open_log(self) -> int:
        """Open the log for appending; one that grew large is set aside first."""
        if self.log.exists() and self.log.lstat().st_size > _LOG_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))
        return _open_private(self.log, os.O_WRONLY | os.O_APPEND)

    def log_tail(self) -> str:
        """The last lines of the log, for an error message."""
        try:
            with self.log.open("rb") as log:
                log.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
                text = log.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-_TAIL_LINES:])

    def make_socket_directory(self, account: Account) -> None:
        """Make the private folder of the socket, or refuse one that somebody else made first."""
        directory = self.socket_directory
        try:
            directory.mkdir(mode=0o700)
            os.chown(directory, account.uid, account.gid, follow_symlinks=False)
        except FileExistsError:
            found = directory.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != account.uid:
                raise EmbeddedServerError(
                    f"{directory} should be a folder of {account.name} and is not: somebody else made it. "
                    f"The server was not started; the data is untouched. Remove {directory} and try again."
                ) from None
            # Safe after the check: in a sticky folder nobody but its owner can swap it.
            directory.chmod(0o700)


def remove_sockets(cluster_name: str, *, with_folder: bool = False) -> None:
    """Remove what a dead server left in its socket's folder, and the folder itself if asked."""
    folder = _SOCKET_PARENT / cluster_name
    for leftover in (".s.PGSQL.5432", ".s.PGSQL.5432.lock"):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            (folder / leftover).unlink()
    if with_folder:
        with contextlib.suppress(OSError):
            folder.rmdir()


def _open_private(path: Path, flags: int) -> int:
    """Open or make a file that belongs to the state folder's owner, never through a planted link."""
    descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    return descriptor


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
