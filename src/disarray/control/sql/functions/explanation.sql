create function disarray.explain_segment(
    p_dataset text,
    p_subject_key text,
    p_segment_us bigint,
    p_limit integer default 10
)
returns jsonb
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select to_jsonb(known) || jsonb_build_object(
    'run', (
        select jsonb_build_object('instance_name', made.instance_name, 'committed_at', made.committed_at)
        from run as made
        where
            made.run_id = known.run_id
            and made.subject_key = known.subject_key
    ),
    'files', (
        select coalesce(jsonb_agg(to_jsonb(stored) order by stored.landed_at, stored.source_uri), '[]')
        from (
            select
                inside.source_uri,
                (select part.parent_uri from file_part as part where part.part_uri = inside.source_uri) as parent_uri,
                min(inside.first_position) as first_position,
                max(coalesce(inside.cut_position - 1, inside.last_position)) as last_position,
                count(*) as fragments,
                sum(inside.readings) as readings,
                min(inside.first_us) as first_us,
                max(inside.last_us) as last_us,
                min(inside.created_at) as landed_at,
                max(inside.created_at) as changed_at,
                array_agg(distinct inside.run_id) as run_ids,
                (select file.content_hash from file_info as file where file.source_uri = inside.source_uri) as content_hash
            from fragment as inside
            where
                inside.dataset = p_dataset
                and inside.subject_key = p_subject_key
                and inside.segment_us = p_segment_us
                and inside.state in ('active', 'sealed')
            group by inside.source_uri
        ) as stored
    ),
    'before', (
        select jsonb_build_object(
            'files', count(*),
            'readings', coalesce(sum(stored.readings), 0),
            'latest', coalesce(
                jsonb_agg(to_jsonb(stored) - 'number' order by stored.number) filter (where stored.number <= p_limit),
                '[]'
            )
        )
        from (
            select
                earlier.source_uri,
                sum(earlier.readings) as readings,
                max(earlier.last_us) as last_us,
                max(earlier.created_at) as changed_at,
                row_number() over (order by max(earlier.created_at) desc, earlier.source_uri) as number
            from fragment as earlier
            where
                earlier.dataset = p_dataset
                and earlier.subject_key = p_subject_key
                and earlier.segment_us < p_segment_us
                and earlier.state in ('active', 'sealed')
            group by earlier.source_uri
        ) as stored
    )
)
from segment as known
where
    known.dataset = p_dataset
    and known.subject_key = p_subject_key
    and known.segment_us = p_segment_us
$$;
comment on function disarray.explain_segment(text, text, bigint, integer) is
    'Who made a segment and what is in it, and which files to the left of it make its base, those that changed last first.';

create function disarray.list_metric_restatements(
    p_dataset text,
    p_subject_key text,
    p_metric text,
    p_channel text,
    p_at_us bigint,
    p_limit integer default 10,
    p_reading_us bigint default null
)
returns setof disarray.restatement
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select noted.*
from restatement as noted
where
    noted.dataset = p_dataset
    and noted.subject_key = p_subject_key
    and noted.metric = p_metric
    and noted.channel = p_channel
    and noted.changed_from <= instant_of(p_at_us)
    and coalesce(noted.changed_to, 'infinity') >= instant_of(coalesce(p_reading_us, p_at_us))
order by
    noted.restated_at desc,
    noted.restatement_id desc
limit p_limit
$$;
comment on function disarray.list_metric_restatements(text, text, text, text, bigint, integer, bigint) is
    'Restatements that changed the value of a metric at an instant, newest first; a value holds from the reading that p_reading_us names.';
