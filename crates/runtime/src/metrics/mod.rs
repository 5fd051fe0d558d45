//! All metrics of the service. The admin listener serves them in Prometheus' text format.

mod declared;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use domain::charge::Outcome;
use domain::dispute::DisputeStage;
use domain::job::JobKind;
use domain::lots::LotSource;
use domain::payment::{Mismatch, ReversalKind};
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use metrics::{Counter, Histogram, counter, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use store::metering::BatchReport;
use store::processor_events::EventOutcome;

use self::declared::{
    ACCEPTED, BATCH_SIZE, BODY_BYTES, CALL_DURATION, CALLS, CALLS_IN_FLIGHT, CERTIFICATE_EXPIRY,
    CERTIFICATE_REFUSED, CLOSED_IDLE, CLOSED_STALLED, COMMIT_DURATION, CONNECTIONS,
    CREDITS_OUTSTANDING, DISPUTES, DISPUTES_WAITING, EVENTS, EXPIRED_HOLDS, EXPORT_DURATION,
    EXPORT_ENDINGS, EXPORT_PAGES, EXPORT_ROWS, EXPORTS, EXPORTS_BEGUN_ANEW, EXPORTS_OLDEST,
    EXPORTS_PENDING, EXPORTS_RUNNING, FAILED_BATCHES, JOB_OUTCOMES, JOBS, JOBS_GIVEN_UP,
    JOBS_WAITING, LATE_RESOLUTIONS, LEDGER_FAILURES, LIMITED_KEYS, LOG_LINES_LOST, MAIL_OUTCOMES,
    MAILS, NOT_FOR_SALE, PACED_REFUSALS, PACED_WAITS, PAYMENTS, PLATFORM_DEGRADED,
    PLATFORM_REFUSING, PROCESSOR_PROBLEMS, QUEUE_DEPTH, RECONCILED, RECONCILIATION_OUTCOMES,
    RECONCILIATIONS, REFUSED, REFUSED_BY_IP, REQUEST_CLASSES, REQUESTS, REVERSALS, ROWS_REMOVED,
    SIGNING_VALUES_AGE, SPOOL_BYTES, STANDBY_KINDS, STANDBY_LAG, STANDBY_REQUIRED, STANDBYS,
    TOKENS_NOT_REFRESHED, TOP_UP_OUTCOMES, TOP_UPS, UNMATCHED, UPSTREAM_DURATION, USAGE_SET_ASIDE,
    WITHHELD_READS, declare,
};

pub use self::declared::{DRIFT_KINDS, OFFER_KINDS, PACE_CLASSES, WITHHOLDING_CAUSES};

const SECONDS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const OPERATIONS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0];

/// Creates the recorder for `install`, with the help text of each metric.
fn recorder() -> Result<metrics_exporter_prometheus::PrometheusRecorder, BuildError> {
    let builder = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("seconds".to_owned()), SECONDS)?
        .set_buckets_for_metric(Matcher::Full(BATCH_SIZE.to_owned()), OPERATIONS)?;
    Ok(builder.build_recorder())
}

/// Returns the handle that renders the process's recorder, which the first service of the process
/// installs; `None` if another recorder is already installed.
pub fn install() -> Option<PrometheusHandle> {
    static INSTALLED: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    INSTALLED.get_or_init(install_once).clone()
}

/// Aggregates recorded durations into their histograms. Call it every second: until then, or until
/// the metrics are read, each duration takes up memory.
pub fn sum_up() {
    if let Some(handle) = install() {
        handle.run_upkeep();
    }
}

fn install_once() -> Option<PrometheusHandle> {
    let recorder = recorder().ok()?;
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).ok()?;
    declare();
    Some(handle)
}

/// Metrics of the hot path, looked up once: a lookup by name and labels costs more than counting.
struct Handles {
    platforms: PerPlatform<PlatformHandles>,
    /// By the first digit of the status.
    requests: Vec<Counter>,
}

