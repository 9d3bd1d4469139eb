-- Files that say different things under one key.

create function disarray.list_conflicts(
    p_subject_key text default null,
    p_source_uri text default null,
    p_limit integer default 100,
    p_after text[] default null
)
returns table (
    dataset text,
    subject_key text,
    segment_us bigint,
    winner_uri text,
    loser_uri text,
    conflicts bigint,
    examples jsonb
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    found.dataset,
    found.subject_key,
    found.segment_us,
    found.winner_uri,
    found.loser_uri,
    found.conflicts,
    found.examples
from conflict as found
where
    (p_subject_key is null or found.subject_key = p_subject_key)
    and (p_source_uri is null or p_source_uri in (found.winner_uri, found.loser_uri))
    and (found.dataset, found.subject_key, found.segment_us, found.winner_uri, found.loser_uri) > (
        coalesce(p_after[1], ''),
        coalesce(p_after[2], ''),
        coalesce(p_after[3]::bigint, 0),
        coalesce(p_after[4], ''),
        coalesce(p_after[5], '')
    )
order by
    found.dataset,
    found.subject_key,
    found.segment_us,
    found.winner_uri,
    found.loser_uri
limit p_limit
$$;
comment on function disarray.list_conflicts(text, text, integer, text[]) is
    'Files that say different things under one key: whose readings count, whose do not, how many, and the earliest with their values.';
