-- What was taken in, how late it was, and what mending for it cost. Facts of commits: they survive every restart.

create function disarray.lateness_bounds()
returns bigint[]
language sql
immutable
as $$
select array[0, 60, 600, 3600, 21600, 86400, 604800, 2592000]::bigint[]
$$;
comment on function disarray.lateness_bounds() is
    'Upper bounds in seconds of the classes in which lateness is counted; what lies beyond the last is a class of its own.';

create function disarray.add_figures(p_instance_name text, p_figures json, p_done jsonb, p_now timestamptz)
returns void
language plpgsql
as $$
begin
    insert into disarray.figure as known
    select
        date_trunc('hour', p_now, 'UTC'),
        p_instance_name,
        1,
        coalesce(given.files_read, 0),
        coalesce(given.files_unchanged, 0),
        coalesce(given.files_parked, 0),
        coalesce(given.readings_seen, 0),
        coalesce(given.readings_kept, 0),
        coalesce(given.readings_duplicate, 0),
        coalesce(given.readings_rejected, 0),
        coalesce(given.readings_parked, 0),
        coalesce(given.lines_blank, 0),
        coalesce(given.readings_scanned, 0),
        coalesce(given.segments_scanned, 0),
        done.segments_changed,
        done.bases_shifted,
        done.restatements,
        coalesce(given.late_readings, 0),
        coalesce(given.repair_readings, 0),
        done.repair_bases,
        late.files,
        late.seconds
    from json_to_record(coalesce(p_figures, '{}')) as given (
        files_read bigint, files_unchanged bigint, files_parked bigint, readings_seen bigint, readings_kept bigint,
        readings_duplicate bigint, readings_rejected bigint, readings_parked bigint, lines_blank bigint,
        readings_scanned bigint, segments_scanned bigint, late_readings bigint, repair_readings bigint, lateness json
    )
    cross join lateral (
        select
            coalesce(sum(change.segments_changed), 0) as segments_changed,
            coalesce(sum(change.bases_shifted), 0) as bases_shifted,
            coalesce(sum(change.restatements), 0) as restatements,
            coalesce(sum(change.bases_shifted) filter (where change.frontier_us < change.newest_segment_us), 0) as repair_bases
        from jsonb_to_recordset(p_done) as change (
            frontier_us bigint, newest_segment_us bigint, segments_changed bigint, bases_shifted bigint, restatements bigint
        )
    ) as done
    cross join lateral (
        select
            array_agg(coalesce(counted.files, 0) order by class.number) as files,
            coalesce(sum(counted.seconds), 0) as seconds
        from generate_series(0, cardinality(disarray.lateness_bounds())) as class (number)
        left join (
            select
                (select count(*) from unnest(disarray.lateness_bounds()) as bound (seconds) where bound.seconds < file.seconds::float8) as number,
                count(*) as files,
                sum(file.seconds::float8) as seconds
            from json_array_elements_text(given.lateness) as file (seconds)
            group by 1
        ) as counted on class.number = counted.number
    ) as late
    on conflict (hour_at, instance_name) do update
    set
        commits = known.commits + 1,
        files_read = known.files_read + excluded.files_read,
        files_unchanged = known.files_unchanged + excluded.files_unchanged,
        files_parked = known.files_parked + excluded.files_parked,
        readings_seen = known.readings_seen + excluded.readings_seen,
        readings_kept = known.readings_kept + excluded.readings_kept,
        readings_duplicate = known.readings_duplicate + excluded.readings_duplicate,
        readings_rejected = known.readings_rejected + excluded.readings_rejected,
        readings_parked = known.readings_parked + excluded.readings_parked,
        lines_blank = known.lines_blank + excluded.lines_blank,
        readings_scanned = known.readings_scanned + excluded.readings_scanned,
        segments_scanned = known.segments_scanned + excluded.segments_scanned,
        segments_changed = known.segments_changed + excluded.segments_changed,
        bases_shifted = known.bases_shifted + excluded.bases_shifted,
        restatements = known.restatements + excluded.restatements,
        late_readings = known.late_readings + excluded.late_readings,
        repair_readings = known.repair_readings + excluded.repair_readings,
        repair_bases = known.repair_bases + excluded.repair_bases,
        lateness_files = array(
            select class.former + class.added
            from unnest(known.lateness_files, excluded.lateness_files) with ordinality as class (former, added, place)
            order by class.place
        ),
        lateness_seconds = known.lateness_seconds + excluded.lateness_seconds;
end
$$;
comment on function disarray.add_figures(text, json, jsonb, timestamptz) is 'Count one commit: the last thing that it does, and one row.';

create function disarray.sum_figures(p_from timestamptz default '-infinity', p_to timestamptz default 'infinity')
returns table (
    commits bigint,
    files_read bigint,
    files_unchanged bigint,
    files_parked bigint,
    readings_seen bigint,
    readings_kept bigint,
    readings_duplicate bigint,
    readings_rejected bigint,
    readings_parked bigint,
    lines_blank bigint,
    readings_scanned bigint,
    segments_scanned bigint,
    segments_changed bigint,
    bases_shifted bigint,
    restatements bigint,
    late_readings bigint,
    repair_readings bigint,
    repair_bases bigint,
    lateness_seconds float8
)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    coalesce(sum(counted.commits), 0)::bigint,
    coalesce(sum(counted.files_read), 0)::bigint,
    coalesce(sum(counted.files_unchanged), 0)::bigint,
    coalesce(sum(counted.files_parked), 0)::bigint,
    coalesce(sum(counted.readings_seen), 0)::bigint,
    coalesce(sum(counted.readings_kept), 0)::bigint,
    coalesce(sum(counted.readings_duplicate), 0)::bigint,
    coalesce(sum(counted.readings_rejected), 0)::bigint,
    coalesce(sum(counted.readings_parked), 0)::bigint,
    coalesce(sum(counted.lines_blank), 0)::bigint,
    coalesce(sum(counted.readings_scanned), 0)::bigint,
    coalesce(sum(counted.segments_scanned), 0)::bigint,
    coalesce(sum(counted.segments_changed), 0)::bigint,
    coalesce(sum(counted.bases_shifted), 0)::bigint,
    coalesce(sum(counted.restatements), 0)::bigint,
    coalesce(sum(counted.late_readings), 0)::bigint,
    coalesce(sum(counted.repair_readings), 0)::bigint,
    coalesce(sum(counted.repair_bases), 0)::bigint,
    coalesce(sum(counted.lateness_seconds), 0)
from figure as counted
where
    -- An hour counts as a whole.
    counted.hour_at >= date_trunc('hour', p_from, 'UTC')
    and counted.hour_at < p_to
$$;
comment on function disarray.sum_figures(timestamptz, timestamptz) is
    'What was committed in a period of whole hours, or ever: always one row, and without a period it only grows.';

create function disarray.lateness_histogram(p_from timestamptz default '-infinity', p_to timestamptz default 'infinity')
returns table (bound_seconds bigint, files bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    (lateness_bounds())[class.number],
    coalesce(sum(counted.lateness_files[class.number]), 0)::bigint
from generate_series(1, cardinality(lateness_bounds()) + 1) as class (number)
left join figure as counted
    on
        counted.hour_at >= date_trunc('hour', p_from, 'UTC')
        and counted.hour_at < p_to
group by class.number
order by class.number
$$;
comment on function disarray.lateness_histogram(timestamptz, timestamptz) is
    'Arriving files by lateness, each in one class: up to the bound and above the one before; NULL is beyond the last.';
