//! The smaller sections of the configuration.

use std::path::PathBuf;
use std::time::Duration;

use domain::credits::{Credits, MeteringCosts};
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use domain::time::Timestamp;
use secrecy::SecretString;

use super::billing::SlotPrices;
use super::problem::ConfigProblem;

/// `[database]`: where all data is stored.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct DatabaseSection {
    /// `sqlite:PATH` or `postgres://…`, which may contain a password.
    #[serde(serialize_with = "super::writing::database_url")]
    pub url: SecretString,
    /// The most connections of the pool.
    pub connections_max: u32,
    /// Whether `serve` applies migrations.
    pub migrate_at_start: bool,
    /// Whether settings that may lose committed data are accepted.
    pub allow_unsafe_durability: bool,
    /// Bytes reserved on the disk of an embedded database for when it fills up.
    pub reserve_bytes: u64,
}

/// `[credits]`: what metered work costs, and the trial.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct CreditsSection {
    /// A native GET.
    pub read: i64,
    /// Any other native method.
    pub write: i64,
    /// The creation of an export.
    pub export: i64,
    /// Granted once, when the email address is confirmed.
    pub trial: i64,
    /// How long credits can be spent.
    pub expiry: ExpirySection,
}

/// `[credits.expiry]`: how long credits can be spent, by where they come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct ExpirySection {
    /// Days until the credits of a pack expire, bought by hand or by automatic top-up; 0: never.
    pub pack_days: i64,
    /// Days until the credits of the trial expire; 0: never.
    pub trial_days: i64,
    /// Days until gifts for which the operator names no expiry expire; 0: never.
    pub gift_days: i64,
    /// Days after the end of a plan's paid month until its credits expire; 0: they expire at the
    /// end of the following month.
    pub plan_days: i64,
}

impl ExpirySection {
    /// When credits that are granted at `now` and last so many days expire; none for 0 days.
    pub fn after(days: i64, now: Timestamp) -> Option<Timestamp> {
        (days > 0).then(|| now.plus_seconds(days.saturating_mul(86_400)))
    }
}

/// `[keys]`: how many keys a customer may have.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct KeysSection {
    /// Keys of one customer that are not revoked.
    pub count_max: i64,
}

impl KeysSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if self.count_max < 1 {
            problems.push(ConfigProblem::new("keys.count_max", "must be 1 or more"));
        }
    }
}

/// `[slots]`: how many accounts may be active.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlotsSection {
    /// What every customer has, for each platform.
    pub included: AccountNumbers,
    /// What an extra one costs.
    pub prices: SlotPrices,
}

/// Numbers of accounts, for each platform; 0 for one that is not named.
#[derive(Debug, Clone, Default, serde::Deserialize, serde::Serialize)]
#[serde(transparent)]
pub struct AccountNumbers(PerPlatform<i64>);

/// `[jobs]`: work that follows a change, such as sending an email.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct JobsSection {
    /// Jobs that this node runs concurrently; 0: none.
    pub workers: usize,
    /// Milliseconds between two polls for jobs that this node was not notified of.
    pub poll_ms: u64,
}

/// `[metering]`: how calls are recorded.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct MeteringSection {
    /// The most operations in one commit.
    pub batch_max: usize,
    /// The most operations that wait for a commit.
    pub queue_max: usize,
    /// The age in milliseconds of the oldest waiting operation above which new calls are refused.
    pub queue_age_max_ms: u64,
    /// The milliseconds that a call may be expected to wait behind others; above it new calls are
    /// refused.
    pub commit_wait_max_ms: u64,
    /// Milliseconds that a call waits for its hold before it is refused; 100 to 60,000.
    pub hold_wait_max_ms: u64,
    /// Milliseconds that the hold of a read may wait for the read to end.
    pub read_patience_ms: u64,
    /// The longest that a settlement waits to be committed together with others, in milliseconds; 0
    /// to 100.
    pub gather_ms: u64,
    /// Seconds after which a hold that is not renewed expires.
    pub hold_ttl_s: i64,
    /// This node's id. Empty: a new one at each start.
    pub node: String,
    /// The most different tags that one customer may use on a UTC day, on this node.
    pub tags_per_day_max: usize,
}

/// `[uploads]`: where uploaded files are kept until they are sent.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct UploadsSection {
    /// A folder for this process alone, relative to the embedded database's folder if there is one.
    pub folder: PathBuf,
}

/// `[log]`: what is logged, and how.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct LogSection {
    /// A filter such as `info`.
    pub filter: String,
    /// Text or JSON.
    pub format: LogFormat,
    /// Bytes of log lines that may wait to be written.
    pub buffer_bytes: usize,
}

/// How log lines are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Text on a terminal, JSON otherwise.
    Auto,
    /// For people.
    Text,
    /// For machines.
    Json,
}

impl DatabaseSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        use secrecy::ExposeSecret as _;
        let url = self.url.expose_secret();
        if let Err(error) = store::check_url(url) {
            problems.push(ConfigProblem::new("database.url", error.to_string()));
        }
        if self.connections_max < 2 {
            problems.push(ConfigProblem::new("database.connections_max", "must be at least 2"));
        }
    }

    /// Whether the database is PostgreSQL.
    pub(super) fn is_server(&self) -> bool {
        use secrecy::ExposeSecret as _;
        let url = self.url.expose_secret();
        url.starts_with("postgres://") || url.starts_with("postgresql://")
    }

    /// Whether the database is the embedded one.
    pub fn is_embedded(&self) -> bool {
        use secrecy::ExposeSecret as _;
        self.url.expose_secret().starts_with("sqlite:")
    }
}

