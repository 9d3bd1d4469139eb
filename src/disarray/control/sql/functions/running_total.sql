-- Canonical arithmetic over summaries. The kernels fold readings inside a segment; what carries values from segment
-- to segment is here and nowhere else. float8 throughout, in the order and with the brackets written: other brackets
-- give other bits.

create function telemetry.junction_float(
    p_kind text,
    p_method text,
    p_max_gap_us bigint,
    p_from_us bigint,
    p_from float8,
    p_from_break text,
    p_to_us bigint,
    p_to float8,
    p_to_break text
)
returns float8
language sql
immutable
as $$
select case
    when p_from_us is null or p_to_us is null then 0::float8
    when p_kind = 'increase' and p_to < p_from then p_to
    when p_kind = 'increase' then p_to - p_from
    when p_kind <> 'integral' then 0::float8
    when p_to_us - p_from_us > p_max_gap_us or p_from_break is distinct from p_to_break then 0::float8
    -- PostgreSQL refuses a product that underflows, NumPy does not: below this the kernels count nothing as well.
    when p_method = 'previous' and abs(p_from) < 1e-280 then 0::float8
    when p_method = 'previous' then p_from * ((p_to_us - p_from_us)::float8 / 1e6::float8)
    when abs(p_from + p_to) < 1e-280 then 0::float8
    else ((p_from + p_to) * 0.5::float8) * ((p_to_us - p_from_us)::float8 / 1e6::float8)
end
$$;
comment on function telemetry.junction_float(text, text, bigint, bigint, float8, text, bigint, float8, text) is
    'The step between the last point before a segment and its first one, for float metrics.';

create function telemetry.junction_int(p_kind text, p_from_us bigint, p_from bigint, p_to_us bigint, p_to bigint)
returns bigint
language sql
immutable
as $$
select case
    when p_kind <> 'increase' or p_from_us is null or p_to_us is null then 0
    when p_to < p_from then p_to
    else p_to - p_from
end
$$;
comment on function telemetry.junction_int(text, bigint, bigint, bigint, bigint) is
    'The step between the last point before a segment and its first one, for integer metrics.';

create function telemetry.float_difference(p_old float8, p_new float8)
returns float8
language sql
immutable
as $$
select case when greatest(abs(p_old), abs(p_new)) <= 8e307 then p_new - p_old end
$$;
comment on function telemetry.float_difference(float8, float8) is 'By how much a value grew; NULL where one of them is so large that this might be none.';

create function telemetry.float_sum(p_left float8, p_right float8)
returns float8
language sql
immutable
as $$
select case when greatest(abs(p_left), abs(p_right)) <= 8e307 then p_left + p_right end
$$;
comment on function telemetry.float_sum(float8, float8) is 'A sum; NULL where one of both is so large that it might be none.';

create function telemetry.joined_float(p_kind text, p_base float8, p_local float8)
returns float8
language sql
immutable
as $$
select case p_kind
    when 'min' then least(p_base, p_local)
    when 'max' then greatest(p_base, p_local)
    else telemetry.float_sum(p_base, p_local)
end
$$;
comment on function telemetry.joined_float(text, float8, float8) is 'A base and a fold within its segment as one value, for float metrics.';

create function telemetry.joined_int(p_kind text, p_base numeric, p_local numeric)
returns numeric
language sql
immutable
as $$
select case p_kind
    when 'min' then least(p_base, p_local)
    when 'max' then greatest(p_base, p_local)
    else p_base + p_local
end
$$;
comment on function telemetry.joined_int(text, numeric, numeric) is 'A base and a fold within its segment as one value, for integer metrics.';

create function telemetry.shift_bases(
    p_dataset text,
    p_subject_key text,
    p_frontier_us bigint,
    p_restates jsonb,
    out bases_shifted bigint,
    out moved disarray.restated_span[]
)
language plpgsql
-- Where a table has no statistics yet every estimate is one row, and a nested loop would fold all over again for each
-- base that it looks at. A merge by time alone would compare every channel with every other.
set enable_nestloop = off
set enable_mergejoin = off
-- Planning takes longer than running; a plan that is kept must be good for long histories, also if it was made for none.
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set extra_float_digits = 1
as $$
declare
    -- Until a subject is rebuilt its summaries are those of the former definition, and so is the way to add them up.
    v_scan_version constant text := (
        select made.scan_version
        from disarray.subject_version as made
        where
            made.subject_key = p_subject_key
            and made.dataset = p_dataset
    );
    v_changed constant bigint[] := array(
        select changed.segment_us::bigint
        from jsonb_array_elements_text(p_restates -> 'changed') as changed (segment_us)
        order by changed.segment_us::bigint
    );
