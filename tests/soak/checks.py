"""Everything that is asked once the plant is at rest; each check answers in one line."""

from __future__ import annotations

import json
import subprocess
import time
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

from disarray.worker.upkeep.housekeeping import sweep, vacuum
from tests.soak.ledger import compare, stored_in
from tests.soak.stations import command, environment_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.soak.ledger import Balance
    from tests.soak.site import Site

_COMMAND_SECONDS = 1800


@dataclass(frozen=True)
class Verdict:
    """The answer to one check."""

    check: str
    is_good: bool
    said: str


def balance_of(site: Site, accepted: Mapping[str, str]) -> Balance:
    """The readings that can be read back, against those that the accepted files say."""
    exported = site.folder / "readings.parquet"
    ended = _run(site, "export", "readings", "--output", str(exported), "--format", "parquet")
    if ended.returncode != 0:
        raise RuntimeError(f"the export ended with {ended.returncode}: {ended.stderr[-2000:]}")
    return compare(accepted, stored_in(pq.read_table(exported)))


def verified(site: Site) -> Verdict:
    """Whether `disarray verify` computes the same bits from the files."""
    # Nobody else is there any more: it may have the machine.
    settings = site.folder / "disarray.toml"
    settings.write_text(settings.read_text().replace("local[1]", "local[*]").replace("768m", "2g"))
    began = time.monotonic()
    ended = _run(site, "verify", "--json")
    seconds = time.monotonic() - began
    try:
        report = json.loads(ended.stdout)
    except ValueError:
        return Verdict("verify", False, ended.stderr[-2000:])
    compared = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report["compared"].items())
    if not report["identical"]:
        rest = {key: report[key][:3] for key in ("differences", "unproven", "not_compared")}
        return Verdict("verify", False, f"{compared}; {json.dumps(rest)}")
    return Verdict("verify", True, f"identical in {seconds:.0f} s: {compared}")


def swept(site: Site) -> Verdict:
    """Whether the lake holds what the catalog names, and nothing else, once it was vacuumed and swept."""
    rules = replace(site.house.housekeeping, vacuum_after=timedelta(0))
    place = replace(site.house, housekeeping=rules)
    root = place.lake.root
    with place.pool.connection() as connection:
        dead, left_behind = vacuum(connection, place), sweep(connection, place)
        named: dict[str, int] = dict(
            connection.execute("select path, bytes from disarray.lake_file").fetchall()
        )
    on_disk = {str(path.relative_to(root)): path.stat().st_size for path in root.rglob("*") if path.is_file()}
    orphans, missing = on_disk.keys() - named.keys(), named.keys() - on_disk.keys()
    torn = [path for path in on_disk.keys() & named.keys() if on_disk[path] != named[path]]
    said = (
        f"{len(named):,} files; {len(orphans)} orphans, {len(missing)} missing, {len(torn)} of another size, after "
        f"{len(dead)} dead files and {len(left_behind)} orphans of killed workers were removed"
    )
    return Verdict("lake is what the catalog names", not (orphans or missing or torn), said)


def ended_well(site: Site) -> Verdict:
    """Whether every process ends with 0 when it is asked to."""
    site.supervisor.stop()
    codes = {station.name: station.end() for station in site.stations}
    return Verdict("processes end when asked", set(codes.values()) == {0}, str(codes))


def audited(site: Site) -> Verdict:
    """What `disarray audit` finds in database and lake, with patience for nothing."""
    ended = _run(site, "audit", "--deep", "--patience", "0 s", "--json")
    try:
        rules = json.loads(ended.stdout)["rules"]
    except ValueError:
        return Verdict("audit", False, ended.stderr[-2000:])
    if ended.returncode != 0:
        broken = [rule for rule in rules if rule["findings"]]
        return Verdict("audit", False, json.dumps(broken)[:3000])
    return Verdict("audit --deep", True, f"{len(rules)} rules hold")


def _run(site: Site, *arguments: str) -> subprocess.CompletedProcess[str]:
    asked = command("--dsn", site.postgres.dsn, *arguments)
    try:
        return subprocess.run(
            asked,
            cwd=site.folder,
            env=environment_of({}),
            capture_output=True,
            text=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        # The table is worth more than one of its lines.
        return subprocess.CompletedProcess(asked, 1, "", f"no answer in {_COMMAND_SECONDS} s")
