//! Lots: the order of spending, expiry, and credits taken and given back.

use proptest::prelude::*;

use super::*;

fn at(day: i64) -> Timestamp {
    Timestamp::from_unix_micros(0).plus_seconds(day * 86_400)
}

fn id(number: u8) -> LotId {
    LotId::new(at(0), [number; 10])
}

fn lot(number: u8, granted: i64, ends: Option<i64>) -> Lot {
    Lot::new(id(number), LotSource::Pack, granted, ends.map(at), at(i64::from(number)))
}

fn left(lots: &CustomerLots, number: u8) -> i64 {
    lots.get(id(number)).unwrap().left
}

#[test]
fn lots_that_expire_soonest_are_spent_first() {
    let mut lots = CustomerLots::default();
    for lot in [lot(1, 10, None), lot(2, 10, Some(60)), lot(3, 10, Some(30)), lot(4, 10, None)] {
        lots.add(lot);
    }

    lots.attribute(15, at(5));

    assert_eq!([1, 2, 3, 4].map(|number| left(&lots, number)), [5, 0, 0, 10]);
}

#[test]
fn spending_is_attributed_before_a_lot_expires() {
    let mut lots = CustomerLots::default();
    lots.add(lot(1, 10, Some(30)));
    lots.add(lot(2, 10, None));

    lots.attribute(13, at(30));
    lots.expire(at(30));

    let first = lots.get(id(1)).unwrap();
    assert_eq!((first.spent, first.expired, first.left), (7, 3, 0));
    assert_eq!(lots.left(), 10);
    assert_eq!(lots.movements().last().unwrap().amount, -3);
}

#[test]
fn a_hold_released_after_its_lot_expired_can_still_be_spent() {
    let mut lots = CustomerLots::default();
    lots.add(lot(1, 10, Some(30)));
    lots.attribute(8, at(30));
    lots.expire(at(30));

    lots.attribute(2, at(31));

    let first = lots.get(id(1)).unwrap();
    assert_eq!((first.spent, first.expired, first.left), (0, 8, 2));
    assert_eq!(first.expires_at, Some(at(61)));
}

#[test]
fn spent_credits_are_taken_from_other_lots_and_then_owed() {
    let mut lots = CustomerLots::default();
    lots.add(lot(1, 100, Some(30)));
    lots.add(lot(2, 20, None));
    lots.attribute(40, at(1));

    assert_eq!(lots.take(id(1), 100), 100);

    assert_eq!((lots.left(), lots.debt()), (0, 60));
    assert_eq!(lots.get(id(1)).unwrap().taken, 100);
    lots.add(lot(3, 100, None));
    assert_eq!((lots.left(), lots.debt()), (40, 0));
}

#[test]
fn taking_expired_credits_does_not_change_the_balance() {
    let mut lots = CustomerLots::default();
    lots.add(lot(1, 10, Some(30)));
    lots.expire(at(30));

    lots.take(id(1), 10);
    lots.give(id(1), 10, at(40));

    assert_eq!(left(&lots, 1), 10);
    assert_eq!(lots.get(id(1)).unwrap().expires_at, Some(at(70)));
    let amounts: Vec<i64> = lots.movements().iter().map(|movement| movement.amount).collect();
    assert_eq!(amounts, [10, -10, 10]);
}

#[test]
fn staff_never_take_more_than_was_granted() {
    let mut lots = CustomerLots::default();
    lots.add(lot(1, 10, None));
    lots.attribute(6, at(1));

    assert_eq!(lots.take_any(8), 8);
    assert_eq!((lots.left(), lots.debt()), (0, 2));
    assert_eq!(lots.take_any(8), 2);
    assert_eq!(lots.debt(), 4);
}

#[derive(Debug, Clone, Copy)]
enum LotStep {
    Add(i64, Option<i64>),
    Spend(i64),
    Release(i64),
    Take(usize, i64),
    Give(usize, i64),
    TakeAny(i64),
    Wait(i64),
}

fn steps() -> impl Strategy<Value = Vec<LotStep>> {
    let step = prop_oneof![
        (1_i64..100, prop::option::of(0_i64..90))
            .prop_map(|(credits, end)| LotStep::Add(credits, end)),
        (0_i64..80).prop_map(LotStep::Spend),
        (0_i64..10).prop_map(LotStep::Release),
        (0_usize..8, 0_i64..120).prop_map(|(place, credits)| LotStep::Take(place, credits)),
        (0_usize..8, 0_i64..120).prop_map(|(place, credits)| LotStep::Give(place, credits)),
        (0_i64..50).prop_map(LotStep::TakeAny),
        (0_i64..20).prop_map(LotStep::Wait),
    ];
    prop::collection::vec(step, 0..60)
}

proptest! {
    #[test]
    fn lots_balance_debt_and_ledger_always_agree(steps in steps()) {
        let (mut lots, mut available, mut usage, mut now) = (CustomerLots::default(), 0_i64, 0_i64, 0);
        for (number, step) in (0_u8..).zip(steps) {
            if let LotStep::Wait(days) = step {
                now += days;
            }
            match step {
                LotStep::Spend(credits) => {
                    let spent = credits.min(available);
                    available -= spent;
                    usage += spent;
                    continue;
                }
                // As in `Balance::refund`: returned credits pay the debt first.
                LotStep::Release(credits) => {
                    let released = credits.min(usage);
                    prop_assume!(lots.debt() == 0 || released == 0);
                    usage -= released;
                    available += released;
                }
                _ => {}
            }
            lots.attribute(available, at(now));
            lots.expire(at(now));
            let ids: Vec<LotId> = lots.all().iter().map(|lot| lot.id).collect();
            match step {
                LotStep::Add(credits, end) => lots.add(lot(number, credits, end.map(|end| now + end))),
                LotStep::Take(place, credits) => {
                    ids.get(place).map(|id| lots.take(*id, credits));
                }
                LotStep::Give(place, credits) => {
                    ids.get(place).map(|id| lots.give(*id, credits, at(now)));
                }
                LotStep::TakeAny(credits) => {
                    lots.take_any(credits);
                }
                LotStep::Spend(_) | LotStep::Release(_) | LotStep::Wait(_) => {}
            }
            available = lots.left();
            let mut spent = 0;
            for lot in lots.all() {
                prop_assert_eq!(lot.granted, lot.left + lot.spent + lot.expired + lot.taken);
                prop_assert!([lot.left, lot.spent, lot.expired, lot.taken].iter().all(|part| *part >= 0));
                let booked: i64 =
                    lots.movements().iter().filter(|one| one.lot == lot.id).map(|one| one.amount).sum();
                prop_assert_eq!(booked, lot.left + lot.spent);
                spent += lot.spent;
            }
            prop_assert_eq!(usage, spent + lots.debt());
            prop_assert!(lots.debt() >= 0 && (lots.debt() == 0 || lots.left() == 0));
        }
    }
}
