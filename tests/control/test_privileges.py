"""Who may do what: the functions are the only way in, and each role has its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from disarray.control import events

if TYPE_CHECKING:
    from collections.abc import Callable

    from disarray.control.connections import Connection

pytestmark = pytest.mark.postgres

ROLES = ("disarray_agent", "disarray_producer", "disarray_worker", "disarray_operator", "disarray_reader")

# Every function of the schema, and who may call it. Those without a caller are steps inside the others.
MATRIX = """
function                      agent  producer  worker  operator  reader
allow_file                    -      -         -       yes       -
assert_subject_held           -      -         yes     -         -
bind_instance                 -      -         -       yes       -
blacklist_file                -      -         -       yes       -
complete_item                 -      -         yes     -         -
complete_items                -      -         yes     -         -
drop_old_events               -      -         yes     yes       -
enqueue_file                  yes    -         yes     yes       -
enqueue_files                 yes    -         yes     yes       -
fail_item                     -      -         yes     -         -
fetch_items                   -      -         yes     -         -
list_files                    -      -         yes     yes       yes
list_instances                -      -         yes     yes       yes
list_migrations               yes    -         yes     yes       yes
function_release              yes    -         yes     yes       yes
list_queue                    -      -         yes     yes       yes
mark_dirty                    -      -         yes     -         -
provision_event_partitions    -      -         yes     -         -
queue_status                  -      -         yes     yes       yes
reconcile_subject             -      -         yes     -         -
register_instance             -      -         yes     -         -
release_subject               -      -         yes     -         -
release_subjects              -      -         yes     -         -
is_live_work_waiting          -      -         yes     -         -
renew_subjects                -      -         yes     -         -
return_unknown_claims         -      -         yes     -         -
commit_subject                -      -         yes     -         -
put_rows                      -      -         yes     -         -
finish_commit                 -      -         yes     -         -
find_same_content             -      -         yes     yes       -
hand_over_items               -      -         yes     -         -
load_file_homes               -      -         yes     yes       -
load_file_parts               -      -         yes     yes       -
load_part_deliveries          -      -         yes     yes       -
load_part_parents             -      -         yes     yes       -
list_split_files              -      -         yes     yes       yes
load_moving_files             -      -         yes     yes       -
matching_rules                -      -         yes     yes       -
note_matching                 -      -         yes     yes       -
queue_moves                   -      -         yes     yes       -
count_moving_files            -      -         yes     yes       yes
list_known_files              -      -         yes     yes       yes
list_unmatched_files          -      -         yes     yes       yes
high_event_us                 -      -         yes     yes       -
is_committed                  -      -         yes     -         -
list_commits                  -      -         yes     yes       yes
list_followers                -      -         yes     yes       yes
follow_commits                -      -         yes     yes       -
advance_follower              -      -         yes     yes       -
unfollow_commits              -      -         yes     yes       -
drop_commits                  -      -         yes     -         -
begin_subject_commit          -      -         -       -         -
end_subject_commit            -      -         -       -         -
put_subject_commit            -      -         -       -         -
note_shift                    -      -         -       -         -
segments_in_rollups           -      -         -       -         -
bucket_starts                 -      -         -       -         -
bucket_hashes                 -      -         -       -         -
changed_buckets               -      -         -       -         -
load_file_fragments           -      -         yes     yes       yes
load_arrivals                 -      -         yes     yes       yes
list_conflicts                -      -         yes     yes       yes
load_withdrawn_fragments      -      -         yes     yes       yes
load_lake_checksums           -      -         yes     yes       yes
load_fingerprints             -      -         yes     yes       -
load_segment_fragments        -      -         yes     yes       yes
load_segments                 -      -         yes     yes       yes
register_dataset              -      -         yes     yes       -
assert_in_force               -      -         yes     -         -
load_definition               -      -         yes     yes       yes
definition_in_force           -      -         yes     yes       yes
load_subject_versions         -      -         yes     yes       yes
list_rebuilds                 -      -         yes     yes       yes
count_rebuilt                 -      -         yes     yes       yes
queue_rebuilds                -      -         yes     yes       -
load_rebuild_files            -      -         yes     yes       -
pending_rebuilds              -      -         -       -         -
assert_committing             -      -         -       -         -
is_rebuild_queued             -      -         -       -         -
settle_version                -      -         -       -         -
keep_unscanned                -      -         -       -         -
end_wait                      -      -         -       -         -
current_us                    -      -         yes     yes       yes
list_restatements             -      -         yes     yes       yes
load_bases                    -      -         yes     yes       yes
load_rollup                   -      -         yes     yes       yes
stale_from                    -      -         yes     yes       yes
list_subjects                 -      -         yes     yes       yes
list_quarantine               -      -         yes     yes       yes
enter_gate                    -      -         -       -         -
list_waiting                  -      -         yes     yes       yes
list_file_events              -      -         yes     yes       yes
describe_file                 -      -         yes     yes       yes
preview_commit                -      -         yes     yes       -
release_file                  -      -         -       yes       -
reject_file                   -      -         -       yes       -
begin_request                 -      -         -       yes       -
create_token                  -      -         -       yes       -
find_token                    -      -         -       yes       -
keep_answer                   -      -         -       yes       -
list_tokens                   -      -         -       yes       -
revoke_token                  -      -         -       yes       -
list_verified_subjects        -      -         yes     yes       yes
find_open_verification        -      -         yes     yes       yes
verification_state            -      -         yes     yes       yes
claim_scheduled_verification  -      -         yes     -         -
start_verification            -      -         yes     yes       -
note_subject_verification     -      -         yes     yes       -
end_verification              -      -         yes     yes       -
load_rejected_positions       -      -         yes     yes       yes
load_subject_files            -      -         yes     yes       yes
load_subject_fragments        -      -         yes     yes       yes
load_subject_rollup_parts     -      -         yes     yes       yes
list_rollup_segments          -      -         yes     yes       yes
load_subject_segments         -      -         yes     yes       yes
load_subject_summaries        -      -         yes     yes       yes
change_store                  -      -         -       yes       -
clear_rows                    -      -         yes     -         -
list_copies                   -      -         yes     yes       yes
name_sources                  -      -         yes     yes       yes
put_view                      -      -         -       yes       -
grant_view_creation           -      -         -       yes       -
revoke_view_creation          -      -         -       yes       -
drop_view                     -      -         -       yes       -
claim_view                    -      -         yes     -         -
begin_view_refresh            -      -         yes     -         -
end_view_refresh              -      -         yes     -         -
list_views                    -      -         yes     yes       yes
list_view_refreshes           -      -         yes     yes       yes
committed_subjects            -      -         -       -         -
note_view_position            -      -         -       -         -
view_is_stale                 -      -         -       -         -
view_lag                      -      -         -       -         -
set_views_aside               -      -         -       -         -
make_views_anew               -      -         -       -         -
assert_view_held              -      -         -       -         -
number_sources                -      -         yes     -         -
number_values                 -      -         yes     -         -
rows_relation                 -      -         yes     yes       yes
prepare_months                -      -         yes     -         -
provision_readings            -      -         yes     yes       -
queue_copies                  -      -         yes     yes       -
store_of                      -      -         yes     yes       yes
begin_housekeeping            -      -         yes     -         -
end_housekeeping              -      -         yes     -         -
list_cold_segments            -      -         yes     yes       -
list_expired_segments         -      -         yes     yes       -
load_kept_fragments           -      -         yes     -         -
queue_compaction              -      -         yes     -         -
compact_segments              -      -         yes     -         -
seal_segments                 -      -         yes     -         -
list_dead_lake_files          -      -         yes     yes       -
doom_lake_files               -      -         yes     -         -
forget_lake_files             -      -         yes     -         -
find_unknown_lake_files       -      -         yes     yes       yes
oldest_claim_age              -      -         yes     yes       yes
audit_files                   -      -         yes     yes       yes
audit_leases                  -      -         yes     yes       yes
audit_progress                -      -         yes     yes       yes
audit_limits                  -      -         yes     yes       yes
audit_readings                -      -         yes     yes       yes
audit_commits                 -      -         yes     yes       yes
audit_origins                 -      -         yes     yes       yes
audit_restatements            -      -         yes     yes       yes
audit_notices                 -      -         yes     yes       yes
audit_file_records            -      -         yes     yes       yes
audit_deliveries              -      -         yes     yes       yes
list_settled_restatements     -      -         yes     yes       yes
audit_dimensions              -      -         yes     yes       yes
audit_numbers                 -      -         yes     yes       yes
load_base_chains              -      -         yes     yes       yes
load_block_lengths            -      -         yes     yes       yes
load_metric_blocks            -      -         yes     yes       yes
list_live_lake_files          -      -         yes     yes       yes
forget_history                -      -         yes     -         -
find_sealed_segments          -      -         yes     yes       -
fail_items                    -      -         yes     -         -
pause_instance                -      -         -       yes       -
drain_instance                -      -         -       yes       -
resume_instance               -      -         -       yes       -
reingest_file                 -      -         -       yes       -
retry_dead_letters            -      -         -       yes       -
discard_dead_letters          -      -         -       yes       -
request_reconcile             -      -         -       yes       -
instance_state                -      -         yes     yes       yes
list_events                   -      -         yes     yes       yes
count_events                  -      -         yes     yes       yes
list_runs                     -      -         yes     yes       yes
list_subject_states           -      -         yes     yes       yes
list_dead_letters             -      -         yes     yes       yes
explain_segment               -      -         yes     yes       yes
list_metric_restatements      -      -         yes     yes       yes
sum_figures                   -      -         yes     yes       yes
lateness_histogram            -      -         yes     yes       yes
state_of                      -      -         -       -         -
set_instance_state            -      -         -       -         -
lock_dead_letters             -      -         -       -         -
lateness_bounds               -      -         -       -         -
add_figures                   -      -         -       -         -
call_turns                    -      -         -       -         -
put_file_parts                -      -         -       -         -
queue_parts                   -      -         -       -         -
part_reason                   -      -         -       -         -
begin_moves                   -      -         -       -         -
end_moves                     -      -         -       -         -
end_decisions                 -      -         -       -         -
decide_elsewhere              -      -         -       -         -
earlier_homes                 -      -         -       -         -
is_left                       -      -         -       -         -
unresolved_from               -      -         -       -         -
drop_rows                     -      -         -       -         -
hold_store                    -      -         -       -         -
put_readings_table            -      -         -       -         -
put_dimensions                -      -         -       -         -
put_joined_view               -      -         -       -         -
dimensions_of                 -      -         -       -         -
put_running_view              -      -         -       -         -
flatten_running_views         -      -         -       -         -
readings_columns              -      -         -       -         -
readings_type                 -      -         -       -         -
short_name                    -      -         -       -         -
subjects_to_copy              -      -         -       -         -
hold_lake_files               -      -         -       -         -
segments_per_block            -      -         -       -         -
make_blocks                   -      -         -       -         -
put_in_blocks                 -      -         -       -         -
shift_before_blocks           -      -         -       -         -
settle_blocks                 -      -         -       -         -
blocks_up_to                  -      -         -       -         -
count_shifted                 -      -         -       -         -
stale_datasets                -      -         -       -         -
changed_segments              -      -         -       -         -
instant_of                    -      -         -       -         -
microseconds_of               -      -         -       -         -
note_restatements             -      -         -       -         -
former_values                 -      -         -       -         -
carried_number                -      -         -       -         -
whole_series                  -      -         -       -         -
restated_spans                -      -         -       -         -
span_delta                    -      -         -       -         -
lock_quarantined              -      -         -       -         -
put_files                     -      -         -       -         -
enqueue_requests              -      -         -       -         -
enqueue_repeated_requests     -      -         -       -         -
other_escaped_spelling        -      -         -       -         -
enqueue_request               -      -         -       -         -
caller                        -      -         -       -         -
decision_of                   -      -         -       -         -
reserved_keys                 -      -         -       -         -
check_announcements           -      -         -       -         -
assert_decided                -      -         -       -         -
put_fragments                 -      -         -       -         -
put_summaries                 -      -         -       -         -
put_rollups                   -      -         -       -         -
put_segments                  -      -         -       -         -
check_decision                -      -         -       -         -
check_file_requests           -      -         -       -         -
check_instance                -      -         -       -         -
check_metadata                -      -         -       -         -
check_outcome                 -      -         -       -         -
check_patterns                -      -         -       -         -
check_subject                 -      -         -       -         -
check_uri                     -      -         -       -         -
claim_items                   -      -         -       -         -
clock                         -      -         -       -         -
hold_subject                  -      -         -       -         -
items_in_line                 -      -         -       -         -
is_flat_metadata              -      -         -       -         -
is_plain_uri                  -      -         -       -         -
event_metadata                -      -         -       -         -
event_queue_id                -      -         -       -         -
newest_failure                -      -         -       -         -
is_held                       -      -         -       -         -
is_worker                     -      -         -       -         -
judge_known_files             -      -         -       -         -
leave_idle_subject            -      -         -       -         -
living_incarnation            -      -         -       -         -
lock_claims                   -      -         -       -         -
lock_targets                  -      -         -       -         -
lock_files_of                 -      -         -       -         -
matches_pattern               -      -         -       -         -
merge_metadata                -      -         -       -         -
merged_metadata               -      -         -       -         -
merged_request                -      -         -       -         -
next_subject                  -      -         -       -         -
choose_turns                  -      -         -       -         -
backfill_turns                -      -         -       -         -
other_spelling                -      -         -       -         -
parse_reason                  -      -         -       -         -
queue_open_ranges             -      -         -       -         -
queue_reconcile               -      -         -       -         -
queue_new_files               -      -         -       -         -
queue_requests                -      -         -       -         -
refuse_other_claims           -      -         -       -         -
reap_subjects                 -      -         -       -         -
resolve_ranges                -      -         -       -         -
return_claim                  -      -         -       -         -
set_turns                     -      -         -       -         -
file_order_kind               -      -         -       -         -
is_asked_for                  -      -         -       -         -
lane_of                       -      -         -       -         -
last_shown_reason             -      -         -       -         -
shown_reason                  -      -         -       -         -
subjects_to_stay_on           -      -         -       -         -
next_batch                    -      -         yes     -         -
record_deliveries             -      -         yes     -         -
note_deleted_deliveries       -      -         yes     -         -
list_batches                  -      -         yes     yes       yes
list_spent_deliveries         -      -         yes     yes       yes
find_unknown_deliveries       -      -         yes     yes       yes
claim_source                  -      -         yes     -         -
renew_source                  -      -         yes     -         -
advance_source                -      -         yes     -         -
end_source_turn               -      -         yes     -         -
assert_source_held            -      -         -       -         -
decide_source                 -      -         -       yes       -
list_sources                  -      -         yes     yes       yes
begin_source_load             -      -         yes     -         -
find_source_load              -      -         yes     -         -
lock_source_load              -      -         -       -         -
settle_source_load            -      -         yes     -         -
add_source_chunks             -      -         yes     -         -
claim_source_chunks           -      -         yes     -         -
renew_source_chunks           -      -         yes     -         -
complete_source_chunk         -      -         yes     -         -
release_source_chunks         -      -         yes     -         -
end_source_load               -      -         yes     -         -
list_source_loads             -      -         yes     yes       yes
destination_follower          -      -         -       -         -
register_destination          -      -         yes     -         -
claim_destination             -      -         yes     -         -
take_destination_turn         -      -         -       -         -
claim_destination_subject     -      -         yes     -         -
list_destination_stretch      -      -         yes     yes       -
measure_destination           -      -         yes     yes       -
assert_destination_held       -      -         -       -         -
renew_destination             -      -         yes     -         -
advance_destination           -      -         yes     -         -
end_destination_turn          -      -         yes     -         -
note_destination_error        -      -         yes     -         -
hold_destination_back         -      -         yes     -         -
hold_lone_sweep_back          -      -         yes     -         -
pause_before_deletes          -      -         -       -         -
restart_destination           -      -         yes     -         -
list_unasked_subjects         -      -         yes     yes       -
find_lone_sweep               -      -         yes     -         -
end_destination_sweep         -      -         yes     -         -
list_destinations             -      -         yes     yes       yes
list_destination_subjects     -      -         yes     yes       yes
destination_lag               -      -         -       -         -
decide_destination            -      -         -       yes       -
forget_destination            -      -         -       yes       -
lock_backfill_scan            -      -         yes     -         -
add_backfill_chunk            -      -         yes     -         -
claim_backfill_chunk          -      -         yes     -         -
return_backfill_chunks        -      -         -       -         -
judge_backfill_errors         -      -         -       -         -
assert_backfill_chunk_held    -      -         -       -         -
hold_backfill_chunk           -      -         yes     -         -
renew_backfill_chunk          -      -         yes     -         -
cut_backfill_chunk            -      -         yes     -         -
forget_backfills              -      -         yes     -         -
complete_backfill_chunk       -      -         yes     -         -
fail_backfill_chunk           -      -         yes     -         -
stop_backfill                 -      -         yes     -         -
note_backfill_hold            -      -         yes     -         -
claim_backfill_verification   -      -         yes     -         -
renew_backfill_verification   -      -         yes     -         -
record_backfill_verdict       -      -         yes     -         -
list_active_backfills         -      -         yes     -         -
start_backfill                -      -         -       yes       -
decide_backfill               -      -         -       yes       -
set_backfill_pace             -      -         -       yes       -
list_backfills                -      -         yes     yes       yes
count_backfills               -      -         yes     yes       yes
count_backfill_verdicts       -      -         yes     yes       yes
list_backfill_figures         -      -         yes     yes       yes
list_backfill_chunks          -      -         yes     yes       yes
list_backfill_findings        -      -         yes     yes       yes
next_replayed_subject         -      -         yes     yes       yes
measure_replay                -      -         yes     yes       yes
next_pending_rebuild          -      -         yes     yes       -
measure_pending_rebuilds      -      -         yes     yes       -
rebuild_progress              -      -         yes     yes       -
newest_commit_seq             -      -         yes     yes       yes
load_span_summaries           -      -         yes     yes       yes
load_last_summaries           -      -         yes     yes       yes
load_span_rollup_parts        -      -         yes     yes       yes
carry_bases                   -      -         yes     yes       -
distrust_segments             -      -         -       yes       -
begin_applying                -      -         -       yes       -
note_backfill_applied         -      -         -       yes       -
refuse_staged                 -      -         -       -         -
begin_resync                  -      -         yes     -         -
stage_deliveries              -      -         yes     -         -
repeat_staged_chunk           -      -         yes     -         -
verify_resync                 -      -         yes     -         -
queue_resync                  -      -         yes     -         -
find_resync                   -      -         yes     yes       -
list_staged_deliveries        -      -         yes     yes       -
next_staged_chunk             -      -         yes     yes       -
measure_swap                  -      -         yes     yes       -
next_swapped_subject          -      -         yes     yes       -
resync_progress               -      -         yes     yes       -
load_swap                     -      -         yes     yes       -
find_superseded_deliveries    -      -         yes     yes       -
former_deliveries             -      -         -       -         -
former_deliveries_of          -      -         -       -         -
assert_not_superseded         -      -         -       -         -
swap_generation               -      -         -       -         -
drop_generation               -      -         -       -         -
live_health                   -      -         yes     yes       yes
check_backfill_pace           -      -         -       -         -
note_backfill_event           -      -         -       -         -
refuse_unknown_backfill       -      -         -       -         -
assert_backfill_verification_held -      -         -       -         -
record_events                 -      yes       -       yes       -
claim_raw_events              -      -         yes     -         -
settle_raw_events             -      -         yes     -         -
release_raw_events            -      -         yes     -         -
forget_raw_events             -      -         yes     -         -
list_raw_events               -      -         yes     yes       yes
count_raw_events              -      -         yes     yes       yes
replay_raw_events             -      -         -       yes       -
correct_raw_event             -      -         -       yes       -
discard_raw_events            -      -         -       yes       -
event_id_fields               -      -         -       -         -
parse_event                   -      -         -       -         -
event_refusal                 -      -         -       -         -
has_repeated_name             -      -         -       -         -
event_hash                    -      -         -       -         -
return_raw_events             -      -         -       -         -
lock_raw_events               -      -         -       -         -
lock_dead_events              -      -         -       -         -
note_event_decision           -      -         -       -         -
register_hooks                -      -         yes     -         -
note_conditions               -      -         yes     -         -
claim_side_effect             -      -         yes     -         -
settle_side_effect            -      -         yes     -         -
release_side_effect           -      -         yes     -         -
forget_side_effects           -      -         yes     -         -
note_side_effects             -      -         yes     yes       -
resend_side_effects           -      -         -       yes       -
list_hooks                    -      -         yes     yes       yes
list_side_effects             -      -         yes     yes       yes
count_side_effects            -      -         yes     yes       yes
has_hook                      -      -         -       -         -
hooks_of                      -      -         -       -         -
put_side_effect               -      -         -       -         -
is_larger                     -      -         -       -         -
span_document                 -      -         -       -         -
counted                       -      -         -       -         -
parked_uris                   -      -         -       -         -
return_side_effects           -      -         -       -         -
note_restatement_effects      -      -         -       -         -
note_quarantine_effects       -      -         -       -         -
note_dead_letter_effects      -      -         -       -         -
note_dead_event_effects       -      -         -       -         -
note_silence                  -      -         -       -         -
note_staleness                -      -         -       -         -
"""


def allowed_callers() -> dict[str, set[str]]:
    heading, *lines = (line.split() for line in MATRIX.strip().splitlines())
    return {
        function: {
            f"disarray_{role}" for role, answer in zip(heading[1:], answers, strict=True) if answer == "yes"
        }
        for function, *answers in lines
    }


def calls_without_arguments(connection: Connection) -> dict[str, sql.Composed]:
    """For every function, a call in which each argument is NULL of its type."""
    rows = connection.execute(
        """
        select routine.proname, array(
            select argument.type::regtype::text
            from unnest(routine.proargtypes) with ordinality as argument (type, place)
            order by argument.place
        )
        from pg_proc as routine
        where routine.pronamespace = 'disarray'::regnamespace
        """
    ).fetchall()
    return {
        name: sql.SQL("select disarray.{}({})").format(
            sql.Identifier(name), sql.SQL(", ").join(sql.SQL(f"null::{kind}") for kind in types)
        )
        for name, types in rows
    }


def relations(connection: Connection) -> list[tuple[str, str]]:
    return connection.execute(
        """
        select relname, relkind::text
        from pg_class
        where relnamespace = 'disarray'::regnamespace and relkind in ('r', 'p', 'v', 'm', 'f', 'S')
        """
    ).fetchall()


def is_denied(connection: Connection, statement: sql.Composed) -> bool:
    """Whether the privilege is missing; any other answer or refusal means that it is there."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege:
        return True
    except psycopg.Error:
        return False
    return False


