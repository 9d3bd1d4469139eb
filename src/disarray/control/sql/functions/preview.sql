-- What a commit would do to what people read.

create function disarray.preview_commit(p_subject_key text, p_dataset json)
returns jsonb
language plpgsql
security definer
set search_path = disarray, pg_temp
as $$
declare
    v_name constant text := p_dataset ->> 'dataset';
    v_frontier_us bigint;
    v_before jsonb;
    v_restates jsonb;
    v_moved disarray.restated_span[];
    v_spans jsonb := '[]';
    v_touched constant bigint[] := array(
        select scanned.segment_us
        from json_to_recordset(p_dataset -> 'segments') as scanned (segment_us bigint)
    );
    v_after jsonb;
    v_shifted bigint := 0;
    v_is_rebuild boolean;
    v_changed bigint[];
    v_parts rollup[];
    v_buckets jsonb := '[]';
begin
    -- A commit holds this row all through: either it has ended, or it comes after us.
    perform
    from subject_lock as lock
    where lock.subject_key = p_subject_key
    for update;
    v_changed := array(select changed.segment_us from changed_segments(p_subject_key, p_dataset) as changed);
    v_frontier_us := (select min(changed.segment_us) from unnest(v_changed) as changed (segment_us));
    if v_frontier_us is not null then
        -- Done for real, by the very code of a commit, and undone at once: what is told is what would be.
        begin
            perform resolve_ranges(p_subject_key, null, null, null);
            v_before := telemetry.final_totals(v_name, p_subject_key);
            if (p_dataset ->> 'restates')::boolean then
                v_restates := former_values(
                    null, p_subject_key, p_dataset,
                    case when json_typeof(p_dataset -> 'profile') = 'object' then (p_dataset -> 'profile')::jsonb end
                );
            end if;
            v_parts := array(
                select part
                from rollup as part
                where
                    part.dataset = v_name
                    and part.subject_key = p_subject_key
                    and part.segment_us = any(v_touched)
            );
            v_is_rebuild := settle_version(p_subject_key, p_dataset);
            perform settle_blocks(p_subject_key, p_dataset);
            perform put_segments(gen_random_uuid(), p_subject_key, p_dataset, p_dataset);
            with known as (
                select part.*
                from unnest(v_parts) as part
            ),

            scanned as (
                select part.*
                from rollup as part
                where
                    part.dataset = v_name
                    and part.subject_key = p_subject_key
                    and part.segment_us = any(v_touched)
            ),

            differing as (
                (select * from known except select * from scanned)
                union all
                (select * from scanned except select * from known)
            )

            select coalesce(
                jsonb_agg(distinct jsonb_build_object(
                    'rollup', differing.rollup,
                    'channel', differing.channel,
                    'bucket_us', differing.bucket_us,
                    'bucket_end_us', differing.bucket_end_us,
                    'label', differing.label
                )),
                '[]'
            )
            into v_buckets
            from differing;
            select
                shifted.bases_shifted,
                shifted.moved
            into
                v_shifted,
                v_moved
            from telemetry.shift_bases(
                v_name, p_subject_key, v_frontier_us, v_restates,
                case when not v_is_rebuild then v_changed end
            ) as shifted;
            v_after := telemetry.final_totals(v_name, p_subject_key);
            if v_restates is not null then
                v_spans := (
                    select coalesce(
                        jsonb_agg(
                            to_jsonb(span) - 'is_changed'
                            || jsonb_build_object('delta', span_delta(span, metric.is_integer))
                            order by span.metric, span.channel, span.from_us
                        ),
                        '[]'
                    )
                    from restated_spans(v_name, p_subject_key, v_restates, v_moved) as span
                    inner join subject_version as made
                        on
                            made.subject_key = p_subject_key
                            and made.dataset = v_name
                    inner join metric
                        on
                            made.dataset = metric.dataset
                            and made.scan_version = metric.scan_version
                            and span.metric = metric.metric
                );
            end if;
            raise sqlstate 'DA099';
        -- Caught here, it undoes the block and reaches nobody.
        exception when sqlstate 'DA099' then
            null;
        end;
    end if;
    return jsonb_build_object(
        'frontier_us', v_frontier_us,
        'bases_shifted', v_shifted,
        'buckets', v_buckets,
        'spans', v_spans,
        'totals', (
            select coalesce(
                jsonb_agg(
                    jsonb_build_object(
                        'metric', coalesce(after.metric, before.metric),
                        'channel', coalesce(after.channel, before.channel),
                        'old', coalesce(to_jsonb(before.int), to_jsonb(before.float)),
                        'new', coalesce(to_jsonb(after.int), to_jsonb(after.float))
                    )
                    order by coalesce(after.metric, before.metric), coalesce(after.channel, before.channel)
                ),
                '[]'
            )
            from jsonb_to_recordset(coalesce(v_before, '[]')) as before (metric text, channel text, float float8, int bigint)
            full join jsonb_to_recordset(coalesce(v_after, '[]')) as after (metric text, channel text, float float8, int bigint)
                on
                    before.metric = after.metric
                    and before.channel = after.channel
            where (before.float, before.int) is distinct from (after.float, after.int)
        )
    );
end
$$;
comment on function disarray.preview_commit(text, json) is
    'What a commit of these segments would do to published values, totals and rollup buckets. Nothing is changed, and no lock outlives the call.';
