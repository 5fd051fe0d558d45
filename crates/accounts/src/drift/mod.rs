//! Drift: a platform that suddenly refuses calls, or responds differently, for many accounts.
//!
//! Platforms change without notice: a route disappears, a signature is no longer accepted, a
//! response loses its envelope. Each route counts its responses in a moving window. When the share
//! of one kind of failure jumps above the route's own long-term share, for several accounts of
//! several customers, the platform is degraded until the share has come down. Each node counts its
//! own calls.

mod line;

use std::hash::{BuildHasher as _, Hash};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use catalog::Catalog;
use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::per_platform::PerPlatform;
use domain::platform::Platform;
use domain::time::Timestamp;
use foldhash::fast::FixedState;
use runtime::metrics;

use self::line::{BITS, DriftLine, LineChange, LineFailure, SLOTS};

/// The most routes of a platform that are counted on their own. All others share one line.
const LINES_MAX: usize = 300;

/// The name of the routes that share one line.
const OTHER_ROUTES: &str = "other";

/// How a response can show that a platform has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriftKind {
    /// 401: credentials are not accepted.
    Unauthorized,
    /// 403: the account may not do this, or the client is blocked.
    Forbidden,
    /// 404: the route may be gone. Counted for single routes only, not for the whole platform.
    NotFound,
    /// A success without the platform's envelope, or with one that reports a failure.
    Envelope,
}

impl DriftKind {
    /// All kinds, in the order of their counters.
    pub const ALL: [Self; 4] =
        [Self::Unauthorized, Self::Forbidden, Self::NotFound, Self::Envelope];

    /// Its name in responses, metrics and logs.
    pub const fn as_str(self) -> &'static str {
        let [unauthorized, forbidden, not_found, envelope] = metrics::DRIFT_KINDS;
        match self {
            Self::Unauthorized => unauthorized,
            Self::Forbidden => forbidden,
            Self::NotFound => not_found,
            Self::Envelope => envelope,
        }
    }
}

/// When a platform is degraded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriftRule {
    /// The length of the moving window, in seconds.
    pub window_s: i64,
    /// The minimum number of a route's calls in the window, and before it; 0 turns the detection
    /// off.
    pub calls_min: u64,
    /// The minimum number of accounts whose calls failed.
    pub accounts_min: u32,
    /// The minimum number of customers who own them.
    pub customers_min: u32,
    /// How far the share must be above the long-term one to begin, in percentage points.
    pub rise_percent: u64,
    /// How far it may be above the long-term one to end, in percentage points.
    pub end_percent: u64,
    /// The time that the long-term share covers, in seconds.
    pub baseline_s: i64,
}

impl DriftRule {
    /// Nothing is ever degraded.
    pub const OFF: Self = Self {
        window_s: 1,
        calls_min: 0,
        accounts_min: 0,
        customers_min: 0,
        rise_percent: 100,
        end_percent: 0,
        baseline_s: 1,
    };
}

/// A route of a platform, by its number in the catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriftRoute(Option<u32>);

impl DriftRoute {
    /// A route that the catalogue does not list.
    pub const OTHER: Self = Self(None);

    /// The route with this index in the catalogue.
    pub fn listed(index: usize) -> Self {
        Self(u32::try_from(index).ok())
    }
}

/// A response of a platform, as far as drift is concerned.
#[derive(Debug, Clone, Copy)]
pub struct DriftResponse<'a> {
    /// The platform.
    pub platform: Platform,
    /// The route that was called.
    pub route: DriftRoute,
    /// The account, and the customer who owns it.
    pub account: (CustomerId, &'a CreatorId),
    /// How it failed; `None` if it is a sign that the route works.
    pub failure: Option<DriftKind>,
    /// When it arrived.
    pub at: Timestamp,
}

/// What is wrong with a platform.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlatformDegradation {
    /// How its responses fail.
    pub kind: DriftKind,
    /// The route, such as `GET chats/{chat_id}`; `other` for those that share one count; `None` if
    /// it is all routes together.
    pub route: Option<String>,
    /// The share of calls that failed like this when one last did, in percent.
    pub share_percent: u64,
    /// When it began.
    pub since: Timestamp,
}

/// The counts of all platforms.
#[derive(Debug)]
pub struct DriftBook {
    rule: DriftRule,
    hasher: FixedState,
    platforms: PerPlatform<PlatformLines>,
}

/// The counts of one platform.
#[derive(Debug)]
struct PlatformLines {
    names: Vec<String>,
    /// All routes together.
    whole: DriftLine,
    /// Routes without a line of their own.
    other: DriftLine,
    /// By the route's number; made when the route is first called.
    routes: Vec<OnceLock<Box<DriftLine>>>,
    /// How many of them have been made.
    made: AtomicUsize,
    /// How many lines are degraded, by kind.
    degraded: [AtomicUsize; DriftKind::ALL.len()],
}

impl DriftBook {
    /// Counts nothing yet.
    pub fn new(catalog: &Catalog, rule: DriftRule) -> Self {
        let platforms = PerPlatform::of_all(|platform| {
            let routes = catalog.platform(platform).routes();
            PlatformLines::new(routes.iter().map(|route| route.name.clone()).collect())
        });
        Self { rule, hasher: FixedState::default(), platforms }
    }

