//! Creators, fans, and other creators (peers) that a creator may follow.

use simulator_kit::seeded_random::mix;

use super::series::Series;
use super::trade::{PaymentKind, first_older};
use super::words::{COUNTRIES, FIRST_NAMES, LAST_NAMES};
use super::{DAY_MS, HOUR_MS, MINUTE_MS, World, signed};

const FAN: u64 = 1;
const PEER: u64 = 2;
const LIST: u64 = 3;
const TIER_OF_FAN: u64 = 4;

/// The fans out of every five that are active.
const ACTIVE: &[u64] = &[0, 1, 2, 3];

/// The fans out of every ten that are active but will not renew.
const ENDING: &[u64] = &[2, 8];

/// The time that one payment of a subscription covers.
pub(crate) const PERIOD_MS: i64 = 30 * DAY_MS;

/// The number of peers; a creator follows some of them.
pub(crate) const PEERS: u64 = 60;

/// A person who subscribed at least once.
#[derive(Clone, Debug)]
pub(crate) struct Fan {
    pub(crate) name: String,
    /// Lower-case letters and digits; unique among the fans of a creator.
    pub(crate) username: String,
    pub(crate) country: &'static str,
    pub(crate) subscribed_at_ms: i64,
    pub(crate) expires_at_ms: i64,
    pub(crate) last_seen_at_ms: i64,
    /// Whether the subscription has not ended.
    pub(crate) active: bool,
    /// Whether the subscription will renew.
    pub(crate) renews: bool,
    pub(crate) online: bool,
    /// The index of the tier, 0..3.
    pub(crate) tier: u64,
    pub(crate) price_cents: i64,
}

/// The amounts that a fan paid, in cents, before the platform's share.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name everywhere")]
pub(crate) struct Spent {
    pub(crate) subscriptions_cents: i64,
    pub(crate) tips_cents: i64,
    pub(crate) messages_cents: i64,
    pub(crate) posts_cents: i64,
}

impl Spent {
    /// The total.
    pub(crate) fn cents(&self) -> i64 {
        self.subscriptions_cents + self.tips_cents + self.messages_cents + self.posts_cents
    }
}

/// A named list of fans that the creator keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FanList {
    pub(crate) name: &'static str,
    pub(crate) created_at_ms: i64,
    /// The fans on it, by index.
    pub(crate) members: Series,
}

/// Another creator of the platform.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) username: String,
    pub(crate) price_cents: i64,
    pub(crate) followed_at_ms: i64,
}

