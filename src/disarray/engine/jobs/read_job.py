"""Job 1: read what is new of many files, and write it into the lake as fragments."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from disarray.errors import DisarrayError, FragmentWriteError
from disarray.failpoints import failpoint
from disarray.kernels.fragments.fragment_writer import FragmentWriter
from disarray.kernels.reading.file_reader import read_file
from disarray.kernels.reading.opening import open_beneath
from disarray.kernels.reading.outcome import ReadOutcome, ReadStatus
from disarray.kernels.reading.ranges import ByteRange, RangePlan, join_ranges, read_range, split_ranges
from disarray.model.packing import pack_by_weight, task_count

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from disarray.engine.runner import Runner
    from disarray.kernels.reading.outcome import ReadRequest
    from disarray.kernels.reading.stretches import Stretch
    from disarray.model.fragments import LakeFile
    from disarray.store.lake import Lake

# A task reads about so much, and a file is shared out among tasks when it is larger: small enough that the last
# task does not keep the other cores waiting, large enough that starting a task does not count.
TASK_BYTES = 128 << 20
TASK_LOOKS = 1000


@dataclass(frozen=True, slots=True)
class ReadUnit:
    """One file, or one byte range of a big one; `number` is the index of the request in the job."""

    number: int
    request: ReadRequest
    part: ByteRange | None
    weight: int


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Files of one dataset whose fragments go into one Parquet file."""

    path: str
    units: tuple[ReadUnit, ...]


@dataclass(frozen=True, slots=True)
class ReadTaskResult:
    """What one task brings back: outcomes of whole files by number, stretches of ranges by number and offset."""

    outcomes: dict[int, ReadOutcome]
    stretches: dict[tuple[int, int], Stretch | None]
    file: LakeFile | None


@dataclass(frozen=True, slots=True)
class ReadJobResult:
    """Outcomes in the order of the requests, and the files that hold their fragments."""

    outcomes: tuple[ReadOutcome, ...]
    files: tuple[LakeFile, ...]


def read_files(runner: Runner, requests: Sequence[ReadRequest], *, lake: Lake, run_id: UUID) -> ReadJobResult:
    """Read many files. A bad file is an outcome of its own and never fails the others; so is a lake that is full."""
    cores = runner.cores
    plans = [_share_out(request, cores) for request in requests]
    try:
        tasks = _pack(_units(requests, plans), cores=cores, lake=lake, run_id=run_id, first_number=0)
    except FragmentWriteError as error:
        return ReadJobResult(tuple(_unwritten(request, error) for request in requests), ())
    results = runner.run(read_task, tasks)
    outcomes = {number: outcome for result in results for number, outcome in result.outcomes.items()}
    outcomes |= _joined(requests, plans, results)

    # Ranges that turned out to depend on each other: those files are read again in one piece.
    entangled = [number for number in range(len(requests)) if number not in outcomes]
    if entangled:
        units = [ReadUnit(number, requests[number], None, _weight(requests[number])) for number in entangled]
        tasks = _pack(units, cores=cores, lake=lake, run_id=run_id, first_number=len(tasks))
        again = runner.run(read_task, tasks)
        results += again
        outcomes |= {number: outcome for result in again for number, outcome in result.outcomes.items()}
    return ReadJobResult(
        outcomes=tuple(outcomes[number] for number in range(len(requests))),
        files=tuple(result.file for result in results if result.file is not None),
    )


def find_missing(runner: Runner, requests: Sequence[ReadRequest]) -> set[str]:
    """The paths at which there is no file, seen from where files are read; nothing is read of the others."""
    tasks = [tuple(requests[at : at + TASK_LOOKS]) for at in range(0, len(requests), TASK_LOOKS)]
    return {path for paths in runner.run(missing_task, tasks) for path in paths}


def missing_task(requests: Sequence[ReadRequest]) -> list[str]:
    """The kernel of a look at files; what else may be wrong with one, its read will tell."""
    missing = []
    for request in requests:
        try:
            os.close(open_beneath(request.path, request.roots))
        except FileNotFoundError:
            missing.append(request.path)
        except (OSError, DisarrayError):
            continue
    return missing


