//! Usage by day, as the service reports it.

use domain::time::Timestamp;
use serde::Deserialize;

use crate::chart::ChartDay;
use console_kit::address;
use console_kit::format;

/// The days that the share of errors is of.
const WEEK: usize = 7;

/// The members of `GET /v1/billing/usage/daily` that pages show.
#[derive(Deserialize)]
pub(crate) struct DailyUsage {
    days: Vec<UsageDay>,
    pub(crate) hot_failure: Option<HotFailure>,
}

#[derive(Deserialize)]
struct UsageDay {
    day: String,
    calls: i64,
    exports: i64,
    credits: i64,
    ok: i64,
    errors: i64,
}

/// An endpoint that keeps failing.
#[derive(Deserialize)]
pub(crate) struct HotFailure {
    pub(crate) method: String,
    route: String,
    pub(crate) account: String,
    calls: i64,
    errors: i64,
    last_status: Option<u16>,
    last_at: String,
}

impl DailyUsage {
    /// Whether there was any call or export.
    pub(crate) fn has_calls(&self) -> bool {
        self.days.iter().any(|day| day.calls + day.exports > 0)
    }

    /// The days of charts. Today is not over.
    pub(crate) fn chart_days(&self, now: Timestamp) -> Vec<ChartDay> {
        let today = now.day().to_string();
        let days = self.days.iter().map(|day| ChartDay {
            day: day.day.clone(),
            ok: day.ok,
            errors: day.errors,
            credits: day.credits,
            is_running: day.day == today,
        });
        days.collect()
    }

    /// How many of the last seven days had use.
    pub(crate) fn used_days(&self) -> usize {
        self.week().filter(|day| day.calls + day.exports > 0).count()
    }

    /// The errors and calls of the last seven days.
    pub(crate) fn errors_of_week(&self) -> (i64, i64) {
        let sum = |of: fn(&UsageDay) -> i64| self.week().map(of).sum();
        (sum(|day| day.errors), sum(|day| day.calls))
    }

    fn week(&self) -> impl Iterator<Item = &UsageDay> {
        self.days.iter().rev().take(WEEK)
    }
}

impl HotFailure {
    /// The route without its method.
    pub(crate) fn path(&self) -> &str {
        let method = format!("{} ", self.method);
        self.route.strip_prefix(&method).unwrap_or(&self.route)
    }

    /// What happened, in sentences.
    pub(crate) fn words(&self) -> String {
        let status = self
            .last_status
            .map_or_else(|| "without an answer".to_owned(), |status| format!("with {status}"));
        format!(
            "{} of {} failed in the last 7 days, most recently {status} on {} UTC. Calls that fail on the platform aren’t charged.",
            format::number(self.errors),
            format::counted(self.calls, "call"),
            format::minute(&self.last_at)
        )
    }

    /// The log of these calls.
    pub(crate) fn log(&self) -> String {
        let pairs = [
            ("status", "error"),
            ("account", self.account.as_str()),
            ("route", self.route.as_str()),
        ];
        format!("/console/calls{}", address::query(&pairs))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn usage(days: &[(i64, i64, i64)]) -> DailyUsage {
        let days: Vec<Value> = days
            .iter()
            .zip(1..)
            .map(|((calls, exports, errors), number)| {
                json!({
                    "day": format!("2026-11-{number:02}"), "calls": calls, "exports": exports,
                    "credits": calls + 10 * exports, "ok": calls - errors, "errors": errors,
                })
            })
            .collect();
        serde_json::from_value(json!({"days": days, "hot_failure": null})).unwrap()
    }

    fn at(day: &str) -> Timestamp {
        Timestamp::from_rfc3339(&format!("{day}T12:00:00Z")).unwrap()
    }

    #[test]
    fn an_export_alone_is_use_as_well() {
        assert!(!usage(&[(0, 0, 0), (0, 0, 0)]).has_calls());
        assert!(usage(&[(0, 1, 0)]).has_calls() && usage(&[(1, 0, 1)]).has_calls());
        assert_eq!(usage(&[(0, 1, 0), (2, 0, 0), (0, 0, 0)]).used_days(), 2);
    }

    #[test]
    fn the_week_is_the_last_seven_days() {
        let mut days = vec![(100, 0, 50)];
        days.extend([(10, 0, 1); 7]);

        let usage = usage(&days);

        assert_eq!(usage.errors_of_week(), (7, 70));
        assert_eq!(usage.used_days(), 7);
    }

    #[test]
    fn only_today_is_not_over() {
        let days = usage(&[(1, 0, 0), (2, 1, 1)]).chart_days(at("2026-11-02"));

        assert!(!days[0].is_running && days[1].is_running);
        assert_eq!((days[1].ok, days[1].errors, days[1].credits), (1, 1, 12));
        let later = usage(&[(1, 0, 0)]).chart_days(at("2026-12-01"));
        assert!(later.iter().all(|day| !day.is_running));
    }

    fn failure(status: &Value) -> HotFailure {
        let failure = json!({
            "method": "GET", "route": "GET users/{id}", "account": "a&b", "calls": 1_200,
            "errors": 1_100, "last_status": status, "last_at": "2026-11-22T11:27:49Z",
        });
        serde_json::from_value(failure).unwrap()
    }

    #[test]
    fn an_endpoint_that_fails_is_described_and_leads_to_its_calls() {
        let known = failure(&json!(503));

        assert_eq!(known.path(), "users/{id}");
        assert_eq!(
            known.words(),
            "1,100 of 1,200 calls failed in the last 7 days, most recently with 503 on 22 Nov 2026, 11:27 UTC. Calls that fail on the platform aren’t charged."
        );
        assert!(failure(&Value::Null).words().contains("most recently without an answer on"));
        let log = known.log();
        let log = log.strip_prefix("/console/calls?").unwrap();
        let pairs: Vec<(String, String)> = serde_urlencoded::from_str(log).unwrap();
        let expected = [("status", "error"), ("account", "a&b"), ("route", "GET users/{id}")];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
