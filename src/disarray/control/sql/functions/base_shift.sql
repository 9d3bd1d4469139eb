-- The shift of bases behind what a commit changed: over summaries, in one statement, with the arithmetic of running_total.sql.
-- Readings are never touched.

create function telemetry.float_difference(p_old float8, p_new float8)
returns float8
language sql
immutable
as $$
select case when greatest(abs(p_old), abs(p_new)) <= 8e307 then p_new - p_old end
$$;
comment on function telemetry.float_difference(float8, float8) is 'By how much a value grew; NULL where one of them is so large that this might be none.';

create function telemetry.shift_bases(
    p_dataset text,
    p_subject_key text,
    p_frontier_us bigint,
    p_restates jsonb,
    p_changed bigint[] default null,
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
-- Compiling what is planned for long histories takes seconds; who comes through a pooler has it on.
set jit = off
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
    v_block_length_us constant bigint := (
        select made.block_length_us
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
    v_first_block_us bigint;
    v_blocks bigint[];
    v_frontiers bigint[];
begin
    v_first_block_us := telemetry.block_of(p_frontier_us, v_block_length_us);
    -- Known before the rest is planned: a guess of two hundred thousand blocks would have all that is looked up below read whole.
    select
        array_agg(own.block_us),
        array_agg(own.frontier_us)
    into v_blocks, v_frontiers
    from (
        select
            telemetry.block_of(changed.segment_us, v_block_length_us) as block_us,
            min(changed.segment_us) as frontier_us
        from unnest(p_changed) as changed (segment_us)
        group by 1
        union all
        select
            own.block_us,
            greatest(own.block_us, p_frontier_us)
        from (
            select summary.block_us
            from disarray.segment_summary as summary
            where
                summary.dataset = p_dataset
                and summary.subject_key = p_subject_key
                and summary.segment_us >= p_frontier_us
            union
            select block.block_us
            from disarray.metric_block as block
            where
                block.dataset = p_dataset
                and block.subject_key = p_subject_key
                and block.block_us >= v_first_block_us
        ) as own
        where p_changed is null
    ) as own;
    with touched as materialized (
        select
            own.block_us,
            own.frontier_us
        from unnest(v_blocks, v_frontiers) as own (block_us, frontier_us)
    ),

    -- By series and touched block; of a block that has nothing any more the row is still there.
    series as materialized (
        select
            summary.metric,
            summary.channel,
            touched.block_us,
            touched.frontier_us
        from touched
        cross join lateral (
            select distinct
                own.metric,
                own.channel
            from disarray.segment_summary as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.segment_us >= touched.frontier_us
                and own.segment_us < touched.block_us + v_block_length_us
        ) as summary
        union
        select
            block.metric,
            block.channel,
            touched.block_us,
            touched.frontier_us
        from touched
        cross join lateral (
            select
                own.metric,
                own.channel
            from disarray.metric_block as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.block_us = touched.block_us
        ) as block
    ),

    -- The last piece of a block before its frontier seeds the fold with what is stored; everything from the frontier on follows.
    pieces as (
        select
            seed.*,
            true as is_seed
        from series
        cross join lateral (
            select
                summary.*,
                summary.ctid as place_on_disk
            from disarray.segment_summary as summary
            where
                summary.dataset = p_dataset
                and summary.subject_key = p_subject_key
                and summary.metric = series.metric
                and summary.channel = series.channel
                and summary.segment_us >= series.block_us
                and summary.segment_us < series.frontier_us
            order by
                summary.segment_us desc,
                summary.piece desc
            limit 1
        ) as seed
        union all
        select
            summary.*,
            false as is_seed
        from touched
        cross join lateral (
            select
                own.*,
                own.ctid as place_on_disk
            from disarray.segment_summary as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.segment_us >= touched.frontier_us
                and own.segment_us < touched.block_us + v_block_length_us
        ) as summary
    ),

    -- One window for all of it, and no column that is not looked at again: what is wide here is copied for every piece, three times.
    carried as (
        select
            pieces.metric,
            pieces.channel,
            pieces.block_us,
            pieces.segment_us,
            pieces.piece,
            pieces.points,
            pieces.total_float,
            pieces.total_int,
            pieces.first_us,
            pieces.first_float,
            pieces.first_int,
            pieces.first_break,
            pieces.first_reset,
            pieces.last_reset,
            pieces.first_reading_us,
            pieces.last_reading_us,
            pieces.reset_us,
            pieces.base_float,
            pieces.base_int,
            pieces.before_float,
            pieces.before_int,
            pieces.prior_us,
            pieces.is_carried,
            pieces.place_on_disk,
            pieces.is_seed,
            metric.kind,
            telemetry.carry(
                row(
                    metric.kind, metric.method, metric.max_gap_us, metric.is_integer, pieces.piece, false, null, null,
                    pieces.total_float, pieces.total_int,
                    pieces.first_us, pieces.first_float, pieces.first_int, pieces.first_break, pieces.first_reset,
                    pieces.last_us, pieces.last_float, pieces.last_int, pieces.last_break, pieces.last_reset,
                    pieces.is_seed, pieces.is_carried, pieces.base_float, pieces.base_int,
                    pieces.prior_us, pieces.prior_float, pieces.prior_int, pieces.prior_break
                )::disarray.carried_piece
            ) over in_time as own,
            -- Where the readings after a reset begin: from there on nothing of the piece before it can be read. Of a summary
            -- that does not know it only the last reset is known, which hides no more.
            coalesce(
                pieces.reset_us,
                case
                    when lead(pieces.segment_us) over in_time = pieces.segment_us then lead(pieces.first_reading_us) over in_time
                end
            ) as hidden_from_us,
            lag(pieces.segment_us) over in_time is null as is_first,
            lead(pieces.segment_us) over in_time is null as is_last
        from pieces
        inner join disarray.metric as metric
            on
                pieces.dataset = metric.dataset
                and metric.scan_version = v_scan_version
                and pieces.metric = metric.metric
        window in_time as (
            partition by pieces.metric, pieces.channel, pieces.block_us
            order by pieces.segment_us, pieces.piece
            rows between unbounded preceding and current row
        )
    ),

    -- Worked out once, and each row found again by where it stands: a planner that takes a subject for small (a new one
    -- always is) would otherwise fold the whole history anew for each of its rows.
    folded as materialized (
        select
            carried.*,
            (carried.own).base_float as new_base_float,
            (carried.own).base_int as new_base_int,
            (carried.own).before_float as new_before_float,
            (carried.own).before_int as new_before_int,
            (carried.own).prior_us as new_prior_us,
            (carried.own).is_carried as new_is_carried
        from carried
    ),

    opened as (
        select distinct on (folded.metric, folded.channel, folded.block_us)
            folded.metric,
            folded.channel,
            folded.block_us,
            folded.first_us,
            folded.first_float,
            folded.first_int,
            folded.first_break
        from folded
        where
            folded.new_is_carried
            and folded.points > 0
        order by
            folded.metric,
            folded.channel,
            folded.block_us,
            folded.segment_us
    ),

    headed as (
        select
            folded.metric,
            folded.channel,
            folded.block_us,
            max(folded.segment_us) filter (
                where
                folded.new_is_carried
                and (folded.hidden_from_us > coalesce(folded.first_reading_us, folded.segment_us)) is not false
            ) as segment_us
        from folded
        group by
            folded.metric,
            folded.channel,
            folded.block_us
    ),

    -- The touched blocks as they are now. Where a piece before the frontier remains, their beginning is what it was.
    remade as (
        select
            ending.metric,
            ending.channel,
            ending.block_us,
            ending.kind,
            case when is_kept.point then stored.first_us else opened.first_us end as first_us,
            case when is_kept.point then stored.first_float else opened.first_float end as first_float,
            case when is_kept.point then stored.first_int else opened.first_int end as first_int,
            case when is_kept.point then stored.first_break else opened.first_break end as first_break,
            case when opening.is_seed then stored.first_reset else opening.first_reset end as first_reset,
            not ending.new_is_carried as restarts,
            ending.new_base_float as offset_float,
            ending.new_base_int as offset_int,
            ending.total_float,
            ending.total_int,
            (ending.own).last_us,
            (ending.own).last_float,
            (ending.own).last_int,
            (ending.own).last_break,
            ending.last_reset,
            case when opening.is_seed and not opening.new_is_carried then stored.head_segment_us else headed.segment_us end as head_segment_us,
            true as is_touched
        from folded as ending
        inner join folded as opening
            on
                ending.metric = opening.metric
                and ending.channel = opening.channel
                and ending.block_us = opening.block_us
                and opening.is_first
        inner join headed
            on
                ending.metric = headed.metric
                and ending.channel = headed.channel
                and ending.block_us = headed.block_us
        left join opened
            on
                ending.metric = opened.metric
                and ending.channel = opened.channel
                and ending.block_us = opened.block_us
        left join disarray.metric_block as stored
            on
                stored.dataset = p_dataset
                and stored.subject_key = p_subject_key
                and ending.metric = stored.metric
                and ending.channel = stored.channel
                and ending.block_us = stored.block_us
        cross join lateral (
            select opening.is_seed and (not opening.new_is_carried or opening.points > 0 or opening.prior_us is not null) as point
        ) as is_kept
        where ending.is_last
    ),

    affected as (
        select
            series.metric,
            series.channel,
            min(series.block_us) as block_us
        from series
        group by
            series.metric,
            series.channel
    ),

    -- Every block from the first touched one on, and the one before it, which seeds the fold.
    chain as (
        select
            remade.metric,
            remade.channel,
            remade.block_us,
            remade.kind,
            remade.first_us,
            remade.first_float,
            remade.first_int,
            remade.first_break,
            remade.first_reset,
            remade.restarts,
            remade.offset_float,
            remade.offset_int,
            remade.total_float,
            remade.total_int,
            remade.last_us,
            remade.last_float,
            remade.last_int,
            remade.last_break,
            remade.last_reset,
            remade.head_segment_us,
            remade.is_touched,
            false as is_seed
        from remade
        union all
        select
            block.metric,
            block.channel,
            block.block_us,
            block.kind,
            block.first_us,
            block.first_float,
            block.first_int,
            block.first_break,
            block.first_reset,
            block.restarts,
            block.offset_float,
            block.offset_int,
            block.total_float,
            block.total_int,
            block.last_us,
            block.last_float,
            block.last_int,
            block.last_break,
            block.last_reset,
            block.head_segment_us,
            false,
            false
        from affected
        cross join lateral (
            select own.*
            from disarray.metric_block as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.metric = affected.metric
                and own.channel = affected.channel
                and own.block_us > affected.block_us
        ) as block
        left join series
            on
                block.metric = series.metric
                and block.channel = series.channel
                and block.block_us = series.block_us
        where series.block_us is null
        union all
        select
            seed.metric,
            seed.channel,
            seed.block_us,
            seed.kind,
            seed.first_us,
            seed.first_float,
            seed.first_int,
            seed.first_break,
            seed.first_reset,
            seed.restarts,
            seed.offset_float,
            seed.offset_int,
            seed.total_float,
            seed.total_int,
            seed.last_us,
            seed.last_float,
            seed.last_int,
            seed.last_break,
            seed.last_reset,
            seed.head_segment_us,
            false,
            true
        from affected
        cross join lateral (
            select own.*
            from disarray.metric_block as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.metric = affected.metric
                and own.channel = affected.channel
                and own.block_us < affected.block_us
            order by own.block_us desc
            limit 1
        ) as seed
    ),

    chained as (
        select
            chain.*,
            stored.ctid as place_on_disk,
            stored.base_float as old_base_float,
            stored.base_int as old_base_int,
            stored.before_float as old_before_float,
            stored.before_int as old_before_int,
            stored.prior_us as old_prior_us,
            stored.prior_float as old_prior_float,
            stored.prior_int as old_prior_int,
            stored.prior_break as old_prior_break,
            telemetry.carry(
                row(
                    metric.kind, metric.method, metric.max_gap_us, metric.is_integer, 0, chain.restarts, chain.offset_float, chain.offset_int,
                    chain.total_float, chain.total_int,
                    chain.first_us, chain.first_float, chain.first_int, chain.first_break, chain.first_reset,
                    chain.last_us, chain.last_float, chain.last_int, chain.last_break, chain.last_reset,
                    chain.is_seed, true, stored.base_float, stored.base_int,
                    stored.prior_us, stored.prior_float, stored.prior_int, stored.prior_break
                )::disarray.carried_piece
            ) over (
                partition by chain.metric, chain.channel
                order by chain.block_us
                rows between unbounded preceding and current row
            ) as own
        from chain
        inner join disarray.metric as metric
            on
                metric.dataset = p_dataset
                and metric.scan_version = v_scan_version
                and chain.metric = metric.metric
        left join disarray.metric_block as stored
            on
                stored.dataset = p_dataset
                and stored.subject_key = p_subject_key
                and chain.metric = stored.metric
                and chain.channel = stored.channel
                and chain.block_us = stored.block_us
    ),

    block as materialized (
        select
            chained.*,
            (chained.own).base_float as new_base_float,
            (chained.own).base_int as new_base_int,
            (chained.own).before_float as new_before_float,
            (chained.own).before_int as new_before_int,
            (
                chained.old_base_float, chained.old_base_int, chained.old_before_float, chained.old_before_int,
                chained.old_prior_us, chained.old_prior_float, chained.old_prior_int, chained.old_prior_break
            ) is distinct from (
                (chained.own).base_float, (chained.own).base_int, (chained.own).before_float, (chained.own).before_int,
                (chained.own).prior_us, (chained.own).prior_float, (chained.own).prior_int, (chained.own).prior_break
            ) as is_moved
        from chained
        where not chained.is_seed
    ),

    updated as (
        update disarray.segment_summary as summary
        set
            base_float = folded.new_base_float,
            base_int = folded.new_base_int,
            before_float = folded.new_before_float,
            before_int = folded.new_before_int,
            prior_us = (folded.own).prior_us,
            prior_float = (folded.own).prior_float,
            prior_int = (folded.own).prior_int,
            prior_break = (folded.own).prior_break,
            is_carried = folded.new_is_carried
        from folded
        where
            not folded.is_seed
            and summary.ctid = folded.place_on_disk
            -- Fetched by where they stand. Without this line the planner reads the summaries of all subjects to find them.
            and summary.ctid = any(array(select written.place_on_disk from folded as written where not written.is_seed))
            and (
                summary.base_float, summary.base_int, summary.before_float, summary.before_int,
                summary.prior_us, summary.prior_float, summary.prior_int, summary.prior_break, summary.is_carried
            ) is distinct from (
                folded.new_base_float, folded.new_base_int, folded.new_before_float, folded.new_before_int,
                (folded.own).prior_us, (folded.own).prior_float, (folded.own).prior_int, (folded.own).prior_break, folded.new_is_carried
            )
        returning summary.ctid
    ),

    emptied as (
        delete from disarray.metric_block as stored
        using series
        where
            stored.dataset = p_dataset
            and stored.subject_key = p_subject_key
            and stored.metric = series.metric
            and stored.channel = series.channel
            and stored.block_us = series.block_us
            and not exists (
                select
                from remade
                where
                    remade.metric = series.metric
                    and remade.channel = series.channel
                    and remade.block_us = series.block_us
            )
    ),

    rebased as (
        update disarray.metric_block as stored
        set
            base_float = block.new_base_float,
            base_int = block.new_base_int,
            before_float = block.new_before_float,
            before_int = block.new_before_int,
            prior_us = (block.own).prior_us,
            prior_float = (block.own).prior_float,
            prior_int = (block.own).prior_int,
            prior_break = (block.own).prior_break
        from block
        where
            not block.is_touched
            and block.is_moved
            and stored.ctid = block.place_on_disk
            and stored.ctid = any(
                array(select written.place_on_disk from block as written where not written.is_touched and written.is_moved)
            )
    ),

    put as (
        insert into disarray.metric_block as stored (
            dataset, subject_key, metric, channel, block_us, kind,
            first_us, first_float, first_int, first_break, first_reset, restarts, offset_float, offset_int, total_float, total_int,
            last_us, last_float, last_int, last_break, last_reset, head_segment_us,
            base_float, base_int, before_float, before_int, prior_us, prior_float, prior_int, prior_break
        )
        select
            p_dataset,
            p_subject_key,
            block.metric,
            block.channel,
            block.block_us,
            block.kind,
            block.first_us,
            block.first_float,
            block.first_int,
            block.first_break,
            block.first_reset,
            block.restarts,
            block.offset_float,
            block.offset_int,
            block.total_float,
            block.total_int,
            block.last_us,
            block.last_float,
            block.last_int,
            block.last_break,
            block.last_reset,
            block.head_segment_us,
            block.new_base_float,
            block.new_base_int,
            block.new_before_float,
            block.new_before_int,
            (block.own).prior_us,
            (block.own).prior_float,
            (block.own).prior_int,
            (block.own).prior_break
        from block
        where block.is_touched
        on conflict (dataset, subject_key, metric, channel, block_us) do update
        set
            kind = excluded.kind,
            first_us = excluded.first_us,
            first_float = excluded.first_float,
            first_int = excluded.first_int,
            first_break = excluded.first_break,
            first_reset = excluded.first_reset,
            restarts = excluded.restarts,
            offset_float = excluded.offset_float,
            offset_int = excluded.offset_int,
            total_float = excluded.total_float,
            total_int = excluded.total_int,
            last_us = excluded.last_us,
            last_float = excluded.last_float,
            last_int = excluded.last_int,
            last_break = excluded.last_break,
            last_reset = excluded.last_reset,
            head_segment_us = excluded.head_segment_us,
            base_float = excluded.base_float,
            base_int = excluded.base_int,
            before_float = excluded.before_float,
            before_int = excluded.before_int,
            prior_us = excluded.prior_us,
            prior_float = excluded.prior_float,
            prior_int = excluded.prior_int,
            prior_break = excluded.prior_break
        where stored.* is distinct from excluded.*
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

    -- Pieces of touched blocks: those from the frontier on, and those before it where the base of the block moved with another.
    seen as (
        select
            folded.metric,
            folded.channel,
            folded.block_us,
            folded.segment_us,
            folded.piece,
            folded.points,
            folded.first_reading_us,
            folded.last_reading_us,
            folded.reset_us,
            folded.first_us,
            folded.first_float,
            folded.first_int,
            folded.total_float,
            folded.total_int,
            folded.prior_us,
            folded.is_carried,
            folded.base_float,
            folded.base_int,
            folded.before_float,
            folded.before_int,
            folded.new_prior_us,
            folded.new_is_carried,
            folded.new_base_float,
            folded.new_base_int,
            folded.new_before_float,
            folded.new_before_int
        from folded
        where
            p_restates is not null
            and not folded.is_seed
        union all
        select
            summary.metric,
            summary.channel,
            summary.block_us,
            summary.segment_us,
            summary.piece,
            summary.points,
            summary.first_reading_us,
            summary.last_reading_us,
            summary.reset_us,
            summary.first_us,
            summary.first_float,
            summary.first_int,
            summary.total_float,
            summary.total_int,
            summary.prior_us,
            summary.is_carried,
            summary.base_float,
            summary.base_int,
            summary.before_float,
            summary.before_int,
            summary.prior_us,
            summary.is_carried,
            summary.base_float,
            summary.base_int,
            summary.before_float,
            summary.before_int
        from series
        inner join block
            on
                series.metric = block.metric
                and series.channel = block.channel
                and series.block_us = block.block_us
        cross join lateral (
            select own.*
            from disarray.segment_summary as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.metric = series.metric
                and own.channel = series.channel
                and own.segment_us >= series.block_us
                and own.segment_us < series.frontier_us
            -- Without it this was joined by reading all summaries of the subject.
            offset 0
        ) as summary
        where
            p_restates is not null
            and block.is_moved
    ),

    grounded as (
        select
            seen.metric,
            seen.channel,
            seen.segment_us,
            seen.piece,
            seen.points,
            block.kind,
            seen.first_reading_us,
            seen.last_reading_us,
            coalesce(
                seen.reset_us,
                lead(seen.first_reading_us) over (
                    partition by seen.metric, seen.channel, seen.segment_us
                    order by seen.piece
                )
            ) as hidden_from_us,
            seen.first_us,
            seen.first_float,
            seen.first_int,
            seen.total_float,
            seen.total_int,
            telemetry.carried_float(
                block.kind, seen.is_carried,
                case when seen.points = 0 and seen.prior_us is null then block.old_before_float else block.old_base_float end, seen.base_float
            ) as old_base_float,
            telemetry.carried_int(
                block.kind, seen.is_carried,
                case when seen.points = 0 and seen.prior_us is null then block.old_before_int else block.old_base_int end, seen.base_int
            ) as old_base_int,
            telemetry.carried_float(
                block.kind, seen.is_carried,
                case when seen.prior_us is null then block.old_before_float else block.old_base_float end, seen.before_float
            ) as old_before_float,
            telemetry.carried_int(
                block.kind, seen.is_carried,
                case when seen.prior_us is null then block.old_before_int else block.old_base_int end, seen.before_int
            ) as old_before_int,
            telemetry.carried_float(
                block.kind, seen.new_is_carried,
                case when seen.points = 0 and seen.new_prior_us is null then block.new_before_float else block.new_base_float end,
                seen.new_base_float
            ) as new_base_float,
            telemetry.carried_int(
                block.kind, seen.new_is_carried,
                case when seen.points = 0 and seen.new_prior_us is null then block.new_before_int else block.new_base_int end,
                seen.new_base_int
            ) as new_base_int,
            telemetry.carried_float(
                block.kind, seen.new_is_carried,
                case when seen.new_prior_us is null then block.new_before_float else block.new_base_float end, seen.new_before_float
            ) as new_before_float,
            telemetry.carried_int(
                block.kind, seen.new_is_carried,
                case when seen.new_prior_us is null then block.new_before_int else block.new_base_int end, seen.new_before_int
            ) as new_before_int
        from seen
        inner join block
            on
                seen.metric = block.metric
                and seen.channel = block.channel
                and seen.block_us = block.block_us
    ),

    -- A block that was not touched moves as one: only its first and its last value have to be looked up.
    whole as (
        select
            block.metric,
            block.channel,
            block.block_us,
            block.kind,
            block.first_us,
            coalesce(opening.first_reading_us, opening.segment_us) as first_reading_us,
            least(coalesce(closing.last_reading_us, closing.segment_us), coalesce(closing.reset_us, tail.first_reading_us) - 1) as last_readable_us,
            case when opening.is_pointed then opening.last_reading_us else pointed.last_reading_us end as first_until_us,
            case when opening.is_pointed then opening.first_float else pointed.first_float end as first_float,
            case when opening.is_pointed then opening.first_int else pointed.first_int end as first_int,
            case when opening.is_pointed then opening.total_float else pointed.total_float end as first_total_float,
            case when opening.is_pointed then opening.total_int else pointed.total_int end as first_total_int,
            closing.total_float,
            closing.total_int,
            block.old_base_float,
            block.old_base_int,
            block.old_before_float,
            block.old_before_int,
            block.new_base_float,
            block.new_base_int,
            block.new_before_float,
            block.new_before_int,
            telemetry.carried_float(block.kind, true, block.old_base_float, closing.base_float) as old_end_float,
            telemetry.carried_int(block.kind, true, block.old_base_int, closing.base_int) as old_end_int,
            telemetry.carried_float(block.kind, true, block.new_base_float, closing.base_float) as new_end_float,
            telemetry.carried_int(block.kind, true, block.new_base_int, closing.base_int) as new_end_int
        from block
        cross join lateral (
            select
                own.segment_us,
                own.first_reading_us,
                own.last_reading_us,
                own.first_float,
                own.first_int,
                own.total_float,
                own.total_int,
                -- Nearly always the first point of a block is in its first segment.
                own.piece = 0 and own.first_us is not distinct from block.first_us and own.first_us is not null as is_pointed
            from disarray.segment_summary as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.metric = block.metric
                and own.channel = block.channel
                and own.segment_us >= block.block_us
            order by
                own.segment_us,
                own.piece
            limit 1
        ) as opening
        cross join lateral (
            select own.*
            from disarray.segment_summary as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.metric = block.metric
                and own.channel = block.channel
                and own.segment_us = block.head_segment_us
                and own.piece = 0
            -- There is one at most. Without a limit these two were joined by reading all summaries of the subject.
            limit 1
        ) as closing
        left join lateral (
            select own.first_reading_us
            from disarray.segment_summary as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.metric = block.metric
                and own.channel = block.channel
                and own.segment_us = block.head_segment_us
                and own.piece = 1
            limit 1
        ) as tail on true
        left join lateral (
            select own.*
            from disarray.segment_summary as own
            where
                own.dataset = p_dataset
                and own.subject_key = p_subject_key
                and own.metric = block.metric
                and own.channel = block.channel
                and own.segment_us <= block.first_us
                and own.piece = 0
                and not opening.is_pointed
            order by own.segment_us desc
            limit 1
        ) as pointed on true
        where
            p_restates is not null
            and block.is_moved
            and not block.is_touched
    ),

    item as (
        select
            grounded.metric,
            grounded.channel,
            grounded.segment_us,
            grounded.piece,
            grounded.kind,
            grounded.points > 0 as has_points,
            false as is_block,
            coalesce(grounded.first_reading_us, grounded.segment_us) as first_reading_us,
            least(coalesce(grounded.last_reading_us, grounded.segment_us), grounded.hidden_from_us - 1) as last_readable_us,
            grounded.hidden_from_us,
            grounded.first_us,
            coalesce(grounded.last_reading_us, grounded.segment_us) as first_until_us,
            grounded.first_float,
            grounded.first_int,
            grounded.total_float as first_total_float,
            grounded.total_int as first_total_int,
            grounded.total_float,
            grounded.total_int,
            grounded.old_base_float,
            grounded.old_base_int,
            grounded.old_before_float,
            grounded.old_before_int,
            grounded.new_base_float,
            grounded.new_base_int,
            grounded.new_before_float,
            grounded.new_before_int,
            grounded.old_base_float as old_end_float,
            grounded.old_base_int as old_end_int,
            grounded.new_base_float as new_end_float,
            grounded.new_base_int as new_end_int
        from grounded
        union all
        select
            whole.metric,
            whole.channel,
            whole.block_us,
            0,
            whole.kind,
            whole.first_us is not null,
            true,
            whole.first_reading_us,
            whole.last_readable_us,
            null,
            whole.first_us,
            whole.first_until_us,
            whole.first_float,
            whole.first_int,
            whole.first_total_float,
            whole.first_total_int,
            whole.total_float,
            whole.total_int,
            whole.old_base_float,
            whole.old_base_int,
            whole.old_before_float,
            whole.old_before_int,
            whole.new_base_float,
            whole.new_base_int,
            whole.new_before_float,
            whole.new_before_int,
            whole.old_end_float,
            whole.old_end_int,
            whole.new_end_float,
            whole.new_end_int
        from whole
    ),

    placed as (
        select
            item.*,
            row_number() over (partition by item.metric, item.channel order by item.segment_us, item.piece) as place
        from item
    ),

    -- A segment that was scanned again is here even if its row is not updated: written anew, it may have no base, as after.
    compared as (
        select
            placed.metric,
            placed.channel,
            placed.segment_us,
            placed.has_points,
            placed.kind,
            placed.place,
            width_bucket(placed.segment_us, v_changed) as changed_before,
            placed.first_reading_us,
            placed.last_readable_us,
            placed.first_us,
            -- The fold at the first point. All at one instant, only the value after the last reading could ever be read.
            case
                when placed.first_us = placed.first_until_us then placed.first_total_float
                when placed.kind in ('sum', 'min', 'max') then placed.first_float
                when telemetry.is_additive(placed.kind) then 0::float8
            end as local_first_float,
            case
                when placed.first_us = placed.first_until_us then placed.first_total_int::numeric
                when placed.kind in ('sum', 'min', 'max') then placed.first_int::numeric
                when placed.kind = 'count' then 1
                when telemetry.is_additive(placed.kind) then 0
            end as local_first_int,
            placed.total_float,
            placed.total_int::numeric as total_int,
            case when head.metric is null then placed.old_base_float else head.base_float end as old_base_float,
            case when head.metric is null then placed.old_base_int else head.base_int end::numeric as old_base_int,
            case when head.metric is null then placed.old_before_float else head.before_float end as old_before_float,
            case when head.metric is null then placed.old_before_int else head.before_int end::numeric as old_before_int,
            case when head.metric is null then placed.old_end_float else head.base_float end as old_end_float,
            case when head.metric is null then placed.old_end_int else head.base_int end::numeric as old_end_int,
            placed.new_base_float,
            placed.new_base_int::numeric as new_base_int,
            placed.new_before_float,
            placed.new_before_int::numeric as new_before_int,
            placed.new_end_float,
            placed.new_end_int::numeric as new_end_int
        from placed
        left join head
            on
                placed.segment_us = head.segment_us
                and placed.metric = head.metric
                and placed.channel = head.channel
                and not placed.is_block
        where
            placed.piece = 0
            and (
                placed.is_block
                or head.metric is not null
                or v_changed[width_bucket(placed.segment_us, v_changed)] is distinct from placed.segment_us
            )
            -- A reset at the very instant of its only readings leaves nothing of it to be read.
            and (placed.hidden_from_us > placed.first_reading_us) is not false
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
                when not compared.has_points then compared.last_readable_us
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
            (not compared.has_points or compared.first_us > compared.first_reading_us)
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
            telemetry.joined_float(compared.kind, compared.old_end_float, compared.total_float),
            telemetry.joined_int(compared.kind, compared.old_end_int, compared.total_int),
            telemetry.joined_float(compared.kind, compared.new_end_float, compared.total_float),
            telemetry.joined_int(compared.kind, compared.new_end_int, compared.total_int)
        from compared
        where
            compared.has_points
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
        (select count(*) from updated)
        -- What lies behind them moved with them: no row of it was written.
        + (select count(*) from block where block.is_moved and block.place_on_disk is not null),
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
comment on function telemetry.shift_bases(text, text, bigint, jsonb, bigint[]) is
    'Shift the bases of a subject: over the pieces of the blocks that hold a changed segment, and over all blocks from the first of them on; how many rows changed. '
    'Without the changed segments, all blocks from the frontier on. Readings are never touched. '
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