/// Metrics of the calls to one platform.
struct PlatformHandles {
    /// In the order of [`Outcome::ALL`].
    calls: Vec<Counter>,
    /// Of whole calls, in seconds.
    duration: Histogram,
    /// Of the platform's part in them, in seconds.
    upstream: Histogram,
}

impl PlatformHandles {
    fn new(platform: Platform) -> Self {
        let calls = |outcome: &Outcome| counter!(CALLS, "platform" => platform.as_str(), "outcome" => outcome.as_str());
        Self {
            calls: Outcome::ALL.iter().map(calls).collect(),
            duration: histogram!(CALL_DURATION, "platform" => platform.as_str()),
            upstream: histogram!(UPSTREAM_DURATION, "platform" => platform.as_str()),
        }
    }
}

impl Handles {
    fn new() -> Self {
        Self {
            platforms: PerPlatform::of_all(PlatformHandles::new),
            requests: REQUEST_CLASSES.map(|class| counter!(REQUESTS, "class" => class)).to_vec(),
        }
    }

    /// The recorder is installed before the first request is accepted.
    fn get() -> &'static Self {
        static HANDLES: OnceLock<Handles> = OnceLock::new();
        HANDLES.get_or_init(Self::new)
    }
}

/// Whether a platform refuses the credentials of all accounts.
pub fn platform_refusing(platform: Platform, is_refusing: bool) {
    gauge!(PLATFORM_REFUSING, "platform" => platform.as_str()).set(float(usize::from(is_refusing)));
}

/// Whether a platform fails far more calls than usual in one way, which is one of [`DRIFT_KINDS`].
pub fn platform_degraded(platform: Platform, kind: &'static str, is_degraded: bool) {
    debug_assert!(DRIFT_KINDS.contains(&kind), "{kind} is not declared");
    gauge!(PLATFORM_DEGRADED, "platform" => platform.as_str(), "kind" => kind)
        .set(float(usize::from(is_degraded)));
}

/// A request waits for its account's turn; the class is one of [`PACE_CLASSES`].
pub fn pace_waited(platform: Platform, class: &'static str) {
    counter!(PACED_WAITS, "platform" => platform.as_str(), "class" => class).increment(1);
}

/// A request is refused because its account's turn is too far away.
pub fn pace_refused(platform: Platform, class: &'static str) {
    counter!(PACED_REFUSALS, "platform" => platform.as_str(), "class" => class).increment(1);
}

/// The signing values of a platform are this old.
pub fn signing_values_age(platform: Platform, age: std::time::Duration) {
    gauge!(SIGNING_VALUES_AGE, "platform" => platform.as_str()).set(age.as_secs_f64());
}

/// A refresh of an account's token failed.
pub fn token_not_refreshed(platform: Platform, reason: &'static str) {
    not_refreshed(platform, reason).increment(1);
}

fn not_refreshed(platform: Platform, reason: &'static str) -> Counter {
    counter!(TOKENS_NOT_REFRESHED, "platform" => platform.as_str(), "reason" => reason)
}

/// A native call ended.
pub fn call_ended(
    platform: Platform,
    outcome: Outcome,
    duration_ms: f64,
    upstream_ms: Option<f64>,
) {
    let Some(handles) = Handles::get().platforms.get(platform) else { return };
    if let Some(counter) = handles.calls.get(outcome as usize) {
        counter.increment(1);
    }
    handles.duration.record(duration_ms / 1_000.0);
    if let Some(upstream_ms) = upstream_ms {
        handles.upstream.record(upstream_ms / 1_000.0);
    }
}

/// A batch of holds and settlements was committed.
pub fn batch_committed(report: &BatchReport) {
    histogram!(COMMIT_DURATION).record(report.duration.as_secs_f64());
    histogram!(BATCH_SIZE).record(float(report.holds + report.resolutions));
    if !report.committed {
        counter!(FAILED_BATCHES).increment(1);
    }
}

/// A read was sent before its hold was committed, and the commit refused it for one of
/// `WITHHOLDING_CAUSES`.
pub fn read_withheld(cause: &'static str) {
    counter!(WITHHELD_READS, "cause" => cause).increment(1);
}

