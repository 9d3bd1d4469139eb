-- Destinations are held back before they delete much of what their target has.
-- breaking: yes

alter table disarray.destination
add column is_held_back boolean not null default false,
add column are_deletes_allowed boolean not null default false;
comment on column disarray.destination.is_held_back is
    'A worker paused it, because a load would have deleted more of the target than it may without being asked.';
comment on column disarray.destination.are_deletes_allowed is
    'Somebody wants the target to lose whatever is not known here. Until everything that was due then is loaded.';

alter table disarray.destination
-- A table of a few rows, and all of them fit.
-- squawk-ignore constraint-missing-not-valid
add constraint a_destination_is_held_back_while_it_is_paused check (not is_held_back or paused_at is not null);

comment on column disarray.destination_position.known_fences is
    'Fence of the last load that was noted, then of loads that were begun since; the negative of one that the target has and this '
    'database never gave out. A target whose last load is none of them was loaded by a history that this database does not have, and is '
    'loaded whole.';
