//! Sales: what is undone when money goes back, and in which order.

use super::*;
use crate::lots::{Lot, LotSource};

fn at(day: i64) -> Timestamp {
    Timestamp::from_unix_micros(0).plus_seconds(day * 86_400)
}

fn lot_id(number: u8) -> LotId {
    LotId::new(at(0), [number; 10])
}

fn part(kind: PartKind, pot: &str, money: i64, credits: i64, lot: Option<u8>) -> SalePart {
    let lot = lot.map(lot_id);
    SalePart { kind, pot: pot.to_owned(), money, credits, taken: 0, credited: 0, lot }
}

fn sale(number: u8, charged: i64, parts: Vec<SalePart>) -> Sale {
    Sale {
        id: format!("in_{number}"),
        sold_at: at(i64::from(number)),
        number: format!("A-{number:04}"),
        charged,
        tax: 0,
        reversed: 0,
        withdrawn: 0,
        parts,
        transfers: Vec::new(),
    }
}

fn sold(sales: Vec<Sale>, credit: i64) -> CustomerSales {
    let mut lots = CustomerLots::default();
    for (number, part) in (1_u8..).zip(sales.iter().flat_map(|sale| &sale.parts)) {
        if let Some(id) = part.lot {
            assert_eq!(id, lot_id(number), "lots are numbered like the parts");
            lots.add(Lot::new(id, LotSource::Plan, part.credits, None, at(i64::from(number))));
        }
    }
    CustomerSales::new(sales, lots, credit, at(100))
}

fn taken(sales: &CustomerSales) -> Vec<i64> {
    sales.lots.all().iter().map(|lot| lot.taken).collect()
}

#[test]
fn the_latest_purchase_of_a_period_is_undone_first_whichever_payment_is_refunded() {
    let month =
        |money, credits, lot| vec![part(PartKind::Plan, "plan:1", money, credits, Some(lot))];
    let mut sales = sold(
        vec![sale(1, 4_900, month(4_900, 30_000, 1)), sale(2, 15_000, month(15_000, 120_000, 2))],
        0,
    );

    sales.reverse("in_1", 4_900);

    assert_eq!(taken(&sales), [0, 39_200]);
    sales.reverse("in_2", 15_000);
    assert_eq!(taken(&sales), [30_000, 120_000]);
    sales.reverse("in_1", 0);
    assert_eq!(taken(&sales), [0, 120_000]);
}

#[test]
fn partial_refunds_take_as_much_as_their_sum() {
    let pack = vec![part(PartKind::Pack, "sale:in_1", 1_000, 5_000, Some(1))];
    let mut sales = sold(vec![sale(1, 1_000, pack)], 0);

    let mut seen = Vec::new();
    for total in [333, 666, 1_000, 9_999] {
        sales.reverse("in_1", total);
        seen.push(taken(&sales)[0]);
    }

    assert_eq!(seen, [1_665, 3_330, 5_000, 5_000]);
}

#[test]
fn a_free_purchase_is_undone_with_the_first_cent() {
    let month =
        |money, credits, lot| vec![part(PartKind::Plan, "plan:1", money, credits, Some(lot))];
    let mut sales =
        sold(vec![sale(1, 4_900, month(4_900, 30_000, 1)), sale(2, 0, month(0, 40, 2))], 0);

    sales.reverse("in_1", 1);

    assert_eq!(taken(&sales), [6, 40]);
}

#[test]
fn refunded_slot_money_that_was_credited_is_taken_from_the_credit_and_then_from_plan_months() {
    let mut slots = part(PartKind::Slot, "slot:1", 3_000, 0, None);
    slots.credited = 2_000;
    let first = sale(1, 7_900, vec![part(PartKind::Plan, "plan:1", 4_900, 30_000, Some(1)), slots]);
    let second = sale(2, 3_400, vec![part(PartKind::Plan, "plan:2", 4_900, 30_000, Some(3))]);
    let mut lots = CustomerLots::default();
    for number in [1, 3] {
        lots.add(Lot::new(lot_id(number), LotSource::Plan, 30_000, None, at(i64::from(number))));
    }
    let mut sales = CustomerSales::new(vec![first, second], lots, 500, at(100));

    sales.reverse("in_1", 7_900);

    // 1,000 of the slots had not been credited. Of the other 2,000, the credit covers 500 and the
    // latest month 1,500.
    assert_eq!(sales.withdrawals(), [CreditWithdrawal { sale: "in_1".to_owned(), cents: 500 }]);
    let moved = |known: &CustomerSales| {
        let transfers = &known.all()[0].transfers;
        transfers.iter().map(|one| (one.pot.clone(), one.cents)).collect::<Vec<_>>()
    };
    assert_eq!(moved(&sales), [("plan:2".to_owned(), 1_500)]);
    assert_eq!(taken(&sales), [30_000, 9_183]);
    sales.reverse("in_1", 0);
    assert_eq!(taken(&sales), [0, 0]);
    assert_eq!(sales.withdrawals(), [CreditWithdrawal { sale: "in_1".to_owned(), cents: 0 }]);
    assert_eq!(moved(&sales), [("plan:2".to_owned(), 0)]);
}

#[test]
fn an_upgrade_that_arrives_after_a_refund_of_the_month_is_undone_first() {
    let month = vec![part(PartKind::Plan, "plan:1", 4_900, 30_000, Some(1))];
    let mut sales = sold(vec![sale(1, 4_900, month)], 0);
    sales.reverse("in_1", 4_900);

    let mut lots = std::mem::take(&mut sales.lots);
    lots.add(Lot::new(lot_id(2), LotSource::Plan, 120_000, None, at(2)));
    let mut all = sales.all().to_vec();
    all.push(sale(2, 15_000, vec![part(PartKind::Plan, "plan:1", 15_000, 120_000, Some(2))]));
    let mut both = CustomerSales::new(all, lots, 0, at(100));
    both.arrived("in_2");

    assert_eq!(taken(&both), [0, 39_200]);
}
