-- Canonical arithmetic over summaries. The kernels fold readings inside a segment; what carries values from segment
-- to segment is here and nowhere else. float8 throughout, in the order and with the brackets written: other brackets
-- give other bits.

create function telemetry.is_additive(p_kind text)
returns boolean
language sql
immutable
as $$
select p_kind in ('sum', 'count', 'integral', 'increase')
$$;
comment on function telemetry.is_additive(text) is
    'Whether a metric of this kind adds up. Whoever adds asks: a kind that is not known has no value, instead of a wrong one.';

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
    when p_kind in ('sum', 'count', 'min', 'max') then 0::float8
    when p_kind = 'increase' and p_to < p_from then p_to
    when p_kind = 'increase' then p_to - p_from
    when p_kind <> 'integral' then null
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
    when p_kind in ('sum', 'count', 'min', 'max', 'integral') then 0
    when p_from_us is null or p_to_us is null then 0
    when p_kind <> 'increase' then null
    when p_to < p_from then p_to
    else p_to - p_from
end
$$;
comment on function telemetry.junction_int(text, bigint, bigint, bigint, bigint) is
    'The step between the last point before a segment and its first one, for integer metrics.';

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
select case
    when telemetry.is_additive(p_kind) then telemetry.float_sum(p_base, p_local)
    when p_kind = 'min' then least(p_base, p_local)
    when p_kind = 'max' then greatest(p_base, p_local)
end
$$;
comment on function telemetry.joined_float(text, float8, float8) is 'A base and a fold within its segment as one value, for float metrics.';

create function telemetry.joined_int(p_kind text, p_base numeric, p_local numeric)
returns numeric
language sql
immutable
as $$
select case
    when telemetry.is_additive(p_kind) then p_base + p_local
    when p_kind = 'min' then least(p_base, p_local)
    when p_kind = 'max' then greatest(p_base, p_local)
end
$$;
comment on function telemetry.joined_int(text, numeric, numeric) is 'A base and a fold within its segment as one value, for integer metrics.';

create function telemetry.carry_over(p_former disarray.carried_value, p_piece disarray.carried_piece)
returns disarray.carried_value
language plpgsql
immutable
as $$
declare
    -- Not null: a kind that is not known is refused here, before anything is carried on.
    v_is_extreme constant boolean not null := case
        when telemetry.is_additive(p_piece.kind) then false
        when p_piece.kind in ('min', 'max') then true
    end;
    v_own disarray.carried_value;
