-- Blocks of segments, over which bases are carried in two steps: within a block, and from block to block.

create function telemetry.block_of(p_us bigint, p_block_length_us bigint)
returns bigint
language sql
immutable
as $$
select p_us - ((p_us % p_block_length_us) + p_block_length_us) % p_block_length_us
$$;
comment on function telemetry.block_of(bigint, bigint) is 'Where the block of segments begins that an instant lies in.';

create function disarray.segments_per_block()
returns integer
language sql
immutable
as $$
select 128
$$;
comment on function disarray.segments_per_block() is
    'How many segments a block is long, of subjects whose first segment is yet to be scanned; the others keep what they have. '
    'The brackets of their sums follow from it.';

create function disarray.load_block_lengths(p_subject_key text)
returns table (dataset text, block_length_us bigint)
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select
    made.dataset,
    made.block_length_us
from subject_version as made
where
    made.subject_key = p_subject_key
    and made.block_length_us is not null
$$;
comment on function disarray.load_block_lengths(text) is 'How long the blocks of segments of a subject are, by dataset.';

create function disarray.load_metric_blocks(p_subject_key text)
returns setof disarray.metric_block
language sql
stable
security definer
set search_path = disarray, pg_temp
as $$
select block.*
from metric_block as block
where block.subject_key = p_subject_key
order by
    block.dataset,
    block.metric,
    block.channel,
    block.block_us
$$;
comment on function disarray.load_metric_blocks(text) is 'The blocks of a subject series by series, in the order of time: what an audit holds against its summaries.';

create function disarray.put_in_blocks(p_dataset text, p_subject_key text, p_block_length_us bigint)
returns bigint
language plpgsql
as $$
declare
    v_first_us bigint;
begin
    delete from disarray.metric_block as block
    where
        block.dataset = p_dataset
        and block.subject_key = p_subject_key;
    update disarray.subject_version as made
    set block_length_us = p_block_length_us
    where
        made.dataset = p_dataset
        and made.subject_key = p_subject_key;
    update disarray.segment_summary as summary
    set block_us = telemetry.block_of(summary.segment_us, p_block_length_us)
    where
        summary.dataset = p_dataset
        and summary.subject_key = p_subject_key;
    select min(summary.segment_us)
    into v_first_us
    from disarray.segment_summary as summary
    where
        summary.dataset = p_dataset
        and summary.subject_key = p_subject_key;
    return v_first_us;
end
$$;
comment on function disarray.put_in_blocks(text, text, bigint) is
    'Part of an upgrade: say how long the blocks of a subject are, before all of its bases are made anew; its first segment that has any.';

create function disarray.shift_before_blocks(p_subject_key text)
returns void
language plpgsql
as $$
declare
    v_made record;
    v_first_us bigint;
    v_lengths_us constant jsonb := (
        select jsonb_object_agg(made.dataset, made.block_length_us)
        from disarray.subject_version as made
        where made.subject_key = p_subject_key
    );
begin
    -- All in one block, so with the brackets of the former program: what is told of the change is the change, and not what
    -- other brackets round otherwise, long before it.
    for v_made in
        select made.key as dataset
        from jsonb_each(v_lengths_us) as made
    loop
        v_first_us := disarray.put_in_blocks(v_made.dataset, p_subject_key, 1::bigint << 62);
        if v_first_us is not null then
            insert into disarray.dirty_range (subject_key, dataset, range_start, range_end, reason, created_at)
            values (p_subject_key, v_made.dataset, disarray.instant_of(v_first_us), 'infinity', 'bases in blocks', disarray.clock());
        end if;
    end loop;
    perform disarray.resolve_ranges(p_subject_key, null, null, null);
    delete from disarray.former_base as former
    where former.subject_key = p_subject_key;
    insert into disarray.former_base
    select
        now.dataset,
        now.subject_key,
        now.metric,
        now.channel,
        now.segment_us,
        now.piece,
        now.base_float,
        now.base_int,
        now.before_float,
        now.before_int,
        now.prior_us
    from disarray.segment_metric as now
    where now.subject_key = p_subject_key;
    for v_made in
        select
            made.key as dataset,
            made.value::bigint as block_length_us
        from jsonb_each_text(v_lengths_us) as made
    loop
        perform disarray.put_in_blocks(v_made.dataset, p_subject_key, v_made.block_length_us);
    end loop;
