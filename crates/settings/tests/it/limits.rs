//! Numbers at their limits: the last that is taken, the first that is not, and what is said of it.

use toml::Value;

use crate::{default_keys, said};

/// A key, numbers that are taken, numbers that are not, and what is said of those.
const LIMITS: &[(&str, &[i64], &[i64], &str)] = &[
    ("billing.invoices_refresh_s", &[60, 86_400], &[59, 86_401], "must be 60 to 86,400"),
    ("credits.read", &[1, 1_000_000], &[-1, 0, 1_000_001], "must be 1 to 1,000,000"),
    ("credits.write", &[1, 1_000_000], &[-1, 0, 1_000_001], "must be 1 to 1,000,000"),
    ("credits.export", &[1, 1_000_000], &[-1, 0, 1_000_001], "must be 1 to 1,000,000"),
    ("credits.trial", &[0, 1_000_000_000], &[-1, 1_000_000_001], "must be 0 to 1,000,000,000"),
    ("credits.expiry.pack_days", &[0, 36_500], &[-1, 36_501], "must be 0 to 36,500"),
    ("credits.expiry.trial_days", &[0, 36_500], &[-1, 36_501], "must be 0 to 36,500"),
    ("credits.expiry.gift_days", &[0, 36_500], &[-1, 36_501], "must be 0 to 36,500"),
    ("credits.expiry.plan_days", &[0, 36_500], &[-1, 36_501], "must be 0 to 36,500"),
    ("database.connections_max", &[2, 1_000], &[0, 1], "must be at least 2"),
    ("exports.workers", &[0, 64], &[65], "must be 0 to 64"),
    ("exports.running_max", &[1, 1_000], &[0, 1_001], "must be 1 to 1,000"),
    ("exports.pending_max", &[1, 10_000], &[0, 10_001], "must be 1 to 10,000"),
    ("exports.poll_ms", &[100, 3_600_000], &[99, 3_600_001], "must be 100 to 3,600,000"),
    ("exports.lease_s", &[30, 3_600], &[1, 3_601], "must be 2 to 3,600"),
    ("exports.renew_s", &[1, 30], &[0, 31], "must be 1 to half of lease_s"),
    ("exports.attempts_max", &[1, 100], &[0, 101], "must be 1 to 100"),
    ("exports.retention_s", &[60, 31_622_400], &[59, 31_622_401], "must be 60 to 31,622,400"),
    ("exports.rows_max", &[1, 1_048_575], &[0, 1_048_576], "must be 1 to 1,048,575"),
    ("exports.bytes_max", &[1, 2_147_483_648], &[0, 2_147_483_649], "must be 1 to 2,147,483,648"),
    ("exports.pages_max", &[1, 1_000_000], &[0, 1_000_001], "must be 1 to 1,000,000"),
    ("exports.conversation_s", &[1, 86_400], &[0, 86_401], "must be 1 to 86,400"),
    ("http.cores", &[0, 1_024], &[1_025, i64::MAX], "must be 0 to 1,024"),
    ("http.tls.check_every_s", &[0, 86_400], &[86_401], "must be 0 to 86,400"),
    (
        "http.timeouts.head_ms",
        &[1, 86_400_000],
        &[0, 86_400_001, i64::MAX],
        "must be 1 to 86,400,000",
    ),
    ("http.timeouts.write_stall_ms", &[1, 86_400_000], &[0, 86_400_001], "must be 1 to 86,400,000"),
    ("http.timeouts.body_ms", &[1, 86_400_000], &[0, 86_400_001], "must be 1 to 86,400,000"),
    ("http.timeouts.upload_ms", &[1, 86_400_000], &[0, 86_400_001], "must be 1 to 86,400,000"),
    ("http.timeouts.body_grace_ms", &[0, 86_400_000], &[86_400_001], "must be 0 to 86,400,000"),
    ("http.timeouts.stream_after_ms", &[0, 86_400_000], &[86_400_001], "must be 0 to 86,400,000"),
    ("http.timeouts.drain_ms", &[0, 86_400_000], &[86_400_001], "must be 0 to 86,400,000"),
    ("http.timeouts.announce_ms", &[0, 300_000], &[300_001], "must be 0 to 300,000"),
    ("http.limits.head_bytes_max", &[1], &[0], "must be above zero"),
    ("http.limits.headers_max", &[1], &[0], "must be above zero"),
    ("http.limits.json_body_bytes_max", &[1], &[0], "must be above zero"),
    ("http.limits.native_body_bytes_max", &[1], &[0], "must be above zero"),
    ("http.limits.upload_bytes_max", &[1], &[0], "must be above zero"),
    ("http.limits.upload_fields_bytes_max", &[1], &[0], "must be above zero"),
    ("http.limits.connections_max", &[1], &[0], "must be above zero"),
    ("http.limits.connections_per_ip_max", &[1], &[0], "must be above zero"),
    ("http.limits.calls_in_flight_max", &[1], &[0], "must be above zero"),
    ("http.limits.calls_per_customer_max", &[1], &[0], "must be above zero"),
    ("http.limits.calls_per_account_max", &[1], &[0], "must be above zero"),
    (
        "http.limits.native_bodies_bytes_max",
        &[1_048_576],
        &[0, 1_048_575],
        "must be at least native_body_bytes_max",
    ),
    (
        "http.limits.native_bodies_per_customer_bytes_max",
        &[2_101_248],
        &[0, 2_101_247],
        "must be 2101248 or more: enough for one request",
    ),
    (
        "http.limits.open_bodies_bytes_max",
        &[528_384],
        &[0, 528_383],
        "must be 528384 or more: enough for one request",
    ),
    (
        "http.limits.open_bodies_per_network_bytes_max",
        &[528_384],
        &[0, 528_383],
        "must be 528384 or more: enough for one request",
    ),
    (
        "http.limits.uploads_bytes_max",
        &[536_870_912],
        &[0, 536_870_911],
        "must be at least upload_bytes_max",
    ),
    (
        "http.limits.uploads_per_customer_bytes_max",
        &[536_875_008],
        &[0, 536_875_007],
        "must be 536875008 or more: enough for one request",
    ),
    (
        "http.limits.envelopes_bytes_max",
        &[8_388_608],
        &[0, 8_388_607],
        "must be at least envelope_bytes_max",
    ),
    (
        "http.limits.envelopes_per_customer_bytes_max",
        &[8_388_608],
        &[0, 8_388_607],
        "must be 8388608 or more: enough for one request",
    ),
    ("jobs.workers", &[0, 64], &[65], "must be 0 to 64"),
    ("jobs.poll_ms", &[100, 3_600_000], &[99, 3_600_001], "must be 100 to 3,600,000"),
    ("keys.count_max", &[1, i64::MAX], &[0, -1], "must be 1 or more"),
    (
        "log.buffer_bytes",
        &[65_536, 1_073_741_824],
        &[65_535, 1_073_741_825],
        "must be 65,536 to 1,073,741,824",
    ),
    ("mail.timeout_ms", &[1, 50_000], &[0, 50_001], "must be 1 to 50,000"),
    ("metering.batch_max", &[1, 1_024], &[0, 1_025], "must be 1 to 1,024"),
    ("metering.queue_max", &[256], &[0, 255], "must be at least batch_max"),
    ("metering.queue_age_max_ms", &[1], &[0], "must be above zero"),
    ("metering.commit_wait_max_ms", &[1], &[0], "must be above zero"),
    ("metering.hold_wait_max_ms", &[100, 60_000], &[99, 60_001], "must be 100 to 60,000"),
    ("metering.read_patience_ms", &[0, 1_000], &[1_001], "must be at most 1,000"),
    ("metering.gather_ms", &[0, 100], &[101], "must be at most 100"),
    (
        "metering.hold_ttl_s",
        &[130, 86_400],
        &[129, 86_401],
        "must be 130 to 86,400: calls renew their holds every 60 seconds",
    ),
    ("metering.tags_per_day_max", &[0, 100_000], &[100_001], "must be at most 100,000"),
    ("notices.every_s", &[0, 10, 86_400], &[9, 86_401], "must be 0, or 10 to 86,400"),
    (
        "notices.low_balance_credits",
        &[0, 1_000_000_000],
        &[-1, 1_000_000_001],
        "must be 0 to 1,000,000,000",
    ),
    ("notices.expiring_days", &[0, 60], &[-1, 61], "must be 0 to 60"),
    ("passwords.at_once", &[1, 256], &[0, 257], "must be 1 to 256"),
    ("passwords.waiting_max", &[0, 10_000], &[10_001], "must be at most 10,000"),
    ("platform_drift.window_s", &[6, 3_600], &[5, 3_601], "must be 6 to 3,600"),
    ("platform_drift.calls_min", &[0, 1_000_000], &[1_000_001], "must be at most 1,000,000"),
    ("platform_drift.accounts_min", &[2, 32], &[1, 33], "must be 2 to 32"),
    ("platform_drift.customers_min", &[2, 8], &[1, 9], "must be 2 to 8"),
    ("platform_drift.rise_percent", &[11, 100], &[4, 101], "must be 5 to 100"),
    ("platform_drift.end_percent", &[0, 29], &[30, 100], "must be below rise_percent"),
    (
        "platform_drift.baseline_s",
        &[600, 2_592_000],
        &[599, 2_592_001],
        "must be 600 to 2,592,000, and at least window_s",
    ),
    ("platform_refusals.accounts_min", &[2, 1_000], &[1, 1_001], "must be 2 to 1,000"),
    ("platform_refusals.customers_min", &[2, 1_000], &[1, 1_001], "must be 2 to 1,000"),
    ("platform_refusals.window_s", &[1, 3_600], &[0, 3_601], "must be 1 to 3,600"),
    ("processor.timeout_ms", &[100, 120_000], &[99, 120_001], "must be 100 to 120,000"),
    ("processor.retries_max", &[0, 5], &[6], "must be 0 to 5"),
    ("processor.retry_pause_ms", &[1, 10_000], &[0, 10_001], "must be 1 to 10,000"),
    ("processor.reconcile_every_s", &[0, 10, 86_400], &[9, 86_401], "must be 0, or 10 to 86,400"),
    ("admin.wrong_tokens_per_minute", &[1], &[0], "must be above zero"),
    ("rate_limits.per_key_per_second", &[1], &[0], "must be above zero"),
    ("rate_limits.per_key_burst", &[1], &[0], "must be above zero"),
    ("rate_limits.control_per_key_per_second", &[1], &[0], "must be above zero"),
    ("rate_limits.control_per_key_burst", &[1], &[0], "must be above zero"),
    ("rate_limits.control_per_network_per_second", &[1], &[0], "must be above zero"),
    ("rate_limits.control_per_network_burst", &[1], &[0], "must be above zero"),
    ("rate_limits.imports_per_minute", &[1], &[0], "must be above zero"),
    ("rate_limits.key_changes_per_minute", &[1], &[0], "must be above zero"),
    ("rate_limits.payment_requests_per_minute", &[1], &[0], "must be above zero"),
    ("rate_limits.idempotency_keys_per_minute", &[1], &[0], "must be above zero"),
    ("rate_limits.registrations_per_hour", &[1], &[0], "must be above zero"),
    ("rate_limits.wrong_passwords_per_hour", &[1], &[0], "must be above zero"),
    ("rate_limits.failed_logins_per_network_per_hour", &[1], &[0], "must be above zero"),
    ("rate_limits.failed_logins_per_address_per_hour", &[1], &[0], "must be above zero"),
    ("rate_limits.mails_per_network_per_hour", &[1], &[0], "must be above zero"),
    (
        "rate_limits.mails_per_address_per_hour",
        &[2, 12],
        &[0, 1],
        "must be 2 or more, so that the previous link still works when the limit stops an email",
    ),
    (
        "rate_limits.mails_per_address_in_all_per_hour",
        &[3],
        &[0, 2],
        "must be at least mails_per_address_per_hour",
    ),
    ("retention.calls_days", &[0, 35, 36_500], &[-1, 1, 34, 36_501], "must be 0, or 35 to 36,500"),
    (
        "retention.unconfirmed_customers_days",
        &[0, 7, 36_500],
        &[-1, 6, 36_501],
        "must be 0, or 7 to 36,500",
    ),
    (
        "retention.given_up_jobs_days",
        &[0, 7, 36_500],
        &[-1, 6, 36_501],
        "must be 0, or 7 to 36,500",
    ),
    ("retention.audit_days", &[0, 365, 36_500], &[-1, 364, 36_501], "must be 0, or 365 to 36,500"),
    ("retention.batch_calls", &[1, 5_000], &[0, 5_001], "must be 1 to 5,000"),
    ("retention.load_percent", &[1, 100], &[0, 101], "must be 1 to 100"),
    ("sessions.idle_s", &[60, 604_800], &[59, 2_592_001], "must be 60 to 2,592,000 (30 days)"),
    (
        "sessions.age_s",
        &[43_200, 7_776_000],
        &[43_199, 7_776_001],
        "must be at least idle_s and at most 7,776,000 (90 days)",
    ),
    ("sessions.per_customer_max", &[1, 1_000], &[0, 1_001], "must be 1 to 1,000"),
    ("slots.included.platform_alpha", &[0, 100_000], &[-1, 100_001], "must be 0 to 100,000"),
    ("slots.included.platform_beta", &[0, 100_000], &[-1, 100_001], "must be 0 to 100,000"),
    ("slots.included.platform_gamma", &[0, 100_000], &[-1, 100_001], "must be 0 to 100,000"),
    ("slots.included.platform_delta", &[0, 100_000], &[-1, 100_001], "must be 0 to 100,000"),
    (
        "slots.prices.platform_alpha.price_cents",
        &[0, 50, 99_999_999],
        &[-1, 49, 100_000_000],
        PRICE,
    ),
    ("slots.prices.platform_beta.price_cents", &[0, 50, 99_999_999], &[-1, 49, 100_000_000], PRICE),
    ("storage.connect_ms", &[1, 300_000], &[0, 300_001], "must be 1 to 300,000"),
    ("storage.request_ms", &[1, 300_000], &[0, 300_001], "must be 1 to 300,000"),
];

