//! Refunds and disputes: previews that store nothing, jobs that follow, and credits that go and
//! come back by the total money alone.

use domain::id::EntryId;
use domain::payment::{OrderState, ReversalKind, ReversalState};
use domain::sales::{CreditNote, NotedPart, PartKind, RefundedMoney, pot_of_period};
use store::jobs;
use store::money_back::ReadNote;
use store::orders::Order;
use store::payments::{self, SoldPart};
use store::reversals::{
    self, PaymentReversal, RefundableSale, ReversalChange, ReversalEffect, SaleNotes,
};
use store::{Store, testing, unmatched};

use crate::payments::{
    available, dispute, invoice, month, ordered, paid, payer, refund, reversal, state_of, taken,
};
use crate::support::{NOON, TestCaller, assert_sound, credits, grant, new_job, spend, unique};
use crate::top_ups::wishing;

/// A customer who has paid 999 cents for 100 credits with this intent.
async fn buyer(store: &Store, intent: &str) -> (TestCaller, Order) {
    let (caller, payer) = payer(store).await;
    let order = buy(store, (&caller, &payer), intent).await;
    (caller, order)
}

async fn buy(store: &Store, (caller, payer): (&TestCaller, &str), intent: &str) -> Order {
    let order = ordered(store, caller, payer).await;
    payments::fulfil(store, &paid(&order, intent)).await.unwrap();
    order
}

/// Available and owed.
async fn figures(store: &Store, caller: &TestCaller) -> (i64, i64) {
    let balance = caller.balance(store).await;
    (balance.available.whole(), balance.debt.whole())
}

async fn booked(store: &Store, reversal: &PaymentReversal<'_>) -> ReversalChange {
    match reversals::apply(store, reversal, &|_| Vec::new()).await.unwrap() {
        ReversalEffect::Booked(change) => *change,
        other => panic!("{other:?}"),
    }
}

async fn previewed(store: &Store, reversal: &PaymentReversal<'_>) -> Option<ReversalChange> {
    reversals::preview(store, reversal).await.unwrap()
}

async fn sale(store: &Store, intent: &str) -> Option<RefundableSale> {
    reversals::find_sale(store, intent).await.unwrap()
}

#[tokio::test]
async fn a_preview_shows_what_a_refund_would_change_and_stores_nothing() {
    let store = testing::store().await;
    let (caller, order) = buyer(&store, "pi_1").await;
    spend(&store, &caller, 80).await;
    let all = refund("re_1", "pi_1", 999);

    let first = previewed(&store, &all).await.unwrap();
    let second = previewed(&store, &all).await.unwrap();

    assert_eq!((first.taken, first.balance, first.debt), (credits(100), credits(0), credits(80)));
    assert_eq!(second, first);
    assert_eq!(figures(&store, &caller).await, (20, 0));
    assert_eq!(state_of(&store, &order).await, OrderState::Paid);
    assert_eq!(sale(&store, "pi_1").await.unwrap().left_cents, 999);
    assert_eq!(sale(&store, "pi_1").await.unwrap().order, Some(OrderState::Paid));
    assert_eq!(booked(&store, &all).await, first);
    let after = sale(&store, "pi_1").await.unwrap();
    assert_eq!((after.left_cents, after.order), (0, Some(OrderState::Refunded)));
    assert_eq!(figures(&store, &caller).await, (0, 80));
    assert_eq!(previewed(&store, &all).await, None, "it is recorded");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_preview_of_an_unknown_payment_leaves_nothing_for_the_operator() {
    let store = testing::store().await;
    buyer(&store, "pi_1").await;

    for intent in ["pi_2", "", "pi_%", "PI_1"] {
        assert_eq!(previewed(&store, &refund("re_1", intent, 1)).await, None, "{intent}");
        assert_eq!(sale(&store, intent).await, None, "{intent}");
    }

    assert_eq!(unmatched::list(&store, 10).await.unwrap(), []);
}

#[tokio::test]
async fn the_jobs_that_follow_a_reversal_are_enqueued_once_with_it() {
    let store = testing::store().await;
    let (caller, order) = buyer(&store, "pi_1").await;
    let follow = |change: &ReversalChange| {
        assert_eq!((change.customer, change.order), (caller.customer, Some(order.id)));
        vec![new_job(), new_job()]
    };
    let waiting = async || jobs::count(&store).await.unwrap().waiting;
    let apply = async |reversal: &PaymentReversal<'_>| {
        reversals::apply(&store, reversal, &follow).await.unwrap()
    };

    previewed(&store, &refund("re_1", "pi_1", 100)).await.unwrap();
    assert_eq!(waiting().await, 0);
    apply(&refund("re_1", "pi_1", 100)).await;
    assert_eq!(waiting().await, 2);
    assert_eq!(apply(&refund("re_1", "pi_1", 100)).await, ReversalEffect::Unchanged);
    let stray = apply(&refund("re_2", "pi_2", 100)).await;
    assert_eq!(stray, ReversalEffect::Unmatched { is_new: true });

    assert_eq!(waiting().await, 2);
}

