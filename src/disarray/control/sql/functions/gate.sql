-- Locks by name, as rows: advisory locks can be taken by any login, also by one that may only read.

create function disarray.enter_gate(p_gate_name text, p_is_shared boolean default false)
returns void
language plpgsql
as $$
begin
    loop
        if p_is_shared then
            perform
            from disarray.gate as entered
            where entered.gate_name = p_gate_name
            for key share;
        else
            perform
            from disarray.gate as entered
            where entered.gate_name = p_gate_name
            for update;
        end if;
        exit when found;
        insert into disarray.gate (gate_name)
        values (p_gate_name)
        on conflict do nothing;
    end loop;
end
$$;
comment on function disarray.enter_gate(text, boolean) is
    'Lock a name until the transaction ends: alone, or shared with others that share it. Statements that follow see what those did who held it before.';