begin
    with series as (
        select distinct
            summary.metric,
            summary.channel
        from disarray.segment_metric as summary
        where
            summary.dataset = p_dataset
            and summary.subject_key = p_subject_key
            and summary.segment_us >= p_frontier_us
    ),

    -- The last piece before the frontier seeds the fold with what is stored; everything from the frontier on follows.
    pieces as (
        select
            seed.*,
            true as is_seed
        from series
        cross join lateral (
            select
                summary.*,
                summary.ctid as place_on_disk
            from disarray.segment_metric as summary
            where
                summary.dataset = p_dataset
                and summary.subject_key = p_subject_key
                and summary.metric = series.metric
                and summary.channel = series.channel
                and summary.segment_us < p_frontier_us
            order by
                summary.segment_us desc,
                summary.piece desc
            limit 1
        ) as seed
        union all
        select
            summary.*,
            summary.ctid as place_on_disk,
            false as is_seed
        from disarray.segment_metric as summary
        where
            summary.dataset = p_dataset
            and summary.subject_key = p_subject_key
            and summary.segment_us >= p_frontier_us
    ),

    ordered as (
        select
            pieces.*,
            lag(pieces.last_reset) over in_time as former_reset,
            row_number() over in_time as place
        from pieces
        window in_time as (partition by pieces.metric, pieces.channel order by pieces.segment_us, pieces.piece)
    ),

    -- Nothing is carried over a reset: each stretch between two of them is an island that starts at zero.
    islands as (
        select
            ordered.*,
            count(*) filter (
                where ordered.place > 1 and (ordered.piece = 1 or ordered.first_reset is distinct from ordered.former_reset)
            ) over (
                partition by ordered.metric, ordered.channel
                order by ordered.segment_us, ordered.piece
            ) as island,
            case when ordered.points > 0 then ordered.last_us when ordered.is_seed then ordered.prior_us end as end_us,
            case when ordered.points > 0 then ordered.last_float when ordered.is_seed then ordered.prior_float end as end_float,
            case when ordered.points > 0 then ordered.last_int when ordered.is_seed then ordered.prior_int end as end_int,
            case when ordered.points > 0 then ordered.last_break when ordered.is_seed then ordered.prior_break end as end_break
        from ordered
    ),

    -- A piece without points hands on the last point before it: group each piece with those that follow it pointless.
    grouped as (
        select
            islands.*,
            count(islands.end_us) over (
                partition by islands.metric, islands.channel, islands.island
                order by islands.segment_us, islands.piece
            ) as point_group
        from islands
    ),

    handed as (
        select
            grouped.*,
            first_value(grouped.end_us) over of_group as hand_us,
            first_value(grouped.end_float) over of_group as hand_float,
            first_value(grouped.end_int) over of_group as hand_int,
            first_value(grouped.end_break) over of_group as hand_break
        from grouped
        window of_group as (
            partition by grouped.metric, grouped.channel, grouped.island, grouped.point_group
            order by grouped.segment_us, grouped.piece
        )
    ),

    linked as (
        select
            handed.*,
            row_number() over in_island as place_in_island,
            lag(handed.hand_us) over in_island as from_us,
            lag(handed.hand_float) over in_island as from_float,
            lag(handed.hand_int) over in_island as from_int,
            lag(handed.hand_break) over in_island as from_break,
            lag(handed.total_float) over in_island as former_float,
            lag(handed.total_int) over in_island as former_int
        from handed
        window in_island as (
            partition by handed.metric, handed.channel, handed.island
            order by handed.segment_us, handed.piece
        )
    ),

    -- The seed is the first element of the sum: added to the sum of the rest it would give other bits.
    elements as (
        select
            linked.*,
            metric.kind,
            case
                when metric.is_integer then null
                when linked.place_in_island = 1 and linked.is_seed then linked.base_float
                when linked.place_in_island = 1 and metric.kind not in ('min', 'max') then 0::float8
                when metric.kind in ('min', 'max') then linked.former_float
                else linked.former_float + telemetry.junction_float(
                    metric.kind, metric.method, metric.max_gap_us,
                    linked.from_us, linked.from_float, linked.from_break,
                    linked.first_us, linked.first_float, linked.first_break
                )
            end as element_float,
            case
                when not metric.is_integer then null
                when linked.place_in_island = 1 and linked.is_seed then linked.base_int
                when linked.place_in_island = 1 and metric.kind not in ('min', 'max') then 0
                when metric.kind in ('min', 'max') then linked.former_int
                else linked.former_int + telemetry.junction_int(
                    metric.kind, linked.from_us, linked.from_int, linked.first_us, linked.first_int
                )
            end as element_int
        from linked
        inner join disarray.metric as metric
            on
                linked.dataset = metric.dataset
                and metric.scan_version = v_scan_version
                and linked.metric = metric.metric
    ),

    folded as (
        select
            elements.*,
            case elements.kind
                when 'min' then min(elements.element_float) over in_island
                when 'max' then max(elements.element_float) over in_island
                else sum(elements.element_float) over in_island
            end as new_base_float,
            case elements.kind
                when 'min' then min(elements.element_int) over in_island
                when 'max' then max(elements.element_int) over in_island
                else (sum(elements.element_int) over in_island)::bigint
            end as new_base_int
        from elements
        window in_island as (
            partition by elements.metric, elements.channel, elements.island
            order by elements.segment_us, elements.piece
            rows between unbounded preceding and current row
        )
    ),

    -- Worked out once, and each row found again by where it stands: a planner that takes a subject for small (a new one
    -- always is) would otherwise fold the whole history anew for each of its rows.
    shifted as materialized (
        select
            folded.*,
            -- Where the piece after a reset begins: from there on nothing of the piece before it can be read.
            lead(folded.first_reading_us) over (
                partition by folded.metric, folded.channel, folded.segment_us
                order by folded.piece
            ) as tail_from_us,
            case
                when folded.kind in ('min', 'max') or folded.place_in_island = 1 then folded.new_base_float
                else lag(folded.new_base_float) over in_island + folded.former_float
            end as new_before_float,
            case
                when folded.kind in ('min', 'max') or folded.place_in_island = 1 then folded.new_base_int
                else lag(folded.new_base_int) over in_island + folded.former_int
            end as new_before_int
        from folded
        window in_island as (
            partition by folded.metric, folded.channel, folded.island
            order by folded.segment_us, folded.piece
        )
    ),

    updated as (
        update disarray.segment_metric as summary
        set
            base_float = shifted.new_base_float,
            base_int = shifted.new_base_int,
            before_float = shifted.new_before_float,
            before_int = shifted.new_before_int,
            prior_us = shifted.from_us,
            prior_float = shifted.from_float,
            prior_int = shifted.from_int,
            prior_break = shifted.from_break
        from shifted
        where
            not shifted.is_seed
            and summary.ctid = shifted.place_on_disk
            and (
                summary.base_float, summary.base_int, summary.before_float, summary.before_int,
                summary.prior_us, summary.prior_float, summary.prior_int, summary.prior_break
            ) is distinct from (
                shifted.new_base_float, shifted.new_base_int, shifted.new_before_float, shifted.new_before_int,
                shifted.from_us, shifted.from_float, shifted.from_int, shifted.from_break
            )
        returning summary.ctid
    ),

    -- From here on for the ledger alone. Of segments that were scanned again, those series whose folds stayed as they were
    -- are compared by the bases of before; the others are told by their stretches.
    head as (
        select
            given.segment_us,
            given.metric,
            given.channel,
            given.base_float,
            given.base_int,
            given.before_float,
            given.before_int
        from jsonb_to_recordset(p_restates -> 'heads') as given (
            segment_us bigint, metric text, channel text,
            base_float float8, base_int bigint, before_float float8, before_int bigint
        )
    ),

    -- A segment that was scanned again is here even if its row is not updated: written anew, it may have no base, as after.
    compared as (
        select
            shifted.metric,
            shifted.channel,
            shifted.segment_us,
            shifted.points,
            shifted.kind,
            shifted.place,
            width_bucket(shifted.segment_us, v_changed) as changed_before,
            coalesce(shifted.first_reading_us, shifted.segment_us) as first_reading_us,
            least(coalesce(shifted.last_reading_us, shifted.segment_us), shifted.tail_from_us - 1) as last_readable_us,
            shifted.first_us,
            -- The fold at the first point. All at one instant, only the value after the last reading could ever be read.
            case
                when shifted.first_us = coalesce(shifted.last_reading_us, shifted.segment_us) then shifted.total_float
                when shifted.kind in ('sum', 'min', 'max') then shifted.first_float
                else 0::float8
            end as local_first_float,
            case
                when shifted.first_us = coalesce(shifted.last_reading_us, shifted.segment_us) then shifted.total_int::numeric
                when shifted.kind in ('sum', 'min', 'max') then shifted.first_int::numeric
                when shifted.kind = 'count' then 1
                else 0
            end as local_first_int,
            shifted.total_float,
            shifted.total_int::numeric as total_int,
            case when head.metric is null then shifted.base_float else head.base_float end as old_base_float,
            case when head.metric is null then shifted.base_int else head.base_int end::numeric as old_base_int,
            case when head.metric is null then shifted.before_float else head.before_float end as old_before_float,
            case when head.metric is null then shifted.before_int else head.before_int end::numeric as old_before_int,
            shifted.new_base_float,
            shifted.new_base_int::numeric as new_base_int,
            shifted.new_before_float,
            shifted.new_before_int::numeric as new_before_int
        from shifted
        left join head
            on
                shifted.segment_us = head.segment_us
                and shifted.metric = head.metric
                and shifted.channel = head.channel
        where
            p_restates is not null
            and not shifted.is_seed
            and shifted.piece = 0
            and (head.metric is not null or v_changed[width_bucket(shifted.segment_us, v_changed)] is distinct from shifted.segment_us)
            -- A reset at the very instant of its only readings leaves nothing of it to be read.
            and (shifted.tail_from_us > coalesce(shifted.first_reading_us, shifted.segment_us)) is not false
    ),

    -- A piece shows the value before it up to its first point, and base and fold from there on.
    part as (
        select
            compared.metric,
            compared.channel,
            compared.changed_before,
            compared.kind,
            compared.place,
            0 as number,
            compared.first_reading_us as from_us,
            case
                when compared.points = 0 then compared.last_readable_us
                else least(compared.first_us - 1, compared.last_readable_us)
            end as to_us,
            compared.old_before_float as old_first_float,
            compared.old_before_int as old_first_int,
            compared.new_before_float as new_first_float,
            compared.new_before_int as new_first_int,
            compared.old_before_float as old_last_float,
            compared.old_before_int as old_last_int,
            compared.new_before_float as new_last_float,
            compared.new_before_int as new_last_int
        from compared
        where
            (compared.points = 0 or compared.first_us > compared.first_reading_us)
            and (compared.old_before_float, compared.old_before_int) is distinct from (compared.new_before_float, compared.new_before_int)
        union all
        select
            compared.metric,
            compared.channel,
            compared.changed_before,
            compared.kind,
            compared.place,
            1,
            compared.first_us,
            compared.last_readable_us,
            telemetry.joined_float(compared.kind, compared.old_base_float, compared.local_first_float),
            telemetry.joined_int(compared.kind, compared.old_base_int, compared.local_first_int),
            telemetry.joined_float(compared.kind, compared.new_base_float, compared.local_first_float),
            telemetry.joined_int(compared.kind, compared.new_base_int, compared.local_first_int),
            telemetry.joined_float(compared.kind, compared.old_base_float, compared.total_float),
            telemetry.joined_int(compared.kind, compared.old_base_int, compared.total_int),
            telemetry.joined_float(compared.kind, compared.new_base_float, compared.total_float),
            telemetry.joined_int(compared.kind, compared.new_base_int, compared.total_int)
        from compared
        where
            compared.points > 0
            and compared.first_us <= compared.last_readable_us
            and (compared.old_base_float, compared.old_base_int) is distinct from (compared.new_base_float, compared.new_base_int)
    ),

    differing as (
        select
            part.*,
            telemetry.float_difference(part.old_first_float, part.new_first_float) as first_float,
            telemetry.float_difference(part.old_last_float, part.new_last_float) as last_float,
            part.new_first_int - part.old_first_int as first_int,
            part.new_last_int - part.old_last_int as last_int,
            -- Not so small that a product with it underflows, which PostgreSQL refuses.
            greatest(abs(part.old_last_float), abs(part.new_last_float), 1e-280) as size
        from part
        where
            (part.old_last_float is not null or part.old_last_int is not null)
            -- Between its first and its last point an extreme lies nowhere further from what it was than at one of both.
            and (
                part.kind not in ('min', 'max')
                or (part.old_first_float, part.old_first_int, part.old_last_float, part.old_last_int)
                is distinct from (part.new_first_float, part.new_first_int, part.new_last_float, part.new_last_int)
            )
    ),

    judged as (
        select
            differing.*,
            abs(differing.first_float - differing.last_float) <= 1e-11::float8 * differing.size
            or differing.first_int = differing.last_int as is_constant
        from differing
    ),

    -- Neighbours that moved by the same are told as one: of floats, the same up to the rounding of their sums.
    marked as (
        select
            judged.*,
            coalesce(
                judged.is_constant
                and lag(judged.is_constant) over in_time
                and judged.place - lag(judged.place) over in_time <= 1
                and judged.changed_before = lag(judged.changed_before) over in_time
                and (
                    abs(judged.first_float - lag(judged.last_float) over in_time)
                    <= 1e-11::float8 * greatest(judged.size, lag(judged.size) over in_time)
                    or judged.first_int = lag(judged.last_int) over in_time
                ),
                false
            ) as goes_on
        from judged
        window in_time as (partition by judged.metric, judged.channel order by judged.place, judged.number)
    ),

    numbered as (
        select
            marked.*,
            count(*) filter (where not marked.goes_on) over in_time as run,
            coalesce(not lead(marked.goes_on) over in_time, true) as is_last
        from marked
        window in_time as (partition by marked.metric, marked.channel order by marked.place, marked.number)
    ),

    run as (
        select
            numbered.metric,
            numbered.channel,
            min(numbered.from_us) as from_us,
            max(numbered.to_us) as to_us,
            max(numbered.old_first_float) filter (where not numbered.goes_on) as old_first_float,
            max(numbered.old_first_int) filter (where not numbered.goes_on) as old_first_int,
            max(numbered.new_first_float) filter (where not numbered.goes_on) as new_first_float,
            max(numbered.new_first_int) filter (where not numbered.goes_on) as new_first_int,
            max(numbered.old_last_float) filter (where numbered.is_last) as old_last_float,
            max(numbered.old_last_int) filter (where numbered.is_last) as old_last_int,
            max(numbered.new_last_float) filter (where numbered.is_last) as new_last_float,
            max(numbered.new_last_int) filter (where numbered.is_last) as new_last_int,
            min(least(numbered.first_float, numbered.last_float)) as least_float,
            min(least(numbered.first_int, numbered.last_int)) as least_int,
            max(greatest(numbered.first_float, numbered.last_float)) as greatest_float,
            max(greatest(numbered.first_int, numbered.last_int)) as greatest_int
        from numbered
        group by
            numbered.metric,
            numbered.channel,
            numbered.run
    )

    select
        (select count(*) from updated),
        array(
            select
                row(
                    run.metric,
                    run.channel,
                    run.from_us,
                    run.to_us,
                    coalesce(run.old_first_int, run.old_first_float::text::numeric),
                    coalesce(run.new_first_int, run.new_first_float::text::numeric),
                    coalesce(run.old_last_int, run.old_last_float::text::numeric),
                    coalesce(run.new_last_int, run.new_last_float::text::numeric),
                    coalesce(run.least_int, run.least_float::text::numeric),
                    coalesce(run.greatest_int, run.greatest_float::text::numeric),
                    true
                )::disarray.restated_span
            from run
        )
    into
        shift_bases.bases_shifted,
        shift_bases.moved;
end
$$;
comment on function telemetry.shift_bases(text, text, bigint, jsonb) is
    'Shift the bases of a subject from a frontier on, in one pass over summaries; how many changed. Readings are never touched. '
    'With what former_values said of a commit, also which published values moved with bases alone.';

create function telemetry.recompute_running_totals(p_dataset text, p_subject_key text, p_frontier_us bigint)
returns bigint
language sql
as $$
select shifted.bases_shifted
from telemetry.shift_bases(p_dataset, p_subject_key, p_frontier_us, null) as shifted
$$;
comment on function telemetry.recompute_running_totals(text, text, bigint) is
    'Shift the bases of a subject from a frontier on, in one pass over summaries; how many changed. Readings are never touched.';