impl LogSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if !(65_536..=1_073_741_824).contains(&self.buffer_bytes) {
            problems
                .push(ConfigProblem::new("log.buffer_bytes", "must be 65,536 to 1,073,741,824"));
        }
    }
}

impl UploadsSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if self.folder.as_os_str().is_empty() {
            problems.push(ConfigProblem::new("uploads.folder", "must name a folder"));
        }
    }
}

impl CreditsSection {
    /// The costs of metered work.
    pub const fn costs(&self) -> MeteringCosts {
        MeteringCosts {
            read: Credits::from_whole(self.read),
            write: Credits::from_whole(self.write),
            export: Credits::from_whole(self.export),
        }
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        let costs = [("read", self.read), ("write", self.write), ("export", self.export)];
        for (key, value) in costs {
            if !(1..=1_000_000).contains(&value) {
                problems
                    .push(ConfigProblem::new(format!("credits.{key}"), "must be 1 to 1,000,000"));
            }
        }
        if !(0..=1_000_000_000).contains(&self.trial) {
            problems.push(ConfigProblem::new("credits.trial", "must be 0 to 1,000,000,000"));
        }
        let expiry = self.expiry;
        let days = [
            ("pack_days", expiry.pack_days),
            ("trial_days", expiry.trial_days),
            ("gift_days", expiry.gift_days),
            ("plan_days", expiry.plan_days),
        ];
        for (key, _) in days.iter().filter(|(_, days)| !(0..=36_500).contains(days)) {
            let key = format!("credits.expiry.{key}");
            problems.push(ConfigProblem::new(key, "must be 0 to 36,500"));
        }
    }
}

impl AccountNumbers {
    /// How many of `platform`.
    pub fn of(&self, platform: Platform) -> i64 {
        self.0.get(platform).copied().unwrap_or(0)
    }

    /// Sets the number of one platform.
    pub fn set(&mut self, platform: Platform, number: i64) {
        self.0.insert(platform, number);
    }

    pub(super) fn check(&self, key: &str, problems: &mut Vec<ConfigProblem>) {
        for (platform, number) in self.0.iter() {
            if !(0..=100_000).contains(number) {
                problems
                    .push(ConfigProblem::new(format!("{key}.{platform}"), "must be 0 to 100,000"));
            }
        }
    }
}

impl SlotsSection {
    /// How many accounts of `platform` every customer may have active.
    pub fn included_on(&self, platform: Platform) -> i64 {
        self.included.of(platform)
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        self.included.check("slots.included", problems);
        self.prices.check(problems);
    }
}

impl JobsSection {
    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if self.workers > 64 {
            problems.push(ConfigProblem::new("jobs.workers", "must be 0 to 64"));
        }
        if !(100..=3_600_000).contains(&self.poll_ms) {
            problems.push(ConfigProblem::new("jobs.poll_ms", "must be 100 to 3,600,000"));
        }
    }
}

impl MeteringSection {
    /// How long a call waits for its hold before it is refused.
    pub const fn hold_wait_max(&self) -> Duration {
        Duration::from_millis(self.hold_wait_max_ms)
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        if !(1..=1_024).contains(&self.batch_max) {
            problems.push(ConfigProblem::new("metering.batch_max", "must be 1 to 1,024"));
        }
        if self.queue_max < self.batch_max {
            problems.push(ConfigProblem::new("metering.queue_max", "must be at least batch_max"));
        }
        if self.queue_age_max_ms == 0 {
            problems.push(ConfigProblem::new("metering.queue_age_max_ms", "must be above zero"));
        }
        if self.commit_wait_max_ms == 0 {
            problems.push(ConfigProblem::new("metering.commit_wait_max_ms", "must be above zero"));
        }
        if !(100..=60_000).contains(&self.hold_wait_max_ms) {
            problems.push(ConfigProblem::new("metering.hold_wait_max_ms", "must be 100 to 60,000"));
        }
        if self.read_patience_ms > 1_000 {
            problems.push(ConfigProblem::new("metering.read_patience_ms", "must be at most 1,000"));
        }
        if self.gather_ms > 100 {
            problems.push(ConfigProblem::new("metering.gather_ms", "must be at most 100"));
        }
        if !(130..=86_400).contains(&self.hold_ttl_s) {
            problems.push(ConfigProblem::new(
                "metering.hold_ttl_s",
                "must be 130 to 86,400: calls renew their holds every 60 seconds",
            ));
        }
        if self.tags_per_day_max > 100_000 {
            let message = "must be at most 100,000";
            problems.push(ConfigProblem::new("metering.tags_per_day_max", message));
        }
        if !self.node.is_empty() && self.node.parse::<domain::id::NodeId>().is_err() {
            let message = "must be empty, or node_ and 32 hexadecimal digits";
            problems.push(ConfigProblem::new("metering.node", message));
        }
    }
}