#[tokio::test]
async fn a_reversal_whose_jobs_cannot_be_enqueued_is_not_recorded() {
    let store = testing::store().await;
    let (caller, _) = buyer(&store, "pi_1").await;
    let known = new_job();
    jobs::enqueue(&store, &known).await.unwrap();
    let follow = |_: &ReversalChange| vec![new_job(), known.clone()];

    let failed = reversals::apply(&store, &refund("re_1", "pi_1", 999), &follow).await;

    assert!(failed.is_err(), "{failed:?}");
    assert_eq!(figures(&store, &caller).await, (100, 0));
    assert_eq!(jobs::count(&store).await.unwrap().waiting, 1);
    assert_eq!(taken(&store, &refund("re_1", "pi_1", 999)).await, 100);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_sale_shows_the_money_and_credits_that_are_left_of_it() {
    let store = testing::store().await;
    let (_, payer) = payer(&store).await;
    let sold = month(30_000, 4_900);
    payments::fulfil(&store, &invoice(&sold, ("in_1", "pi_1"), &payer, 4_900)).await.unwrap();
    let left = async || {
        let sale = sale(&store, "pi_1").await.unwrap();
        assert_eq!(sale.granted.whole(), 30_000);
        (sale.left_cents, sale.taken.whole())
    };
    assert_eq!(left().await, (4_900, 0));

    booked(&store, &refund("re_1", "pi_1", 4_899)).await;
    let (cents, all_but_some) = left().await;
    assert_eq!(cents, 1);
    assert!(all_but_some < 30_000, "{all_but_some}");
    booked(&store, &refund("re_2", "pi_1", 1)).await;
    assert_eq!(left().await, (0, 30_000));
    let failed = PaymentReversal { state: ReversalState::Undone, ..refund("re_1", "pi_1", 4_899) };
    booked(&store, &failed).await;
    let (cents_again, some) = left().await;
    assert_eq!(cents_again, 4_899);
    assert!(some > 0 && some < 30_000, "{some}");
    assert_sound(&store).await;
}

#[tokio::test]
async fn more_money_than_was_charged_takes_no_more_than_was_sold() {
    let store = testing::store().await;
    let (caller, order) = buyer(&store, "pi_1").await;
    grant(&store, caller.customer, 50).await;

    assert_eq!(taken(&store, &refund("re_1", "pi_1", 5_000)).await, 100);
    assert_eq!(taken(&store, &dispute("dp_1", "pi_1", ReversalState::Standing)).await, 0);
    assert_eq!(taken(&store, &refund("re_2", "pi_1", 1)).await, 0);

    assert_eq!(figures(&store, &caller).await, (50, 0));
    assert_eq!(state_of(&store, &order).await, OrderState::Refunded);
    assert_eq!(sale(&store, "pi_1").await.unwrap().left_cents, 0);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_refund_takes_nothing_from_other_packs_and_other_customers() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let who = (&caller, payer.as_str());
    let (first, second) = (buy(&store, who, "pi_1").await, buy(&store, who, "pi_2").await);
    let (other, _) = buyer(&store, "pi_3").await;

    assert_eq!(taken(&store, &refund("re_1", "pi_1", 999)).await, 100);

    assert_eq!((available(&store, &caller).await, available(&store, &other).await), (100, 100));
    let lots = store::lots::list(&store, caller.customer, NOON).await.unwrap();
    let left: Vec<_> = lots.iter().map(|lot| (lot.reference.as_deref(), lot.left)).collect();
    let reference = second.id.to_string();
    assert_eq!(left, [(Some(reference.as_str()), 100)]);
    assert_eq!(state_of(&store, &first).await, OrderState::Refunded);
    assert_eq!(state_of(&store, &second).await, OrderState::Paid);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_dispute_ends_the_same_whatever_order_its_states_arrive_in() {
    const STATES: [ReversalState; 3] =
        [ReversalState::Waiting, ReversalState::Standing, ReversalState::Undone];
    const ORDERS: [[usize; 3]; 6] =
        [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    for (number, places) in ORDERS.iter().enumerate() {
        let (id, intent) = (format!("dp_{number}"), format!("pi_{number}"));
        let order = buy(&store, (&caller, &payer), &intent).await;
        let before = available(&store, &caller).await;

        let mut moved = 0;
        for place in places {
            let reported = dispute(&id, &intent, STATES[*place]);
            match reversals::apply(&store, &reported, &|_| Vec::new()).await.unwrap() {
                ReversalEffect::Booked(change) => moved += change.taken.whole(),
                effect => assert_eq!(effect, ReversalEffect::Unchanged, "{places:?}"),
            }
        }

        assert_eq!((moved, available(&store, &caller).await), (0, before), "{places:?}");
        assert_eq!(state_of(&store, &order).await, OrderState::Paid, "{places:?}");
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_dispute_takes_what_its_latest_state_says() {
    let store = testing::store().await;
    let (caller, order) = buyer(&store, "pi_1").await;
    let report = |state, cents| reversal(ReversalKind::Dispute, ("dp_1", "pi_1"), cents, state);

    assert_eq!(taken(&store, &report(ReversalState::Waiting, 999)).await, 0);
    let part = taken(&store, &report(ReversalState::Standing, 333)).await;

    assert_eq!((part, figures(&store, &caller).await), (33, (67, 0)));
    // The bank's full amount took no effect, and a dispute is not a refund.
    booked(&store, &dispute("dp_2", "pi_1", ReversalState::Standing)).await;
    assert_eq!(figures(&store, &caller).await, (0, 0));
    assert_eq!(state_of(&store, &order).await, OrderState::Paid);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_refund_of_nothing_is_recorded_and_takes_nothing() {
    let store = testing::store().await;
    let (caller, order) = buyer(&store, "pi_1").await;

    let change = booked(&store, &refund("re_1", "pi_1", 0)).await;

    assert_eq!((change.taken, change.balance), (credits(0), credits(100)));
    assert_eq!(change.withdrawals, []);
    let again = reversals::apply(&store, &refund("re_1", "pi_1", 0), &|_| Vec::new()).await;
    assert_eq!(again.unwrap(), ReversalEffect::Unchanged);
    assert_eq!(state_of(&store, &order).await, OrderState::Paid);
    assert_eq!(figures(&store, &caller).await, (100, 0));
    let negative = reversals::apply(&store, &refund("re_2", "pi_1", -1), &|_| Vec::new()).await;
    assert!(negative.is_err(), "{negative:?}");
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_debt_of_a_refund_goes_away_with_the_refund() {
    let store = testing::store().await;
    let (caller, _) = buyer(&store, "pi_1").await;
    spend(&store, &caller, 80).await;
    assert_eq!(taken(&store, &refund("re_1", "pi_1", 999)).await, 100);
    assert_eq!(figures(&store, &caller).await, (0, 80));
    grant(&store, caller.customer, 30).await;
    assert_eq!(figures(&store, &caller).await, (0, 50));

    let failed = PaymentReversal { state: ReversalState::Undone, ..refund("re_1", "pi_1", 999) };
    let change = booked(&store, &failed).await;

    assert_eq!((change.taken, change.debt), (credits(-100), credits(0)));
    assert_eq!(figures(&store, &caller).await, (50, 0));
    spend(&store, &caller, 50).await;
    assert_sound(&store).await;
}

#[tokio::test]
async fn money_that_goes_back_turns_automatic_top_up_off_once() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    let name = crate::payments::processor_name(&caller);
    buy(&store, (&caller, &name), "pi_1").await;

    let asked = booked(&store, &dispute("dp_1", "pi_1", ReversalState::Waiting)).await;
    let expected = previewed(&store, &refund("re_1", "pi_1", 1)).await.unwrap();
    let first = booked(&store, &refund("re_1", "pi_1", 1)).await;
    let second = booked(&store, &refund("re_2", "pi_1", 1)).await;

    assert!(!asked.stops_top_up, "no money has gone back yet");
    assert!(expected.stops_top_up && first.stops_top_up && !second.stops_top_up);
    let settings = store::top_up_settings::find(&store, caller.customer).await.unwrap().unwrap();
    assert_eq!((settings.enabled, settings.stopped_reason.as_deref()), (false, Some("refund")));
}

#[tokio::test]
async fn concurrent_refunds_of_one_payment_take_its_credits_once() {
    let store = testing::store().await;
    let (caller, order) = buyer(&store, "pi_1").await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..9 {
        let shared = (*store).clone();
        tasks.spawn(async move {
            let id = format!("re_{number}");
            let part =
                PaymentReversal { entry: EntryId::new(NOON, unique()), ..refund(&id, "pi_1", 111) };
            reversals::apply(&shared, &part, &|_| Vec::new()).await.unwrap()
        });
    }

    let effects = tasks.join_all().await;

    let sum: i64 = effects
        .iter()
        .map(|effect| match effect {
            ReversalEffect::Booked(change) => change.taken.whole(),
            other => panic!("{other:?}"),
        })
        .sum();
    assert_eq!((sum, available(&store, &caller).await), (100, 0));
    assert_eq!(state_of(&store, &order).await, OrderState::Refunded);
    assert_sound(&store).await;
}

/// A refund whose credits are kept.
fn kept<'a>(id: &'a str, intent: &'a str, cents: i64) -> PaymentReversal<'a> {
    PaymentReversal { is_kept: true, ..refund(id, intent, cents) }
}

#[tokio::test]
async fn a_kept_refund_takes_and_grants_nothing_whatever_the_order_and_if_it_fails() {
    let store = testing::store().await;
    let (caller, order) = buyer(&store, "pi_1").await;

    let change = booked(&store, &kept("re_1", "pi_1", 333)).await;
    assert_eq!((change.taken, change.lots, change.is_news), (credits(0), vec![], true));
    assert_eq!(figures(&store, &caller).await, (100, 0));
    booked(&store, &refund("re_2", "pi_1", 666)).await;
    assert_eq!(figures(&store, &caller).await, (34, 0));
    assert_eq!(state_of(&store, &order).await, OrderState::Refunded, "all of the money went back");
    let sale = sale(&store, "pi_1").await.unwrap();
    assert_eq!((sale.left_cents, sale.granted, sale.taken), (0, credits(100), credits(66)));
    let failed = PaymentReversal { state: ReversalState::Undone, ..kept("re_1", "pi_1", 333) };
    assert_eq!(booked(&store, &failed).await.taken, credits(0));

    assert_eq!(figures(&store, &caller).await, (34, 0));
    assert_eq!(state_of(&store, &order).await, OrderState::Paid);
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_mark_that_was_read_last_decides_whether_credits_are_kept() {
    let store = testing::store().await;
    let (caller, _) = buyer(&store, "pi_1").await;
    let read = |is_kept: bool, second: i64| PaymentReversal {
        is_kept,
        read_at: NOON.plus_seconds(second),
        ..refund("re_1", "pi_1", 999)
    };

    booked(&store, &read(false, 0)).await;
    assert_eq!(figures(&store, &caller).await, (0, 0));
    let marked = booked(&store, &read(true, 10)).await;
    assert_eq!((marked.taken, marked.is_news), (credits(-100), false));
    // An event that was read before the mark comes later.
    let late = reversals::apply(&store, &read(false, 5), &|_| Vec::new()).await.unwrap();
    assert_eq!(late, ReversalEffect::Unchanged);
    assert_eq!(figures(&store, &caller).await, (100, 0));
    booked(&store, &read(false, 20)).await;

    assert_eq!(figures(&store, &caller).await, (0, 0));
    assert_sound(&store).await;
}

/// A credit note that names these cents of the month's plan, and others of nothing.
fn note(id: &str, (plan, other): (i64, i64), more: CreditNote) -> ReadNote {
    let pot = pot_of_period(PartKind::Plan, "sub_1", NOON.plus_seconds(30 * 86_400));
    let parts = if plan > 0 { vec![NotedPart { pot, cents: plan }] } else { vec![] };
    ReadNote { id: id.to_owned(), is_void: false, says: CreditNote { parts, other, ..more } }
}

fn of_refund(id: &str, cents: i64) -> CreditNote {
    let refunds = vec![RefundedMoney { id: id.to_owned(), cents }];
    CreditNote { refunds, ..CreditNote::default() }
}

#[tokio::test]
async fn credit_notes_divide_refunds_again_and_the_newest_reading_counts() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let mut sold = month(30_000, 4_900);
    sold.parts.push(SoldPart {
        kind: PartKind::Slot,
        money_cents: 6_000,
        credits: 0,
        ..sold.parts[0].clone()
    });
    payments::fulfil(&store, &invoice(&sold, ("in_1", "pi_1"), &payer, 10_900)).await.unwrap();
    let of = async |notes: &[ReadNote], second: i64| {
        let read = SaleNotes {
            entry: EntryId::new(NOON, unique()),
            sale: "in_1",
            notes,
            credit_cents: 0,
            read_at: NOON.plus_seconds(second),
            at: NOON.plus_seconds(second),
        };
        reversals::apply_notes(&store, &read, &|_| Vec::new()).await.unwrap()
    };
    booked(&store, &refund("re_1", "pi_1", 6_000)).await;
    assert_eq!(figures(&store, &caller).await, (30_000 - 16_512, 0));
    assert!(!slot_money_is_whole(&store).await, "a part of the slots' money went back");

    // A note for something else than the plan.
    let slots = pot_of_period(PartKind::Slot, "sub_1", NOON.plus_seconds(30 * 86_400));
    let mut for_slots = note("cn_1", (0, 0), of_refund("re_1", 6_000));
    for_slots.says.parts = vec![NotedPart { pot: slots, cents: 6_000 }];
    let change = match of(&[for_slots.clone()], 10).await {
        ReversalEffect::Booked(change) => *change,
        other => panic!("{other:?}"),
    };
    assert_eq!((change.taken, change.is_news), (credits(-16_512), false));
    assert_eq!(of(&[for_slots.clone()], 20).await, ReversalEffect::Unchanged);
    assert_eq!(figures(&store, &caller).await, (30_000, 0));
    // Half of the plan goes to the customer's balance.
    let credited = CreditNote { credited: 2_450, ..CreditNote::default() };
    of(&[for_slots.clone(), note("cn_2", (2_450, 0), credited)], 30).await;
    assert_eq!(figures(&store, &caller).await, (15_000, 0));
    assert_sound(&store).await;
    // Voided once, a note does not come back, also if an older reading arrives later.
    let void = ReadNote { is_void: true, ..for_slots.clone() };
    of(&[void], 40).await;
    let left = figures(&store, &caller).await;
    assert!(left.0 < 15_000, "{left:?}");
    assert_eq!(of(&[for_slots], 50).await, ReversalEffect::Unchanged);
    assert_eq!(figures(&store, &caller).await, left);
    assert_eq!(
        of(&[], 60).await,
        ReversalEffect::Unchanged,
        "a reading without notes changes nothing"
    );
    assert_sound(&store).await;
}

async fn slot_money_is_whole(store: &Store) -> bool {
    let end = NOON.plus_seconds(30 * 86_400);
    store::sales::slot_money_is_whole(store, "sub_1", end).await.unwrap()
}

#[tokio::test]
async fn slots_whose_money_a_note_returned_are_not_credited_again() {
    let store = testing::store().await;
    let (_, payer) = payer(&store).await;
    let mut sold = month(30_000, 4_900);
    sold.parts[0] = SoldPart { kind: PartKind::Slot, credits: 0, ..sold.parts[0].clone() };
    payments::fulfil(&store, &invoice(&sold, ("in_1", "pi_1"), &payer, 4_900)).await.unwrap();
    assert!(slot_money_is_whole(&store).await);
    let credited = CreditNote { credited: 100, ..CreditNote::default() };
    let notes = [note("cn_1", (0, 100), credited)];
    let read = SaleNotes {
        entry: EntryId::new(NOON, unique()),
        sale: "in_1",
        notes: &notes,
        credit_cents: 0,
        read_at: NOON,
        at: NOON,
    };

    reversals::apply_notes(&store, &read, &|_| Vec::new()).await.unwrap();

    assert!(!slot_money_is_whole(&store).await);
    let unknown = SaleNotes { sale: "in_2", ..read };
    let effect = reversals::apply_notes(&store, &unknown, &|_| Vec::new()).await.unwrap();
    assert_eq!(effect, ReversalEffect::Unchanged);
    assert_sound(&store).await;
}
