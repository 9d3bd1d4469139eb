-- Which published values a commit changes. Before it, what they are made of is put together; after the shift of bases, the
-- same is looked up again, and what differs is told as spans.

create function telemetry.number_of(p_float float8, p_int bigint)
returns numeric
language sql
immutable
set extra_float_digits = 1
as $$
select coalesce(p_int::numeric, p_float::text::numeric)
$$;
comment on function telemetry.number_of(float8, bigint) is 'A value of either type as a numeric. The shortest text of a float reads back to the same bits.';

create function telemetry.float_of(p_number numeric)
returns float8
language sql
immutable
as $$
select case
    when abs(p_number) > 1.7976931348623157e308 then null
    -- The difference of two floats, or a float: the least of the former may be none of the latter.
    when p_number <> 0 and abs(p_number) < 2.5e-324 then sign(p_number)::float8 * 5e-324::float8
    else p_number::float8
end
$$;
comment on function telemetry.float_of(numeric) is 'The nearest float; NULL where there is none.';

create function telemetry.bigint_of(p_number numeric)
returns bigint
language sql
immutable
as $$
select case when p_number between -9223372036854775808 and 9223372036854775807 then p_number::bigint end
$$;
comment on function telemetry.bigint_of(numeric) is 'The number as a bigint; NULL where it is too large for one.';

create function telemetry.joined_number(p_kind text, p_is_integer boolean, p_base numeric, p_local numeric)
returns numeric
language sql
immutable
set extra_float_digits = 1
as $$
select case
    when p_kind = 'min' then least(p_base, p_local)
    when p_kind = 'max' then greatest(p_base, p_local)
    when telemetry.is_additive(p_kind) is not true then null
    when p_is_integer then p_base + p_local
    -- A sum that leaves what a float can hold is nobody's value: readers would refuse it as well.
    when abs(p_base) > 8e307 or abs(p_local) > 8e307 then null
    else (p_base::float8 + p_local::float8)::text::numeric
end
$$;
comment on function telemetry.joined_number(text, boolean, numeric, numeric) is 'A base and a fold within its segment as one value, with the bits that readers see.';

create function telemetry.published_number(
    p_kind text,
    p_is_integer boolean,
    p_mode integer,
    p_local numeric,
    p_carried numeric,
    p_before numeric,
    p_base numeric
)
returns numeric
language sql
immutable
as $$
select case p_mode
    when 0 then p_carried
    when 1 then p_before
    when 2 then telemetry.joined_number(p_kind, p_is_integer, p_base, p_local)
    when 3 then p_local
end
$$;
comment on function telemetry.published_number(text, boolean, integer, numeric, numeric, numeric, numeric) is
    'A value from what it is made of; modes as in kernels/scanning/restated.py: carried, waiting, joined, restarted, absent.';

-- The profile names segments that were compared and the stretches of them in which folds differ.
create function disarray.former_values(p_run_id uuid, p_subject_key text, p_dataset json, p_profile jsonb)
returns jsonb
language plpgsql
stable
-- As in resolve_ranges.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    v_changed constant bigint[] := array(
        select changed.segment_us
        from disarray.changed_segments(p_subject_key, p_dataset) as changed
        order by changed.segment_us
    );
    v_stretches jsonb;
    v_heads jsonb;
    v_whole jsonb;
