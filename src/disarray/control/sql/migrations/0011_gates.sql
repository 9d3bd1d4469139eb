-- What used to be advisory locks: any login can take those, and so stop a worker. Rows can be locked by our functions alone.
-- breaking: no

create table disarray.gate (
    gate_name text primary key,
    held_by_pid integer,
    held_since timestamptz
);
comment on table disarray.gate is 'One row for each thing that is done by one session at a time, or by none while others use it: enter_gate locks it.';
comment on column disarray.gate.held_by_pid is 'Of a turn that outlasts a transaction: the session that has it. It ends with that session.';
comment on column disarray.gate.held_since is 'Since when a session has the turn.';
