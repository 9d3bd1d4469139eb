-- What a worker looks up before it reads, plans and scans.

create function disarray.register_dataset(
    p_dataset text,
    p_parse_version text,
    p_scan_version text,
    p_definition jsonb,
    p_metrics jsonb
)
returns void
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
begin
    insert into dataset_version (dataset, parse_version, scan_version, definition, registered_at)
    values (p_dataset, p_parse_version, p_scan_version, p_definition, clock())
    on conflict do nothing;
    delete from metric as known
    where
        known.dataset = p_dataset
        and not exists (
            select
            from jsonb_to_recordset(p_metrics) as declared (name text)
            where declared.name = known.metric
        );
    insert into metric as known (dataset, metric, kind, method, max_gap_us, is_integer, unit)
    select
        p_dataset,
        declared.name,
        declared.kind,
        declared.method,
        declared.max_gap_us,
        declared.is_integer,
        declared.unit
    from jsonb_to_recordset(p_metrics)
        as declared (name text, kind text, method text, max_gap_us bigint, is_integer boolean, unit text)
    on conflict (dataset, metric) do update
    set
        kind = excluded.kind,
        method = excluded.method,
        max_gap_us = excluded.max_gap_us,
        is_integer = excluded.is_integer,
        unit = excluded.unit
    where known is distinct from excluded;
end
$$;
comment on function disarray.register_dataset(text, text, text, jsonb, jsonb) is
    'Make a definition of a dataset known, and its metrics those that are in force.';

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
    max(known.source_uri collate "C")
from file_fingerprint as known
inner join file_info as file on known.source_uri = file.source_uri
where
    known.content_hash = any(p_content_hashes)
    and file.dataset = p_dataset
    and file.subject_key = p_subject_key
    and exists (
        select
        from fragment as said
        where
            said.source_uri = known.source_uri
            and said.state <> 'dropped'
    )
group by known.content_hash
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
comment on function disarray.load_file_fragments(text[]) is 'All that some files say now, active or parked.';

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

create function disarray.find_other_version(
    p_dataset text,
    p_subject_key text,
    p_parse_version text,
    p_scan_version text,
    p_read_again text[]
)
returns text
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
-- Only a dataset that was ever defined otherwise is worth a look at all that is known of the subject.
select coalesce(
    (
        select 'read as ' || said.parse_version
        from fragment as said
        where
            said.dataset = p_dataset
            and said.subject_key = p_subject_key
            and said.state = 'active'
            and said.parse_version <> p_parse_version
            and not said.source_uri = any(p_read_again)
            and exists (
                select
                from dataset_version as defined
                where
                    defined.dataset = p_dataset
                    and (defined.parse_version, defined.scan_version) <> (p_parse_version, p_scan_version)
            )
        limit 1
    ),
    (
        select 'scanned as ' || known.scan_version
        from segment as known
        where
            known.dataset = p_dataset
            and known.subject_key = p_subject_key
            and known.scan_version <> p_scan_version
            and exists (
                select
                from dataset_version as defined
                where
                    defined.dataset = p_dataset
                    and (defined.parse_version, defined.scan_version) <> (p_parse_version, p_scan_version)
            )
        limit 1
    )
)
$$;
comment on function disarray.find_other_version(text, text, text, text, text[]) is
    'What of a subject was made under another definition of its dataset, beside files that are being read again; NULL where nothing was.';
