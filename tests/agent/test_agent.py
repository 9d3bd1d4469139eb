"""The agent as a whole: files appear, grow, vanish, and what is announced about them."""

from __future__ import annotations

import logging
import os
import shutil
import socket
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disarray.agent.settings import MEGABYTE
from disarray.kernels.reading.opening import open_beneath
from disarray.model.duration import DAY, HOUR, MINUTE, SECOND
from disarray.model.notification import Reason
from disarray.model.uris import file_uri
from tests.agent.conftest import DATASETS, Lab
from tests.hashes import content_hash_of

if TYPE_CHECKING:
    from disarray.model.notification import Notification

LINE = "2024-01-01T00:00:00Z,1\n"


def told(news: list[Notification]) -> list[tuple[str, str]]:
    return sorted((each.source_uri.rpartition("/")[2], each.reason.value) for each in news)


def test_importing_the_agent_needs_nothing_that_a_lab_pc_does_not_carry() -> None:
    needed = "disarray.agent.agent, disarray.broker.publisher, disarray.cli.commands.agent"
    code = f"import sys, {needed}; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    heavy = {"pyspark", "pyarrow", "numpy", "psycopg", "psycopg_pool", "zstandard"}
    assert not heavy & {module.partition(".")[0] for module in modules}


def test_a_new_file_is_announced_with_dataset_subject_and_the_hash_that_the_worker_computes(lab: Lab) -> None:
    path = lab.write("TOOL07/day/a b.csv", LINE)
    [news] = lab.after()
    assert news.source_uri == file_uri(str(path))
    assert news.subject_key == "TOOL07"
    assert news.reason is Reason.FILE_NOTIFICATION
    assert news.metadata == {"content_hash": content_hash_of(path), "dataset": "tool", "size": len(LINE)}


def test_an_unchanged_or_merely_touched_file_is_not_announced_again(lab: Lab) -> None:
    lab.write("TOOL07/a.csv", LINE)
    assert len(lab.after()) == 1
    assert lab.after() == []
    lab.touch("TOOL07/a.csv", age_s=-5)
    assert lab.after() == []


def test_a_growing_file_is_announced_each_time_and_once_more_when_quiet(lab: Lab) -> None:
    path = lab.write("TOOL07/a.csv", LINE)
    hashes = []
    for _ in range(3):
        [news] = lab.after()
        hashes.append(news.metadata["content_hash"])
        with path.open("a") as file:
            file.write(LINE)
        lab.touch("TOOL07/a.csv")
    [grown] = lab.after()
    assert len({*hashes, grown.metadata["content_hash"]}) == 4
    assert lab.minutes(9) == []
    [quiet] = lab.minutes(2)
    assert (quiet.reason, quiet.metadata["content_hash"]) == (Reason.QUIET, content_hash_of(path))
    assert lab.minutes(20) == []


def test_growth_is_hashed_from_where_the_file_ended(lab: Lab) -> None:
    path = lab.write("TOOL07/a.csv", os.urandom(5 * 2**20 + 100))
    lab.after()
    before = lab.agent.counts.bytes_read
    with path.open("ab") as file:
        file.write(b"x" * 50)
    lab.touch("TOOL07/a.csv")
    [news] = lab.after()
    assert news.metadata["content_hash"] == content_hash_of(path)
    # The first block, and the block in which the file ended: once to compare, once to go on.
    assert lab.agent.counts.bytes_read - before == 2**20 + 100 + 150


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(b"B" * 100, id="same size"),
        pytest.param(b"A" * 50, id="shorter"),
        pytest.param(b"B" * 100 + b"C" * 100, id="longer with another start"),
        pytest.param(b"", id="emptied"),
    ],
)
def test_a_rewritten_file_is_announced_with_its_new_hash(lab: Lab, changed: bytes) -> None:
    lab.write("TOOL07/a.csv", b"A" * 100)
    lab.after()
    path = lab.write("TOOL07/a.csv", changed)
    [news] = lab.after()
    assert news.metadata["content_hash"] == content_hash_of(path)