/// Holds expired before they were settled, and were refunded.
pub fn holds_expired(count: usize) {
    counter!(EXPIRED_HOLDS).increment(u64::try_from(count).unwrap_or(u64::MAX));
}

/// Retention removed rows of a table.
pub fn rows_removed(table: &'static str, rows: u64) {
    counter!(ROWS_REMOVED, "table" => table).increment(rows);
}

/// The ledger was verified.
pub fn ledger_checked(violations: usize) {
    gauge!(LEDGER_FAILURES).set(float(violations));
}

/// The state of the primary's standbys was read.
#[expect(clippy::cast_precision_loss, reason = "a gauge is about the size of a number")]
pub fn standbys_seen(seen: &store::standbys::StandbyStatus) {
    let counts = [seen.synchronous, seen.asynchronous, seen.hidden];
    for (kind, count) in STANDBY_KINDS.into_iter().zip(counts) {
        gauge!(STANDBYS, "kind" => kind).set(count as f64);
    }
    gauge!(STANDBY_LAG).set(seen.lag_bytes as f64);
    gauge!(STANDBY_REQUIRED).set(f64::from(u8::from(seen.is_synchronous_required)));
}

/// Log lines lost since the process started, including those before metrics were installed.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Log lines were lost. Logging belongs to the caller; only the count is kept here.
pub fn log_lines_lost(lines: u64) {
    LOST.fetch_add(lines, Ordering::Relaxed);
}

/// An export restarts from its first page, because its stored pages cannot be read.
pub fn export_begun_anew() {
    counter!(EXPORTS_BEGUN_ANEW).increment(1);
}

/// Rows of usage counts that could not be read and were set aside.
pub fn usage_set_aside(rows: i64) {
    gauge!(USAGE_SET_ASIDE).set(float(usize::try_from(rows).unwrap_or_default()));
}

/// Problems of the set-up at the payment processor.
pub fn processor_setup(problems: usize) {
    gauge!(PROCESSOR_PROBLEMS).set(float(problems));
}

/// Values that can be read at any time.
#[derive(Debug, Clone, Copy)]
pub struct MetricSample {
    /// Operations waiting for a commit.
    pub queued_operations: usize,
    /// Settlements of calls that had already ended, since the start.
    pub late_resolutions: u64,
    /// Native calls in progress.
    pub calls_in_flight: usize,
    /// Bytes of request bodies in memory.
    pub body_bytes: usize,
    /// Bytes of uploaded files on disk.
    pub spool_bytes: usize,
    /// Keys whose request rate is tracked.
    pub limited_keys: usize,
    /// Open connections of the public listener.
    pub connections_open: usize,
    /// Connections accepted since the start.
    pub connections_accepted: u64,
    /// Connections refused since the start because there were too many.
    pub connections_refused: u64,
    /// Connections refused because their address had too many.
    pub connections_refused_by_address: u64,
    /// Connections closed because no request arrived in time.
    pub connections_closed_idle: u64,
    /// Connections closed because the client did not read its response.
    pub connections_closed_stalled: u64,
}

/// Records the values that can be read at any time; called when the metrics are read.
pub fn sample(seen: &MetricSample) {
    gauge!(QUEUE_DEPTH).set(float(seen.queued_operations));
    counter!(LATE_RESOLUTIONS).absolute(seen.late_resolutions);
    gauge!(CALLS_IN_FLIGHT).set(float(seen.calls_in_flight));
    gauge!(BODY_BYTES).set(float(seen.body_bytes));
    gauge!(SPOOL_BYTES).set(float(seen.spool_bytes));
    gauge!(LIMITED_KEYS).set(float(seen.limited_keys));
    gauge!(CONNECTIONS).set(float(seen.connections_open));
    counter!(ACCEPTED).absolute(seen.connections_accepted);
    counter!(REFUSED).absolute(seen.connections_refused);
    counter!(REFUSED_BY_IP).absolute(seen.connections_refused_by_address);
    counter!(CLOSED_IDLE).absolute(seen.connections_closed_idle);
    counter!(CLOSED_STALLED).absolute(seen.connections_closed_stalled);
    counter!(LOG_LINES_LOST).absolute(LOST.load(Ordering::Relaxed));
}

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float; counts of this size are exact")]
const fn float(count: usize) -> f64 {
    count as f64
}

