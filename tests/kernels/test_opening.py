from __future__ import annotations

import os
from pathlib import Path

import pytest

from disarray.errors import UnsafePathError
from disarray.kernels.reading.opening import open_beneath


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "share"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "file.csv").write_bytes(b"inside")
    (tmp_path / "secret.csv").write_bytes(b"outside")
    return folder


def content(path: Path | str, root: Path) -> bytes:
    descriptor = open_beneath(str(path), [str(root)])
    try:
        return os.read(descriptor, 100)
    finally:
        os.close(descriptor)


def test_a_regular_file_beneath_a_root_is_opened(root: Path) -> None:
    assert content(root / "deep" / "file.csv", root) == b"inside"


def test_the_root_itself_may_be_reached_through_a_link(root: Path, tmp_path: Path) -> None:
    (tmp_path / "mount").symlink_to(root)
    assert content(tmp_path / "mount" / "deep" / "file.csv", tmp_path / "mount") == b"inside"


@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda root: root.parent / "secret.csv", id="outside every root"),
        pytest.param(lambda root: root / "deep" / ".." / ".." / "secret.csv", id="dots"),
        pytest.param(lambda root: root, id="the root itself"),
        pytest.param(lambda root: root / "deep", id="a directory"),
        pytest.param(
            lambda root: Path(f"{root}-twin/file.csv"), id="a sibling with the root's name in front"
        ),
        pytest.param(lambda root: root / "deep" / "new\nline.csv", id="a newline in the name"),
        pytest.param(lambda root: f"{root}/deep/nul\0.csv", id="a NUL in the name"),
        pytest.param(
            lambda root: _link(root / "link.csv", root.parent / "secret.csv"), id="a link out of the root"
        ),
        pytest.param(
            lambda root: _link(root / "link.csv", root / "deep" / "file.csv"), id="a link within the root"
        ),
        pytest.param(
            lambda root: _link(root / "way", root.parent) / "secret.csv", id="a linked folder on the way"
        ),
        pytest.param(lambda root: _fifo(root / "pipe.csv"), id="a FIFO that nobody writes to"),
    ],
)
def test_everything_else_is_refused(root: Path, build: object) -> None:
    assert callable(build)
    with pytest.raises(UnsafePathError):
        content(build(root), root)


def test_a_device_is_refused() -> None:
    with pytest.raises(UnsafePathError, match="character device"):
        open_beneath("/dev/zero", ["/dev"])


def test_a_file_swapped_for_a_link_between_look_and_open_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim = root / "deep" / "file.csv"
    really_open = os.open

    def swap_then_open(path: str, flags: int, *args: object, **options: object) -> int:
        if path == "file.csv":
            victim.unlink()
            victim.symlink_to(root.parent / "secret.csv")
        return really_open(path, flags, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", swap_then_open)
    with pytest.raises(UnsafePathError, match="symbolic link"):
        open_beneath(str(victim), [str(root)])


def test_a_vanished_file_is_not_called_unsafe(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        content(root / "deep" / "gone.csv", root)


def test_no_descriptor_is_left_open_by_a_refusal(root: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(UnsafePathError):
            content(root / "deep", root)
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def _link(path: Path, target: Path) -> Path:
    path.symlink_to(target)
    return path


def _fifo(path: Path) -> Path:
    os.mkfifo(path)
    return path
