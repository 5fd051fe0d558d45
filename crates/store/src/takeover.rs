//! Who may take over what another process holds: holds of credits, and leases.
//!
//! A process renews what it holds while it works on it. The time in a row never decides alone,
//! because clocks jump, and because a database that was away takes no renewals. A row is taken over
//! only by a process that has itself seen it expired and unrenewed for two minutes of its own
//! monotonic clock, with the database reachable all that time; and if another node holds it, only
//! after that node's heartbeat stood still for as long. What is taken over is a refund of a hold,
//! or the release of a lease, which any node may then claim.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;
use std::time::Duration;

use domain::id::{CallId, NodeId};
use domain::time::Timestamp;

use crate::leases::{self, LeaseKey, LeaseStamp};
use crate::{Store, StoreError, metering, nodes};

/// How long something must be seen unrenewed before it is taken over.
pub const UNRENEWED: Duration = Duration::from_mins(2);
/// The longest time between two looks at the database for which it counts as reachable.
const REACHABLE: Duration = Duration::from_secs(30);
/// The most holds watched at the same time.
const HOLDS_MAX: i64 = 20_000;

/// What one process has seen of the rows that others hold.
#[derive(Default)]
pub struct TakeoverWatch {
    /// Heartbeats.
    nodes: Watch<String, Timestamp>,
    holds: Watch<CallId, Timestamp>,
    leases: Watch<LeaseKey, LeaseStamp>,
    /// When the database was last looked at, if it responded.
    looked: Option<Duration>,
}

/// The process that looks.
pub trait TakeoverObserver {
    /// Its node.
    fn node(&self) -> NodeId;
    /// Whether it is carrying out this call itself.
    fn is_live(&self, call: CallId) -> bool;
    /// The time.
    fn now(&self) -> Timestamp;
    /// How long it has been running, on a monotonic clock.
    fn running_for(&self) -> Duration;
}

/// What was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakenOver {
    /// Holds that were refunded.
    pub holds: usize,
    /// Leases that were released.
    pub leases: u64,
}

/// When a look began and ended, on the monotonic clock.
#[derive(Clone, Copy)]
pub(crate) struct LookTime {
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
}

impl TakeoverWatch {
    /// Looks at everything that is held, and takes over what nobody has renewed. Call it every ten
    /// seconds.
    pub async fn look(
        &mut self,
        store: &Store,
        observer: &impl TakeoverObserver,
    ) -> Result<TakenOver, StoreError> {
        let began = observer.running_for();
        if self.looked.take().is_none_or(|looked| began.saturating_sub(looked) > REACHABLE) {
            *self = Self::default();
        }
        let seen = Seen::read(store, observer.now()).await?;
        let time = LookTime { began, ended: observer.running_for() };
        let taken = self.unrenewed(seen, observer, time).take(store, observer.now()).await?;
        self.looked = Some(time.ended);
        Ok(taken)
    }

    /// What may be taken over.
    pub(crate) fn unrenewed(
        &mut self,
        seen: Seen,
        observer: &impl TakeoverObserver,
        time: LookTime,
    ) -> Unrenewed {
        let now = observer.now();
        let own = observer.node().to_string();
        let known: HashSet<String> = seen.nodes.iter().map(|(node, _)| node.clone()).collect();
        let silent: HashSet<String> =
            self.nodes.look(seen.nodes, time).into_iter().map(|(node, _)| node).collect();
        let is_gone = |node: &str| silent.contains(node) || !known.contains(node);
        let owners: HashMap<CallId, String> =
            seen.holds.iter().map(|hold| (hold.call, hold.node.clone())).collect();
        let holds = seen.holds.into_iter().map(|hold| (hold.call, hold.expires_at));
        let mut holds = self.holds.look(holds, time);
        holds.retain(|(call, _)| {
            let node = owners.get(call).map_or("", String::as_str);
            if node == own { !observer.is_live(*call) } else { is_gone(node) }
        });
        let mut leases = self.leases.look(seen.leases, time);
        leases.retain(|(_, stamp)| {
            stamp.until <= now && (stamp.holder == own || is_gone(&stamp.holder))
        });
        Unrenewed { holds, leases }
    }
}

/// What may be taken over, as it looked.
#[derive(Default)]
pub(crate) struct Unrenewed {
    holds: Vec<(CallId, Timestamp)>,
    leases: Vec<(LeaseKey, LeaseStamp)>,
}

impl Unrenewed {
    /// Takes over what still looks the same.
    pub(crate) async fn take(self, store: &Store, now: Timestamp) -> Result<TakenOver, StoreError> {
        Ok(TakenOver {
            holds: metering::refund(store, &self.holds, now).await?,
            leases: leases::release(store, &self.leases).await?,
        })
    }
}

/// What a look finds in the database.
#[derive(Clone)]
pub(crate) struct Seen {
    nodes: Vec<(String, Timestamp)>,
    holds: Vec<metering::ExpiredHold>,
    leases: Vec<(LeaseKey, LeaseStamp)>,
}

impl Seen {
    pub(crate) async fn read(store: &Store, now: Timestamp) -> Result<Self, StoreError> {
        let mut tx = store.read().await?;
        Ok(Self {
            nodes: nodes::heartbeats(&mut tx).await?,
            holds: metering::expired(&mut tx, now, HOLDS_MAX).await?,
            leases: leases::held(&mut tx).await?,
        })
    }
}

/// Rows as they looked, and since when they have looked like that.
struct Watch<K, S>(HashMap<K, (S, Duration)>);

impl<K, S> Default for Watch<K, S> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq + Clone, S: PartialEq + Clone> Watch<K, S> {
    /// Notes how the rows look now; others are forgotten. Returns those that have looked the same
    /// for long enough.
    fn look(&mut self, rows: impl IntoIterator<Item = (K, S)>, time: LookTime) -> Vec<(K, S)> {
        let mut before = std::mem::take(&mut self.0);
        let mut unrenewed = Vec::new();
        for (key, stamp) in rows {
            let since = match before.remove(&key) {
                Some((seen, since)) if seen == stamp => since,
                _ => time.ended,
            };
            if time.began.saturating_sub(since) >= UNRENEWED {
                unrenewed.push((key.clone(), stamp.clone()));
            }
            self.0.insert(key, (stamp, since));
        }
        unrenewed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> LookTime {
        LookTime { began: Duration::from_secs(seconds), ended: Duration::from_secs(seconds + 1) }
    }

    #[test]
    fn a_row_may_be_taken_over_after_it_looked_the_same_for_two_minutes() {
        let mut watch = Watch::default();
        assert_eq!(watch.look([("a", 1), ("b", 1)], at(0)), []);
        assert_eq!(watch.look([("a", 1), ("b", 2)], at(60)), []);
        assert_eq!(watch.look([("a", 1), ("b", 2)], at(120)), [], "seen a second after it began");
        assert_eq!(watch.look([("a", 1), ("b", 2)], at(121)), [("a", 1)]);
        assert_eq!(watch.look([("b", 2)], at(181)), [("b", 2)]);
        assert_eq!(watch.look([("a", 1)], at(200)), [], "it was gone in between");
    }
}
