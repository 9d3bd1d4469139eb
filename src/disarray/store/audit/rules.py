"""What holds at any moment: every rule of an audit, what it means when it is broken, and what to run then."""

from __future__ import annotations

from disarray.store.audit.rule import Guarantee, Rule

_VERIFY = "disarray verify tells which numbers are affected"
_REINGEST = "disarray files reingest FILE reads it again from its first byte"
_RESTORE = (
    "Restore the lake from a backup, or run disarray files reingest for the files that disarray verify names"
)
_REPORT = "This is a fault of disarray: keep the database as it is, and report it with this output"
_LEDGER = "Values are as disarray value tells them: do not add these entries up. " + _REPORT
_FOLLOW = "Have followers of these subjects load everything once more. " + _REPORT

_DIMENSIONS = (
    "Restore the values from a backup; or remove dimension = true from the column and start a worker: its rows are "
    "made anew from the lake"
)

RULES = (
    Rule(
        "pending_files_are_queued",
        Guarantee.NO_LOSS,
        "These files were announced, and nobody will ever read them.",
        _REINGEST,
    ),
    Rule(
        "parts_add_up_to_their_file",
        Guarantee.NO_LOSS,
        "These files are about several subjects, and not every line of them is in one of their parts.",
        _REINGEST,
    ),
    Rule(
        "queued_files_are_known",
        Guarantee.NO_LOSS,
        "Work is queued for files that nothing is known of.",
        _REPORT,
    ),
    Rule(
        "the_newest_version_is_in",
        Guarantee.NO_LOSS,
        "A newer version of these files was announced and is neither in nor queued.",
        _REINGEST,
    ),
    Rule(
        "requests_have_an_end",
        Guarantee.NO_LOSS,
        "These items were queued and left the queue without being done, given up or replaced.",
        _REINGEST,
    ),
    Rule(
        "blacklisted_files_count_for_nothing",
        Guarantee.NO_LOSS,
        "These files are on the blacklist and their readings still count.",
        "disarray files blacklist FILE asks for their removal again",
    ),
    Rule(
        "refused_files_are_on_the_blacklist",
        Guarantee.NO_LOSS,
        "These files are refused, and the blacklist does not name them: nobody can allow them again.",
        "disarray files blacklist FILE puts it there; disarray files allow FILE then takes it in",
    ),
    Rule(
        "every_line_is_accounted_for",
        Guarantee.NO_DOUBLE_EFFECT,
        "More or fewer lines were seen than were kept, rejected, blank, preamble or waiting.",
        _REINGEST,
    ),
    Rule(
        "kept_lines_are_in_fragments",
        Guarantee.NO_DOUBLE_EFFECT,
        "Readings of these files were lost or doubled on their way into the catalog.",
        _REINGEST,
    ),
    Rule(
        "no_line_counts_twice",
        Guarantee.NO_DOUBLE_EFFECT,
        "The same lines of these files count twice.",
        _REINGEST,
    ),
    Rule(
        "segments_count_what_their_fragments_hold",
        Guarantee.NO_DOUBLE_EFFECT,
        "The numbers of these segments were made from other readings than those the catalog has.",
        _VERIFY + "; then disarray files reingest for a file of the segment",
    ),
    Rule(
        "numbers_belong_to_a_segment",
        Guarantee.NO_DOUBLE_EFFECT,
        "Numbers are left of segments that no longer exist.",
        _VERIFY,
    ),
    Rule(
        "blocks_span_their_buckets",
        Guarantee.CONFLUENCE,
        "Parts of these rollups are not found where somebody asks for their time.",
        _VERIFY + "; then disarray files reingest for a file of the segment",
    ),
    Rule(
        "dimension_values_are_as_written",
        Guarantee.NO_DOUBLE_EFFECT,
        "Readings in tables name these values, and they no longer say what was written.",
        _DIMENSIONS,
    ),
    Rule(
        "bases_follow_from_summaries",
        Guarantee.CONFLUENCE,
        "Running values of these segments do not follow from the readings before them. Only disarray verify proves "
        "that summaries follow from the files.",
        _VERIFY + ". " + _REPORT,
    ),
    Rule(
        "blocks_follow_from_summaries",
        Guarantee.CONFLUENCE,
        "What these blocks of segments add to the running values in and behind them does not follow from their "
        "summaries. Only disarray verify proves that summaries follow from the files.",
        _VERIFY + ". " + _REPORT,
    ),
    Rule(
        "files_count_where_they_belong",
        Guarantee.CONFLUENCE,
        "These files count for another dataset or subject than their path, content and the definitions say.",
        "disarray files reingest FILE moves it to where it belongs",
    ),
    Rule(
        "stale_numbers_wait_for_their_repair",
        Guarantee.CONFLUENCE,
        "Numbers of these subjects are stale, and nothing is queued that mends them.",
        "disarray reconcile SUBJECT queues it, disarray rebuild where a file is to leave; is a worker running?",
    ),
    Rule(
        "a_subject_has_one_definition",
        Guarantee.ATOMICITY,
        "Parts of these subjects were made under another definition of their dataset than the rest.",
        _VERIFY + ". " + _REPORT,
    ),
    Rule(
        "segments_come_from_a_commit",
        Guarantee.ATOMICITY,
        "These segments were written by a run that never committed.",
        _VERIFY,
    ),
    Rule(
        "commits_are_numbered_without_gaps",
        Guarantee.ATOMICITY,
        "The notices of commits of these subjects have gaps: who follows them missed a change.",
        _REPORT,
    ),
    Rule(
        "no_commit_passes_a_newer_fence",
        Guarantee.FENCING,
        "A worker committed after its subject had been given to another.",
        _VERIFY + ". " + _REPORT,
    ),
    Rule(
        "claims_stand_on_a_lock",
        Guarantee.ONE_HOLDER,
        "Items are claimed by somebody who does not hold their subject, and will not be given back.",
        _REPORT,
    ),
    Rule(
        "locks_belong_to_a_living_holder",
        Guarantee.ONE_HOLDER,
        "Subjects are held by a life of an instance that is over, or never was.",
        "disarray workers list; any worker that claims frees them",
    ),
    Rule(
        "a_fence_is_given_once", Guarantee.ONE_HOLDER, "Two subjects were given out with one fence.", _REPORT
    ),
    Rule(
        "leases_that_ran_out_are_returned",
        Guarantee.LIVENESS,
        "The holders of these subjects are gone, and nobody has claimed since.",
        "disarray workers list; start a worker",
    ),
    Rule(
        "due_subjects_are_called",
        Guarantee.LIVENESS,
        "Items of these subjects are due and no claim will find them.",
        "disarray files reingest for a file of the subject calls it again. " + _REPORT,
    ),
    Rule(
        "due_subjects_are_served",
        Guarantee.LIVENESS,
        "No worker is bound to these subjects.",
        "disarray workers list tells who serves what; start a worker whose subjects include them",
    ),
    Rule(
        "the_lake_has_every_file",
        Guarantee.LIVENESS,
        "Files of the lake that the catalog names are gone, cut short or cannot be opened.",
        "Check that the lake is mounted where the configuration says. " + _RESTORE,
    ),
    Rule(
        "orphans_are_swept",
        Guarantee.LIVENESS,
        "Files of dead runs are left in the lake longer than housekeeping leaves them.",
        "disarray housekeeping",
    ),
    Rule(
        "attempts_are_limited",
        Guarantee.BOUNDED,
        "Items are queued that have used up all their attempts.",
        _REPORT,
    ),
    Rule(
        "what_is_kept_of_a_file_is_limited",
        Guarantee.BOUNDED,
        "More is kept with these files than is ever accepted.",
        _REPORT,
    ),
    Rule(
        "rejected_rows_are_limited",
        Guarantee.BOUNDED,
        "More rejected lines are kept of these files than the first thousand, or longer samples.",
        _REPORT,
    ),
    Rule(
        "readings_have_an_origin",
        Guarantee.EXPLAINABLE,
        "Nobody can say which run read these fragments, from which version of which file, or where they lie.",
        _VERIFY,
    ),
    Rule(
        "files_are_known_as_they_were_read",
        Guarantee.EXPLAINABLE,
        "The version of these files that is known is not the one whose bytes are remembered.",
        _REINGEST,
    ),
    Rule(
        "dead_letters_say_why_and_can_be_retried",
        Guarantee.EXPLAINABLE,
        "These files failed, and it is not known why or what was asked for.",
        _REINGEST,
    ),
    Rule(
        "rejected_lines_can_be_looked_at",
        Guarantee.EXPLAINABLE,
        "Lines of these files were rejected, and not one of them is kept to be looked at.",
        _REINGEST,
    ),
    Rule(
        "what_is_parked_can_be_decided",
        Guarantee.EXPLAINABLE,
        "Readings of these files are parked, and the quarantine does not list them.",
        _REINGEST,
    ),
    Rule(
        "restatements_add_up",
        Guarantee.EXPLAINABLE,
        "Entries of the ledger contradict themselves: their values, their delta and their bounds differ.",
        _LEDGER,
    ),
    Rule(
        "restatements_come_from_a_commit",
        Guarantee.EXPLAINABLE,
        "Entries of the ledger speak of a run, a metric, a span or a file that no commit knows.",
        _LEDGER,
    ),
    Rule(
        "restatements_follow_each_other",
        Guarantee.EXPLAINABLE,
        "A restatement began with another value than the one before it had left.",
        _LEDGER,
    ),
    Rule(
        "commits_say_what_they_changed",
        Guarantee.ATOMICITY,
        "Notices of commits contradict themselves: who follows them takes too little.",
        _FOLLOW,
    ),
    Rule(
        "commits_name_what_is_new",
        Guarantee.ATOMICITY,
        "Notices of commits leave out segments or buckets that came with them: who follows them misses these.",
        _FOLLOW,
    ),
    Rule(
        "followers_stand_at_a_kept_commit",
        Guarantee.NO_LOSS,
        "These followers stand at a commit that never was, or at one whose successors are no longer kept.",
        "Have the follower load everything once more. " + _REPORT,
    ),
    Rule(
        "files_say_when_their_readings_are",
        Guarantee.EXPLAINABLE,
        "These files are shown with another span of time than their readings have.",
        _REINGEST,
    ),
    Rule(
        "rejected_lines_are_of_their_file",
        Guarantee.EXPLAINABLE,
        "The rejected lines that are kept of these files are others than were counted. disarray verify compares each.",
        _REINGEST,
    ),
    Rule(
        "unmatched_files_are_known",
        Guarantee.EXPLAINABLE,
        "disarray status lists other files than those that no dataset takes any more.",
        "disarray rebuild holds all files against the rules once more",
    ),
    Rule(
        "moves_have_two_sides",
        Guarantee.NO_LOSS,
        "These files are on their way to or from a dataset or subject, and the other side does not know it.",
        _REINGEST,
    ),
    Rule(
        "deliveries_are_read_as_they_were_written",
        Guarantee.NO_DOUBLE_EFFECT,
        "Files of the landing folder were read as something else than their source delivered.",
        _REINGEST,
    ),
    Rule(
        "batches_add_up",
        Guarantee.NO_LOSS,
        "A source counted other rows than it delivered.",
        _REPORT,
    ),
    Rule(
        "events_are_where_they_say",
        Guarantee.NO_LOSS,
        "Events are marked as delivered and no delivery has them, or are not what was sent.",
        _REPORT,
    ),
    Rule(
        "restatements_lead_to_the_values_of_today",
        Guarantee.CONFLUENCE,
        "Values that no commit touched since they were restated are others than the ledger says.",
        _VERIFY + ". " + _REPORT,
        is_deep=True,
    ),
    Rule(
        "lake_files_are_as_written",
        Guarantee.NO_DOUBLE_EFFECT,
        "Bytes of the lake changed since they were written.",
        _RESTORE,
        is_deep=True,
    ),
    Rule(
        "rows_name_values_that_exist",
        Guarantee.NO_DOUBLE_EFFECT,
        "Rows of these tables name dimension values that are gone, and show NULL in their place.",
        _DIMENSIONS,
        is_deep=True,
    ),
    Rule(
        "tables_hold_what_was_written",
        Guarantee.NO_DOUBLE_EFFECT,
        "Rows of these segments changed since they were copied into their table. The lake has what the files said.",
        _VERIFY + "; then disarray files reingest for a file of the segment writes its rows anew",
        is_deep=True,
    ),
    Rule(
        "segments_say_when_they_begin_and_end",
        Guarantee.CONFLUENCE,
        'These segments or series begin or end elsewhere than their readings: the horizon or an "as of" is wrong.',
        _VERIFY,
        is_deep=True,
    ),
    Rule(
        "metrics_are_as_defined",
        Guarantee.CONFLUENCE,
        "Running values of these metrics are added up by other rules than their definition says.",
        _VERIFY + ". " + _REPORT,
        is_deep=True,
    ),
    Rule(
        "segments_read_as_they_were_scanned",
        Guarantee.CONFLUENCE,
        "These segments no longer give the readings that their numbers were made from.",
        _VERIFY + ". " + _RESTORE,
        is_deep=True,
    ),
    Rule(
        "conflicts_are_those_of_the_readings",
        Guarantee.EXPLAINABLE,
        "Files disagree in these segments otherwise than disarray conflicts lists. Values are as their readings say.",
        "disarray files reingest for a file of the segment lists them anew",
        is_deep=True,
    ),
)
