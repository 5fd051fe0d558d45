//! Sales: what is undone when money goes back, and in which order.

use proptest::prelude::*;

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
        back: MoneyBack::default(),
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

/// Money that went back by one refund that no credit note speaks of.
fn refunded(cents: i64) -> MoneyBack {
    MoneyBack { reversals: vec![RefundedMoney { id: "re_1".to_owned(), cents }], notes: vec![] }
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

    sales.reverse("in_1", refunded(4_900));

    assert_eq!(taken(&sales), [0, 39_200]);
    sales.reverse("in_2", refunded(15_000));
    assert_eq!(taken(&sales), [30_000, 120_000]);
    sales.reverse("in_1", refunded(0));
    assert_eq!(taken(&sales), [0, 120_000]);
}

#[test]
fn partial_refunds_take_as_much_as_their_sum() {
    let pack = vec![part(PartKind::Pack, "sale:in_1", 1_000, 5_000, Some(1))];
    let mut sales = sold(vec![sale(1, 1_000, pack)], 0);

    let mut seen = Vec::new();
    for total in [333, 666, 1_000, 9_999] {
        sales.reverse("in_1", refunded(total));
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

    sales.reverse("in_1", refunded(1));

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

    sales.reverse("in_1", refunded(7_900));

    // 1,000 of the slots had not been credited. Of the other 2,000, the credit covers 500 and the
    // latest month 1,500.
    assert_eq!(sales.withdrawals(), [CreditWithdrawal { sale: "in_1".to_owned(), cents: 500 }]);
    let moved = |known: &CustomerSales| {
        let transfers = &known.all()[0].transfers;
        transfers.iter().map(|one| (one.pot.clone(), one.cents)).collect::<Vec<_>>()
    };
    assert_eq!(moved(&sales), [("plan:2".to_owned(), 1_500)]);
    assert_eq!(taken(&sales), [30_000, 9_183]);
    sales.reverse("in_1", refunded(0));
    assert_eq!(taken(&sales), [0, 0]);
    assert_eq!(sales.withdrawals(), [CreditWithdrawal { sale: "in_1".to_owned(), cents: 0 }]);
    assert_eq!(moved(&sales), [("plan:2".to_owned(), 0)]);
}

#[test]
fn an_upgrade_that_arrives_after_a_refund_of_the_month_is_undone_first() {
    let month = vec![part(PartKind::Plan, "plan:1", 4_900, 30_000, Some(1))];
    let mut sales = sold(vec![sale(1, 4_900, month)], 0);
    sales.reverse("in_1", refunded(4_900));

    let mut lots = std::mem::take(&mut sales.lots);
    lots.add(Lot::new(lot_id(2), LotSource::Plan, 120_000, None, at(2)));
    let mut all = sales.all().to_vec();
    all.push(sale(2, 15_000, vec![part(PartKind::Plan, "plan:1", 15_000, 120_000, Some(2))]));
    let mut both = CustomerSales::new(all, lots, 0, at(100));
    both.arrived("in_2");

    assert_eq!(taken(&both), [0, 39_200]);
}

/// Sales of credits alone: each of one part, in one of two pots.
fn credit_sales() -> impl Strategy<Value = Vec<Sale>> {
    let terms = (0_i64..6_000, 0_i64..9_000, 0_usize..2);
    prop::collection::vec(terms, 1..6).prop_map(|all| {
        let numbered = (1_u8..).zip(all);
        numbered
            .map(|(number, (money, credits, pot))| {
                let pot = ["plan:1", "plan:2"][pot];
                sale(number, money, vec![part(PartKind::Plan, pot, money, credits, Some(number))])
            })
            .collect()
    })
}

/// Sales that also have slots, of which some money was credited, and tax.
fn mixed_sales() -> impl Strategy<Value = Vec<Sale>> {
    let terms = (0_i64..6_000, 1_i64..9_000, 0_i64..3_000, 0_i64..=100, 0_i64..500);
    prop::collection::vec(terms, 1..5).prop_map(|all| {
        let numbered = (1_u8..).zip(all);
        numbered
            .map(|(number, (money, credits, slots, credited, tax))| {
                let plan =
                    part(PartKind::Plan, &format!("plan:{number}"), money, credits, Some(number));
                let mut slot = part(PartKind::Slot, &format!("slot:{number}"), slots, 0, None);
                slot.credited = slots * credited / 100;
                Sale { tax, ..sale(number, money + slots + tax, vec![plan, slot]) }
            })
            .collect()
    })
}

/// The sales with a lot for each part that has one.
fn with_lots(sales: Vec<Sale>, credit: i64) -> CustomerSales {
    let mut lots = CustomerLots::default();
    for part in sales.iter().flat_map(|sale| &sale.parts) {
        if let Some(id) = part.lot {
            lots.add(Lot::new(id, LotSource::Plan, part.credits, None, at(0)));
        }
    }
    CustomerSales::new(sales, lots, credit, at(100))
}

/// Reversals as they are reported: of which sale, and its new total in thousandths of its charge.
fn reports() -> impl Strategy<Value = Vec<(usize, i64)>> {
    prop::collection::vec((0_usize..6, 0_i64..=1_000), 0..12)
}

fn total_of(sale: &Sale) -> i64 {
    sale.back.reversals.iter().map(|one| one.cents).sum::<i64>().clamp(0, sale.charged)
}

fn report(sales: &mut CustomerSales, place: usize, thousandths: i64) {
    let all = sales.all();
    let sale = &all[place % all.len()];
    let (id, total) = (sale.id.clone(), sale.charged * thousandths / 1_000);
    sales.reverse(&id, refunded(total));
}

proptest! {
    #[test]
    fn what_is_undone_depends_on_the_totals_alone(all in credit_sales(), reports in reports(), order in any::<u64>()) {
        let mut one = with_lots(all.clone(), 0);
        for (place, thousandths) in &reports {
            report(&mut one, *place, *thousandths);
        }
        let totals: Vec<(String, i64)> =
            one.all().iter().map(|sale| (sale.id.clone(), total_of(sale))).collect();
        let mut other = with_lots(all, 0);
        let first = usize::try_from(order % 1_000).unwrap() % totals.len();

        for (id, total) in totals.iter().cycle().skip(first).take(totals.len()) {
            other.reverse(id, refunded(*total));
            other.reverse(id, refunded(*total));
        }

        prop_assert_eq!(taken(&one), taken(&other));
        for (sale, same) in one.all().iter().zip(other.all()) {
            prop_assert_eq!(total_of(sale), total_of(same));
            prop_assert_eq!(&sale.parts, &same.parts);
        }
    }

    #[test]
    fn no_more_is_taken_than_was_granted_and_all_of_it_for_all_of_the_money(
        all in credit_sales(), reports in reports(),
    ) {
        let mut sales = with_lots(all, 0);
        for (place, thousandths) in reports {
            report(&mut sales, place, thousandths);
            for lot in sales.lots.all() {
                prop_assert!((0..=lot.granted).contains(&lot.taken));
            }
        }
        let ids: Vec<String> = sales.all().iter().map(|sale| sale.id.clone()).collect();
        for id in &ids {
            sales.reverse(id, refunded(i64::MAX));
        }

        let paid_pots: Vec<&str> = sales
            .all()
            .iter()
            .flat_map(|sale| &sale.parts)
            .filter(|part| part.money > 0)
            .map(|part| part.pot.as_str())
            .collect();
        for part in sales.all().iter().flat_map(|sale| &sale.parts) {
            if part.money > 0 {
                prop_assert_eq!(part.taken, part.credits);
            }
            if !paid_pots.contains(&part.pot.as_str()) {
                prop_assert_eq!(part.taken, 0, "no money of its pot can go back");
            }
        }
    }

    /// A failed refund or a won dispute sets the total to zero again.
    #[test]
    fn money_that_came_in_again_leaves_nothing_undone(
        all in mixed_sales(), reports in reports(), credit in 0_i64..4_000,
    ) {
        let mut sales = with_lots(all, credit);
        for (place, thousandths) in reports {
            report(&mut sales, place, thousandths);
        }
        let ids: Vec<String> = sales.all().iter().map(|sale| sale.id.clone()).collect();
        for id in &ids {
            sales.reverse(id, refunded(0));
        }

        prop_assert!(taken(&sales).iter().all(|credits| *credits == 0), "{:?}", taken(&sales));
        for sale in sales.all() {
            prop_assert_eq!(sale.withdrawn, 0);
            prop_assert!(sale.transfers.iter().all(|transfer| transfer.cents == 0));
        }
        prop_assert!(sales.withdrawals().iter().all(|withdrawal| withdrawal.cents == 0));
    }

    /// Cents of slots that had been credited go back once: what is withdrawn and what is taken from
    /// other months is exactly what would have gone back twice.
    #[test]
    fn no_cent_of_slots_goes_back_twice(all in mixed_sales(), reports in reports(), credit in 0_i64..4_000) {
        let mut sales = with_lots(all, credit);
        for (place, thousandths) in reports {
            report(&mut sales, place, thousandths);
        }

        for sale in sales.all() {
            let weights: Vec<i64> = sale.parts.iter().map(|part| part.money).chain([sale.tax]).collect();
            let of_slot = crate::split::split(total_of(sale), &weights)[1];
            let slot = &sale.parts[1];
            let twice = (of_slot - (slot.money - slot.credited)).max(0);
            let moved: i64 = sale.transfers.iter().map(|transfer| transfer.cents).sum();
            prop_assert_eq!(sale.withdrawn + moved, twice);
            prop_assert!(sale.withdrawn >= 0 && sale.transfers.iter().all(|one| one.cents >= 0));
        }
    }
}

#[test]
fn a_reversal_of_an_unknown_sale_changes_nothing() {
    let pack = vec![part(PartKind::Pack, "sale:in_1", 1_000, 5_000, Some(1))];
    let mut sales = sold(vec![sale(1, 1_000, pack)], 0);

    sales.reverse("in_2", refunded(500));
    sales.reverse("in_1", refunded(-500));

    assert_eq!((taken(&sales), total_of(&sales.all()[0])), (vec![0], 0));
}

#[test]
fn sales_of_the_same_second_are_undone_in_the_order_of_their_numbers() {
    let month = |lot| vec![part(PartKind::Plan, "plan:1", 1_000, 100, Some(lot))];
    let numbered = |place: u8, number: &str| {
        let sold_at = at(1);
        Sale { sold_at, number: number.to_owned(), ..sale(place, 1_000, month(place)) }
    };
    // Number 10 is later than number 9 although its text sorts before.
    let mut sales = sold(vec![numbered(1, "A-10"), numbered(2, "A-9")], 0);

    sales.reverse("in_2", refunded(1_000));

    assert_eq!(taken(&sales), [100, 0]);
}

#[test]
fn pots_are_named_after_what_is_undone_together() {
    assert_eq!(pot_of_sale("pi_1"), "sale:pi_1");
    assert_eq!(pot_of_period(PartKind::Plan, "sub_1", at(1)), "plan:sub_1:86400");
    assert_eq!(pot_of_period(PartKind::Slot, "sub_1", at(1)), "slot:sub_1:86400");
}

#[test]
fn only_plans_and_packs_that_cost_or_grant_something_are_purchases() {
    for (kind, money, credits, is_purchase) in [
        (PartKind::Plan, 1, 0, true),
        (PartKind::Plan, 0, 1, true),
        (PartKind::Pack, 1, 1, true),
        (PartKind::Plan, 0, 0, false),
        (PartKind::Plan, -5, 0, false),
        (PartKind::Slot, 1, 1, false),
        (PartKind::Other, 1, 1, false),
    ] {
        let part = part(kind, "pot", money, credits, None);
        assert_eq!(part.is_purchase(), is_purchase, "{part:?}");
    }
}

/// What a credit note decides: its parts by their pots, tax, and cents that it does not name.
fn note(parts: &[(&str, i64)], tax: i64, other: i64) -> CreditNote {
    let named = |(pot, cents): &(&str, i64)| NotedPart { pot: (*pot).to_owned(), cents: *cents };
    let parts = parts.iter().map(named).collect();
    CreditNote { parts, tax, other, ..CreditNote::default() }
}

/// The same, its money being a part of the refund `re_1`.
fn of_refund(cents: i64, note: CreditNote) -> CreditNote {
    CreditNote { refunds: refunded(cents).reversals, ..note }
}

/// An invoice for a month of a plan at 4,900 cents, slots at 6,000, and tax of 1,090.
fn month_with_slots() -> Sale {
    let plan = part(PartKind::Plan, "plan:1", 4_900, 30_000, Some(1));
    let slots = part(PartKind::Slot, "slot:1", 6_000, 0, None);
    Sale { tax: 1_090, ..sale(1, 11_990, vec![plan, slots]) }
}

#[test]
fn a_credit_note_decides_how_its_money_divides_and_the_rest_is_in_proportion_to_what_it_left() {
    let both = [("plan:1", 4_900), ("slot:1", 6_000)];
    for (what, cents, notes, expected) in [
        ("no note", 1_199, vec![], ([490, 600], 0)),
        ("tax", 1_090, vec![of_refund(1_090, note(&[], 1_090, 0))], ([0, 0], 0)),
        ("slots", 6_000, vec![of_refund(6_000, note(&both[1..], 0, 0))], ([0, 6_000], 0)),
        ("the plan", 4_900, vec![of_refund(4_900, note(&both[..1], 0, 0))], ([4_900, 0], 0)),
        ("a half of it", 5_995, vec![of_refund(5_995, note(&both, 1_090, 0))], ([2_450, 3_000], 0)),
        (
            "a part of a refund",
            5_900,
            vec![of_refund(1_900, note(&[("plan:1", 1_900)], 1_090, 0))],
            ([1_207 + 1_464, 2_379], 0),
        ),
        ("nothing named", 1_199, vec![of_refund(1_199, note(&[], 0, 1_199))], ([490, 600], 0)),
        (
            "more than the part cost",
            9_000,
            vec![of_refund(9_000, note(&[("slot:1", 9_000)], 0, 0))],
            ([2_454, 6_000], 0),
        ),
        (
            "all of the money",
            11_990,
            vec![of_refund(6_000, note(&both[1..], 0, 0))],
            ([4_900, 6_000], 0),
        ),
        (
            "another refund",
            1_199,
            vec![CreditNote {
                refunds: vec![RefundedMoney { id: "re_2".to_owned(), cents: 6_000 }],
                ..note(&both[1..], 0, 0)
            }],
            ([490, 600], 0),
        ),
        (
            "the balance",
            0,
            vec![CreditNote { credited: 6_000, ..note(&both[1..], 0, 0) }],
            ([0, 6_000], 0),
        ),
        (
            "the balance and a refund",
            2_000,
            vec![CreditNote { credited: 2_900, ..of_refund(2_000, note(&both[..1], 0, 0)) }],
            ([4_900, 0], 0),
        ),
        (
            "two notes",
            4_900,
            vec![
                of_refund(2_000, note(&[("plan:1", 2_000)], 0, 0)),
                of_refund(2_900, note(&[("slot:1", 2_900)], 0, 0)),
            ],
            ([2_000, 2_900], 0),
        ),
    ] {
        let reversals = refunded(cents).reversals;
        let back = MoneyBack { reversals, notes };
        let divided = Sale { back, ..month_with_slots() }.divided();

        assert_eq!(
            (divided.parts.as_slice(), divided.carried),
            (&expected.0[..], expected.1),
            "{what}"
        );
    }
}
