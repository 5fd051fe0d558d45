//! Metrics: what is counted under which name, as an operator's rules and dashboards read it.

use std::collections::BTreeMap;
use std::time::Duration;

use domain::credits::Credits;
use domain::job::JobKind;
use domain::lots::LotSource;
use domain::payment::{Mismatch, ReversalKind};
use domain::platform::Platform;
use domain::time::Timestamp;
use metrics_exporter_prometheus::PrometheusBuilder;
use runtime::metrics::{self as counted, MetricSample};
use store::exports::{ExportCounts, ExportProgress};
use store::jobs::JobCounts;
use store::liability::{CreditLiability, LiabilityLine};
use store::metering::BatchReport;
use store::processor_events::EventOutcome;
use store::standbys::StandbyStatus;

/// The series after this work, by name and labels without the common prefix.
fn series(work: impl FnOnce()) -> BTreeMap<String, String> {
    let recorder = PrometheusBuilder::new().build_recorder();
    metrics::with_local_recorder(&recorder, work);
    let text = recorder.handle().render();
    let lines = text.lines().filter_map(|line| line.strip_prefix("creator_gateway_"));
    lines
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// Exactly these series, in any order.
fn assert_counts(work: impl FnOnce(), expected: &[(&str, &str)]) {
    let expected: BTreeMap<String, String> =
        expected.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    assert_eq!(series(work), expected);
}

#[test]
fn platforms_are_told_apart_by_their_names() {
    assert_counts(
        || {
            counted::platform_refusing(Platform::ALPHA, true);
            counted::platform_refusing(Platform::BETA, true);
            counted::platform_refusing(Platform::BETA, false);
            counted::platform_degraded(Platform::GAMMA, "not_found", true);
            counted::pace_waited(Platform::ALPHA, "reads");
            counted::pace_waited(Platform::ALPHA, "reads");
            counted::pace_refused(Platform::ALPHA, "writes");
            counted::signing_values_age(Platform::BETA, Duration::from_millis(1_500));
            counted::token_not_refreshed(Platform::DELTA, "failed");
        },
        &[
            ("platform_refusing_credentials{platform=\"platform_alpha\"}", "1"),
            ("platform_refusing_credentials{platform=\"platform_beta\"}", "0"),
            ("platform_degraded{platform=\"platform_gamma\",kind=\"not_found\"}", "1"),
            ("paced_waits_total{platform=\"platform_alpha\",class=\"reads\"}", "2"),
            ("paced_refusals_total{platform=\"platform_alpha\",class=\"writes\"}", "1"),
            ("signing_values_age_seconds{platform=\"platform_beta\"}", "1.5"),
            ("token_refreshes_failed_total{platform=\"platform_delta\",reason=\"failed\"}", "1"),
        ],
    );
}

#[test]
fn a_failed_commit_is_counted_and_measured_like_others() {
    let report = |committed| BatchReport {
        holds: 3,
        held: 2,
        resolutions: 4,
        duration: Duration::from_millis(250),
        balances: Vec::new(),
        committed,
    };

    let series = series(|| {
        counted::batch_committed(&report(true));
        counted::batch_committed(&report(false));
        counted::read_withheld("credits");
        counted::holds_expired(5);
        counted::rows_removed("calls", 7);
    });

    assert_eq!(series["metering_failed_batches_total"], "1");
    assert_eq!(series["metering_commit_duration_seconds_count"], "2");
    assert_eq!(series["metering_commit_duration_seconds_sum"], "0.5");
    assert_eq!(series["metering_batch_operations_sum"], "14");
    assert_eq!(series["withheld_reads_total{cause=\"credits\"}"], "1");
    assert_eq!(series["holds_expired_total"], "5");
    assert_eq!(series["retention_rows_removed_total{table=\"calls\"}"], "7");
}

#[test]
fn the_state_of_standbys_is_told_kind_by_kind() {
    let seen = StandbyStatus {
        synchronous: 1,
        asynchronous: 2,
        hidden: 3,
        lag_bytes: 4_096,
        is_synchronous_required: true,
    };

    assert_counts(
        || counted::standbys_seen(&seen),
        &[
            ("database_standbys{kind=\"synchronous\"}", "1"),
            ("database_standbys{kind=\"asynchronous\"}", "2"),
            ("database_standbys{kind=\"hidden\"}", "3"),
            ("database_standby_lag_bytes", "4096"),
            ("database_synchronous_standby_required", "1"),
        ],
    );
}

#[test]
fn what_operators_should_look_into_goes_back_to_zero_when_it_is_over() {
    assert_counts(
        || {
            for problems in [3, 0] {
                counted::ledger_checked(problems);
                counted::processor_setup(problems);
                counted::usage_set_aside(i64::try_from(problems).unwrap());
                counted::disputes_waiting(i64::try_from(problems).unwrap());
                counted::prices_not_for_sale("plan", problems);
                counted::certificate_looked_at(problems == 0);
            }
        },
        &[
            ("ledger_invariant_failures", "0"),
            ("processor_setup_problems", "0"),
            ("usage_rows_set_aside", "0"),
            ("disputes_waiting", "0"),
            ("prices_not_for_sale{kind=\"plan\"}", "0"),
            ("tls_certificate_refused", "0"),
        ],
    );
    // Numbers that cannot be are not shown as huge ones.
    assert_counts(|| counted::usage_set_aside(-1), &[("usage_rows_set_aside", "0")]);
}

#[test]
fn credits_of_one_source_are_summed_over_their_lines() {
    let line = |source, credits| LiabilityLine {
        source,
        days_from: 0,
        days_until: None,
        credits: Credits::from_whole(credits),
        without_expiry: Credits::ZERO,
        lots: 1,
    };
    let read = CreditLiability {
        lines: vec![
            line(LotSource::Pack, 5),
            line(LotSource::Plan, 7),
            line(LotSource::Pack, i64::MAX),
        ],
        outstanding: Credits::ZERO,
        held: Credits::ZERO,
        debt: Credits::ZERO,
        customers: 1,
    };

    let series = series(|| counted::liability_read(&read));

    assert_eq!(series.len(), LotSource::ALL.len(), "each source, also without a line");
    assert_eq!(series["credits_outstanding{source=\"plan\"}"], "7");
    assert_eq!(series["credits_outstanding{source=\"gift\"}"], "0");
    // The largest number, as a float: no sum wraps.
    assert_eq!(series["credits_outstanding{source=\"pack\"}"], "9223372036854776000");
}

#[test]
fn exports_are_counted_by_their_ending_with_what_they_read() {
    let now = Timestamp::from_unix_micros(10_000_000);
    let progress = |pages, rows| ExportProgress { pages, rows, worked_micros: 0 };

    let series = series(|| {
        counted::export_ended("completed", progress(2, 150), Duration::from_secs(3));
        counted::export_ended("lost", progress(1, 50), Duration::from_secs(1));
        counted::export_ended("lost", progress(-1, -1), Duration::ZERO);
        counted::export_begun_anew();
        let oldest_pending = Some(Timestamp::from_unix_micros(7_500_000));
        counted::exports_counted(ExportCounts { pending: 2, running: 1, oldest_pending }, now);
    });

    assert_eq!(series["export_attempts_total{ending=\"completed\"}"], "1");
    assert_eq!(series["export_attempts_total{ending=\"lost\"}"], "2");
    assert_eq!((&*series["export_pages_total"], &*series["export_rows_total"]), ("3", "200"));
    assert_eq!(series["export_attempt_duration_seconds_count{ending=\"completed\"}"], "1");
    assert_eq!((&*series["exports_pending"], &*series["exports_running"]), ("2", "1"));
    assert_eq!(series["exports_oldest_pending_seconds"], "2.5");
    assert_eq!(series["exports_begun_anew_total"], "1");
    assert_counts(
        || {
            let none = ExportCounts { pending: 0, running: 0, oldest_pending: None };
            counted::exports_counted(none, now);
        },
        &[
            ("exports_pending", "0"),
            ("exports_running", "0"),
            ("exports_oldest_pending_seconds", "0"),
        ],
    );
}

#[test]
fn jobs_mails_and_payments_are_counted_by_how_they_ended() {
    assert_counts(
        || {
            counted::job_ended(JobKind::SendMail, "done");
            counted::jobs_counted(JobCounts { waiting: 4, given_up: 1 });
            counted::mail_ended(true);
            counted::mail_ended(false);
            counted::payment_granted();
            counted::top_up_ended("succeeded");
            counted::reconciled(2, 0);
            counted::reconciled(1, 3);
            counted::payment_reversed(ReversalKind::Dispute);
            counted::payment_unmatched(Mismatch::OtherAmount);
        },
        &[
            ("job_attempts_total{kind=\"send_mail\",outcome=\"done\"}", "1"),
            ("jobs_waiting", "4"),
            ("jobs_given_up", "1"),
            ("mails_total{outcome=\"handed_over\"}", "1"),
            ("mails_total{outcome=\"failed\"}", "1"),
            ("payments_granted_total", "1"),
            ("top_ups_total{outcome=\"succeeded\"}", "1"),
            ("reconciliations_total{outcome=\"whole\"}", "1"),
            ("reconciliations_total{outcome=\"in_part\"}", "1"),
            ("reconciled_payments_total", "3"),
            ("payments_reversed_total{kind=\"dispute\"}", "1"),
            ("payments_unmatched_total{reason=\"other_amount\"}", "1"),
        ],
    );
    for outcome in EventOutcome::ALL {
        let name = format!("processor_events_total{{outcome=\"{}\"}}", outcome.as_str());
        assert_counts(|| counted::event_ended(outcome), &[(&name, "1")]);
    }
}

#[test]
fn a_sample_shows_the_totals_of_the_process_and_not_their_sum() {
    let sample = |connections_accepted| MetricSample {
        queued_operations: 1,
        late_resolutions: 2,
        calls_in_flight: 3,
        body_bytes: 4,
        spool_bytes: 5,
        limited_keys: 6,
        connections_open: 7,
        connections_accepted,
        connections_refused: 9,
        connections_refused_by_address: 10,
        connections_closed_idle: 11,
        connections_closed_stalled: 12,
    };

    let series = series(|| {
        counted::sample(&sample(8));
        counted::sample(&sample(80));
    });

    for (name, value) in [
        ("metering_queue_operations", "1"),
        ("late_resolution_total", "2"),
        ("calls_in_flight", "3"),
        ("request_body_buffer_bytes", "4"),
        ("upload_spool_bytes", "5"),
        ("rate_limited_keys", "6"),
        ("connections_open", "7"),
        ("connections_accepted_total", "80"),
        ("connections_refused_total", "9"),
        ("connections_refused_by_address_total", "10"),
        ("connections_closed_idle_total", "11"),
        ("connections_closed_stalled_total", "12"),
    ] {
        assert_eq!(series[name], value, "{name}");
    }
}

#[test]
fn the_end_of_the_certificate_is_told_in_seconds() {
    let ends = Timestamp::from_unix_micros(1_790_000_000_900_000);

    assert_counts(
        || counted::certificate_in_use(ends),
        &[("tls_certificate_expiry_seconds", "1790000000")],
    );
}

/// Also of what was lost before metrics were there.
#[test]
fn lost_log_lines_are_told_with_the_next_sample() {
    counted::log_lines_lost(3);
    counted::log_lines_lost(4);
    let sample = MetricSample {
        queued_operations: 0,
        late_resolutions: 0,
        calls_in_flight: 0,
        body_bytes: 0,
        spool_bytes: 0,
        limited_keys: 0,
        connections_open: 0,
        connections_accepted: 0,
        connections_refused: 0,
        connections_refused_by_address: 0,
        connections_closed_idle: 0,
        connections_closed_stalled: 0,
    };

    let series = series(|| counted::sample(&sample));

    assert_eq!(series["log_lines_lost_total"], "7");
}
