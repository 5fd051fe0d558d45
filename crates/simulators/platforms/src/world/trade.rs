//! Money: tiers, payments, chargebacks, payouts, and the links that bring fans.

use simulator_kit::seeded_random::mix;

use super::people::PERIOD_MS;
use super::series::Series;
use super::sums::{self, Class};
use super::words::CAMPAIGN_NAMES;
use super::{DAY_MS, World, signed};

const PAYMENT: u64 = 60;
const CAMPAIGN: u64 = 61;

/// For each fan there is one payment in each of these lanes: one for the subscription, and in the
/// same time one renewal and one other payment by older fans.
const LANES: u64 = 3;
const RENEWAL_LANE: u64 = 0;
const SPENDING_LANE: u64 = 1;
const SUBSCRIPTION_LANE: u64 = 2;

/// For each group of this many consecutive fans, one fan of the next older group spends the most.
const SPENDER_OF: u64 = 10;
/// The number of that group's payments that this fan makes.
const SPENDER_HAS: u64 = 6;

/// The time after which earnings can be paid out.
const HELD_MS: i64 = 7 * DAY_MS;
const PAYOUTS_MAX: u64 = 12;

/// A subscription tier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tier {
    pub(crate) index: u64,
    pub(crate) name: &'static str,
    pub(crate) color: &'static str,
    /// The price for 30 days.
    pub(crate) price_cents: i64,
    pub(crate) created_at_ms: i64,
}

/// What a payment was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PaymentKind {
    Subscription,
    Renewal,
    Tip,
    Message,
    Post,
}

impl PaymentKind {
    /// All kinds, each at the position of its number.
    pub(crate) const ALL: [Self; 5] =
        [Self::Subscription, Self::Renewal, Self::Tip, Self::Message, Self::Post];
}

/// Money that a fan paid to the creator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    pub(crate) index: u64,
    pub(crate) fan: u64,
    pub(crate) kind: PaymentKind,
    /// The amount that the fan paid.
    pub(crate) gross_cents: i64,
    /// The creator's share: 80 percent.
    pub(crate) net_cents: i64,
    pub(crate) paid_at_ms: i64,
    /// Whether the fan's bank charged it back.
    pub(crate) charged_back: bool,
}

/// A tracking link to the creator's page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Campaign {
    pub(crate) index: u64,
    pub(crate) name: &'static str,
    pub(crate) clicks: u64,
    pub(crate) created_at_ms: i64,
    /// The fans who came through it.
    pub(crate) claimers: Series,
}

/// Money paid out to the creator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payout {
    pub(crate) index: u64,
    pub(crate) cents: i64,
    pub(crate) requested_at_ms: i64,
    pub(crate) paid_at_ms: i64,
}

/// The sum of some payments.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Earnings {
    pub(crate) gross_cents: i64,
    pub(crate) net_cents: i64,
    /// The part of `gross_cents` that was charged back.
    pub(crate) charged_back_cents: i64,
    pub(crate) payments: u64,
}

/// The sum of the payments of one kind with the same remainder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EarningsOfClass {
    pub(crate) kind: PaymentKind,
    /// The number of the payment modulo six.
    pub(crate) rest: u64,
    pub(crate) gross_cents: i64,
    pub(crate) payments: u64,
}

/// The state of all earnings: the three parts add up to the net sum of the payments that were not
/// charged back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit is part of the name everywhere")]
pub(crate) struct Balance {
    /// The sum of the payouts.
    pub(crate) paid_out_cents: i64,
    /// Can be paid out.
    pub(crate) available_cents: i64,
    /// Earned in the last seven days and held.
    pub(crate) pending_cents: i64,
}

impl World {
    /// The tiers, by index.
    pub(crate) fn tiers(&self) -> Series {
        Series::all(self.unless_empty(3))
    }