def read_task(task: ReadTask) -> ReadTaskResult:
    """The kernel of job 1: read the files of one task into one file of fragments."""
    writer = FragmentWriter(task.path, task.units[0].request.spec)
    outcomes: dict[int, ReadOutcome] = {}
    stretches: dict[tuple[int, int], Stretch | None] = {}
    try:
        for unit in task.units:
            failpoint("read.file", about=unit.request.path)
            if unit.part is None:
                outcomes[unit.number] = read_file(unit.request, writer)
            else:
                offset = unit.part.start.offset
                stretches[unit.number, offset] = read_range(unit.request, unit.part, writer)
            failpoint("read.mid", about=unit.request.path)
        file = writer.close()
        failpoint("read.written", about=task.path)
        return ReadTaskResult(
            {number: _outcome_with_digests(outcome, writer) for number, outcome in outcomes.items()},
            {key: stretch and _stretch_with_digests(stretch, writer) for key, stretch in stretches.items()},
            file,
        )
    except FragmentWriteError as error:
        writer.discard()
        return _nothing_written(task, outcomes, error)
    except BaseException:
        writer.discard()
        raise


def _outcome_with_digests(outcome: ReadOutcome, writer: FragmentWriter) -> ReadOutcome:
    """What was read, now that the file is finished that its fragments lie in."""
    if not outcome.is_in_lake:
        return outcome
    parts = (
        None
        if outcome.parts is None
        else tuple(replace(part, fragments=writer.with_digests(part.fragments)) for part in outcome.parts)
    )
    return replace(outcome, fragments=writer.with_digests(outcome.fragments), parts=parts)


def _stretch_with_digests(stretch: Stretch, writer: FragmentWriter) -> Stretch:
    """The same for a range of a file."""
    if not stretch.fragments and not any(stretch.part_fragments.values()):
        return stretch
    return replace(
        stretch,
        fragments=writer.with_digests(stretch.fragments),
        part_fragments={
            subject: writer.with_digests(fragments) for subject, fragments in stretch.part_fragments.items()
        },
    )


def _nothing_written(
    task: ReadTask, outcomes: dict[int, ReadOutcome], error: FragmentWriteError
) -> ReadTaskResult:
    """What is left of a task whose file is gone: outcomes of files that had nothing to write."""
    for unit in task.units:
        known = outcomes.get(unit.number)
        if known is None or known.is_in_lake:
            outcomes[unit.number] = _unwritten(unit.request, error)
    parts = [(unit.number, unit.part) for unit in task.units if unit.part is not None]
    return ReadTaskResult(outcomes, {(number, part.start.offset): None for number, part in parts}, None)


def _unwritten(request: ReadRequest, error: FragmentWriteError) -> ReadOutcome:
    return ReadOutcome(path=request.path, status=ReadStatus.UNWRITTEN, message=str(error), is_retryable=True)


def _joined(
    requests: Sequence[ReadRequest], plans: Sequence[RangePlan | None], results: Sequence[ReadTaskResult]
) -> dict[int, ReadOutcome]:
    """Outcomes of the files that were read in ranges and could be put together."""
    stretches = {at: stretch for result in results for at, stretch in result.stretches.items()}
    joined = {}
    for number, plan in enumerate(plans):
        if plan is not None:
            parts = [stretches[number, part.start.offset] for part in plan.ranges]
            outcome = join_ranges(requests[number], plan, parts)
            if outcome is not None:
                joined[number] = outcome
    return joined


def _share_out(request: ReadRequest, cores: int) -> RangePlan | None:
    if cores < 2 or _weight(request) < TASK_BYTES * 3 // 2:
        return None
    return split_ranges(request, range_bytes=TASK_BYTES)


def _weight(request: ReadRequest) -> int:
    """About how many bytes have to be read; a file that is gone is found out by the task."""
    try:
        size = Path(request.path).stat(follow_symlinks=False).st_size
    except OSError:
        return 0
    known = request.stored.size if request.stored is not None and not request.whole else 0
    return size - known if size > known else size


def _units(requests: Sequence[ReadRequest], plans: Sequence[RangePlan | None]) -> list[ReadUnit]:
    units = []
    for number, (request, plan) in enumerate(zip(requests, plans, strict=True)):
        if plan is None:
            units.append(ReadUnit(number, request, None, _weight(request)))
        else:
            units += [ReadUnit(number, request, part, part.end - part.start.offset) for part in plan.ranges]
    return units


def _pack(
    units: Sequence[ReadUnit], *, cores: int, lake: Lake, run_id: UUID, first_number: int
) -> list[ReadTask]:
    by_spec: dict[tuple[str, str], list[ReadUnit]] = defaultdict(list)
    for unit in units:
        by_spec[unit.request.spec.dataset, unit.request.spec.parse_version].append(unit)
    tasks: list[ReadTask] = []
    for (dataset, _), group in by_spec.items():
        weights = [unit.weight for unit in group]
        count = task_count(weights, cores=cores, most_per_task=TASK_BYTES)
        for indices in pack_by_weight(weights, tasks=count):
            path = lake.new_file(dataset, run_id, first_number + len(tasks))
            tasks.append(ReadTask(path, tuple(group[index] for index in indices)))
    return tasks
