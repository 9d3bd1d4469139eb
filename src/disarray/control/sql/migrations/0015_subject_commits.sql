-- What each commit changed, in order, for those who follow a subject.
-- breaking: no

create table disarray.subject_commit (
    subject_key text not null,
    dataset text not null,
    commit_seq bigint not null,
    run_id uuid,
    changed_from timestamptz not null,
    changed_to timestamptz not null,
    changed_segments bigint[],
    changed_buckets jsonb,
    is_redefined boolean not null,
    committed_at timestamptz not null,
    constraint subject_commit_pkey primary key (subject_key, dataset, commit_seq),
    constraint a_run_commits_a_dataset_of_a_subject_once unique (subject_key, run_id, dataset),
    constraint sequences_begin_at_one check (commit_seq > 0),
    constraint a_change_has_a_span check (changed_from < changed_to)
);
comment on table disarray.subject_commit is
    'One row for each commit that changed a number of a subject in a dataset. Numbers are given out under the lock row of the subject, '
    'in the transaction that changes the numbers: they have no gaps, and none becomes visible after a higher one.';
comment on column disarray.subject_commit.run_id is 'NULL: a shift that was made without a run.';
comment on column disarray.subject_commit.changed_from is 'No reading and no value before it differs. -infinity: everything may.';
comment on column disarray.subject_commit.changed_to is
    'No reading and no value from it on differs. infinity in a dataset with metrics: a value holds until the next reading, and sums go on.';
comment on column disarray.subject_commit.changed_segments is
    'Starts of the segments whose readings changed, ascending; none where bases alone moved. NULL: all from changed_from on.';
comment on column disarray.subject_commit.changed_buckets is
    'By rollup, either "buckets": the starts of those that changed, ascending; or "from_us": all from that start on. '
    'A rollup that is not named did not change. NULL: every bucket of every rollup that ends after changed_from.';
comment on column disarray.subject_commit.is_redefined is 'The definition changed with this commit: metrics and rollups may have come or gone.';

create table disarray.commit_follower (
    follower text not null,
    subject_key text not null,
    dataset text not null,
    commit_seq bigint not null,
    advanced_at timestamptz not null,
    constraint commit_follower_pkey primary key (follower, subject_key, dataset),
    constraint positions_are_not_negative check (commit_seq >= 0)
);
comment on table disarray.commit_follower is 'How far each follower has come with each dataset of a subject. What the slowest has not done yet is kept.';
create index commit_follower_of_subject
on disarray.commit_follower (subject_key, dataset);
