//! Money: tiers, payments, chargebacks, payouts, and the links that bring fans.

use super::dice::Dice;
use super::series::Series;
use super::words::CAMPAIGN_NAMES;
use super::{DAY_MS, EPOCH_MS, World, signed};

const PAYMENT: u64 = 60;
const CAMPAIGN: u64 = 61;
const PAYOUT: u64 = 62;

/// A way to subscribe.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tier {
    pub(crate) index: u64,
    pub(crate) name: &'static str,
    pub(crate) color: &'static str,
    /// For 30 days.
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

/// Money that a fan paid to the creator.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    pub(crate) index: u64,
    pub(crate) fan: u64,
    pub(crate) kind: PaymentKind,
    /// What the fan paid.
    pub(crate) gross_cents: i64,
    /// What the creator gets: 80 percent.
    pub(crate) net_cents: i64,
    pub(crate) paid_at_ms: i64,
    /// The fan's bank took it back.
    pub(crate) charged_back: bool,
}

/// A link that is followed to the creator's page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Campaign {
    pub(crate) index: u64,
    pub(crate) name: &'static str,
    pub(crate) clicks: u64,
    pub(crate) created_at_ms: i64,
    /// Which fans came through it.
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
    pub(crate) payments: u64,
}

impl World {
    /// The tiers, by index.
    pub(crate) fn tiers(&self) -> Series {
        Series::all(self.unless_empty(3))
    }

    /// The tier with this index, 0..3.
    pub(crate) fn tier(&self, index: u64) -> Tier {
        let (name, color, price_cents) = match index {
            0 => ("Supporter", "#3b82f6", 999),
            1 => ("Insider", "#a855f7", 1999),
            _ => ("Patron", "#f59e0b", 4999),
        };
        let created_at_ms = self.creator_joined_at_ms() + signed(index) * DAY_MS;
        Tier { index, name, color, price_cents, created_at_ms }
    }

    /// All payments, newest first: three for each fan.
    pub(crate) fn payments(&self) -> Series {
        Series::all(self.fans * 3)
    }

    /// The payment with this index.
    pub(crate) fn payment(&self, index: u64) -> Payment {
        let mut dice = self.dice(PAYMENT, index);
        // There are three payments for each fan in the same time, so older fans have higher numbers.
        let youngest = (index / 3 + 2).min(self.fans.saturating_sub(1));
        let fan = youngest + dice.below(self.fans.saturating_sub(youngest));
        let (kind, gross_cents) = self.what_was_paid(fan, &mut dice);
        Payment {
            index,
            fan,
            kind,
            gross_cents,
            net_cents: gross_cents * 4 / 5,
            paid_at_ms: self.time_ms(PAYMENT, index, (self.fan_step_ms() / 3).max(2)),
            charged_back: self.chargebacks().place_of(index).is_some(),
        }
    }

    /// Payments that were taken back, by index of the payment.
    pub(crate) fn chargebacks(&self) -> Series {
        Series::of(self.fans * 3, 97, &[50])
    }

    /// The payments whose time lies in `from_ms..to_ms`, as a range of indexes.
    pub(crate) fn payments_between(&self, from_ms: i64, to_ms: i64) -> std::ops::Range<u64> {
        let count = self.fans * 3;
        first_older(count, to_ms, |index| self.payment(index).paid_at_ms)
            ..first_older(count, from_ms, |index| self.payment(index).paid_at_ms)
    }

    /// What came in from `from_ms` up to, not including, `to_ms`. Looks at no more than the newest
    /// 20,000 payments of that time and scales up, so that a huge account answers at once.
    pub(crate) fn earnings(&self, from_ms: i64, to_ms: i64) -> Earnings {
        let range = self.payments_between(from_ms, to_ms);
        let payments = range.end.saturating_sub(range.start);
        let looked = payments.min(20_000);
        let gross: i64 =
            (range.start..range.start + looked).map(|index| self.payment(index).gross_cents).sum();
        let gross_cents = if looked == 0 {
            0
        } else {
            i64::try_from(i128::from(gross) * i128::from(payments) / i128::from(looked))
                .unwrap_or(i64::MAX)
        };
        Earnings { gross_cents, net_cents: gross_cents * 4 / 5, payments }
    }

    /// The tracking links.
    pub(crate) fn campaigns(&self) -> Series {
        Series::all(self.unless_empty(CAMPAIGN_NAMES.len() as u64))
    }

    /// The tracking link with this index.
    pub(crate) fn campaign(&self, index: u64) -> Campaign {
        let mut dice = self.dice(CAMPAIGN, index);
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
            clicks: claimers.count() * dice.between(3, 20),
            created_at_ms: self.time_ms(CAMPAIGN, index, 30 * DAY_MS),
            claimers,
        }
    }

    /// The payouts, newest first, one a month.
    pub(crate) fn payouts(&self) -> Series {
        Series::all(self.unless_empty(12))
    }

    /// The payout with this index.
    pub(crate) fn payout(&self, index: u64) -> Payout {
        let mut dice = self.dice(PAYOUT, index);
        let requested_at_ms = EPOCH_MS - (signed(index) * 30 + 3) * DAY_MS;
        Payout {
            index,
            cents: signed(dice.between(10_000, 400_000)),
            requested_at_ms,
            paid_at_ms: requested_at_ms + 2 * DAY_MS,
        }
    }

    fn what_was_paid(&self, fan: u64, dice: &mut Dice) -> (PaymentKind, i64) {
        let price_cents = self.tier(self.tier_of_fan(fan)).price_cents;
        match dice.below(10) {
            0 | 1 => (PaymentKind::Subscription, price_cents),
            2..=4 => (PaymentKind::Renewal, price_cents),
            5 | 6 => (PaymentKind::Tip, signed(dice.between(1, 20)) * 500),
            7 | 8 => (PaymentKind::Message, signed(dice.between(3, 30)) * 100),
            _ => (PaymentKind::Post, signed(dice.between(3, 40)) * 100),
        }
    }
}

/// The first of `0..count` whose time is before `limit_ms`, where times fall as indexes rise.
fn first_older(count: u64, limit_ms: i64, time_ms: impl Fn(u64) -> i64) -> u64 {
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

    #[test]
    fn payments_of_a_window_are_exactly_those_whose_time_lies_in_it() {
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
    fn fans_subscribe_before_they_pay() {
        for fans in [240, 5000] {
            let world = World::new(7, 1, fans);
            for index in 0..fans * 3 - 9 {
                let payment = world.payment(index);
                assert!(payment.fan < fans);
                assert!(world.fan(payment.fan).subscribed_at_ms < payment.paid_at_ms);
            }
        }
    }

    #[test]
    fn an_account_that_just_started_has_earned_nothing() {
        let world = World::new(7, 3, 0);
        assert_eq!(world.earnings(0, EPOCH_MS).gross_cents, 0);
        assert_eq!(world.payments().count(), 0);
    }
}
