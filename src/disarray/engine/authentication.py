"""Who may talk to Spark's own ports. Without an import of pyspark, so that a check costs nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# With these Spark makes a secret for each application and hands it to its executors by itself.
_OWN_SECRET = re.compile(r"local(\[.*\])?|yarn|k8s://.*")


def makes_its_own_secret(master: str) -> bool:
    """Whether Spark can authenticate its connections without being given a secret."""
    return _OWN_SECRET.fullmatch(master) is not None


def is_authenticated(settings: Mapping[str, str]) -> bool:
    """Whether a session with these settings, as `[spark]` has them, refuses processes that do not know its secret."""
    by_default = makes_its_own_secret(settings.get("spark.master", "local[*]"))
    return settings.get("spark.authenticate", "true" if by_default else "false").lower() == "true"