begin
    with stretch as materialized (
        select
            given.value as document,
            given.value ->> 'metric' as metric,
            given.value ->> 'channel' as channel,
            (given.value ->> 'segment_us')::bigint as segment_us,
            (given.value ->> 'from_us')::bigint as from_us,
            (given.value ->> 'old_mode')::integer as old_mode
        from jsonb_array_elements(p_profile -> 'stretches') as given
    ),

    series as materialized (
        select
            named.metric,
            named.channel,
            newest.last_reading_us
        from (
            select distinct
                stretch.metric,
                stretch.channel
            from stretch
        ) as named
        cross join lateral (
            select coalesce(summary.last_reading_us, summary.segment_us) as last_reading_us
            from disarray.segment_metric as summary
            where
                summary.dataset = v_name
                and summary.subject_key = p_subject_key
                and summary.metric = named.metric
                and summary.channel = named.channel
            order by
                summary.segment_us desc,
                summary.piece desc
            limit 1
        ) as newest
    )

    select coalesce(
        jsonb_agg(
            stretch.document || jsonb_build_object(
                'old_base', coalesce(to_jsonb(head.base_int), to_jsonb(head.base_float)),
                'old_before', coalesce(to_jsonb(head.before_int), to_jsonb(head.before_float)),
                'old_carried', carried.number
            )
        ),
        '[]'
    )
    into v_stretches
    from stretch
    inner join series
        on
            stretch.metric = series.metric
            and stretch.channel = series.channel
            -- What lies behind the newest reading is news.
            and stretch.from_us <= series.last_reading_us
    left join disarray.segment_metric as head
        on
            head.dataset = v_name
            and head.subject_key = p_subject_key
            and stretch.metric = head.metric
            and stretch.channel = head.channel
            and stretch.segment_us = head.segment_us
            and head.piece = 0
    left join lateral (
        select disarray.carried_number(v_name, p_subject_key, stretch.metric, stretch.channel, stretch.segment_us) as number
    ) as carried on stretch.old_mode = 0
    where stretch.segment_us = any(v_changed);

    -- Readings and folds of these are the same as before: only their bases can move.
    select coalesce(
        jsonb_agg(jsonb_build_object(
            'metric', head.metric,
            'channel', head.channel,
            'segment_us', head.segment_us,
            'base_float', head.base_float,
            'base_int', head.base_int,
            'before_float', head.before_float,
            'before_int', head.before_int
        )),
        '[]'
    )
    into v_heads
    from disarray.segment_metric as head
    where
        head.dataset = v_name
        and head.subject_key = p_subject_key
        and head.piece = 0
        and head.segment_us = any(v_changed)
        and head.segment_us in (select compared.segment_us::bigint from jsonb_array_elements_text(p_profile -> 'segments') as compared (segment_us))
        and not exists (
            select
            from jsonb_to_recordset(p_profile -> 'stretches') as stretch (metric text, channel text, segment_us bigint)
            where
                stretch.metric = head.metric
                and stretch.channel = head.channel
                and stretch.segment_us = head.segment_us
        );
    if p_profile is null then
        v_whole := disarray.whole_series(v_name, p_subject_key);
    end if;
    return jsonb_build_object(
        'run_id', p_run_id,
        'source_uris', p_dataset -> 'source_uris',
        'before_us', (p_dataset ->> 'restate_before_us')::bigint,
        'former_scan_version', p_dataset -> 'rebuilt_from' ->> 'scan_version',
        'changed', to_jsonb(v_changed),
        'stretches', v_stretches,
        'heads', v_heads,
        'whole', v_whole
    );
end
$$;
comment on function disarray.former_values(uuid, text, json, jsonb) is
    'Before a commit: what the published values that it may change are made of, with the bases of now. Without a profile, the ends of each series.';

create function disarray.carried_number(p_dataset text, p_subject_key text, p_metric text, p_channel text, p_segment_us bigint)
returns numeric
language sql
stable
as $$
select telemetry.joined_number(
    metric.kind,
    metric.is_integer,
    telemetry.number_of(summary.base_float, summary.base_int),
    telemetry.number_of(summary.total_float, summary.total_int)
)
from disarray.segment_metric as summary
inner join disarray.subject_version as made
    on
        summary.subject_key = made.subject_key
        and summary.dataset = made.dataset
inner join disarray.metric as metric
    on
        made.dataset = metric.dataset
        and made.scan_version = metric.scan_version
        and summary.metric = metric.metric
where
    summary.dataset = p_dataset
    and summary.subject_key = p_subject_key
    and summary.metric = p_metric
    and summary.channel = p_channel
    and summary.segment_us < p_segment_us