def test_a_file_replaced_under_the_same_size_and_time_is_seen_by_its_inode(lab: Lab) -> None:
    lab.write("TOOL07/a.csv", b"A" * 100)
    lab.after()
    other = lab.write("TOOL07/b.tmp", b"B" * 100, age_s=1)
    other.replace(lab.share / "TOOL07/a.csv")
    assert len(lab.after()) == 1


def test_a_change_that_leaves_no_trace_is_found_when_the_file_goes_quiet(lab: Lab) -> None:
    path = lab.write("TOOL07/a.csv", b"A" * 100)
    lab.after()
    stamp = path.stat().st_mtime_ns
    path.write_bytes(b"B" * 100)
    os.utime(path, ns=(stamp, stamp))
    assert lab.after() == []
    [news] = lab.minutes(11)
    assert (news.reason, news.metadata["content_hash"]) == (Reason.FILE_NOTIFICATION, content_hash_of(path))
    assert [each.reason for each in lab.minutes(11)] == [Reason.QUIET]


def test_a_change_in_an_old_file_that_leaves_no_trace_is_found_by_the_deep_rescan(lab: Lab) -> None:
    path = lab.write("TOOL07/a.csv", b"A" * 100)
    lab.after()
    lab.minutes(11)
    stamp = path.stat().st_mtime_ns
    path.write_bytes(b"B" * 100)
    os.utime(path, ns=(stamp, stamp))
    news = [each for _ in range(10) for each in lab.after(DAY / SECOND)]
    assert content_hash_of(path) in {each.metadata["content_hash"] for each in news}


def test_every_file_is_announced_again_each_day_as_it_was_in_case_that_a_message_was_lost(lab: Lab) -> None:
    lab.write("TOOL07/a.csv", LINE)
    lab.after()
    [quiet] = lab.minutes(11)
    read = lab.agent.counts.bytes_read
    assert lab.after(HOUR / SECOND) == []
    reminded = [each for _ in range(3) for each in lab.after(DAY / SECOND / 2)]
    assert reminded == [quiet]
    assert lab.agent.counts.bytes_read == read


def test_files_that_were_there_before_are_quiet_at_once_if_they_are_old(lab: Lab) -> None:
    lab.write("TOOL07/old.csv", LINE, age_s=3_600)
    lab.write("TOOL07/fresh.csv", LINE + LINE, age_s=60)
    lab.start()
    assert told(lab.after()) == [("fresh.csv", "file_notification"), ("old.csv", "quiet")]


def test_a_late_copy_with_an_old_time_waits_for_its_quiet_like_any_new_file(lab: Lab) -> None:
    lab.write("TOOL07/late.csv", LINE, age_s=30 * 86_400)
    assert told(lab.after()) == [("late.csv", "file_notification")]
    assert told(lab.minutes(11)) == [("late.csv", "quiet")]


def test_a_final_drain_counts_every_file_as_quiet(lab: Lab) -> None:
    lab.write("TOOL07/a.csv", LINE)
    assert lab.agent.drain(is_final=True).is_complete
    assert told(lab.transport.news()) == [("a.csv", "quiet")]


def test_temporary_names_and_files_of_no_dataset_are_ignored(lab: Lab) -> None:
    for name in (".a.csv", "~a.csv", "a.csv.part", "a.csv.TMP", "a.crdownload", ".hidden/a.csv", "readme.md"):
        lab.write(f"TOOL07/{name}", LINE)
    assert lab.after() == []
    (lab.share / "TOOL07/a.csv.part").rename(lab.share / "TOOL07/a.csv")
    assert told(lab.after()) == [("a.csv", "file_notification")]


def test_old_files_are_looked_at_rarely_and_young_ones_at_every_scan(lab: Lab) -> None:
    lab.write("TOOL07/old.csv", LINE, age_s=3 * 86_400)
    lab.start()
    lab.after()
    for name in ("old.csv", "young.csv"):
        lab.write(f"TOOL07/{name}", LINE + LINE)
    assert told(lab.after()) == [("young.csv", "file_notification")]
    assert told(lab.after(60)) == [("old.csv", "file_notification")]
    lab.write("TOOL07/old.csv", LINE * 3)  # it is young again
    assert told(lab.after()) == [("old.csv", "file_notification")]