/// An attempt of a job ended.
pub fn job_ended(kind: JobKind, outcome: &'static str) {
    debug_assert!(JOB_OUTCOMES.contains(&outcome), "{outcome} is not declared");
    counter!(JOBS, "kind" => kind.as_str(), "outcome" => outcome).increment(1);
}

/// An attempt of an export ended.
pub fn export_ended(
    ending: &'static str,
    progress: store::exports::ExportProgress,
    took: std::time::Duration,
) {
    let count = |number: i64| u64::try_from(number).unwrap_or(0);
    debug_assert!(EXPORT_ENDINGS.contains(&ending), "{ending} is not declared");
    counter!(EXPORTS, "ending" => ending).increment(1);
    counter!(EXPORT_PAGES).increment(count(progress.pages));
    counter!(EXPORT_ROWS).increment(count(progress.rows));
    histogram!(EXPORT_DURATION, "ending" => ending).record(took.as_secs_f64());
}

/// The numbers of exports waiting and running.
#[expect(clippy::cast_precision_loss, reason = "a gauge is about the size of a number")]
pub fn exports_counted(counts: store::exports::ExportCounts, now: domain::time::Timestamp) {
    let micros = counts.oldest_pending.map_or(0, |since| now.micros_since(since));
    gauge!(EXPORTS_PENDING).set(counts.pending as f64);
    gauge!(EXPORTS_RUNNING).set(counts.running as f64);
    gauge!(EXPORTS_OLDEST).set(micros as f64 / 1_000_000.0);
}

/// The numbers of jobs.
pub fn jobs_counted(counts: store::jobs::JobCounts) {
    let float = |count: i64| float(usize::try_from(count).unwrap_or(0));
    gauge!(JOBS_WAITING).set(float(counts.waiting));
    gauge!(JOBS_GIVEN_UP).set(float(counts.given_up));
}

/// The credits that customers can still spend.
#[expect(clippy::cast_precision_loss, reason = "credits in the millions are exact in a float")]
pub fn liability_read(liability: &store::liability::CreditLiability) {
    for source in LotSource::ALL {
        let same = liability.lines.iter().filter(|line| line.source == *source);
        let credits = same.map(|line| line.credits.whole()).fold(0, i64::saturating_add);
        gauge!(CREDITS_OUTSTANDING, "source" => source.as_str()).set(credits as f64);
    }
}

/// New connections now get this certificate, which expires at `expires`.
#[expect(clippy::cast_precision_loss, reason = "seconds of Unix time are exact in a float")]
pub fn certificate_in_use(expires: domain::time::Timestamp) {
    gauge!(CERTIFICATE_EXPIRY).set(expires.unix_seconds() as f64);
}

/// The certificate's files were read again; `is_usable` says whether they could be used.
pub fn certificate_looked_at(is_usable: bool) {
    gauge!(CERTIFICATE_REFUSED).set(f64::from(u8::from(!is_usable)));
}

/// An attempt to send an email ended.
pub fn mail_ended(handed_over: bool) {
    let [done, failed] = MAIL_OUTCOMES;
    let outcome = if handed_over { done } else { failed };
    counter!(MAILS, "outcome" => outcome).increment(1);
}

/// Credits were granted for a payment.
pub fn payment_granted() {
    counter!(PAYMENTS).increment(1);
}

/// An automatic charge ended, or is waiting.
pub fn top_up_ended(outcome: &'static str) {
    debug_assert!(TOP_UP_OUTCOMES.contains(&outcome), "{outcome} is not declared");
    counter!(TOP_UPS, "outcome" => outcome).increment(1);
}

