-- Hooks, and the ledger of messages that leave because of something that happened here.
-- breaking: no

create type disarray.hook_cause as enum (
    'restatement',
    'quarantine',
    'dead_letter',
    'no_data_since',
    'stale_longer_than',
    'verification_failed',
    'backfill_ended'
);
comment on type disarray.hook_cause is 'What a hook may be told of.';

create type disarray.side_effect_state as enum (
    'pending',
    'sending',
    'done',
    'dead'
);
comment on type disarray.side_effect_state is
    'pending → sending → done; a failure goes back to pending, or to dead once its attempts are used up. dead → pending (resent by a person). '
    'done is final.';

create sequence disarray.side_effect_fence_seq;
comment on sequence disarray.side_effect_fence_seq is 'Fences of claims of side effects: a later claim has a greater one.';

create table disarray.hook (
    hook_name text constraint hook_pkey primary key,
    kind text not null,
    causes disarray.hook_cause[] not null,
    subject_patterns text[] not null,
    dataset_patterns text[] not null,
    larger_than jsonb not null,
    no_data_since interval,
    stale_longer_than interval,
    definition jsonb not null,
    definition_digest text not null,
    registered_at timestamptz not null,
    watched_since timestamptz not null,
    checked_at timestamptz,
    ended_at timestamptz,
    constraint hook_kind_is_known check (kind in ('webhook', 'mail', 'report')),
    constraint a_hook_has_causes check (cardinality(causes) > 0),
    constraint silence_has_a_length check (('no_data_since' = any(causes)) = (no_data_since is not null)),
    constraint staleness_has_a_length check (('stale_longer_than' = any(causes)) = (stale_longer_than is not null))
);
comment on table disarray.hook is
    'Hooks as the worker that started last has them in its configuration. One that is no longer there has ended_at, and is told nothing.';
comment on column disarray.hook.larger_than is
    'By metric, and under "*" for all others: restated spans of which no value changed by more are not told. A metric without a limit: every span is.';
comment on column disarray.hook.definition is 'As it is configured; secrets by the name of their variable or file.';
comment on column disarray.hook.definition_digest is 'SHA-256 of the definition: a worker that has another one sends nothing.';
comment on column disarray.hook.watched_since is 'A subject that had been silent for too long before this is not told of.';
comment on column disarray.hook.checked_at is 'When silence and staleness were last looked for.';

create table disarray.side_effect (
    effect_id bigint generated always as identity constraint side_effect_pkey primary key,
    idempotency_key text not null,
    hook_name text not null constraint a_side_effect_has_a_hook references disarray.hook (hook_name),
    cause disarray.hook_cause not null,
    subject_key text,
    dataset text,
    summary text not null,
    details jsonb not null,
    noted_at timestamptz not null,
    state disarray.side_effect_state not null default 'pending',
    attempts integer not null default 0,
    available_at timestamptz not null,
    claimed_by_instance_name text,
    claimed_incarnation bigint,
    fence bigint,
    lease_expires_at timestamptz,
    accepted text[] not null default '{}',
    answer_status text,
    answer text,
    reason text,
    settled_at timestamptz,
    constraint an_intent_is_noted_once unique (idempotency_key),
    constraint what_is_sending_says_whose_and_until_when check (
        (state = 'sending') = (claimed_by_instance_name is not null)
        and (state = 'sending') = (claimed_incarnation is not null)
        and (state = 'sending') = (fence is not null)
        and (state = 'sending') = (lease_expires_at is not null)
    ),
    constraint dead_side_effects_say_why check (state <> 'dead' or reason is not null),
    constraint what_is_settled_says_since_when check ((state in ('done', 'dead')) = (settled_at is not null))
);
comment on table disarray.side_effect is
    'What is to leave the database, or has left it: one row for each hook and cause, written in the transaction of the cause.';
comment on column disarray.side_effect.idempotency_key is
    'SHA-256 of the hook, the cause and what it is about: sent along, so that a receiver knows a message that comes twice.';
comment on column disarray.side_effect.attempts is 'How often it was claimed, except where it was given back unsent.';
comment on column disarray.side_effect.accepted is 'Of a mail: the recipients that have it already. They are not sent it again.';
comment on column disarray.side_effect.answer is 'The first KB of what the other side said to the last attempt.';
comment on column disarray.side_effect.reason is 'Why the last attempt failed, or why it was given up.';

create index side_effect_in_turn
on disarray.side_effect (hook_name, available_at, effect_id)
where state = 'pending';

create index side_effect_sending
on disarray.side_effect (lease_expires_at)
where state = 'sending';

create index side_effect_dead
on disarray.side_effect (effect_id)
where state = 'dead';

create index side_effect_done
on disarray.side_effect (settled_at)
where state = 'done';

alter type disarray.ingest_event_event_type add value if not exists 'side_effect_resent' after 'source_reset';
