//! The names of all metrics, their help texts, and their initial series.

use domain::dispute::DisputeStage;
use domain::job::JobKind;
use domain::lots::LotSource;
use domain::payment::{Mismatch, ReversalKind};
use domain::platform::Platform;
use metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use store::processor_events::EventOutcome;

use super::{Handles, not_refreshed};

pub(super) const CALLS: &str = "creator_gateway_calls_total";
pub(super) const CALL_DURATION: &str = "creator_gateway_call_duration_seconds";
pub(super) const UPSTREAM_DURATION: &str = "creator_gateway_upstream_duration_seconds";
pub(super) const COMMIT_DURATION: &str = "creator_gateway_metering_commit_duration_seconds";
pub(super) const BATCH_SIZE: &str = "creator_gateway_metering_batch_operations";
pub(super) const QUEUE_DEPTH: &str = "creator_gateway_metering_queue_operations";
pub(super) const WITHHELD_READS: &str = "creator_gateway_withheld_reads_total";
pub(super) const LATE_RESOLUTIONS: &str = "creator_gateway_late_resolution_total";
pub(super) const EXPIRED_HOLDS: &str = "creator_gateway_holds_expired_total";
pub(super) const LEDGER_FAILURES: &str = "creator_gateway_ledger_invariant_failures";
pub(super) const PROCESSOR_PROBLEMS: &str = "creator_gateway_processor_setup_problems";
pub(super) const USAGE_SET_ASIDE: &str = "creator_gateway_usage_rows_set_aside";
pub(super) const EXPORTS_BEGUN_ANEW: &str = "creator_gateway_exports_begun_anew_total";
pub(super) const ROWS_REMOVED: &str = "creator_gateway_retention_rows_removed_total";
pub(super) const STANDBYS: &str = "creator_gateway_database_standbys";
pub(super) const STANDBY_LAG: &str = "creator_gateway_database_standby_lag_bytes";
pub(super) const STANDBY_REQUIRED: &str = "creator_gateway_database_synchronous_standby_required";
pub(super) const FAILED_BATCHES: &str = "creator_gateway_metering_failed_batches_total";
pub(super) const PLATFORM_REFUSING: &str = "creator_gateway_platform_refusing_credentials";
pub(super) const PLATFORM_DEGRADED: &str = "creator_gateway_platform_degraded";
pub(super) const PACED_WAITS: &str = "creator_gateway_paced_waits_total";
pub(super) const PACED_REFUSALS: &str = "creator_gateway_paced_refusals_total";
pub(super) const SIGNING_VALUES_AGE: &str = "creator_gateway_signing_values_age_seconds";
pub(super) const TOKENS_NOT_REFRESHED: &str = "creator_gateway_token_refreshes_failed_total";
pub(super) const CALLS_IN_FLIGHT: &str = "creator_gateway_calls_in_flight";
pub(super) const LIMITED_KEYS: &str = "creator_gateway_rate_limited_keys";
pub(super) const CONNECTIONS: &str = "creator_gateway_connections_open";
pub(super) const ACCEPTED: &str = "creator_gateway_connections_accepted_total";
pub(super) const REFUSED: &str = "creator_gateway_connections_refused_total";
pub(super) const REFUSED_BY_IP: &str = "creator_gateway_connections_refused_by_address_total";
pub(super) const CLOSED_IDLE: &str = "creator_gateway_connections_closed_idle_total";
pub(super) const CLOSED_STALLED: &str = "creator_gateway_connections_closed_stalled_total";
pub(super) const BODY_BYTES: &str = "creator_gateway_request_body_buffer_bytes";
pub(super) const SPOOL_BYTES: &str = "creator_gateway_upload_spool_bytes";
pub(super) const REQUESTS: &str = "creator_gateway_http_requests_total";
pub(super) const JOBS: &str = "creator_gateway_job_attempts_total";
pub(super) const JOBS_WAITING: &str = "creator_gateway_jobs_waiting";
pub(super) const JOBS_GIVEN_UP: &str = "creator_gateway_jobs_given_up";
pub(super) const CREDITS_OUTSTANDING: &str = "creator_gateway_credits_outstanding";
pub(super) const MAILS: &str = "creator_gateway_mails_total";
pub(super) const TOP_UPS: &str = "creator_gateway_top_ups_total";
pub(super) const RECONCILIATIONS: &str = "creator_gateway_reconciliations_total";
pub(super) const RECONCILED: &str = "creator_gateway_reconciled_payments_total";
pub(super) const PAYMENTS: &str = "creator_gateway_payments_granted_total";
pub(super) const REVERSALS: &str = "creator_gateway_payments_reversed_total";
pub(super) const DISPUTES: &str = "creator_gateway_disputes_total";
pub(super) const DISPUTES_WAITING: &str = "creator_gateway_disputes_waiting";
pub(super) const NOT_FOR_SALE: &str = "creator_gateway_prices_not_for_sale";
pub(super) const UNMATCHED: &str = "creator_gateway_payments_unmatched_total";
pub(super) const EVENTS: &str = "creator_gateway_processor_events_total";
pub(super) const EXPORTS: &str = "creator_gateway_export_attempts_total";
pub(super) const EXPORT_PAGES: &str = "creator_gateway_export_pages_total";
pub(super) const EXPORT_ROWS: &str = "creator_gateway_export_rows_total";
pub(super) const EXPORT_DURATION: &str = "creator_gateway_export_attempt_duration_seconds";
pub(super) const EXPORTS_PENDING: &str = "creator_gateway_exports_pending";
pub(super) const EXPORTS_RUNNING: &str = "creator_gateway_exports_running";
pub(super) const EXPORTS_OLDEST: &str = "creator_gateway_exports_oldest_pending_seconds";
pub(super) const LOG_LINES_LOST: &str = "creator_gateway_log_lines_lost_total";
pub(super) const CERTIFICATE_EXPIRY: &str = "creator_gateway_tls_certificate_expiry_seconds";
pub(super) const CERTIFICATE_REFUSED: &str = "creator_gateway_tls_certificate_refused";