    /// The tier with this index, 0..3. Prices are multiples of five, so that 80 percent are whole
    /// cents.
    pub(crate) fn tier(&self, index: u64) -> Tier {
        let (name, color, price_cents) = match index {
            0 => ("Supporter", "#3b82f6", 995),
            1 => ("Insider", "#a855f7", 1995),
            _ => ("Patron", "#f59e0b", 4995),
        };
        let created_at_ms = self.creator_joined_at_ms() + signed(index) * DAY_MS;
        Tier { index, name, color, price_cents, created_at_ms }
    }

    /// All payments, newest first: three for each fan.
    pub(crate) fn payments(&self) -> Series {
        Series::all(self.fans * LANES)
    }

    /// The payment with this index.
    pub(crate) fn payment(&self, index: u64) -> Payment {
        let fan = self.payer(index);
        let (kind, gross_cents) = self.what_was_paid(index, fan);
        Payment {
            index,
            fan,
            kind,
            gross_cents,
            net_cents: gross_cents * 4 / 5,
            paid_at_ms: self.paid_at_ms(index),
            charged_back: self.chargebacks().place_of(index).is_some(),
        }
    }

    /// The kind and amount of the payment with this index, before the platform's share.
    pub(super) fn worth(&self, index: u64) -> (PaymentKind, i64) {
        self.what_was_paid(index, self.payer(index))
    }

    /// What the world's payments depend on besides the time: worlds with the same key have the same
    /// payments.
    pub(super) fn sums_key(&self) -> (u64, u64) {
        (self.seed, self.fans)
    }

    fn paid_at_ms(&self, index: u64) -> i64 {
        self.time_ms(PAYMENT, index, (self.fan_step_ms() / signed(LANES)).max(2))
    }

    /// A fan subscribes at the time of the first payment.
    pub(super) fn subscribed_at_ms(&self, fan: u64) -> i64 {
        self.paid_at_ms(fan * LANES + SUBSCRIPTION_LANE)
    }

    /// The number of fans who subscribe during one subscription period.
    fn slots_of_a_period(&self) -> u64 {
        (PERIOD_MS / self.fan_step_ms().max(1)).unsigned_abs().max(1)
    }

    /// The fan who paid: the one who subscribed in this time slot, or an earlier one.
    fn payer(&self, index: u64) -> u64 {
        let slot = index / LANES;
        let older = match index % LANES {
            RENEWAL_LANE => slot + self.slots_of_a_period(),
            SPENDING_LANE if slot % SPENDER_OF < SPENDER_HAS => self.spender(slot / SPENDER_OF),
            SPENDING_LANE => slot + SPENDER_OF,
            _ => slot,
        };
        if older < self.fans { older } else { slot }
    }

    /// The fan who spends the most in this group of slots, out of those who subscribed before it.
    fn spender(&self, row: u64) -> u64 {
        (row + 1) * SPENDER_OF + mix(self.seed ^ row) % SPENDER_OF
    }

    /// All payments of this fan, computed by inverting [`World::payer`] instead of searching.
    pub(crate) fn payments_of(&self, fan: u64) -> impl Iterator<Item = Payment> {
        let world = *self;
        let row = (fan / SPENDER_OF).checked_sub(1).map(|row| row * SPENDER_OF);
        let as_spender = row.into_iter().flat_map(|first| first..first + SPENDER_HAS);
        let as_other = fan
            .checked_sub(SPENDER_OF)
            .filter(|slot| slot % SPENDER_OF >= SPENDER_HAS)
            .into_iter()
            .chain([fan]);
        let renewals = fan.checked_sub(self.slots_of_a_period()).into_iter().chain([fan]);
        let spending = as_spender.chain(as_other).map(|slot| slot * LANES + SPENDING_LANE);
        let indexes = renewals
            .map(|slot| slot * LANES + RENEWAL_LANE)
            .chain(spending)
            .chain([fan * LANES + SUBSCRIPTION_LANE]);
        indexes
            .filter(move |index| world.payer(*index) == fan)
            .map(move |index| world.payment(index))
    }

