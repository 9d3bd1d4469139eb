-- Materialized views that follow commits: what they are made of, how far each has come, and every refresh.
-- breaking: no

create table disarray.materialized_view (
    name text not null,
    schema_name text not null,
    definition text not null,
    unique_key text[] not null,
    depends_on text[] not null,
    at_most_every interval not null,
    timeout_seconds integer not null,
    applied_at timestamptz not null,
    applied_by text not null,
    due_at timestamptz not null,
    refreshed_at timestamptz,
    commit_position bigint,
    failure_count integer not null default 0,
    last_error text,
    last_error_at timestamptz,
    instance_name text,
    incarnation bigint,
    fence bigint,
    lease_expires_at timestamptz,
    constraint materialized_view_pkey primary key (name),
    constraint a_view_has_a_key check (cardinality(unique_key) > 0),
    constraint a_view_depends_on_something check (cardinality(depends_on) > 0),
    constraint a_refresh_ends_within_a_day check (timeout_seconds between 1 and 86400),
    constraint a_lease_says_whose_it_is check ((lease_expires_at is null) = (instance_name is null))
);
comment on table disarray.materialized_view is
    'Materialized views that view apply made, and nothing else: only these are ever refreshed, replaced or dropped.';
comment on column disarray.materialized_view.definition is 'The query, as its file had it when it was applied.';
comment on column disarray.materialized_view.depends_on is 'Datasets, and rollups as dataset.rollup.';
comment on column disarray.materialized_view.due_at is 'Not refreshed before: that is how often it may be, or how long a failed one waits.';
comment on column disarray.materialized_view.commit_position is 'The sum of the last commit numbers that it has in it.';
comment on column disarray.materialized_view.fence is 'Of the worker that refreshes it, or did last.';

create sequence disarray.view_fence_seq owned by disarray.materialized_view.fence;
comment on sequence disarray.view_fence_seq is 'Fences of those who refresh views.';

create table disarray.view_position (
    view_name text not null,
    subject_key text not null,
    dataset text not null,
    commit_seq bigint not null,
    constraint view_position_pkey primary key (view_name, subject_key, dataset),
    constraint positions_belong_to_a_view foreign key (view_name) references disarray.materialized_view (name) on delete cascade
);
comment on table disarray.view_position is 'The last commit of each subject that a view has in it, changed in the transaction of its refresh.';

create table disarray.view_refresh (
    refresh_id bigint generated always as identity,
    name text not null,
    refreshed_at timestamptz not null,
    commit_position bigint,
    seconds double precision not null,
    error text,
    constraint view_refresh_pkey primary key (refresh_id)
);
comment on table disarray.view_refresh is 'Every refresh of a view, the last thousand of each. An error says why one failed; the view is then as it was.';
create index view_refresh_of_view
on disarray.view_refresh (name, refresh_id);