def test_every_definer_function_is_safe_to_lend_its_rights(connection: Connection) -> None:
    unsafe = connection.execute(
        """
        select
            routine.oid::regprocedure::text,
            routine.proconfig,
            owner.rolname
        from pg_proc as routine
        inner join pg_roles as owner on routine.proowner = owner.oid
        where
            routine.pronamespace = 'disarray'::regnamespace
            and routine.prosecdef
            and (
                not coalesce('search_path=disarray, pg_temp' = any(routine.proconfig), false)
                or owner.rolcanlogin
                or owner.rolsuper
                or owner.rolcreaterole
                or owner.rolcreatedb
                or owner.rolbypassrls
                or owner.rolreplication
            )
        """
    ).fetchall()
    assert unsafe == []


def test_no_function_of_the_schema_is_open_to_public_or_owned_by_another_role(connection: Connection) -> None:
    exposed = connection.execute(
        """
        select routine.oid::regprocedure::text, owner.rolname, routine.proacl::text
        from pg_proc as routine
        inner join pg_roles as owner on routine.proowner = owner.oid
        where
            routine.pronamespace = 'disarray'::regnamespace
            and (
                owner.rolname <> 'disarray_owner'
                -- Without an access list the default holds, and that is EXECUTE for everybody.
                or routine.proacl is null
                or exists (select from aclexplode(routine.proacl) as entry where entry.grantee = 0)
            )
        """
    ).fetchall()
    assert exposed == []