const PRICE: &str = "must be 50 to 99,999,999: the processor charges no smaller or larger amount";

/// Numbers of which every one makes sense that is not negative.
const FREE: [&str; 8] = [
    "database.reserve_bytes",
    "http.unlisted_shapes_max",
    "http.limits.answer_buffer_bytes_max",
    "http.limits.answer_bytes_max",
    "http.limits.envelope_bytes_max",
    "http.limits.stored_answer_bytes_max",
    "rate_limits.trials_per_network_per_day",
    "rate_limits.trials_per_domain_per_day",
];

#[test]
fn a_number_is_taken_up_to_its_limits_and_refused_beyond_them() {
    let mut missed = Vec::new();
    for (key, taken, refused, message) in LIMITS {
        for value in *taken {
            let toml = format!("{key} = {value}");
            if let Some(said) = said(&toml, key) {
                missed.push(format!("{toml}: {said}"));
            }
        }
        for value in *refused {
            let toml = format!("{key} = {value}");
            let said = said(&toml, key);
            // What cannot be negative is refused before its limits are looked at.
            let is_unsigned = *value < 0 && said.as_deref() == Some("is negative or too large");
            if said.as_deref() != Some(message) && !is_unsigned {
                missed.push(format!("{toml}: {said:?}, not {message}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

/// A new number needs a limit, or a reason to have none.
#[test]
fn every_number_of_the_default_file_has_limits() {
    let numbers =
        default_keys().into_iter().filter(|(_, value)| matches!(value, Value::Integer(_)));
    let names: Vec<String> = numbers.map(|(key, _)| key).collect();
    let is_listed =
        |key: &str| LIMITS.iter().any(|(known, ..)| *known == key) || FREE.contains(&key);

    // The numbers of platforms have tables of their own.
    let own = |key: &&String| !key.starts_with("platforms.");
    let missing: Vec<&String> = names.iter().filter(own).filter(|key| !is_listed(key)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let listed = LIMITS.iter().map(|(key, ..)| *key).chain(FREE);
    let gone: Vec<&str> = listed.filter(|key| names.iter().all(|name| name != key)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

#[test]
fn a_free_number_is_anything_but_negative() {
    for key in FREE {
        for value in ["0", "1", "4294967295"] {
            assert_eq!(said(&format!("{key} = {value}"), key), None, "{key} = {value}");
        }
        let negative = said(&format!("{key} = -1"), key);
        assert_eq!(negative.as_deref(), Some("is negative or too large"), "{key}");
    }
}

#[test]
fn limits_that_depend_on_each_other_name_the_one_that_does_not_fit() {
    for (toml, key) in [
        ("exports = { lease_s = 2, renew_s = 2 }", "exports.renew_s"),
        ("metering = { batch_max = 1024, queue_max = 1023 }", "metering.queue_max"),
        ("sessions = { idle_s = 100, age_s = 99 }", "sessions.age_s"),
        ("platform_drift = { window_s = 3600, baseline_s = 3599 }", "platform_drift.baseline_s"),
        ("platform_drift = { rise_percent = 5, end_percent = 5 }", "platform_drift.end_percent"),
        (
            "http.limits = { upload_bytes_max = 100, uploads_bytes_max = 99 }",
            "http.limits.uploads_bytes_max",
        ),
        (
            "http.limits = { json_body_bytes_max = 1000000, native_body_bytes_max = 1 }\n",
            "http.limits.open_bodies_per_network_bytes_max",
        ),
        (
            "rate_limits = { mails_per_address_per_hour = 13 }",
            "rate_limits.mails_per_address_in_all_per_hour",
        ),
    ] {
        let keys: Vec<String> = crate::problems(toml).into_iter().map(|(found, _)| found).collect();

        assert_eq!(keys, [key], "{toml}");
    }
}
