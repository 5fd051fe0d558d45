//! Credits and cents: nothing is lost, made or counted twice, whatever the order of events.

use std::collections::{BTreeMap, HashSet};

use domain::credits::{Credits, MeteringCosts};
use domain::id::{EntryId, LotId};
use domain::job;
use domain::ledger::{BookedEntry, DayUsage, LedgerLine, SumKind, lines};
use domain::lots::{CustomerLots, LATE_LIFE_S, Lot, LotSource};
use domain::method::Method;
use domain::notice::{BUDGET_STEPS, reached_steps};
use domain::plan::{PlanVersion, credits_of_upgrade};
use domain::slot::AccountCounts;
use domain::split::split;
use domain::time::Timestamp;
use domain::top_up;
use proptest::prelude::*;

fn at(day: i64) -> Timestamp {
    Timestamp::from_unix_micros(0).plus_seconds(day * 86_400)
}

fn version(price_cents: i64, monthly_credits: i64) -> PlanVersion {
    PlanVersion {
        price_id: "price_1".to_owned(),
        plan_id: "pro".to_owned(),
        price_cents,
        monthly_credits,
        accounts: AccountCounts::default(),
    }
}

/// What happens to a customer, in its order: what moves the balance, or time that passes.
#[derive(Debug, Clone, Copy)]
enum LedgerEvent {
    Booked(i64),
    Calls(i64),
    Exports(i64),
    Hours(i64),
}

fn events() -> impl Strategy<Value = Vec<LedgerEvent>> {
    let event = prop_oneof![
        (-50_i64..200).prop_map(LedgerEvent::Booked),
        (1_i64..40).prop_map(LedgerEvent::Calls),
        (1_i64..40).prop_map(LedgerEvent::Exports),
        (1_i64..60).prop_map(LedgerEvent::Hours),
    ];
    prop::collection::vec(event, 0..40)
}

/// What the database knows after these events.
#[derive(Default)]
struct StoredLedger {
    entries: Vec<BookedEntry>,
    days: BTreeMap<i64, (i64, i64)>,
    net: i64,
    seconds: i64,
}

impl StoredLedger {
    fn of(events: &[LedgerEvent]) -> Self {
        let mut stored = Self::default();
        for event in events {
            // Two things never happen in the same microsecond.
            stored.seconds += 1;
            match *event {
                LedgerEvent::Booked(amount) => stored.book(amount),
                LedgerEvent::Calls(credits) => stored.charge(0, credits),
                LedgerEvent::Exports(credits) => stored.charge(credits, credits),
                LedgerEvent::Hours(hours) => stored.seconds += hours * 3_600,
            }
        }
        stored
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_unix_micros(0).plus_seconds(self.seconds)
    }

    fn book(&mut self, amount: i64) {
        self.net += amount;
        let random = self.entries.len().to_be_bytes();
        let mut bytes = [0; 10];
        bytes[2..].copy_from_slice(&random);
        self.entries.push(BookedEntry {
            id: EntryId::new(self.now(), bytes),
            at: self.now(),
            amount,
            balance_after: self.net.max(0),
            debt_after: (-self.net).max(0),
        });
    }

    fn charge(&mut self, exports: i64, all: i64) {
        self.net -= all;
        let day = self.days.entry(self.now().day().number()).or_default();
        *day = (day.0 + exports, day.1 + all);
    }

    fn days(&self) -> Vec<DayUsage> {
        let day = |(number, (exports, all)): (&i64, &(i64, i64))| DayUsage {
            day: domain::time::UtcDay::from_number(*number),
            exports: *exports,
            all: *all,
        };
        self.days.iter().map(day).collect()
    }
}