    /// Payments that were charged back, by index of the payment.
    pub(crate) fn chargebacks(&self) -> Series {
        Series::of(self.fans * LANES, 97, &[50])
    }

    /// The payments with times in `from_ms..to_ms`, as a range of indexes.
    pub(crate) fn payments_between(&self, from_ms: i64, to_ms: i64) -> std::ops::Range<u64> {
        let count = self.payments().count();
        first_older(count, to_ms, |index| self.paid_at_ms(index))
            ..first_older(count, from_ms, |index| self.paid_at_ms(index))
    }

    /// The earnings from `from_ms` to `to_ms`, exclusive: exactly the sum of the payments.
    pub(crate) fn earnings(&self, from_ms: i64, to_ms: i64) -> Earnings {
        let range = self.payments_between(from_ms, to_ms);
        let (start, end) = (range.start, range.end.max(range.start));
        let (newer, all) = (sums::before(self, start), sums::before(self, end));
        let gross_cents = all.gross_cents - newer.gross_cents;
        Earnings {
            gross_cents,
            net_cents: gross_cents * 4 / 5,
            charged_back_cents: all.charged_back_cents - newer.charged_back_cents,
            payments: end - start,
        }
    }

    /// Like [`World::earnings`], by kind and by the numbers of the payments.
    pub(crate) fn earnings_by_class(&self, from_ms: i64, to_ms: i64) -> Vec<EarningsOfClass> {
        let range = self.payments_between(from_ms, to_ms);
        let (start, end) = (range.start, range.end.max(range.start));
        let (newer, all) = (sums::before(self, start), sums::before(self, end));
        let rests = 0..sums::CLASSES_OF_KIND as u64;
        let kinds = PaymentKind::ALL.into_iter();
        let classes = kinds.flat_map(|kind| rests.clone().map(move |rest| (kind, rest)));
        let sums = all.classes.into_iter().zip(newer.classes);
        let class = |((kind, rest), (until, ahead)): ((PaymentKind, u64), (Class, Class))| {
            let (gross_cents, payments) = (until.0 - ahead.0, until.1 - ahead.1);
            EarningsOfClass { kind, rest, gross_cents, payments }
        };
        classes.zip(sums).map(class).collect()
    }

    /// The tracking links.
    pub(crate) fn campaigns(&self) -> Series {
        Series::all(self.unless_empty(CAMPAIGN_NAMES.len() as u64))
    }