impl World {
    /// The display name of the creator itself.
    pub(crate) fn creator_name(&self) -> &'static str {
        match self.creator {
            0 => "Demo Creator",
            1 => "Nova Lind",
            2 => "Ruby Castro",
            _ => "Fresh Start",
        }
    }

    /// The username of the creator itself.
    pub(crate) fn creator_username(&self) -> &'static str {
        match self.creator {
            0 => "demo",
            1 => "novalind",
            2 => "rubycastro",
            _ => "freshstart",
        }
    }

    /// When the creator joined.
    pub(crate) fn creator_joined_at_ms(&self) -> i64 {
        self.end_ms - 900 * DAY_MS - signed(self.creator) * 37 * DAY_MS
    }

    /// The fan with this index, which the caller must keep below `fans`.
    pub(crate) fn fan(&self, index: u64) -> Fan {
        let mut random = self.random(FAN, index);
        let first = random.pick(FIRST_NAMES);
        let last = random.pick(LAST_NAMES);
        let tier = self.tier_of_fan(index);
        let active = ACTIVE.contains(&(index % 5));
        let subscribed_at_ms = self.subscribed_at_ms(index);
        let left_ms = signed(random.between(25, 30 * 24)) * HOUR_MS;
        let seen_at_ms = self.end_ms - signed(random.below(72 * 60)) * MINUTE_MS;
        Fan {
            name: format!("{first} {last}"),
            username: username(first, index),
            country: random.pick(COUNTRIES),
            subscribed_at_ms,
            expires_at_ms: if active {
                self.renewed_ms(self.end_ms + left_ms)
            } else {
                (subscribed_at_ms + PERIOD_MS).min(self.end_ms - MINUTE_MS)
            },
            last_seen_at_ms: seen_at_ms.max(subscribed_at_ms + MINUTE_MS).min(self.end_ms),
            active,
            renews: active && !ENDING.contains(&(index % 10)),
            online: random.in_percent(15),
            tier,
            price_cents: self.tier(tier).price_cents,
        }
    }

    /// The total that this fan paid. Separate, because it takes longer than all other data of a
    /// fan.
    pub(crate) fn spent(&self, fan: u64) -> Spent {
        let mut spent = Spent::default();
        for payment in self.payments_of(fan) {
            *match payment.kind {
                PaymentKind::Subscription | PaymentKind::Renewal => &mut spent.subscriptions_cents,
                PaymentKind::Tip => &mut spent.tips_cents,
                PaymentKind::Message => &mut spent.messages_cents,
                PaymentKind::Post => &mut spent.posts_cents,
            } += payment.gross_cents;
        }
        spent
    }

    /// The newest fan who had subscribed by this time; `fans` if there is none.
    pub(super) fn youngest_fan_at(&self, at_ms: i64) -> u64 {
        first_older(self.fans, at_ms.saturating_add(1), |fan| self.subscribed_at_ms(fan))
    }

    /// The first end of a subscription, extended by whole periods until it is in the future.
    pub(crate) fn renewed_ms(&self, first_end_ms: i64) -> i64 {
        let late_ms = (self.now_ms - first_end_ms).max(-1);
        first_end_ms + (late_ms + PERIOD_MS) / PERIOD_MS * PERIOD_MS
    }

    /// The tier of a fan, without generating the rest: sums of payments need it for thousands of
    /// fans.
    pub(crate) fn tier_of_fan(&self, index: u64) -> u64 {
        self.random(TIER_OF_FAN, index).below(3)
    }

    /// The time between two new subscribers: all of them fit into two years, and it is at most a
    /// day.
    pub(crate) fn fan_step_ms(&self) -> i64 {
        (730 * DAY_MS / signed(self.fans.max(1))).min(DAY_MS)
    }

    /// All fans, newest first.
    pub(crate) fn all_fans(&self) -> Series {
        Series::all(self.fans)
    }

    /// Fans with an active subscription.
    pub(crate) fn active_fans(&self) -> Series {
        Series::of(self.fans, 5, ACTIVE)
    }

    /// Fans with an active subscription that will renew.
    pub(crate) fn renewing_fans(&self) -> Series {
        Series::of(self.fans, 10, &[0, 1, 3, 5, 6, 7])
    }

    /// Fans with an active subscription that will not renew.
    pub(crate) fn ending_fans(&self) -> Series {
        Series::of(self.fans, 10, ENDING)
    }

    /// Fans whose subscription has ended.
    pub(crate) fn expired_fans(&self) -> Series {
        Series::of(self.fans, 5, &[4])
    }

    /// Fans that the creator has blocked.
    pub(crate) fn blocked_fans(&self) -> Series {
        Series::of(self.fans, 41, &[37])
    }

    /// Fans whose messages the creator has muted.
    pub(crate) fn muted_fans(&self) -> Series {
        Series::of(self.fans, 37, &[30])
    }

    /// Fans that the creator has restricted.
    pub(crate) fn restricted_fans(&self) -> Series {
        Series::of(self.fans, 43, &[40])
    }

    /// Fans that follow the creator: all but every ninth.
    pub(crate) fn followers(&self) -> Series {
        Series::of(self.fans, 9, &[0, 1, 2, 3, 4, 5, 6, 7])
    }

    /// The generated lists, as a collection of indexes.
    pub(crate) fn fan_lists(&self) -> Series {
        Series::all(self.unless_empty(5))
    }

    /// The generated list with this index, 0..5.
    pub(crate) fn fan_list(&self, index: u64) -> FanList {
        let (period, keep): (u64, &'static [u64]) = match index {
            0 => (7, &[1]),
            1 => (11, &[2]),
            2 => (6, &[0, 3]),
            3 => (23, &[5]),
            _ => (13, &[4, 7]),
        };
        let name = usize::try_from(index).ok().and_then(|at| super::words::LIST_NAMES.get(at));
        FanList {
            name: name.copied().unwrap_or("List"),
            created_at_ms: self.time_ms(LIST, index, 40 * DAY_MS),
            members: Series::of(self.fans, period, keep),
        }
    }

    /// The peers that the creator follows, by index.
    pub(crate) fn following(&self) -> Series {
        Series::of(self.unless_empty(PEERS), 3, &[0, 1])
    }

    /// Another creator, by index below [`PEERS`].
    pub(crate) fn peer(&self, index: u64) -> Peer {
        let mut random = self.random(PEER, index);
        let first = random.pick(FIRST_NAMES);
        Peer {
            name: format!("{first} {}", random.pick(LAST_NAMES)),
            username: format!("{}.creates{index}", ascii_lower(first)),
            price_cents: signed(random.between(3, 20)) * 100 - 1,
            followed_at_ms: self.time_ms(PEER, index, 9 * DAY_MS),
        }
    }
}

/// Names do not reveal the order of the numbers that they are generated from.
fn username(first: &str, index: u64) -> String {
    format!("{}{}{index}", ascii_lower(first), mix(index) % 10)
}

fn ascii_lower(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphabetic).collect::<String>().to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_determines_the_fans() {
        let name = |seed| -> Vec<String> {
            (0..20).map(|index| World::new(seed, 0, 240).fan(index).name).collect()
        };
        assert_eq!(name(1), name(1));
        assert_ne!(name(1), name(2));
    }

    #[test]
    fn active_subscriptions_have_not_ended_at_any_time() {
        for days in [0, 1, 29, 30, 31, 400] {
            let world = World::new(1, 0, 240);
            let world = world.at(world.end_ms + days * DAY_MS);
            for index in 0..world.fans {
                let (fan, first) = (world.fan(index), World::new(1, 0, 240).fan(index));
                let left_ms = fan.expires_at_ms - world.now_ms;
                assert_eq!(fan.active, left_ms > 0, "after {days} days");
                assert!(left_ms <= 30 * DAY_MS);
                assert_eq!((fan.expires_at_ms - first.expires_at_ms) % (30 * DAY_MS), 0);
            }
        }
    }

    #[test]
    fn fans_are_ordered_by_time_and_agree_with_the_active_collection() {
        for fans in [240, 1_000_000] {
            let world = World::new(1, 0, fans);
            let mut before = world.end_ms;
            for index in 0..200 {
                let fan = world.fan(index);
                assert!(fan.subscribed_at_ms < before);
                before = fan.subscribed_at_ms;
                assert_eq!(fan.active, world.active_fans().place_of(index).is_some());
                assert_eq!(fan.active, fan.expires_at_ms > world.now_ms);
                assert_eq!(fan.renews, world.renewing_fans().place_of(index).is_some());
                let ending = world.ending_fans().place_of(index).is_some();
                assert_eq!(fan.active && !fan.renews, ending);
            }
        }
    }
}
