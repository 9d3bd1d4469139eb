"""A function of the database is called by the module with the noun of its SQL file, and by no other."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import disarray.control

ROOM = Path(disarray.control.__file__).parent
CALLED = re.compile(r"\bdisarray\.(\w+)\(")


def functions_by_name() -> dict[str, str]:
    """The noun of the file that defines each function."""
    return {
        name: path.stem
        for path in (ROOM / "sql" / "functions").glob("*.sql")
        for name in re.findall(r"^create function disarray\.(\w+)", path.read_text("utf-8"), re.MULTILINE)
    }


def called_functions(module: Path) -> set[str]:
    """The functions of the database that statements of a module name."""
    texts = [
        node.value
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {name for text in texts for name in CALLED.findall(text)}


def nouns_of(module: str) -> set[str]:
    """What the SQL file of a module may be called: `files` is served by `file.sql`, `deliveries` by `delivery.sql`."""
    return {module, module.removesuffix("s"), module.removesuffix("ies") + "y"}


def test_every_function_is_called_by_the_module_with_the_noun_of_its_file() -> None:
    defined = functions_by_name()
    assert len(defined) > 100
    elsewhere = {
        f"{module.name}: {name} is in {defined[name]}.sql"
        for module in ROOM.glob("*.py")
        for name in called_functions(module)
        if name in defined and defined[name] not in nouns_of(module.stem)
    }
    assert elsewhere == set()