def test_definer_functions_and_those_with_a_caller_are_the_same(connection: Connection) -> None:
    definers = connection.execute(
        "select proname from pg_proc where pronamespace = 'disarray'::regnamespace and prosecdef"
    ).fetchall()
    assert {name for (name,) in definers} == {name for name, roles in allowed_callers().items() if roles}


def test_the_matrix_names_every_function_once(connection: Connection) -> None:
    rows = connection.execute(
        "select proname from pg_proc where pronamespace = 'disarray'::regnamespace order by proname"
    ).fetchall()
    assert [name for (name,) in rows] == sorted(allowed_callers())


@pytest.mark.parametrize("role", ROLES)
def test_a_role_can_call_its_own_functions_and_no_other(
    role: str, connection: Connection, connect_as: Callable[..., Connection]
) -> None:
    session = connect_as(role)
    callable_by_role = {
        name for name, call in calls_without_arguments(connection).items() if not is_denied(session, call)
    }
    assert callable_by_role == {name for name, roles in allowed_callers().items() if role in roles}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_reaches_no_table_sequence_or_partition(
    role: str, connection: Connection, connect_as: Callable[..., Connection]
) -> None:
    session = connect_as(role)
    reached = []
    for name, kind in relations(connection):
        table = sql.Identifier("disarray", name)
        if kind == "S":
            attempts = [sql.SQL("select nextval({})"), sql.SQL("select setval({}, 1)")]
            statements = [attempt.format(sql.Literal(f"disarray.{name}")) for attempt in attempts]
            statements.append(sql.SQL("select last_value from {}").format(table))
        else:
            attempts = [
                sql.SQL("select from {}"),
                sql.SQL("lock table {} in access share mode"),
                sql.SQL("create temporary table copy (like {})"),
            ]
            # Nobody at all can write into a view over several things.
            if kind != "v":
                attempts += [
                    sql.SQL("insert into {} default values"),
                    sql.SQL("delete from {}"),
                    sql.SQL("truncate {}"),
                ]
            statements = [attempt.format(table) for attempt in attempts]
        reached += [(name, statement) for statement in statements if not is_denied(session, statement)]
    assert reached == []


