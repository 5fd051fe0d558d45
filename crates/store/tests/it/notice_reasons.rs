//! Reasons for notices: exactly from their time on, once, and only for customers who want them.

use domain::export::ExportState;
use domain::id::EntryId;
use domain::notice::NoticeKind;
use domain::payment::OrderState;
use domain::time::Timestamp;
use store::cards::{self, SavedCard};
use store::ledger::{self, CreditGrant};
use store::notice_choices::NoticeChoice;
use store::notice_reasons::{self, AutomaticPayment, ExpiringCard};
use store::payments::{self, NewPayment};
use store::sent_notices::{self, NoticeReason};
use store::{Store, customers, lots, suspensions, testing};

use crate::customer_notices::{choose, email, spend};
use crate::exports::{claimed, created, published};
use crate::ledger::purchase;
use crate::payments::{invoice, month, ordered, paid, payer};
use crate::support::{NOON, TestCaller, credits, entry, grant, unique};
use crate::top_ups::{claim, state, wishing};

async fn told(store: &Store, caller: &TestCaller, kind: NoticeKind, subject: &str) {
    let subjects = [subject.to_owned()];
    let reason = NoticeReason { kind, customer: caller.customer, subjects: &subjects, at: NOON };
    assert!(sent_notices::send_once(store, &reason, &email()).await.unwrap());
}

async fn switch(store: &Store, caller: &TestCaller, kind: NoticeKind, is_on: bool) {
    choose(store, caller, NoticeChoice { kind, is_on, threshold: None }).await;
}

/// Grants credits that expire at this time.
async fn expiring(store: &Store, caller: &TestCaller, expires_at: Timestamp) {
    let entry = EntryId::new(NOON, unique());
    let source = entry.to_string();
    let grant = CreditGrant {
        entry,
        expires_at: Some(expires_at),
        at: NOON.plus_seconds(-60),
        ..purchase(caller, 5, &source)
    };
    ledger::grant(store, &grant).await.unwrap();
}

#[tokio::test]
async fn credits_are_a_reason_if_they_expire_after_now_and_not_after_the_end() {
    let store = testing::store().await;
    let until = NOON.plus_seconds(7 * 86_400);
    let mut expected = Vec::new();
    for (expires_at, is_reason) in
        [(NOON, false), (NOON.plus_micros(1), true), (until, true), (until.plus_micros(1), false)]
    {
        let caller = TestCaller::with(&store, 3).await;
        expiring(&store, &caller, expires_at).await;
        expected.extend(is_reason.then_some(caller.customer));
    }
    expected.sort();

    let found = notice_reasons::with_expiring_lots(&store, NOON, until).await.unwrap();

    assert_eq!(found, expected);
    let never = notice_reasons::with_expiring_lots(&store, until, NOON).await.unwrap();
    assert_eq!(never, []);
}

#[tokio::test]
async fn expiring_credits_are_a_reason_once_for_each_lot() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let until = NOON.plus_seconds(7 * 86_400);
    let found = async || notice_reasons::with_expiring_lots(&store, NOON, until).await.unwrap();
    expiring(&store, &caller, until).await;
    let lot = lots::list(&store, caller.customer, NOON).await.unwrap()[0].id.to_string();
    assert_eq!(found().await, [caller.customer]);
    told(&store, &caller, NoticeKind::ExpiringCredits, &lot).await;
    assert_eq!(found().await, []);

    expiring(&store, &caller, until).await;
    expiring(&store, &caller, until).await;
    assert_eq!(found().await, [caller.customer], "a customer is listed once");
    switch(&store, &caller, NoticeKind::ExpiringCredits, false).await;
    assert_eq!(found().await, []);
    switch(&store, &caller, NoticeKind::ExpiringCredits, true).await;
    spend(&store, &caller, 15).await;
    lots::settle(&store, caller.customer, EntryId::new(NOON, unique()), NOON).await.unwrap();

    assert_eq!(found().await, [], "nothing is left that could expire");
}