pub(super) const REQUEST_CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];
/// Why the response of a read that was sent before its hold was committed is withheld.
pub const WITHHOLDING_CAUSES: [&str; 5] = ["credits", "budget", "key", "account", "database"];
/// How responses of a platform can fail more often than usual.
pub const DRIFT_KINDS: [&str; 4] = ["unauthorized", "forbidden", "not_found", "envelope"];
/// The classes of requests that have a pace.
pub const PACE_CLASSES: [&str; 3] = ["reads", "writes", "sensitive"];
/// What is sold at prices of the payment processor.
pub const OFFER_KINDS: [&str; 3] = ["pack", "plan", "slot"];
const REFRESH_FAILURES: [&str; 3] = ["failed", "service_refused", "token_refused"];
pub(super) const JOB_OUTCOMES: [&str; 4] = ["done", "postponed", "given_up", "overtaken"];
pub(super) const MAIL_OUTCOMES: [&str; 2] = ["handed_over", "failed"];
pub(super) const TOP_UP_OUTCOMES: [&str; 5] =
    ["succeeded", "failed", "requires_action", "turned_off", "unknown"];
pub(super) const RECONCILIATION_OUTCOMES: [&str; 2] = ["whole", "in_part"];
const RETAINED_TABLES: [&str; 3] = ["calls", "customers", "jobs"];
pub(super) const STANDBY_KINDS: [&str; 3] = ["synchronous", "asynchronous", "hidden"];
pub(super) const EXPORT_ENDINGS: [&str; 6] =
    ["completed", "failed", "cancelled", "postponed", "given_back", "lost"];

/// Declares every metric with its help text and creates each of its series, so that it exists from
/// the start: an alarm on a series that appears with its first event misses that event.
pub(super) fn declare() {
    declare_calls();
    declare_metering();
    declare_standbys();
    declare_listeners();
    declare_work();
    declare_payments();
    declare_exports();
}

fn declare_calls() {
    describe_counter!(CALLS, "native calls that ended, by platform and outcome");
    describe_histogram!(CALL_DURATION, "time from a call's arrival to its end, by platform");
    describe_histogram!(UPSTREAM_DURATION, "time the platform took to respond, by platform");
    describe_counter!(REQUESTS, "requests to the public listener, by status class");
    // Creates the series of the four metrics above.
    drop(Handles::new());
    gauge_of(CALLS_IN_FLIGHT, "native calls in progress");
    gauge_of(LIMITED_KEYS, "keys whose request rate is tracked");
    gauge_of(BODY_BYTES, "bytes of request bodies in memory");
    gauge_of(SPOOL_BYTES, "bytes of uploaded files on disk");
}