    /// Counts a response. True if the platform has just begun to refuse the credentials of several
    /// accounts.
    pub fn note(&self, response: &DriftResponse<'_>) -> bool {
        if self.rule.calls_min == 0 {
            return false;
        }
        let Some(lines) = self.platforms.get(response.platform) else { return false };
        let (route, line) = lines.of(response.route);
        let of_whole = response.failure.filter(|kind| *kind != DriftKind::NotFound);
        let in_whole = self.count(response, &lines.whole, of_whole);
        let in_route = self.count(response, line, response.failure);
        let mut refuses = false;
        for (name, change) in [(None, in_whole), (route, in_route)] {
            if let Some((kind, change)) = change {
                lines.record(response.platform, name, kind, change);
                refuses |=
                    kind == DriftKind::Unauthorized && matches!(change, LineChange::Began { .. });
            }
        }
        refuses
    }

    fn count(
        &self,
        response: &DriftResponse<'_>,
        line: &DriftLine,
        failure: Option<DriftKind>,
    ) -> Option<(DriftKind, LineChange)> {
        let (customer, creator) = response.account;
        let slot = self.below(&customer, SLOTS);
        let failed = failure.map(|kind| LineFailure {
            kind,
            account: self.below(&(customer, creator), BITS),
            customer: self.below(&(customer, kind as usize), BITS),
        });
        line.count(response.at, &self.rule, slot, failed);
        // Without a failure only the end of a degradation is possible.
        let kind = failure.or_else(|| line.first_degraded())?;
        let change = line.judge(kind, response.at, &self.rule)?;
        Some((kind, change))
    }

    /// A number below `bound` by which a value is told from others; two values may share one.
    fn below(&self, value: &impl Hash, bound: usize) -> usize {
        let hash = self.hasher.hash_one(value) % bound.max(1) as u64;
        usize::try_from(hash).unwrap_or(0)
    }

    /// Whether a platform currently fails more calls in this way than usual.
    pub fn is_degraded(&self, platform: Platform, kind: DriftKind) -> bool {
        self.platforms.get(platform).is_some_and(|lines| lines.counter(kind) != 0)
    }

    /// What is wrong with a platform now; the longest first.
    pub fn degradations(&self, platform: Platform, now: Timestamp) -> Vec<PlatformDegradation> {
        let Some(lines) = self.platforms.get(platform) else { return Vec::new() };
        let mut found = Vec::new();
        for kind in DriftKind::ALL {
            if lines.counter(kind) == 0 {
                continue;
            }
            for (name, line) in lines.all() {
                if let Some(change) = line.judge_degraded(kind, now, &self.rule) {
                    lines.record(platform, name, kind, change);
                }
                let Some((since, share_percent)) = line.degradation(kind) else { continue };
                let route = name.map(str::to_owned);
                found.push(PlatformDegradation { kind, route, share_percent, since });
            }
        }
        found.sort_by_key(|degradation| degradation.since);
        found
    }

    /// Ends what is over, on all platforms. Called by housekeeping, for platforms that are no
    /// longer called.
    pub fn end_old(&self, now: Timestamp) {
        for (platform, _) in self.platforms.iter() {
            drop(self.degradations(platform, now));
        }
    }
}

impl PlatformLines {
    fn new(names: Vec<String>) -> Self {
        Self {
            routes: names.iter().map(|_| OnceLock::new()).collect(),
            names,
            whole: DriftLine::default(),
            other: DriftLine::default(),
            made: AtomicUsize::new(0),
            degraded: Default::default(),
        }
    }

    /// The line of a route and its name.
    fn of(&self, route: DriftRoute) -> (Option<&str>, &DriftLine) {
        let other = (Some(OTHER_ROUTES), &self.other);
        let index = route.0.and_then(|index| usize::try_from(index).ok());
        let Some(index) = index else { return other };
        let (Some(line), Some(name)) = (self.routes.get(index), self.names.get(index)) else {
            return other;
        };
        if let Some(line) = line.get() {
            return (Some(name), line);
        }
        let more = |made: usize| (made < LINES_MAX).then_some(made + 1);
        if self.made.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return other;
        }
        (Some(name), line.get_or_init(Box::default))
    }

    /// Every line that has counted something, with its name.
    fn all(&self) -> impl Iterator<Item = (Option<&str>, &DriftLine)> {
        let shared = [(None, &self.whole), (Some(OTHER_ROUTES), &self.other)];
        let made = self.routes.iter().zip(&self.names);
        let own = made.filter_map(|(line, name)| Some((Some(name.as_str()), &**line.get()?)));
        shared.into_iter().chain(own)
    }

    fn counter(&self, kind: DriftKind) -> usize {
        self.degraded.get(kind as usize).map_or(0, |lines| lines.load(Ordering::Relaxed))
    }

    /// Records and logs that a line began or ceased to be degraded.
    fn record(&self, platform: Platform, route: Option<&str>, kind: DriftKind, change: LineChange) {
        let Some(counter) = self.degraded.get(kind as usize) else { return };
        let route = route.unwrap_or("all routes");
        let (was, is) = match change {
            LineChange::Began { share_percent, usual_percent } => {
                let before = counter.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    %platform,
                    kind = kind.as_str(),
                    route,
                    share_percent,
                    usual_percent,
                    "the platform fails more calls of several customers than usual: it may have changed; \
                     no account is marked for it"
                );
                (before, before + 1)
            }
            LineChange::Ended => {
                let before = counter.fetch_sub(1, Ordering::Relaxed);
                tracing::warn!(%platform, kind = kind.as_str(), route, "the platform is back to its usual failures");
                (before, before.saturating_sub(1))
            }
        };
        if (was == 0) != (is == 0) {
            metrics::platform_degraded(platform, kind.as_str(), is != 0);
        }
    }
}

#[cfg(test)]
mod tests;
