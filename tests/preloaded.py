"""What commands import before they do anything: imported once, by the process that they are forked from."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import disarray
from disarray.formats.loader import shipped_descriptions

# Imported by libraries when a command first reads an option or draws a table.
_LATER = (
    "pyspark.sql",
    "rich.live",
    "rich.progress",
    "rich.table",
    "typer._adapters",
    "typer._click.decorators",
)

for _module in pkgutil.walk_packages(disarray.__path__, "disarray."):
    if not _module.name.endswith(".__main__"):
        importlib.import_module(_module.name)
for _name in _LATER:
    importlib.import_module(_name)
shipped_descriptions()
# A collection in a forked process would copy every page of what is here.
gc.collect()
gc.freeze()