end
$$;
comment on function disarray.shift_before_blocks(text) is
    'Part of an upgrade: the shift of a subject that was put off, with all that is to be told of it, as if it had come before the upgrade.';

create function disarray.make_blocks()
returns bigint
language plpgsql
as $$
declare
    v_subject record;
    v_wrong record;
    v_made bigint := 0;
begin
    if to_regclass('disarray.former_base') is null then
        return 0;
    end if;
    -- Read subject by subject, and row by row: without these two by the square of the subjects.
    create index former_base_key
    on disarray.former_base (dataset, subject_key, metric, channel, segment_us, piece);
    analyze disarray.former_base;
    perform disarray.shift_before_blocks(stale.subject_key)
    from (
        select distinct open.subject_key
        from disarray.dirty_range as open
        where open.resolved_at is null
    ) as stale;
    for v_subject in
        select
            made.dataset,
            made.subject_key,
            own.first_us
        from disarray.subject_version as made
        cross join lateral (
            select min(summary.segment_us) as first_us
            from disarray.segment_summary as summary
            where
                summary.dataset = made.dataset
                and summary.subject_key = made.subject_key
        ) as own
        where own.first_us is not null
        order by
            made.subject_key,
            made.dataset
    loop
        perform telemetry.shift_bases(v_subject.dataset, v_subject.subject_key, v_subject.first_us, null);
        -- Whoever copied values has to copy those again whose last bits are others now.
        perform disarray.note_shift(null, v_subject.subject_key, v_subject.dataset, min(former.segment_us))
        from disarray.former_base as former
        inner join disarray.segment_metric as now using (dataset, subject_key, metric, channel, segment_us, piece)
        where
            former.dataset = v_subject.dataset
            and former.subject_key = v_subject.subject_key
            and (former.base_float, former.before_float) is distinct from (now.base_float, now.before_float)
        having count(*) > 0;
        v_made := v_made + 1;
    end loop;

    -- Other brackets may round otherwise, measured by the largest sum of the series, and nothing else may differ.
    select
        former.dataset,
        former.subject_key,
        former.metric,
        disarray.instant_of(former.segment_us) as segment_at,
        telemetry.number_of(former.base_float, former.base_int) as stored,
        telemetry.number_of(now.base_float, now.base_int) as made
    into v_wrong
    from (
        select
            known.*,
            -- Not so small that a product with it underflows, which PostgreSQL refuses.
            1e-9 * greatest(1e-280, max(abs(known.base_float)) over (
                partition by known.dataset, known.subject_key, known.metric, known.channel
            )) as rounding
        from disarray.former_base as known
    ) as former
    left join disarray.segment_metric as now
        on
            former.dataset = now.dataset
            and former.subject_key = now.subject_key
            and former.metric = now.metric
            and former.channel = now.channel
            and former.segment_us = now.segment_us
            and former.piece = now.piece
    where
        (former.base_int, former.before_int, former.prior_us) is distinct from (now.base_int, now.before_int, now.prior_us)
        or (former.base_float is null) <> (now.base_float is null)
        or (former.before_float is null) <> (now.before_float is null)
        or abs(former.base_float - now.base_float) > former.rounding
        or abs(former.before_float - now.before_float) > former.rounding
    limit 1;
    if found then
        raise exception 'metric % of %/% at %: the stored base is %, its summaries give %. Nothing was changed.',
            v_wrong.metric, v_wrong.dataset, v_wrong.subject_key, v_wrong.segment_at, v_wrong.stored, v_wrong.made
        using errcode = 'DA001', hint = 'With the former version, run disarray verify, and disarray reconcile for this subject; then upgrade again.';
    end if;
    drop table disarray.former_base;
    return v_made;
end
$$;
comment on function disarray.make_blocks() is
    'Part of an upgrade: blocks and bases within them for all that is stored, held against the bases of before; of how many pairs of subject and dataset.';