fn declare_metering() {
    describe_histogram!(COMMIT_DURATION, "time of one commit of holds and settlements");
    describe_histogram!(BATCH_SIZE, "operations in one commit");
    drop((histogram!(COMMIT_DURATION), histogram!(BATCH_SIZE)));
    gauge_of(QUEUE_DEPTH, "operations waiting for a commit");
    counter_of(LATE_RESOLUTIONS, "settlements of calls that had already ended");
    let withheld =
        "reads that were sent, refused at their hold, and neither charged nor answered, by cause";
    describe_counter!(WITHHELD_READS, withheld);
    for cause in WITHHOLDING_CAUSES {
        drop(counter!(WITHHELD_READS, "cause" => cause));
    }
    counter_of(EXPIRED_HOLDS, "holds that expired before they were settled and were refunded");
    counter_of(FAILED_BATCHES, "commits that failed and were retried");
    let refusing = "1 while a platform refuses the credentials of all accounts, by platform; alert on anything but 0";
    describe_gauge!(PLATFORM_REFUSING, refusing);
    let outstanding =
        "credits that customers can still spend, by source; read once an hour by each node";
    describe_gauge!(CREDITS_OUTSTANDING, outstanding);
    for source in LotSource::ALL {
        drop(gauge!(CREDITS_OUTSTANDING, "source" => source.as_str()));
    }
    let degraded = "1 while this node sees a platform fail far more calls than usual, by platform and kind of failure; alert on anything but 0";
    describe_gauge!(PLATFORM_DEGRADED, degraded);
    let age =
        "how long ago the signing values in use were read, by platform; 0 where there are none";
    describe_gauge!(SIGNING_VALUES_AGE, age);
    describe_counter!(
        TOKENS_NOT_REFRESHED,
        "refreshes of tokens that brought none, by platform and reason"
    );
    describe_counter!(
        PACED_WAITS,
        "requests that waited for their account's turn, by platform and class"
    );
    describe_counter!(
        PACED_REFUSALS,
        "requests refused because their account's turn was too far away, by platform and class"
    );
    for platform in Platform::all() {
        for class in PACE_CLASSES {
            drop(counter!(PACED_WAITS, "platform" => platform.as_str(), "class" => class));
            drop(counter!(PACED_REFUSALS, "platform" => platform.as_str(), "class" => class));
        }
        drop(gauge!(PLATFORM_REFUSING, "platform" => platform.as_str()));
        drop(gauge!(SIGNING_VALUES_AGE, "platform" => platform.as_str()));
        for kind in DRIFT_KINDS {
            drop(gauge!(PLATFORM_DEGRADED, "platform" => platform.as_str(), "kind" => kind));
        }
        for reason in REFRESH_FAILURES {
            drop(not_refreshed(platform, reason));
        }
    }
    let invariant = "rows that break an invariant of the ledger; alert on anything but 0";
    gauge_of(LEDGER_FAILURES, invariant);
    let set_aside =
        "rows of usage counts that could not be read and were set aside; alert on anything but 0";
    gauge_of(USAGE_SET_ASIDE, set_aside);
    let setup = "problems of the set-up at the payment processor, found at start and once a day; alert on anything but 0";
    gauge_of(PROCESSOR_PROBLEMS, setup);
    describe_counter!(ROWS_REMOVED, "rows that retention removed, by table");
    for table in RETAINED_TABLES {
        drop(counter!(ROWS_REMOVED, "table" => table));
    }
}

fn declare_standbys() {
    let standbys = "PostgreSQL: standbys that stream from the primary, by kind; hidden: the service's role is not allowed to see their state";
    describe_gauge!(STANDBYS, standbys);
    for kind in STANDBY_KINDS {
        drop(gauge!(STANDBYS, "kind" => kind));
    }
    let lag = "PostgreSQL: bytes of WAL that the standby furthest behind has not flushed";
    gauge_of(STANDBY_LAG, lag);
    let required = "PostgreSQL: 1 while commits must wait for a synchronous standby";
    gauge_of(STANDBY_REQUIRED, required);
}