order by
    summary.segment_us desc,
    summary.piece desc
limit 1
$$;
comment on function disarray.carried_number(text, text, text, text, bigint) is 'The value of a metric and channel just before a segment; NULL where there is none.';

create function disarray.whole_series(p_dataset text, p_subject_key text)
returns jsonb
language sql
stable
as $$
select coalesce(
    jsonb_agg(jsonb_build_object(
        'metric', ends.metric,
        'channel', ends.channel,
        'from_us', ends.from_us,
        'to_us', ends.to_us,
        'last', coalesce(total.int, total.float)
    )),
    '[]'
)
from (
    select
        summary.metric,
        summary.channel,
        min(coalesce(summary.first_reading_us, summary.segment_us)) as from_us,
        max(coalesce(summary.last_reading_us, summary.segment_us)) as to_us
    from disarray.segment_metric as summary
    where
        summary.dataset = p_dataset
        and summary.subject_key = p_subject_key
    group by
        summary.metric,
        summary.channel
) as ends
inner join jsonb_to_recordset(telemetry.final_totals(p_dataset, p_subject_key))
    as total (metric text, channel text, float jsonb, int jsonb)
    on
        ends.metric = total.metric
        and ends.channel = total.channel
$$;
comment on function disarray.whole_series(text, text) is 'From when to when each metric and channel of a subject has values, and its newest one.';

create function disarray.restated_spans(p_dataset text, p_subject_key text, p_restates jsonb, p_moved disarray.restated_span[])
returns setof disarray.restated_span
language plpgsql
stable
set extra_float_digits = 1
as $$
#variable_conflict use_column
declare
    v_new_version constant text := (
        select made.scan_version
        from disarray.subject_version as made
        where
            made.subject_key = p_subject_key
            and made.dataset = p_dataset
    );
    v_old_version constant text := coalesce(p_restates ->> 'former_scan_version', v_new_version);