def test_a_share_that_disappears_and_returns_costs_nothing(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(20):
        lab.write(f"TOOL07/{number}.csv", f"{number}\n")
    assert len(lab.after()) == 20
    read = lab.agent.counts.bytes_read
    lab.share.rename(lab.folder / "away")
    with caplog.at_level(logging.WARNING):
        assert [lab.after() for _ in range(3)] == [[], [], []]
    assert len([record for record in caplog.records if "cannot read" in record.message]) == 1
    (lab.folder / "away").rename(lab.share)
    assert lab.after() == []
    assert lab.agent.counts.bytes_read == read


def test_an_unmounted_share_that_leaves_an_empty_folder_costs_nothing_either(lab: Lab) -> None:
    lab.write("TOOL07/a.csv", LINE)
    lab.after()
    lab.share.rename(lab.folder / "away")
    lab.share.mkdir()
    assert lab.after() == []
    lab.start()
    assert lab.after(5 * DAY / SECOND) == []
    lab.share.rmdir()
    (lab.folder / "away").rename(lab.share)
    assert [each.reason for each in lab.minutes(20)] == [Reason.QUIET]


def test_a_file_that_is_gone_for_a_month_is_forgotten_and_new_when_it_returns(lab: Lab) -> None:
    path = lab.write("TOOL07/a.csv", LINE)
    lab.after()
    path.rename(lab.folder / "kept")
    lab.after()
    lab.after(31 * DAY / SECOND)
    assert lab.state is not None
    assert list(lab.state.files()) == []
    (lab.folder / "kept").rename(path)
    assert told(lab.after()) == [("a.csv", "file_notification")]


def test_a_file_that_returns_in_time_is_not_forgotten(lab: Lab) -> None:
    path = lab.write("TOOL07/a.csv", LINE)
    lab.after()
    path.rename(lab.folder / "kept")
    lab.after()
    (lab.folder / "kept").rename(path)
    lab.after()
    lab.after(31 * DAY / SECOND)
    lab.after()
    assert lab.state is not None
    assert [known.size for _, known in lab.state.files()] == [len(LINE)]


def test_links_pipes_sockets_and_odd_names_are_refused_and_reported_once(
    lab: Lab, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = lab.folder / "secret.csv"
    secret.write_text(LINE)
    folder = lab.share / "TOOL07"
    folder.mkdir()
    (folder / "link.csv").symlink_to(secret)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.csv")
    with socket.socket(socket.AF_UNIX) as unix:
        monkeypatch.chdir(folder)  # the path of a socket has to be short
        unix.bind("unix.csv")
    (folder / "new\nline.csv").write_text(LINE)
    (folder / os.fsdecode(b"latin\xe9.csv")).write_text(LINE)
    lab.write("TOOL07/good.csv", LINE)
    with caplog.at_level(logging.WARNING):
        assert told([*lab.after(), *lab.after()]) == [("good.csv", "file_notification")]
    refused = [record.message for record in caplog.records if record.message.startswith("refused")]
    assert len(refused) == 6
    assert lab.agent.counts.refused == 6


def test_an_unreadable_folder_does_not_stop_the_others(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.write("TOOL01/a.csv", LINE)
    lab.write("TOOL02/a.csv", LINE)
    listed = os.scandir

    def refuse_one(folder: str) -> object:
        if folder.endswith("TOOL01"):
            raise PermissionError(13, "Permission denied", folder)
        return listed(folder)

    with monkeypatch.context() as patched:  # file modes do not hinder root, under whom tests may run
        patched.setattr("os.scandir", refuse_one)
        assert [each.subject_key for each in lab.after()] == ["TOOL02"]
    assert [each.subject_key for each in lab.after()] == ["TOOL01"]


def test_a_file_without_a_subject_is_refused_and_taken_once_its_name_is_mended(lab: Lab) -> None:
    path = lab.write("TOOLS/a.csv", LINE)
    assert lab.after() == []
    assert lab.agent.counts.refused == 1
    path.parent.rename(lab.share / "TOOL9")
    assert [each.subject_key for each in lab.after()] == ["TOOL9"]


def test_the_subject_of_a_preamble_is_read_once_it_is_there(lab: Lab) -> None:
    lab.write("cells/a.txt", "Cycler 7\n")
    assert lab.after() == []
    lab.write("cells/a.txt", "Cycler 7\nSerial: CEL")
    assert lab.after() == []
    lab.write("cells/a.txt", "Cycler 7\nSerial: CELL42\ntime,value\n")
    [news] = lab.after()
    assert (news.subject_key, news.metadata["dataset"]) == ("CELL42", "cell")
    lab.write("cells/a.txt", "Cycler 7\nSerial: CELL42\ntime,value\n" + LINE)
    assert [each.subject_key for each in lab.after()] == ["CELL42"]


def test_a_preamble_that_names_no_subject_is_refused_until_the_file_changes(lab: Lab) -> None:
    lab.write("cells/a.txt", "time,value\n" + LINE)
    assert lab.after() == []
    assert lab.agent.counts.refused == 1
    lab.write("cells/a.txt", "Serial: CELL42\ntime,value\n" + LINE)
    assert [each.subject_key for each in lab.after()] == ["CELL42"]


def test_a_restarted_agent_knows_what_it_knew(lab: Lab) -> None:
    lab.write("TOOL07/a.csv", LINE)
    lab.write("cells/a.txt", "Serial: CELL42\ntime,value\n")
    assert len(lab.after()) == 2
    lab.start()
    assert lab.after() == []
    assert lab.agent.counts.bytes_read == 0


def test_other_rules_make_files_be_matched_anew(lab: Lab) -> None:
    lab.write("TOOL07/a.csv", LINE)
    lab.after()
    other = DATASETS.replace("^(?P<subject>TOOL", "^TOOL(?P<subject>")
    (lab.folder / "disarray.toml").write_text(other)
    lab.start()
    assert [each.subject_key for each in lab.after()] == ["07"]


def test_nothing_is_lost_while_the_broker_is_away_and_the_order_is_kept(lab: Lab) -> None:
    lab.transport.is_away = True
    path = lab.write("TOOL07/a.csv", LINE)
    for _ in range(5):
        lab.after()
        with path.open("a") as file:
            file.write(LINE)
        lab.touch("TOOL07/a.csv")
    lab.start()  # the spool survives the agent
    lab.transport.is_away = False
    sizes = [each.metadata["size"] for each in lab.after(60)]
    assert sizes == [len(LINE) * count for count in range(1, 7)]
    assert lab.agent.backlog_bytes == 0


def test_a_full_spool_stops_the_scan_and_the_files_themselves_are_the_backlog(lab: Lab) -> None:
    lab.start(replace(lab.settings, spool_bytes=2_000, read_budget_files=5))
    lab.transport.is_away = True
    for number in range(40):
        lab.write(f"TOOL07/{number}.csv", f"{number}\n")
    for _ in range(20):
        lab.after(60)
    assert 2_000 <= lab.agent.backlog_bytes < 4_000
    lab.transport.is_away = False
    news = [each for _ in range(60) for each in lab.after(60)]
    assert {each.source_uri.rpartition("/")[2] for each in news} == {f"{number}.csv" for number in range(40)}


def test_a_subject_without_a_worker_holds_up_no_other(lab: Lab) -> None:
    lab.transport.unroutable = frozenset({"TOOL01"})
    lab.write("TOOL01/a.csv", LINE)
    lab.write("TOOL02/a.csv", LINE)
    assert [each.subject_key for each in lab.after()] == ["TOOL02"]
    lab.write("TOOL02/b.csv", LINE)
    assert [each.subject_key for each in lab.after()] == ["TOOL02"]
    lab.transport.unroutable = frozenset()
    assert [each.subject_key for each in lab.after(31)] == ["TOOL01"]


def test_fresh_files_come_before_a_backlog(lab: Lab) -> None:
    for number in range(12):
        lab.write(f"TOOL07/{number:02d}.csv", f"{number}\n", age_s=7_200 + number)
    lab.write("TOOL07/fresh.csv", LINE, age_s=1)
    lab.start(replace(lab.settings, read_budget_files=5))
    names = [each.source_uri.rpartition("/")[2] for each in lab.after()]
    assert names == ["fresh.csv", "00.csv", "01.csv", "02.csv", "03.csv"]
    rest = [each for _ in range(3) for each in lab.after(0)]
    assert len(rest) == 8
    assert {each.reason for each in rest} == {Reason.QUIET}  # still the backlog of the start


def test_a_file_that_vanishes_between_listing_and_looking_is_passed_over(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = lab.write("TOOL07/gone.csv", LINE)
    lab.write("TOOL07/here.csv", LINE)

    def open_late(path: str, roots: tuple[str, ...]) -> int:
        gone.unlink(missing_ok=True)
        return open_beneath(path, roots)

    monkeypatch.setattr("disarray.agent.file_inspection.open_beneath", open_late)
    assert told([*lab.after(), *lab.after()]) == [("here.csv", "file_notification")]


def test_a_clock_that_was_set_back_neither_stops_nor_confuses_it(lab: Lab) -> None:
    path = lab.write("TOOL07/a.csv", LINE)
    lab.after()
    lab.now_us -= DAY
    lab.agent.scan()
    path.write_text(LINE + LINE)
    assert lab.after(DAY / SECOND + 2) != []
    lab.now_us -= DAY
    lab.agent.scan()
    assert [each.reason for each in lab.after(DAY / SECOND + 700)] == [Reason.QUIET]


def test_a_nested_root_is_scanned_once(lab: Lab) -> None:
    (lab.folder / "disarray.toml").write_text(
        DATASETS.replace(
            'roots = ["share"]\nfiles = ["cells/*.txt"]', 'roots = ["share/cells"]\nfiles = ["*.txt"]'
        )
    )
    lab.start()
    lab.write("cells/a.txt", "Serial: CELL42\ntime,value\n")
    lab.write("TOOL07/a.csv", LINE)
    assert len(lab.after()) == 2
    assert lab.agent.counts.files == 2


@settings(max_examples=25, deadline=None)
@given(
    script=st.lists(
        st.tuples(
            st.sampled_from(["append", "rewrite", "delete", "outage", "restart", "wait", "lose state"]),
            st.integers(0, 3),
        ),
        max_size=25,
    )
)
def test_whatever_happens_the_last_word_about_every_file_is_its_present_content(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, int]]
) -> None:
    folder = tmp_path_factory.mktemp("lab")
    (folder / "disarray.toml").write_text(DATASETS)
    (folder / "share").mkdir()
    lab = Lab(folder)
    lab.start()
    last: dict[str, str] = {}
    for action, number in script:
        name = f"TOOL0{number}/a.csv"
        path = lab.share / name
        if action == "append" and path.exists():
            lab.write(name, path.read_bytes() + b"x" * (number + 1))
        elif action in ("append", "rewrite"):
            lab.write(name, os.urandom(number + 1))
        elif action == "delete":
            shutil.rmtree(path.parent, ignore_errors=True)
        elif action == "outage":
            lab.transport.is_away = not lab.transport.is_away
        elif action == "restart":
            lab.start()
        elif action == "lose state":
            assert lab.state is not None
            lab.state.close()
            lab.state = None
            lab.state_path.write_bytes(b"not a database")
            lab.start()
        last |= {each.source_uri: each.metadata["content_hash"] for each in lab.after(1 + 300 * number)}
    lab.transport.is_away = False
    for _ in range(3):
        last |= {each.source_uri: each.metadata["content_hash"] for each in lab.after(MINUTE / SECOND)}
    assert lab.state is not None
    lab.state.close()
    present = {file_uri(str(path)): content_hash_of(path) for path in lab.share.glob("*/*.csv")}
    assert present.items() <= last.items()


def test_the_spool_is_counted_in_bytes_of_what_waits(lab: Lab) -> None:
    assert lab.settings.spool_bytes == 64 * MEGABYTE
    lab.transport.is_away = True
    lab.write("TOOL07/µ.csv", LINE)
    lab.after()
    waiting = lab.agent.backlog_bytes
    assert 100 < waiting < 500
    lab.start()
    assert lab.agent.backlog_bytes == waiting