#[tokio::test]
async fn cards_expire_in_this_month_or_the_next_also_across_the_end_of_the_year() {
    let store = testing::store().await;
    let mut callers = Vec::new();
    for (exp_month, exp_year) in [(11, 2026), (12, 2026), (1, 2027), (2, 2027)] {
        let caller = TestCaller::with(&store, 0).await;
        let method = format!("pm_{exp_month}");
        let card = SavedCard { exp_month, exp_year, ..crate::processor::card(&method) };
        cards::save(&store, caller.customer, &card, NOON).await.unwrap();
        callers.push(caller);
    }
    let found = async |year: i64, month: i64| {
        let mut found = notice_reasons::expiring_cards(&store, year * 12 + month).await.unwrap();
        found.sort_by_key(|card| (card.exp_year, card.exp_month));
        found.into_iter().map(|card| (card.exp_month, card.exp_year)).collect::<Vec<_>>()
    };

    assert_eq!(found(2026, 10).await, [(11, 2026)]);
    assert_eq!(found(2026, 11).await, [(11, 2026), (12, 2026)]);
    assert_eq!(found(2026, 12).await, [(12, 2026), (1, 2027)]);
    assert_eq!(found(2027, 1).await, [(1, 2027), (2, 2027)]);
    assert_eq!(found(2027, 3).await, []);
    switch(&store, &callers[1], NoticeKind::ExpiringCard, false).await;
    assert_eq!(found(2026, 12).await, [(1, 2027)]);
}

#[tokio::test]
async fn a_card_is_told_about_again_only_with_another_expiry() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let card = SavedCard { exp_year: 2026, ..crate::processor::card("pm_1") };
    cards::save(&store, caller.customer, &card, NOON).await.unwrap();
    let found = async |month| notice_reasons::expiring_cards(&store, month).await.unwrap();
    let december = 2026 * 12 + 12;
    let expected = ExpiringCard {
        customer: caller.customer,
        subject: format!("pm_1:{december}"),
        brand: "visa".to_owned(),
        last4: "4242".to_owned(),
        exp_month: 12,
        exp_year: 2026,
    };
    assert_eq!(found(december).await, std::slice::from_ref(&expected));
    told(&store, &caller, NoticeKind::ExpiringCard, &expected.subject).await;
    assert_eq!(found(december).await, []);

    let renewed = SavedCard { exp_year: 2027, ..card };
    cards::save(&store, caller.customer, &renewed, NOON).await.unwrap();

    assert_eq!(found(december).await, []);
    let next = found(december + 12).await;
    assert_eq!(next.len(), 1);
    assert_eq!(next[0].subject, format!("pm_1:{}", december + 12));
}

#[tokio::test]
async fn payments_without_the_customer_at_a_page_are_told_from_their_time_on() {
    let store = testing::store().await;
    let (caller, payer) = payer(&store).await;
    let sold = month(30_000, 4_900);
    let late = NOON.plus_seconds(60);
    let bought = ordered(&store, &caller, &payer).await;
    payments::fulfil(&store, &paid(&bought, "pi_1")).await.unwrap();
    payments::fulfil(&store, &invoice(&sold, ("in_1", "pi_2"), &payer, 4_900)).await.unwrap();
    let free = NewPayment { at: late, ..invoice(&sold, ("in_2", "pi_3"), &payer, 0) };
    payments::fulfil(&store, &free).await.unwrap();
    let charged = wishing(&store, 1_000).await;
    let top_up = claim(&store, &charged, late).await;
    crate::top_ups::pay(&store, &top_up, late).await;
    assert_eq!(state(&store, &top_up).await.1, OrderState::Paid);
    let found = async |since| notice_reasons::automatic_payments(&store, since).await.unwrap();
    let of_month = AutomaticPayment {
        sale: "in_1".to_owned(),
        customer: caller.customer,
        amount_cents: 4_900,
        currency: "usd".to_owned(),
        credits: 30_000,
        is_top_up: false,
    };
    let of_top_up = AutomaticPayment {
        sale: format!("pi_{}", top_up.order),
        customer: charged.customer,
        amount_cents: 1_000,
        currency: "usd".to_owned(),
        credits: 10,
        is_top_up: true,
    };

    assert_eq!(found(NOON).await, [of_month, of_top_up.clone()]);
    assert_eq!(found(NOON.plus_micros(1)).await, std::slice::from_ref(&of_top_up));
    assert_eq!(found(late.plus_micros(1)).await, []);
    told(&store, &caller, NoticeKind::Payments, "in_1").await;
    assert_eq!(found(NOON).await, [of_top_up]);
    switch(&store, &charged, NoticeKind::Payments, false).await;
    assert_eq!(found(NOON).await, []);
}

#[tokio::test]
async fn finished_exports_are_told_only_on_request_and_from_their_time_on() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 100).await;
    let late = NOON.plus_seconds(30);
    let first = created(&store, &caller).await;
    let lease = claimed(&store, NOON).await.unwrap();
    assert!(published(&store, &lease, late).await);
    let waiting = created(&store, &caller).await;
    let found = async |since| {
        let found = notice_reasons::finished_exports(&store, since).await.unwrap();
        found.into_iter().map(|one| (one.export, one.state)).collect::<Vec<_>>()
    };
    assert_eq!(found(NOON).await, [], "nobody asked for it");

    switch(&store, &caller, NoticeKind::Exports, true).await;

    assert_eq!(found(late).await, [(first, ExportState::Completed)]);
    assert_eq!(found(late.plus_micros(1)).await, []);
    assert_ne!(first, waiting);
    told(&store, &caller, NoticeKind::Exports, &first.to_string()).await;
    assert_eq!(found(NOON).await, []);
    let cancelled = store::exports::cancel(&store, caller.customer, waiting, late).await.unwrap();
    assert_eq!(found(NOON).await, [], "the customer cancelled it: {cancelled:?}");
}

