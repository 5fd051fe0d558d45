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