proptest! {
    #[test]
    fn a_ledger_adds_up_line_by_line_to_what_is_available(events in events()) {
        let stored = StoredLedger::of(&events);
        let now = stored.now().plus_seconds(1);

        let lines = lines(&stored.entries, &stored.days(), stored.net, now);

        let mut net = 0;
        for line in &lines {
            net += line.amount;
            prop_assert_eq!(line.balance_after - line.debt_after, net);
            prop_assert!(line.balance_after >= 0 && line.debt_after >= 0);
            prop_assert!(line.balance_after == 0 || line.debt_after == 0);
        }
        prop_assert_eq!(net, stored.net);
        prop_assert!(lines.iter().map(|line| line.at).is_sorted());
        let cursors: HashSet<String> = lines.iter().map(|line| line.line.to_string()).collect();
        prop_assert_eq!(cursors.len(), lines.len(), "each line is a cursor of its own");
    }

    #[test]
    fn each_day_of_a_ledger_has_exactly_its_charges_and_each_entry_its_line(events in events()) {
        let stored = StoredLedger::of(&events);

        let lines = lines(&stored.entries, &stored.days(), stored.net, stored.now().plus_seconds(1));

        let mut by_day: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        let mut entries = Vec::new();
        for line in &lines {
            match line.line {
                LedgerLine::Entry(id) => entries.push((id, line.amount)),
                LedgerLine::Sum(kind, day) | LedgerLine::SumAfter(kind, day, _) => {
                    let sums = by_day.entry(day.number()).or_default();
                    sums.0 -= if kind == SumKind::Export { line.amount } else { 0 };
                    sums.1 -= line.amount;
                }
            }
        }
        prop_assert_eq!(by_day, stored.days);
        let booked: Vec<_> = stored.entries.iter().map(|entry| (entry.id, entry.amount)).collect();
        prop_assert_eq!(entries, booked);
    }

    #[test]
    fn every_cent_is_divided_and_no_part_is_off_by_more_than_one(
        amount in 0_i64..10_000_000, weights in prop::collection::vec(0_i64..1_000_000, 1..8),
    ) {
        let parts = split(amount, &weights);

        let total: i64 = weights.iter().sum();
        prop_assume!(total > 0);
        prop_assert_eq!(parts.iter().sum::<i64>(), amount);
        for (part, weight) in parts.iter().zip(&weights) {
            let exact = i128::from(amount) * i128::from(*weight);
            let (part, total) = (i128::from(*part), i128::from(total));
            prop_assert!(part * total <= exact + total && exact < (part + 1) * total + total);
            prop_assert!(*weight > 0 || part == 0, "what weighs nothing gets nothing");
        }
    }

    /// What goes back of an amount is the difference of two divisions, so a larger amount must
    /// never give a part less by more than the cent that rounding moves.
    #[test]
    fn a_part_of_more_is_at_most_a_cent_less(
        amount in 0_i64..1_000_000, more in 0_i64..1_000, weights in prop::collection::vec(0_i64..1_000, 1..6),
    ) {
        let (before, after) = (split(amount, &weights), split(amount + more, &weights));

        for (one, other) in before.iter().zip(after) {
            prop_assert!(other >= one - 1);
        }
    }

    #[test]
    fn an_upgrade_adds_no_more_than_the_whole_difference_and_never_less_for_more_time(
        paid in 0_i64..1_000_000, new in 0_i64..1_000_000, rest in -10_i64..3_000_000, whole in 0_i64..2_800_000,
    ) {
        let (paid, new) = (version(1, paid), version(2, new));
        let added = credits_of_upgrade(&paid, &new, rest, whole);

        let difference = (new.monthly_credits - paid.monthly_credits).max(0);
        prop_assert!((0..=difference).contains(&added));
        prop_assert!(credits_of_upgrade(&paid, &new, rest + 1, whole) >= added);
        prop_assert_eq!(added == 0, difference == 0 || rest <= 0);
        if whole > 0 && rest >= whole {
            prop_assert_eq!(added, difference);
        }
    }

    /// An offer of absurd size must not panic, nor wrap into a charge of nothing.
    #[test]
    fn no_offer_is_too_large_to_compare(
        paid: i64, new: i64, cents: i64, rest: i64, whole: i64,
    ) {
        let (paid, new) = (version(cents, paid), version(cents, new));

        prop_assert!(credits_of_upgrade(&paid, &new, rest, whole) >= 0);
        prop_assert_eq!(paid.is_raised_by(&new), new.monthly_credits >= paid.monthly_credits);
        prop_assert!(paid.is_same_offer(&paid) && paid.is_raised_by(&paid));
    }

    #[test]
    fn steps_of_a_budget_are_reached_in_order_and_never_left_by_spending_more(used: i64, more in 0..i64::MAX, budget: i64) {
        let reached = reached_steps(used, budget);
        let later = reached_steps(used.saturating_add(more), budget);

        prop_assert!(BUDGET_STEPS.starts_with(&reached));
        prop_assert!(later.starts_with(&reached));
        prop_assert_eq!(reached.len() == 2, budget > 0 && used >= budget);
        prop_assert!(budget > 0 || reached.is_empty());
    }

    #[test]
    fn a_retry_waits_between_five_seconds_and_seventy_two_minutes(attempt: i64, chance: u8) {
        let pause = job::pause_s(attempt, chance);

        prop_assert!((5..=3_600 + 720).contains(&pause));
        prop_assert!(pause >= job::pause_s(attempt, 0));
        prop_assert!(job::pause_s(attempt.saturating_add(1), 0) >= job::pause_s(attempt, 0));
    }

    #[test]
    fn a_card_that_declines_more_often_is_left_alone_for_longer(declines: i64) {
        let pause = top_up::pause_s(declines);

        prop_assert!((0..=86_400).contains(&pause));
        prop_assert!(top_up::pause_s(declines.saturating_add(1)) >= pause);
        prop_assert_eq!(pause == 0, declines <= 0);
    }

    #[test]
    fn credits_are_added_and_subtracted_exactly_or_not_at_all(one: i64, other: i64) {
        let (first, second) = (Credits::from_whole(one), Credits::from_whole(other));

        prop_assert_eq!(first.checked_add(second).map(Credits::whole), one.checked_add(other));
        prop_assert_eq!(first.checked_sub(second).map(Credits::whole), one.checked_sub(other));
        prop_assert_eq!(first.to_string(), one.to_string());
        prop_assert_eq!(serde_json::to_string(&first).unwrap(), one.to_string());
        prop_assert_eq!(first < second, one < other);
    }

    /// Taking credits of a lot and giving them back leaves the customer as before, as long as none
    /// were spent in between.
    #[test]
    fn what_was_taken_and_given_back_is_all_there_again(
        grants in prop::collection::vec(1_i64..100, 1..5), spent in 0_i64..300, place in 0_usize..5, wanted in 0_i64..150,
    ) {
        let mut lots = CustomerLots::default();
        for (number, granted) in (0_u8..).zip(&grants) {
            lots.add(Lot::new(LotId::new(at(0), [number; 10]), LotSource::Pack, *granted, None, at(0)));
        }
        let spent = spent.min(lots.left());
        lots.attribute(lots.left() - spent, at(1));
        let before = (lots.left(), lots.debt());
        let id = lots.all()[place % grants.len()].id;

        let taken = lots.take(id, wanted);
        let given = lots.give(id, taken, at(1));

        prop_assert_eq!(given, taken);
        prop_assert_eq!((lots.left(), lots.debt()), before);
        prop_assert_eq!(lots.get(id).unwrap().taken, 0);
    }

    #[test]
    fn credits_are_spent_in_the_order_in_which_they_expire(
        ends in prop::collection::vec(prop::option::of(1_i64..50), 1..6), spent in 0_i64..60,
    ) {
        let mut lots = CustomerLots::default();
        for (number, end) in (0_u8..).zip(&ends) {
            let (id, end) = (LotId::new(at(0), [number; 10]), end.map(at));
            lots.add(Lot::new(id, LotSource::Plan, 10, end, at(0)));
        }
        let spent = spent.min(lots.left());

        lots.attribute(lots.left() - spent, at(0));

        // Without an end comes last.
        let far = at(1_000_000);
        let open = lots.in_spending_order();
        prop_assert!(open.iter().map(|lot| lot.expires_at.unwrap_or(far)).is_sorted());
        let first_open = open.first().map_or(far, |lot| lot.expires_at.unwrap_or(far));
        for lot in lots.all().iter().filter(|lot| lot.spent > 0) {
            prop_assert!(lot.expires_at.unwrap_or(far) <= first_open);
        }
    }
}