    /// The tracking link with this index.
    pub(crate) fn campaign(&self, index: u64) -> Campaign {
        let mut random = self.random(CAMPAIGN, index);
        let at = usize::try_from(index).unwrap_or(usize::MAX);
        let residue: &'static [u64] = match index {
            0 => &[1],
            1 => &[2],
            2 => &[3],
            3 => &[4],
            4 => &[5],
            _ => &[6],
        };
        let claimers = Series::of(self.fans, 10, residue);
        Campaign {
            index,
            name: CAMPAIGN_NAMES.get(at).copied().unwrap_or("Link"),
            clicks: claimers.count() * random.between(3, 20),
            created_at_ms: self.time_ms(CAMPAIGN, index, 30 * DAY_MS),
            claimers,
        }
    }

    /// The payouts, newest first, one every 30 days since there was something to pay out.
    pub(crate) fn payouts(&self) -> Series {
        let paid =
            |payout: &u64| !self.payments_between(i64::MIN, self.closed_ms(*payout)).is_empty();
        Series::all((0..PAYOUTS_MAX).take_while(paid).count() as u64)
    }

    /// The payout with this index: what became payable since the payout before it. The oldest
    /// payout has everything from the beginning.
    pub(crate) fn payout(&self, index: u64) -> Payout {
        let oldest = index + 1 >= self.payouts().count();
        let from_ms = if oldest { i64::MIN } else { self.closed_ms(index + 1) };
        let requested_at_ms = self.requested_ms(index);
        Payout {
            index,
            cents: self.kept_cents(from_ms, self.closed_ms(index)),
            requested_at_ms,
            paid_at_ms: requested_at_ms + 2 * DAY_MS,
        }
    }

    /// What was paid out, what can be, and what cannot yet.
    pub(crate) fn balance(&self) -> Balance {
        let last_closed_ms = if self.payouts().count() == 0 { i64::MIN } else { self.closed_ms(0) };
        let held_since_ms = self.now_ms - HELD_MS;
        Balance {
            paid_out_cents: self.kept_cents(i64::MIN, last_closed_ms),
            available_cents: self.kept_cents(last_closed_ms, held_since_ms.max(last_closed_ms)),
            pending_cents: self.kept_cents(held_since_ms.max(last_closed_ms), i64::MAX),
        }
    }

    /// The net sum of the payments of this time that were not charged back.
    fn kept_cents(&self, from_ms: i64, to_ms: i64) -> i64 {
        let earned = self.earnings(from_ms, to_ms);
        (earned.gross_cents - earned.charged_back_cents) * 4 / 5
    }

    fn requested_ms(&self, payout: u64) -> i64 {
        self.end_ms - (signed(payout) * 30 + 3) * DAY_MS
    }

    /// A payout contains the payments before this time.
    fn closed_ms(&self, payout: u64) -> i64 {
        self.requested_ms(payout) - HELD_MS
    }

    fn what_was_paid(&self, index: u64, fan: u64) -> (PaymentKind, i64) {
        let price_cents = || self.tier(self.tier_of_fan(fan)).price_cents;
        let lane = index % LANES;
        if lane == SUBSCRIPTION_LANE {
            return (PaymentKind::Subscription, price_cents());
        }
        // An expired subscription was never renewed.
        let renewed = self.expired_fans().place_of(fan).is_none();
        if lane == RENEWAL_LANE && fan != index / LANES && renewed {
            return (PaymentKind::Renewal, price_cents());
        }
        let mut random = self.random(PAYMENT, index);
        match random.below(5) {
            0 | 1 => (PaymentKind::Tip, signed(random.between(1, 20)) * 500),
            2 | 3 => (PaymentKind::Message, signed(random.between(3, 30)) * 100),
            _ => (PaymentKind::Post, signed(random.between(3, 40)) * 100),
        }
    }
}