begin
    return query
    with stretch as (
        select
            given.*,
            was.kind as old_kind,
            was.is_integer as old_is_integer,
            now.kind as new_kind,
            now.is_integer as new_is_integer,
            telemetry.is_additive(was.kind) and telemetry.is_additive(now.kind) as is_additive,
            telemetry.number_of(head.base_float, head.base_int) as new_base,
            telemetry.number_of(head.before_float, head.before_int) as new_before,
            case
                when given.new_mode = 0
                    then disarray.carried_number(p_dataset, p_subject_key, given.metric, given.channel, given.segment_us)
            end as new_carried
        from jsonb_to_recordset(p_restates -> 'stretches') as given (
            metric text, channel text, segment_us bigint, from_us bigint, to_us bigint, old_mode integer, new_mode integer,
            old_first numeric, old_last numeric, new_first numeric, new_last numeric, same boolean, low numeric, high numeric,
            old_low numeric, old_high numeric, new_low numeric, new_high numeric,
            old_base numeric, old_before numeric, old_carried numeric
        )
        -- A metric that is new, or no longer there, has nothing to be compared with.
        inner join disarray.metric as was
            on
                was.dataset = p_dataset
                and was.scan_version = v_old_version
                and given.metric = was.metric
        inner join disarray.metric as now
            on
                now.dataset = p_dataset
                and now.scan_version = v_new_version
                and given.metric = now.metric
        left join disarray.segment_metric as head
            on
                head.dataset = p_dataset
                and head.subject_key = p_subject_key
                and given.metric = head.metric
                and given.channel = head.channel
                and given.segment_us = head.segment_us
                and head.piece = 0
    ),

    valued as (
        select
            stretch.*,
            telemetry.published_number(old_kind, old_is_integer, old_mode, old_first, old_carried, old_before, old_base) as old_start,
            telemetry.published_number(old_kind, old_is_integer, old_mode, old_last, old_carried, old_before, old_base) as old_end,
            telemetry.published_number(new_kind, new_is_integer, new_mode, new_first, new_carried, new_before, new_base) as new_start,
            telemetry.published_number(new_kind, new_is_integer, new_mode, new_last, new_carried, new_before, new_base) as new_end,
            case old_mode when 0 then old_carried when 1 then old_before when 2 then old_base else 0 end as old_ground,
            case new_mode when 0 then new_carried when 1 then new_before when 2 then new_base else 0 end as new_ground,
            telemetry.published_number(old_kind, old_is_integer, old_mode, old_low, old_carried, old_before, old_base) as old_least,
            telemetry.published_number(old_kind, old_is_integer, old_mode, old_high, old_carried, old_before, old_base) as old_greatest,
            telemetry.published_number(new_kind, new_is_integer, new_mode, new_low, new_carried, new_before, new_base) as new_least,
            telemetry.published_number(new_kind, new_is_integer, new_mode, new_high, new_carried, new_before, new_base) as new_greatest
        from stretch
    ),

    bounded as (
        select
            valued.*,
            case
                when is_additive and low is not null
                    then least(new_start - old_start + low, new_end - old_end)
                -- Values rise with the fold within the segment, so its bounds bound them.
                when new_low is not null then new_least - old_greatest
                else least(new_start - old_start, new_end - old_end)
            end as least_change,
            case
                when is_additive and low is not null
                    then greatest(new_start - old_start + high, new_end - old_end)
                when new_low is not null then new_greatest - old_least
                else greatest(new_start - old_start, new_end - old_end)
            end as greatest_change
        from valued
    ),

    item as (
        select
            metric,
            channel,
            from_us,
            to_us,
            old_start as old_first,
            new_start as new_first,
            old_end as old_last,
            new_end as new_last,
            least_change as least,
            greatest_change as greatest,
            old_start is not null and (
                new_start is null
                or least_change is null
                or least_change <> 0
                or greatest_change <> 0
                -- Two sums of floats may be the same at both ends and not between.
                or (
                    is_additive and not (old_is_integer and new_is_integer) and from_us < to_us
                    and not (same and old_ground = new_ground)
                )
            ) as is_changed
        from bounded
        union all
        select
            metric,
            channel,
            from_us,
            to_us,
            old_first,
            new_first,
            old_last,
            new_last,
            least,
            greatest,
            is_changed
        from unnest(p_moved)
        union all
        -- Nothing is known of what lies between the ends.
        select
            ends.metric,
            ends.channel,
            ends.from_us,
            ends.to_us,
            null,
            null,
            ends.last,
            coalesce(after.int, after.float),
            null,
            null,
            true
        from jsonb_to_recordset(case when jsonb_typeof(p_restates -> 'whole') = 'array' then p_restates -> 'whole' else '[]' end)
            as ends (metric text, channel text, from_us bigint, to_us bigint, last numeric)
        left join jsonb_to_recordset(telemetry.final_totals(p_dataset, p_subject_key))
            as after (metric text, channel text, float numeric, int numeric)
            on
                ends.metric = after.metric
                and ends.channel = after.channel
        where exists (
            select
            from disarray.metric as defined
            where
                defined.dataset = p_dataset
                and defined.metric = ends.metric
                and defined.scan_version in (v_old_version, v_new_version)
            having count(distinct defined.scan_version) = 2 or v_old_version = v_new_version
        )
    ),

    natured as (
        select
            item.*,
            abs(old_last) + abs(new_last) as size,
            case
                when not is_changed then 'unchanged'
                when new_last is null then 'gone'
                when least is null then 'unknown'
                when greatest - least <= 1e-10 * (abs(old_last) + abs(new_last)) and not (least < 0 and greatest > 0) then 'constant'
                when least = greatest then 'constant'
                else 'varying'
            end as nature
        from item
    ),

    followed as (
        select
            natured.*,
            lag(nature) over in_time as former_nature,
            lag(to_us) over in_time as former_to_us,
            lag(greatest) over in_time as former_greatest,
            lag(size) over in_time as former_size
        from natured
        window in_time as (partition by metric, channel order by from_us, to_us)
    ),

    marked as (
        select
            followed.*,
            -- Of one span: told alike, and no readings between that nothing is told of.
            coalesce(
                nature = former_nature
                and (
                    nature <> 'constant'
                    or abs(greatest - former_greatest) <= case when is_exact.holds then 0 else 1e-10 * greatest(size, former_size) end
                )
                and not exists (
                    select
                    from (
                        select coalesce(summary.first_reading_us, summary.segment_us) as first_reading_us
                        from disarray.segment_metric as summary
                        where
                            nature <> 'unchanged'
                            and summary.dataset = p_dataset
                            and summary.subject_key = p_subject_key
                            and summary.metric = followed.metric
                            and summary.channel = followed.channel
                            and summary.segment_us <= followed.from_us
                            and coalesce(summary.last_reading_us, summary.segment_us) < followed.from_us
                        order by
                            summary.segment_us desc,
                            summary.piece desc
                        limit 1
                    ) as nearest
                    where nearest.first_reading_us > followed.former_to_us
                ),
                false
            ) as goes_on
        from followed
        cross join lateral (
            select
                not exists (
                    select
                    from disarray.metric as defined
                    where
                        defined.dataset = p_dataset
                        and defined.scan_version in (v_old_version, v_new_version)
                        and defined.metric = followed.metric
                        and not defined.is_integer
                ) as holds
        ) as is_exact
    ),

    numbered as (
        select
            marked.*,
            count(*) filter (where not goes_on) over in_time as span,
            not goes_on as is_first,
            coalesce(not lead(goes_on) over in_time, true) as is_last
        from marked
        window in_time as (partition by metric, channel order by from_us, to_us)
    )

    select
        metric,
        channel,
        min(from_us),
        max(to_us),
        max(old_first) filter (where is_first),
        max(new_first) filter (where is_first),
        max(old_last) filter (where is_last),
        max(new_last) filter (where is_last),
        min(least),
        max(greatest),
        true
    from numbered
    where is_changed
    group by
        metric,
        channel,
        span
    having min(from_us) < (p_restates ->> 'before_us')::bigint
    order by
        metric,
        channel,
        min(from_us);
