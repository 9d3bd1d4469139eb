"""The urls of destinations, read where and when they are used: they travel with no task and are kept nowhere."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.errors import DestinationMisfitError

if TYPE_CHECKING:
    from disarray.model.description.destination import Secret


def read_secret(secret: Secret, *, where: str = "") -> str:
    """What an environment variable or a file says; the error names where it was sought and nothing else."""
    if secret.variable:
        value = os.environ.get(secret.variable, "")
    else:
        try:
            value = Path(secret.file).read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
            raise DestinationMisfitError(
                f"{secret.shown} cannot be read{where}: {reason}. Nothing was loaded"
            ) from None
    if not value:
        raise DestinationMisfitError(f"{secret.shown} says nothing{where}. Nothing was loaded")
    return value