fn declare_listeners() {
    gauge_of(CONNECTIONS, "open connections of the public listener");
    counter_of(ACCEPTED, "connections accepted");
    counter_of(REFUSED, "connections refused because there were too many");
    counter_of(REFUSED_BY_IP, "connections refused because their address had too many");
    counter_of(CLOSED_IDLE, "connections closed because no request arrived in time");
    counter_of(CLOSED_STALLED, "connections closed because the client did not read its response");
    let expiry = "when the certificate in use expires, in seconds of Unix time; 0 without TLS";
    gauge_of(CERTIFICATE_EXPIRY, expiry);
    let refused =
        "1 while the certificate's files cannot be used and an older certificate is in use";
    gauge_of(CERTIFICATE_REFUSED, refused);
    let lost = "log lines dropped because they could not be written or the buffer was full";
    counter_of(LOG_LINES_LOST, lost);
}

fn declare_work() {
    describe_counter!(JOBS, "finished attempts of jobs, by kind and outcome");
    for kind in JobKind::ALL {
        for outcome in JOB_OUTCOMES {
            drop(counter!(JOBS, "kind" => kind.as_str(), "outcome" => outcome));
        }
    }
    gauge_of(JOBS_WAITING, "jobs waiting or running");
    gauge_of(
        JOBS_GIVEN_UP,
        "jobs that were given up; the operator should look into anything but 0",
    );
    let mails = "attempts to send an email, by outcome";
    counters_of(MAILS, mails, "outcome", MAIL_OUTCOMES);
}

fn declare_payments() {
    let reconciliations = "comparisons with the payment processor, by outcome";
    counters_of(RECONCILIATIONS, reconciliations, "outcome", RECONCILIATION_OUTCOMES);
    counter_of(RECONCILED, "payments granted by a comparison because no event had reported them");
    let top_ups = "automatic charges that ended or are waiting, by outcome";
    counters_of(TOP_UPS, top_ups, "outcome", TOP_UP_OUTCOMES);
    counter_of(PAYMENTS, "payments whose credits were granted");
    let kinds = ReversalKind::ALL.iter().map(|kind| kind.as_str());
    counters_of(REVERSALS, "changes of refunds and disputes, by kind", "kind", kinds);
    let disputes = "disputes and warnings of fraud that are new or moved on, by where they stand; the operator should look into anything but 0";
    let stages = DisputeStage::ALL.iter().map(|stage| stage.as_str());
    counters_of(DISPUTES, disputes, "stage", stages);
    let waiting = "disputes and warnings of fraud that wait for the operator";
    gauge_of(DISPUTES_WAITING, waiting);
    let not_for_sale = "offers that are not for sale because their price at the payment processor does not match, by kind; alert on anything but 0";
    describe_gauge!(NOT_FOR_SALE, not_for_sale);
    for kind in OFFER_KINDS {
        drop(gauge!(NOT_FOR_SALE, "kind" => kind));
    }
    let unmatched = "payments of the processor that were not recorded, by reason; the operator should look into anything but 0";
    let reasons = Mismatch::ALL.iter().map(|reason| reason.as_str());
    counters_of(UNMATCHED, unmatched, "reason", reasons);
    let outcomes = EventOutcome::ALL.iter().map(|outcome| outcome.as_str());
    counters_of(EVENTS, "processed events of the processor, by outcome", "outcome", outcomes);
}

fn declare_exports() {
    counters_of(EXPORTS, "finished attempts of exports, by ending", "ending", EXPORT_ENDINGS);
    counter_of(EXPORT_PAGES, "pages of platforms read in finished attempts of exports");
    counter_of(EXPORT_ROWS, "rows read in finished attempts of exports");
    let anew =
        "exports restarted from their first page because their stored pages could not be read";
    counter_of(EXPORTS_BEGUN_ANEW, anew);
    describe_histogram!(EXPORT_DURATION, "time of one attempt of an export, by ending");
    for ending in EXPORT_ENDINGS {
        drop(histogram!(EXPORT_DURATION, "ending" => ending));
    }
    gauge_of(EXPORTS_PENDING, "exports waiting for a worker, on all nodes");
    gauge_of(EXPORTS_RUNNING, "exports running, on all nodes");
    gauge_of(EXPORTS_OLDEST, "how long the oldest waiting export has waited");
}

fn counter_of(name: &'static str, meaning: &'static str) {
    describe_counter!(name, meaning);
    drop(counter!(name));
}

fn counters_of(
    name: &'static str,
    meaning: &'static str,
    label: &'static str,
    values: impl IntoIterator<Item = &'static str>,
) {
    describe_counter!(name, meaning);
    for value in values {
        drop(counter!(name, label => value));
    }
}

fn gauge_of(name: &'static str, meaning: &'static str) {
    describe_gauge!(name, meaning);
    drop(gauge!(name));
}