end
$$;
comment on function disarray.restated_spans(text, text, jsonb, disarray.restated_span[]) is
    'After the shift of bases: the spans in which published values are others than former_values saw, by metric, channel and time.';

create function disarray.note_restatements(
    p_dataset text,
    p_subject_key text,
    p_restates jsonb,
    p_moved disarray.restated_span[],
    p_now timestamptz
)
returns bigint
language plpgsql
as $$
declare
    v_noted bigint;
    v_restatement_ids bigint[];
begin
    with noted as (
        insert into disarray.restatement (
            run_id, dataset, subject_key, metric, channel, changed_from, changed_to,
            first_old_float, first_old_int, first_new_float, first_new_int, old_float, old_int, new_float, new_int,
            delta_float, delta_int, least_float, least_int, greatest_float, greatest_int,
            source_uris, is_redefined, restated_at
        )
        select
            (p_restates ->> 'run_id')::uuid,
            p_dataset,
            p_subject_key,
            span.metric,
            span.channel,
            disarray.instant_of(span.from_us),
            disarray.instant_of(span.to_us),
            case when not was.is_integer then telemetry.float_of(span.old_first) end,
            case when was.is_integer then telemetry.bigint_of(span.old_first) end,
            case when not now.is_integer then telemetry.float_of(span.new_first) end,
            case when now.is_integer then telemetry.bigint_of(span.new_first) end,
            case when not was.is_integer then telemetry.float_of(span.old_last) end,
            case when was.is_integer then telemetry.bigint_of(span.old_last) end,
            case when not now.is_integer then telemetry.float_of(span.new_last) end,
            case when now.is_integer then telemetry.bigint_of(span.new_last) end,
            case when not typed.is_integer then telemetry.float_of(disarray.span_delta(span, false)) end,
            case when typed.is_integer then disarray.span_delta(span, true) end,
            case when not typed.is_integer then telemetry.float_of(span.least) end,
            case when typed.is_integer then span.least end,
            case when not typed.is_integer then telemetry.float_of(span.greatest) end,
            case when typed.is_integer then span.greatest end,
            array(
                select uri.name
                from jsonb_array_elements_text(p_restates -> 'source_uris') as uri (name)
                order by uri.name
            ),
            p_restates ->> 'former_scan_version' is not null,
            p_now
        from disarray.restated_spans(p_dataset, p_subject_key, p_restates, p_moved) as span
        inner join disarray.subject_version as made
            on
                made.subject_key = p_subject_key
                and made.dataset = p_dataset
        inner join disarray.metric as now
            on
                now.dataset = p_dataset
                and made.scan_version = now.scan_version
                and span.metric = now.metric
        inner join disarray.metric as was
            on
                was.dataset = p_dataset
                and was.scan_version = coalesce(p_restates ->> 'former_scan_version', made.scan_version)
                and span.metric = was.metric
        cross join lateral (select was.is_integer and now.is_integer as is_integer) as typed
        order by
            span.metric,
            span.channel,
            span.from_us
        returning
            restatement_id,
            metric,
            channel
    )

    select
        count(distinct (noted.metric, noted.channel)),
        array_agg(noted.restatement_id)
    into v_noted, v_restatement_ids
    from noted;
    if v_noted > 0 and disarray.has_hook('restatement') then
        perform disarray.note_restatement_effects(p_dataset, p_subject_key, p_restates ->> 'run_id', v_restatement_ids);
    end if;
    return v_noted;