/// The first of `0..count` whose time is before `limit_ms`; times decrease with rising indexes.
pub(super) fn first_older(count: u64, limit_ms: i64, time_ms: impl Fn(u64) -> i64) -> u64 {
    let (mut low, mut high) = (0, count);
    while low < high {
        let middle = low + (high - low) / 2;
        if time_ms(middle) < limit_ms {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::EPOCH_MS;

    #[test]
    fn a_window_contains_exactly_the_payments_of_its_time() {
        let world = World::new(7, 1, 100);
        let (from_ms, to_ms) = (EPOCH_MS - 20 * DAY_MS, EPOCH_MS - 10 * DAY_MS);

        let counted = world.payments_between(from_ms, to_ms);
        let looked: Vec<u64> = (0..300)
            .filter(|index| (from_ms..to_ms).contains(&world.payment(*index).paid_at_ms))
            .collect();

        assert_eq!(counted.collect::<Vec<_>>(), looked);
        assert!(!looked.is_empty());
    }

    #[test]
    fn payment_times_decrease_and_payers_have_subscribed() {
        for fans in [1, 9, 240, 5000] {
            let world = World::new(7, 1, fans);
            let mut before_ms = world.end_ms;
            for index in 0..world.payments().count() {
                let payment = world.payment(index);
                assert!(payment.paid_at_ms < before_ms);
                before_ms = payment.paid_at_ms;
                let fan = world.fan(payment.fan);
                assert!(payment.fan < fans && fan.subscribed_at_ms <= payment.paid_at_ms);
                let first = payment.kind == PaymentKind::Subscription;
                assert_eq!(first, fan.subscribed_at_ms == payment.paid_at_ms);
                assert!(payment.kind != PaymentKind::Renewal || fan.active);
            }
        }
    }

    #[test]
    fn the_amount_that_a_fan_spent_is_the_sum_of_its_payments() {
        for fans in [1, 9, 40, 240] {
            let world = World::new(7, 1, fans);
            let mut spent = vec![0; usize::try_from(fans).unwrap()];
            for index in 0..world.payments().count() {
                let payment = world.payment(index);
                spent[usize::try_from(payment.fan).unwrap()] += payment.gross_cents;
            }
            for (fan, cents) in (0..fans).zip(&spent) {
                assert_eq!(world.spent(fan).cents(), *cents, "fan {fan} of {fans}");
            }
        }
    }

    #[test]
    fn earnings_are_the_sum_of_any_number_of_payments() {
        for fans in [240, 9000] {
            let world = World::new(7, 1, fans);
            for (from_days, to_days) in [(60, 0), (45, 30), (700, 3), (1, 2)] {
                let window = (EPOCH_MS - from_days * DAY_MS, EPOCH_MS - to_days * DAY_MS);
                let earned = world.earnings(window.0, window.1);
                let single = world.payments_between(window.0, window.1).map(|it| world.payment(it));
                let (mut gross, mut net, mut back) = (0, 0, 0);
                for payment in single {
                    gross += payment.gross_cents;
                    net += payment.net_cents;
                    back += if payment.charged_back { payment.gross_cents } else { 0 };
                }
                let summed = (earned.gross_cents, earned.net_cents, earned.charged_back_cents);
                assert_eq!(summed, (gross, net, back));
                for class in world.earnings_by_class(window.0, window.1) {
                    let of_class = world
                        .payments_between(window.0, window.1)
                        .filter(|index| index % 6 == class.rest)
                        .map(|index| world.payment(index))
                        .filter(|payment| payment.kind == class.kind);
                    let (cents, count) =
                        of_class.fold((0, 0), |sum, it| (sum.0 + it.gross_cents, sum.1 + 1));
                    assert_eq!((class.gross_cents, class.payments), (cents, count));
                }
            }
        }
    }

    #[test]
    fn payouts_and_balance_add_up_to_the_kept_earnings() {
        for (fans, days) in [(240, 0), (240, 5), (240, 100), (6, 0), (9000, 1)] {
            let world = World::new(7, 1, fans);
            let world = world.at(world.end_ms + days * DAY_MS);
            let payouts: Vec<i64> =
                (0..world.payouts().count()).map(|index| world.payout(index).cents).collect();
            let all = (0..world.payments().count()).map(|index| world.payment(index));
            let kept: i64 =
                all.filter(|payment| !payment.charged_back).map(|payment| payment.net_cents).sum();

            let balance = world.balance();

            assert_eq!(balance.paid_out_cents, payouts.iter().sum::<i64>());
            assert!(payouts.iter().all(|cents| *cents > 0));
            let parts = [balance.paid_out_cents, balance.available_cents, balance.pending_cents];
            assert_eq!(parts.iter().sum::<i64>(), kept);
            assert!(parts.iter().all(|part| *part >= 0));
        }
    }

    #[test]
    fn an_empty_account_has_earned_nothing() {
        let world = World::new(7, 3, 0);
        assert_eq!(world.earnings(0, EPOCH_MS).gross_cents, 0);
        assert_eq!((world.payments().count(), world.payouts().count()), (0, 0));
        let nothing = Balance { paid_out_cents: 0, available_cents: 0, pending_cents: 0 };
        assert_eq!(world.balance(), nothing);
    }
}
