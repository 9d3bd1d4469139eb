-- Destinations: which loads of a target this database knows of, and targets that are cleared of other subjects.
-- breaking: no

alter table disarray.destination
add column is_sweep_due boolean not null default false;
comment on column disarray.destination.is_sweep_due is
    'The target may have subjects that are not asked for: they are deleted there before the next load.';

-- Positions from before have none: what their targets have is taken for what they loaded.
alter table disarray.destination_position
add column known_fences bigint[];
alter table disarray.destination_position
alter column known_fences set default '{}';
comment on column disarray.destination_position.known_fences is
    'Fence of the last load that was noted, then of loads that were begun since. A target whose last load is none of them was loaded by '
    'a history that this database does not have, and is loaded whole.';

-- A sequence would go back with a backup and hand out the same fences twice; fences are instants now.
-- squawk-ignore ban-drop-sequence
drop sequence disarray.destination_fence_seq;