#[test]
fn without_weights_the_first_parts_get_a_cent_each() {
    assert_eq!(split(2, &[0, 0, 0]), [1, 1, 0]);
    assert_eq!(split(7, &[0, 0, 0]), [1, 1, 1]);
    assert_eq!(split(5, &[]), [0; 0]);
    assert_eq!(split(i64::MAX, &[i64::MAX, 0]), [i64::MAX, 0]);
}

#[test]
fn every_method_but_get_costs_a_write() {
    let (read, write) = (Credits::from_whole(1), Credits::from_whole(2));
    let costs = MeteringCosts { read, write, export: Credits::from_whole(10) };

    for method in [Method::Post, Method::Put, Method::Patch, Method::Delete] {
        assert_eq!(costs.of(method), write, "{method}");
    }
    assert_eq!(costs.of(Method::Get), read);
    assert_eq!(Credits::default(), Credits::ZERO);
}

#[test]
fn a_job_is_tried_many_times_before_it_is_given_up() {
    let mut waited = 0;
    let mut attempt = 0;
    while waited < job::GIVE_UP_AFTER_S {
        attempt += 1;
        waited += job::pause_s(attempt, 99);
    }

    assert!(attempt > 50, "{attempt} attempts in three days");
}

#[test]
fn what_is_done_to_a_lot_that_is_not_known_changes_nothing() {
    let mut lots = CustomerLots::default();
    lots.add(Lot::new(LotId::new(at(0), [1; 10]), LotSource::Gift, 5, None, at(0)));
    let before = lots.clone();
    let unknown = LotId::new(at(0), [2; 10]);

    assert_eq!((lots.take(unknown, 5), lots.give(unknown, 5, at(1))), (0, 0));
    assert_eq!(lots.get(unknown), None);
    assert_eq!(lots, before);
}