def test_no_privilege_on_any_table_or_column_was_given_to_anybody(connection: Connection) -> None:
    given = connection.execute(
        """
        select relation.relname, entry.grantee::regrole::text, entry.privilege_type
        from pg_class as relation
        cross join lateral aclexplode(relation.relacl) as entry
        where
            relation.relnamespace = 'disarray'::regnamespace
            and entry.grantee <> 'disarray_owner'::regrole
        union all
        select attribute.attrelid::regclass::text, attribute.attname, attribute.attacl::text
        from pg_attribute as attribute
        inner join pg_class as relation on attribute.attrelid = relation.oid
        where
            relation.relnamespace = 'disarray'::regnamespace
            and attribute.attacl is not null
        """
    ).fetchall()
    assert given == []


@pytest.mark.parametrize("role", ROLES)
def test_a_role_cannot_add_to_the_schema_or_become_its_owner(
    role: str, connect_as: Callable[..., Connection]
) -> None:
    session = connect_as(role)
    assert is_denied(session, sql.SQL("create table disarray.mine ()").format())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("set role disarray_owner")


def test_a_login_role_without_membership_reaches_nothing(
    connection: Connection, connect_as: Callable[..., Connection]
) -> None:
    stranger = connect_as()
    calls = calls_without_arguments(connection)
    assert [name for name, call in calls.items() if not is_denied(stranger, call)] == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        stranger.execute("select disarray.queue_status()")


def test_partitions_that_come_later_are_just_as_private(
    connection: Connection, connect_as: Callable[..., Connection]
) -> None:
    worker = connect_as("disarray_worker")
    before = {name for name, _ in relations(connection)}
    assert events.provision_event_partitions(worker, months_ahead=5) > 0
    added = {name for name, _ in relations(connection)} - before
    assert added
    for name in added:
        owner = connection.execute(
            "select relowner::regrole::text, relacl from pg_class where oid = %s::regclass",
            (f"disarray.{name}",),
        ).fetchone()
        assert owner == ("disarray_owner", None)
        for role in ROLES:
            reader = connect_as(role)
            assert is_denied(reader, sql.SQL("select from {}").format(sql.Identifier("disarray", name)))
