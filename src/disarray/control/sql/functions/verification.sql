-- All that is stored about one subject, for a recompute that believes none of it.

create function disarray.load_subject_files(p_subject_key text)
returns table (source_uri text, dataset text, is_blacklisted boolean, is_about_to_change boolean, fingerprint bytea, arrival bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.dataset,
    exists (select from file_blacklist as listed where listed.source_uri = file.source_uri),
    exists (
        select
        from ingest_queue as item
        where
            item.source_uri = file.source_uri
            and item.reason in ('remove', 'allow', 'release')
    ),
    known.fingerprint,
    file.arrival
from file_info as file
inner join file_fingerprint as known on file.source_uri = known.source_uri
where file.subject_key = p_subject_key
order by file.source_uri
$$;
comment on function disarray.load_subject_files(text) is
    'The files of a subject that were ever taken in, and what is remembered of their bytes; is_about_to_change where it is decided '
    'that a file counts or does not, and the numbers do not say so yet.';

create function disarray.load_subject_segments(p_subject_key text)
returns setof disarray.segment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from segment as known
where known.subject_key = p_subject_key
$$;
comment on function disarray.load_subject_segments(text) is 'Every segment of a subject that has readings, in every dataset.';

create function disarray.load_subject_summaries(p_subject_key text)
returns setof disarray.segment_metric
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select summary.*
from segment_metric as summary
where summary.subject_key = p_subject_key
$$;
comment on function disarray.load_subject_summaries(text) is 'Every summary and base of a subject, in every dataset.';

create function disarray.list_rollup_segments(p_subject_key text)
returns table (dataset text, segment_us bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select distinct
    block.dataset,
    block.segment_us
from rollup_block as block
where block.subject_key = p_subject_key
$$;
comment on function disarray.list_rollup_segments(text) is 'The segments of a subject that contribute to any bucket, in every dataset.';

create function disarray.load_subject_rollup_parts(p_subject_key text, p_segments bigint[] default null)
returns setof disarray.rollup
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select part.*
from rollup as part
where
    part.subject_key = p_subject_key
    -- The blocks of other segments are not opened.
    and (p_segments is null or part.segment_us = any(p_segments))
$$;
comment on function disarray.load_subject_rollup_parts(text, bigint[]) is
    'Every part of every bucket of a subject, in every dataset; of some segments where they are given.';

create function disarray.load_rejected_positions(p_subject_key text, p_reason text)
returns table (source_uri text, "position" bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    line.source_uri,
    line.position
from rejected_row as line
inner join file_info as file on line.source_uri = file.source_uri
where
    file.subject_key = p_subject_key
    and line.reason = p_reason
union all
-- Lines that are no readings are kept with the file, whatever its parts are about.
select
    part.part_uri,
    line.position
from rejected_row as line
inner join file_part as part on line.source_uri = part.parent_uri
where
    part.subject_key = p_subject_key
    and line.reason = p_reason
$$;
comment on function disarray.load_rejected_positions(text, text) is 'Where lines were rejected for one reason, in the files of a subject.';