#[test]
fn nothing_negative_and_nothing_twice_is_taken_or_given() {
    let id = LotId::new(at(0), [1; 10]);
    let mut lots = CustomerLots::default();
    lots.add(Lot::new(id, LotSource::Gift, 5, None, at(0)));

    assert_eq!((lots.take(id, -3), lots.give(id, 3, at(1))), (0, 0));
    assert_eq!((lots.take(id, 4), lots.take(id, 4)), (4, 1));
    assert_eq!((lots.give(id, 9, at(1)), lots.give(id, 9, at(1))), (5, 0));
    assert_eq!((lots.left(), lots.debt()), (5, 0));
    let amounts: Vec<i64> = lots.take_movements().iter().map(|one| one.amount).collect();
    assert_eq!(amounts, [5, -4, -1, 5]);
    assert!(lots.movements().is_empty());
}

#[test]
fn credits_given_back_after_their_end_can_be_spent_for_thirty_days_and_earlier_ones_as_long_as_before()
 {
    let (soon, late) = (LotId::new(at(0), [1; 10]), LotId::new(at(0), [2; 10]));
    let mut lots = CustomerLots::default();
    lots.add(Lot::new(soon, LotSource::Plan, 5, Some(at(10)), at(0)));
    lots.add(Lot::new(late, LotSource::Plan, 5, Some(at(90)), at(0)));
    for id in [soon, late] {
        lots.take(id, 5);
        lots.give(id, 5, at(20));
    }

    let ends = |id| lots.get(id).unwrap().expires_at;
    assert_eq!(ends(soon), Some(at(20).plus_seconds(LATE_LIFE_S)));
    assert_eq!(ends(late), Some(at(90)));
    assert!(!lots.get(soon).unwrap().is_over(at(49)) && lots.get(soon).unwrap().is_over(at(50)));
}

#[test]
fn a_stored_lot_is_known_once() {
    let id = LotId::new(at(0), [1; 10]);
    let stored = Lot::new(id, LotSource::Balance, 5, None, at(0));
    let mut lots = CustomerLots::new(vec![Lot { left: 3, spent: 2, ..stored.clone() }], 0);

    lots.know(vec![stored.clone(), Lot { id: LotId::new(at(0), [2; 10]), ..stored }]);

    assert_eq!((lots.all().len(), lots.left()), (2, 8));
    assert_eq!(lots.get(id).unwrap().spent, 2, "what is in memory is newer");
    assert!(lots.movements().is_empty(), "nothing was granted");
}
