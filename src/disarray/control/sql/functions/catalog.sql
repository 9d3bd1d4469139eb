-- What a worker looks up before it reads, plans and scans.

create function disarray.load_fingerprints(p_source_uris text[])
returns table (source_uri text, fingerprint bytea)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.source_uri,
    known.fingerprint
from file_fingerprint as known
where known.source_uri = any(p_source_uris)
$$;
comment on function disarray.load_fingerprints(text[]) is 'What is remembered of the bytes of some files.';

create function disarray.find_same_content(p_dataset text, p_subject_key text, p_content_hashes text[])
returns table (content_hash text, source_uri text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    known.content_hash,
    known.source_uri
from file_fingerprint as known
inner join file_info as file on known.source_uri = file.source_uri
where
    known.content_hash = any(p_content_hashes)
    and file.dataset = p_dataset
    and file.subject_key = p_subject_key
    and exists (
        select
        from fragment as stored
        where
            stored.source_uri = known.source_uri
            and stored.dataset = p_dataset
            and stored.subject_key = p_subject_key
            -- One that was removed may have counted in segments that were sealed since: it no longer says all it said.
            and (stored.state in ('active', 'parked', 'rejected') or stored.withdrawn_state is not null)
    )
order by known.source_uri collate "C"
$$;
comment on function disarray.find_same_content(text, text, text[]) is
    'Files of a subject whose readings are in and whose bytes are the same: their fragments can be shared instead of kept twice.';

create function disarray.load_file_fragments(p_source_uris text[])
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.source_uri = any(p_source_uris)
    and known.state <> 'dropped'
order by known.fragment_id
$$;
comment on function disarray.load_file_fragments(text[]) is
    'All that some files say now: active, parked, rejected, or counted in segments that were sealed since.';

create function disarray.load_withdrawn_fragments(p_source_uris text[])
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.source_uri = any(p_source_uris)
    and known.withdrawn_state is not null
order by known.fragment_id
$$;
comment on function disarray.load_withdrawn_fragments(text[]) is
    'What some files said before they were blacklisted: it counts for nothing, and comes back when they are allowed again.';

create function disarray.load_arrivals(p_source_uris text[])
returns table (source_uri text, arrival bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.source_uri,
    file.arrival
from file_info as file
where file.source_uri = any(p_source_uris)
$$;
comment on function disarray.load_arrivals(text[]) is 'The numbers of some files in the order of first announcements.';

create function disarray.load_segment_fragments(p_dataset text, p_subject_key text, p_segments bigint[])
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us = any(p_segments)
    and known.state = 'active'
order by known.fragment_id
$$;
comment on function disarray.load_segment_fragments(text, text, bigint[]) is 'All that is active in some segments of a subject.';

create function disarray.load_lake_checksums(p_paths text[])
returns table (path text, checksum text)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    file.path,
    file.checksum
from lake_file as file
where file.path = any(p_paths)
$$;
comment on function disarray.load_lake_checksums(text[]) is
    'The checksums of whole files of the lake: what fragments without a digest are recognized by.';

create function disarray.find_sealed_segments(p_dataset text, p_subject_key text, p_segments bigint[])
returns table (segment_us bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.segment_us
from segment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us = any(p_segments)
    and known.sealed_at is not null
$$;
comment on function disarray.find_sealed_segments(text, text, bigint[]) is
    'Those of some segments whose readings are no longer kept: what comes for them is parked.';

create function disarray.load_segments(p_dataset text, p_subject_key text, p_from_us bigint, p_to_us bigint)
returns setof disarray.segment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from segment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us >= p_from_us
    and known.segment_us <= p_to_us
order by known.segment_us
$$;
comment on function disarray.load_segments(text, text, bigint, bigint) is 'The segments of a subject that start in a span, both ends included.';

create function disarray.high_event_us(p_dataset text, p_subject_key text)
returns bigint
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select newest.last_us
from segment as newest
where
    newest.dataset = p_dataset
    and newest.subject_key = p_subject_key
order by newest.segment_us desc
limit 1
$$;
comment on function disarray.high_event_us(text, text) is 'The newest reading of a subject, from which its horizon is counted; NULL where it has none.';

create function disarray.load_kept_fragments(p_dataset text, p_subject_key text, p_segments bigint[])
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us = any(p_segments)
    and (known.state in ('active', 'parked', 'rejected') or known.withdrawn_state is not null)
order by known.fragment_id
$$;
comment on function disarray.load_kept_fragments(text, text, bigint[]) is
    'All that is active, parked, rejected or withdrawn in some segments of a subject: whoever moves row groups has to know all that name them.';

create function disarray.load_subject_fragments(p_subject_key text)
returns setof disarray.fragment
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select known.*
from fragment as known
where
    known.subject_key = p_subject_key
    and known.state <> 'dropped'
order by known.fragment_id
$$;
comment on function disarray.load_subject_fragments(text) is 'All that is active, parked or sealed of a subject, in every dataset.';
