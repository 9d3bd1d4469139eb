-- Readings that wait because another file says something else.
-- breaking: no

alter table disarray.fragment
add column contradicts boolean not null default false;
comment on column disarray.fragment.contradicts is 'Parked because it contradicts readings of another file that count.';