end
$$;
comment on function disarray.note_restatements(text, text, jsonb, disarray.restated_span[], timestamptz) is
    'Write down the spans in which published values changed with the ranges that are being resolved; of how many metrics and channels.';

create function disarray.span_delta(p_span disarray.restated_span, p_is_integer boolean)
returns numeric
language sql
immutable
as $$
select case
    when p_is_integer and p_span.least = p_span.greatest then p_span.greatest
    when p_is_integer or p_span.new_last is null then null
    when p_span.greatest - p_span.least <= 1e-9 * (abs(p_span.old_last) + abs(p_span.new_last))
        then p_span.new_last - p_span.old_last
end
$$;
comment on function disarray.span_delta(disarray.restated_span, boolean) is 'The one difference of a span; NULL where it has more than one, or none.';

create function telemetry.final_totals(p_dataset text, p_subject_key text)
returns jsonb
language sql
stable
as $$
select coalesce(
    jsonb_agg(
        jsonb_build_object(
            'metric', newest.metric,
            'channel', newest.channel,
            'float', newest.total_float,
            'int', newest.total_int
        )
    ),
    '[]'
)
from (
    select distinct on (summary.metric, summary.channel)
        summary.metric,
        summary.channel,
        -- Not joined_float, which has no sum of numbers near the end of what a float can hold.
        telemetry.carried_float(metric.kind, true, summary.base_float, summary.total_float) as total_float,
        telemetry.carried_int(metric.kind, true, summary.base_int, summary.total_int) as total_int
    from disarray.segment_metric as summary
    inner join disarray.subject_version as made
        on
            summary.subject_key = made.subject_key
            and summary.dataset = made.dataset
    inner join disarray.metric as metric
        on
            made.dataset = metric.dataset
            and made.scan_version = metric.scan_version
            and summary.metric = metric.metric
    where
        summary.dataset = p_dataset
        and summary.subject_key = p_subject_key
    order by
        summary.metric,
        summary.channel,
        summary.segment_us desc,
        summary.piece desc
) as newest
$$;
comment on function telemetry.final_totals(text, text) is 'The newest value of every metric and channel of a subject.';