/// The ledger was compared with the processor: `granted` payments had not been reported by an
/// event, `failed` could not be compared.
pub fn reconciled(granted: u64, failed: u64) {
    let [whole, in_part] = RECONCILIATION_OUTCOMES;
    let outcome = if failed == 0 { whole } else { in_part };
    counter!(RECONCILIATIONS, "outcome" => outcome).increment(1);
    counter!(RECONCILED).increment(granted);
}

/// A refund or a dispute changed.
pub fn payment_reversed(kind: ReversalKind) {
    counter!(REVERSALS, "kind" => kind.as_str()).increment(1);
}

/// A dispute or a warning of fraud is new, or stands elsewhere than before.
pub fn dispute_moved(stage: DisputeStage) {
    counter!(DISPUTES, "stage" => stage.as_str()).increment(1);
}

/// The disputes and warnings of fraud that wait for the operator.
pub fn disputes_waiting(waiting: i64) {
    gauge!(DISPUTES_WAITING).set(float(usize::try_from(waiting).unwrap_or_default()));
}

/// How many offers of one of [`OFFER_KINDS`] are not for sale because of their price.
pub fn prices_not_for_sale(kind: &'static str, count: usize) {
    debug_assert!(OFFER_KINDS.contains(&kind), "{kind} is not declared");
    gauge!(NOT_FOR_SALE, "kind" => kind).set(float(count));
}

/// A payment of the processor was not recorded.
pub fn payment_unmatched(reason: Mismatch) {
    counter!(UNMATCHED, "reason" => reason.as_str()).increment(1);
}

/// An event of the processor was processed.
pub fn event_ended(outcome: EventOutcome) {
    counter!(EVENTS, "outcome" => outcome.as_str()).increment(1);
}

/// A request to the public listener got a response.
pub fn request_answered(status: u16) {
    let class = usize::from(status / 100).clamp(1, 5) - 1;
    if let Some(counter) = Handles::get().requests.get(class) {
        counter.increment(1);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn aggregating_loses_no_duration() {
        let recorder = recorder().unwrap();
        let handle = recorder.handle();
        let record = || histogram!(COMMIT_DURATION).record(0.1);

        metrics::with_local_recorder(&recorder, record);
        handle.run_upkeep();
        metrics::with_local_recorder(&recorder, record);
        handle.run_upkeep();

        let text = handle.render();
        assert!(
            text.contains("creator_gateway_metering_commit_duration_seconds_count 2"),
            "{text}"
        );
    }

    /// An alarm must see the first event, so its series must exist before.
    #[test]
    fn every_series_exists_from_the_start_with_the_prefix_and_a_help_text() {
        let recorder = recorder().unwrap();
        let handle = recorder.handle();

        metrics::with_local_recorder(&recorder, declare);

        let text = handle.render();
        let names = |start: &str| -> BTreeSet<String> {
            let lines = text.lines().filter_map(|line| line.strip_prefix(start));
            lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
        };
        assert_eq!(names("# HELP "), names("# TYPE "), "each has a help text and a series");
        let samples: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        for sample in samples.iter().filter(|sample| !sample.is_empty()) {
            assert!(sample.starts_with("creator_gateway_"), "{sample}");
            assert!(sample.ends_with(" 0"), "{sample}");
        }
        let source = include_str!("declared.rs");
        let own = source.lines().filter_map(|line| {
            line.trim_start_matches("pub(super) ")
                .strip_prefix("const ")?
                .split_once("&str = \"creator_")
        });
        let own: BTreeSet<String> =
            own.map(|(_, name)| format!("creator_{}", name.trim_end_matches("\";"))).collect();
        assert_eq!(own, names("# TYPE "), "each that has a name is declared");
        for platform in Platform::all() {
            for outcome in Outcome::ALL {
                let series = format!(
                    "creator_gateway_calls_total{{platform=\"{platform}\",outcome=\"{outcome}\"}} 0"
                );
                assert!(samples.contains(&series.as_str()), "{series}");
            }
        }
    }
}