begin
    if p_piece.is_seed then
        -- What lies before it is in its base.
        v_own.base_float := p_piece.base_float;
        v_own.base_int := p_piece.base_int;
        v_own.prior_us := p_piece.prior_us;
        v_own.prior_float := p_piece.prior_float;
        v_own.prior_int := p_piece.prior_int;
        v_own.prior_break := p_piece.prior_break;
        v_own.is_carried := p_piece.is_carried;
    elsif p_former is null or p_piece.piece = 1 or p_piece.first_reset is distinct from p_former.reset then
        -- Nothing is carried over a reset.
        v_own.is_carried := p_former is null and p_piece.piece = 0;
        if not v_is_extreme and p_piece.is_integer then
            v_own.base_int := 0;
            v_own.before_int := 0;
        elsif not v_is_extreme then
            v_own.base_float := 0;
            v_own.before_float := 0;
        end if;
    else
        v_own.is_carried := p_former.is_carried;
        v_own.prior_us := p_former.last_us;
        v_own.prior_float := p_former.last_float;
        v_own.prior_int := p_former.last_int;
        v_own.prior_break := p_former.last_break;
        if p_piece.kind = 'min' then
            v_own.base_float := least(p_former.end_float, p_former.total_float);
            v_own.base_int := least(p_former.end_int, p_former.total_int);
            v_own.before_float := v_own.base_float;
            v_own.before_int := v_own.base_int;
        elsif v_is_extreme then
            v_own.base_float := greatest(p_former.end_float, p_former.total_float);
            v_own.base_int := greatest(p_former.end_int, p_former.total_int);
            v_own.before_float := v_own.base_float;
            v_own.before_int := v_own.base_int;
        elsif p_piece.is_integer then
            v_own.before_int := p_former.end_int + p_former.total_int;
            v_own.base_int := coalesce(
                p_former.end_int + (
                    p_former.total_int + telemetry.junction_int(
                        p_piece.kind, p_former.last_us, p_former.last_int, p_piece.first_us, p_piece.first_int
                    )
                ),
                p_former.end_int
            );
        else
            v_own.before_float := p_former.end_float + p_former.total_float;
            v_own.base_float := coalesce(
                p_former.end_float + (
                    p_former.total_float + telemetry.junction_float(
                        p_piece.kind, p_piece.method, p_piece.max_gap_us,
                        p_former.last_us, p_former.last_float, p_former.last_break,
                        p_piece.first_us, p_piece.first_float, p_piece.first_break
                    )
                ),
                p_former.end_float
            );
        end if;
    end if;

    -- What the next one continues from: in a block its last piece, whose base is the one of the block and what lies between.
    if p_piece.restarts then
        v_own.end_float := p_piece.offset_float;
        v_own.end_int := p_piece.offset_int;
    elsif p_piece.kind = 'min' then
        v_own.end_float := least(v_own.base_float, p_piece.offset_float);
        v_own.end_int := least(v_own.base_int, p_piece.offset_int);
    elsif v_is_extreme then
        v_own.end_float := greatest(v_own.base_float, p_piece.offset_float);
        v_own.end_int := greatest(v_own.base_int, p_piece.offset_int);
    else
        v_own.end_float := coalesce(v_own.base_float + p_piece.offset_float, v_own.base_float);
        v_own.end_int := coalesce(v_own.base_int + p_piece.offset_int, v_own.base_int);
    end if;
    if p_piece.last_us is not null or p_piece.restarts then
        v_own.last_us := p_piece.last_us;
        v_own.last_float := p_piece.last_float;
        v_own.last_int := p_piece.last_int;
        v_own.last_break := p_piece.last_break;
    else
        -- A piece without points hands on the last point before it.
        v_own.last_us := v_own.prior_us;
        v_own.last_float := v_own.prior_float;
        v_own.last_int := v_own.prior_int;
        v_own.last_break := v_own.prior_break;
    end if;
    v_own.total_float := p_piece.total_float;
    v_own.total_int := p_piece.total_int;
    v_own.reset := p_piece.last_reset;
    return v_own;
end
$$;
comment on function telemetry.carry_over(disarray.carried_value, disarray.carried_piece) is
    'One step from a piece to the next, or from a block to the next: the base of it, and what is carried on.';

create aggregate telemetry.carry(disarray.carried_piece) (
    sfunc = telemetry.carry_over,
    stype = disarray.carried_value
);
comment on aggregate telemetry.carry(disarray.carried_piece) is
    'Bases by a walk along a series: over pieces within their block, and over blocks. Use it in a window, in the order of time.';

create function telemetry.carried_float(p_kind text, p_is_carried boolean, p_ground float8, p_offset float8)
returns float8
language sql
immutable
as $$
select case
    when p_is_carried is not true then p_offset
    when telemetry.is_additive(p_kind) then p_ground + p_offset
    when p_kind = 'min' then least(p_ground, p_offset)
    when p_kind = 'max' then greatest(p_ground, p_offset)
end
$$;
comment on function telemetry.carried_float(text, boolean, float8, float8) is
    'A base from that of the block and what lies between, for float metrics: as the view segment_metric has it.';

create function telemetry.carried_int(p_kind text, p_is_carried boolean, p_ground bigint, p_offset bigint)
returns bigint
language sql
immutable
as $$
select case
    when p_is_carried is not true then p_offset
    when telemetry.is_additive(p_kind) then p_ground + p_offset
    when p_kind = 'min' then least(p_ground, p_offset)
    when p_kind = 'max' then greatest(p_ground, p_offset)
end
$$;
comment on function telemetry.carried_int(text, boolean, bigint, bigint) is
    'A base from that of the block and what lies between, for integer metrics: as the view segment_metric has it.';