#[tokio::test]
async fn a_balance_is_low_below_the_customers_own_threshold() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 50).await, TestCaller::with(&store, 0).await);
    let low = async |owner: &TestCaller, threshold| {
        let threshold = credits(threshold);
        notice_reasons::low_balance_of(&store, owner.customer, threshold).await.unwrap()
    };

    assert_eq!((low(&caller, 50).await, low(&caller, 51).await), (None, Some(50)));
    assert_eq!((low(&other, 0).await, low(&other, 1).await), (None, Some(0)));
    let own =
        NoticeChoice { kind: NoticeKind::LowBalance, is_on: true, threshold: Some(credits(60)) };
    choose(&store, &caller, own).await;
    assert_eq!(low(&caller, 1).await, Some(50), "its own threshold decides");
    grant(&store, caller.customer, 10).await;
    assert_eq!(low(&caller, i64::MAX).await, None);
    let nobody = crate::support::new_customer("nobody@example.com").id;
    let unknown = notice_reasons::low_balance_of(&store, nobody, credits(1)).await.unwrap();
    assert_eq!(unknown, None);
}

#[tokio::test]
async fn customers_with_automatic_top_up_are_told_only_of_a_threshold_of_their_own() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    grant(&store, caller.customer, 20).await;
    spend(&store, &caller, 1).await;
    let low = async || {
        let found = notice_reasons::low_balances(&store, credits(50), NOON).await.unwrap();
        found.into_iter().map(|low| (low.customer, low.threshold.whole())).collect::<Vec<_>>()
    };
    assert_eq!(low().await, []);

    let own =
        NoticeChoice { kind: NoticeKind::LowBalance, is_on: true, threshold: Some(credits(20)) };
    choose(&store, &caller, own).await;
    assert_eq!(low().await, [(caller.customer, 20)]);

    let other = wishing(&store, 5_000).await;
    grant(&store, other.customer, 20).await;
    spend(&store, &other, 1).await;
    store::top_up_settings::turn_off(&store, other.customer, NOON).await.unwrap();
    let mut both = vec![(caller.customer, 20), (other.customer, 50)];
    both.sort();
    assert_eq!(low().await, both);
}

#[tokio::test]
async fn suspended_and_closed_customers_are_told_nothing() {
    let store = testing::store().await;
    let until = NOON.plus_seconds(86_400);
    let mut callers = Vec::new();
    for number in 0..2 {
        let (caller, payer) = payer(&store).await;
        expiring(&store, &caller, until).await;
        spend(&store, &caller, 1).await;
        let sold = month(0, 4_900);
        let (id, intent) = (format!("in_{number}"), format!("pi_{number}"));
        payments::fulfil(&store, &invoice(&sold, (&id, &intent), &payer, 4_900)).await.unwrap();
        let method = format!("pm_{number}");
        cards::save(&store, caller.customer, &crate::processor::card(&method), NOON).await.unwrap();
        callers.push(caller);
    }
    let counts = async || {
        let lots = notice_reasons::with_expiring_lots(&store, NOON, until).await.unwrap();
        let low = notice_reasons::low_balances(&store, credits(50), NOON).await.unwrap();
        let paid = notice_reasons::automatic_payments(&store, NOON).await.unwrap();
        let cards = notice_reasons::expiring_cards(&store, 2030 * 12 + 12).await.unwrap();
        [lots.len(), low.len(), paid.len(), cards.len()]
    };
    assert_eq!(counts().await, [2, 2, 2, 2]);

    let by = entry(callers[0].customer);
    suspensions::suspend(&store, "a test", &by).await.unwrap();
    assert_eq!(counts().await, [1, 1, 1, 1]);
    assert!(customers::disable(&store, callers[1].customer, NOON).await.unwrap());

    assert_eq!(counts().await, [0, 0, 0, 0]);
}

#[test]
fn a_full_page_of_reasons_may_have_left_some_out() {
    for (reasons, is_cut_off) in [(0, false), (999, false), (1_000, true), (1_001, true)] {
        assert_eq!(notice_reasons::is_cut_off(reasons), is_cut_off, "{reasons}");
    }
}
