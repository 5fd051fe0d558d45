//! Automatic top-up: never two open charges, never more than the daily cap, and an end to charging
//! a card that is declined.

use domain::charge::Outcome;
use domain::credits::Credits;
use domain::id::{EntryId, JobId, OrderId};
use domain::job::JobKind;
use domain::payment::{OrderState, ReversalKind, ReversalState};
use domain::time::Timestamp;
use domain::top_up::TopUpState;
use store::jobs::NewJob;
use store::orders;
use store::payments::{self, NewPayment, PaidFor, PaymentOutcome};
use store::top_up_settings::{self, TopUpRequest};
use store::top_ups::{
    self, SkipReason, TopUp, TopUpClaim, TopUpClaiming, TopUpFailure, TopUpFailureOutcome,
    TopUpOffer,
};
use store::{Store, cards, jobs, reversals, testing, verify};

use crate::payments::{payer, reversal};
use crate::support::{NOON, TestCaller, TestMetering, assert_sound, credits, is_held, unique};

pub(crate) const PACK: TopUpOffer<'static> =
    TopUpOffer { pack_id: "pack_10", credits: Credits::from_whole(10), price_cents: 1_000 };

fn card(id: &str) -> cards::SavedCard {
    cards::SavedCard {
        payment_method: id.to_owned(),
        brand: "visa".to_owned(),
        last4: "4242".to_owned(),
        exp_month: 12,
        exp_year: 2030,
        fingerprint: None,
    }
}

/// A customer with a card, a threshold of 100 credits, the pack of 10 dollars, and this daily cap.
pub(crate) async fn wishing(store: &Store, daily_cap_cents: i64) -> TestCaller {
    let (caller, _) = payer(store).await;
    let name = format!("pm_{}", caller.customer);
    cards::save(store, caller.customer, &card(&name), NOON).await.unwrap();
    assert!(turn_on(store, &caller, daily_cap_cents, NOON).await);
    caller
}

pub(crate) async fn turn_on(
    store: &Store,
    caller: &TestCaller,
    daily_cap_cents: i64,
    at: Timestamp,
) -> bool {
    let wish = TopUpRequest {
        customer: caller.customer,
        threshold: credits(100),
        pack_id: PACK.pack_id,
        daily_cap_cents,
        at,
    };
    top_up_settings::turn_on(store, &wish).await.unwrap()
}

pub(crate) async fn try_claim(store: &Store, caller: &TestCaller, at: Timestamp) -> TopUpClaiming {
    let claim = TopUpClaim {
        customer: caller.customer,
        order: OrderId::new(at, unique()),
        offers: &[PACK],
        currency: "usd",
        livemode: false,
        at,
        leased_until: at.plus_seconds(60),
    };
    top_ups::claim(store, &claim).await.unwrap()
}

pub(crate) async fn claim(store: &Store, caller: &TestCaller, at: Timestamp) -> TopUp {
    match try_claim(store, caller, at).await {
        TopUpClaiming::Claimed(top_up) => *top_up,
        hindered @ TopUpClaiming::Hindered(_) => panic!("{hindered:?}"),
    }
}

pub(crate) async fn skip_reason(store: &Store, caller: &TestCaller, at: Timestamp) -> SkipReason {
    match try_claim(store, caller, at).await {
        TopUpClaiming::Hindered(skip_reason) => skip_reason,
        claimed @ TopUpClaiming::Claimed(_) => panic!("{claimed:?}"),
    }
}

pub(crate) async fn pay(store: &Store, top_up: &TopUp, at: Timestamp) -> PaymentOutcome {
    let intent = format!("pi_{}", top_up.order);
    let paid = NewPayment {
        entry: EntryId::new(at, unique()),
        what: PaidFor::Order { id: top_up.order, subtotal_cents: top_up.cents, expires_at: None },
        payment: &intent,
        intent: Some(&intent),
        processor_customer: Some(&top_up.processor_customer),
        amount_cents: top_up.cents,
        tax_cents: 0,
        currency: &top_up.currency,
        livemode: false,
        at,
    };
    payments::fulfil(store, &paid).await.unwrap()
}

pub(crate) fn letter(at: Timestamp) -> NewJob {
    NewJob {
        id: JobId::new(at, unique()),
        kind: JobKind::SendMail,
        payload: "{}".to_owned(),
        created_at: at,
    }
}

pub(crate) async fn decline(store: &Store, top_up: &TopUp, at: Timestamp) -> TopUpFailureOutcome {
    let letter = letter(at);
    let failure =
        TopUpFailure { reason: "generic_decline", is_decline: true, letter: Some(&letter), at };
    top_ups::fail(store, top_up.order, &failure).await.unwrap()
}

pub(crate) async fn state(store: &Store, top_up: &TopUp) -> (TopUpState, OrderState) {
    let now = top_ups::find(store, top_up.order).await.unwrap().unwrap();
    let order = orders::find(store, top_up.customer, top_up.order).await.unwrap().unwrap();
    (now.state, order.state)
}

pub(crate) fn hours(count: i64) -> Timestamp {
    NOON.plus_seconds(count * 3_600)
}

/// Claims and pays until the cap is reached, and returns the number of charges.
async fn charge_until_capped(store: &Store, caller: &TestCaller) -> i64 {
    let mut charged = 0;
    loop {
        match try_claim(store, caller, NOON).await {
            TopUpClaiming::Claimed(top_up) => {
                let open = top_ups::find_open(store, caller.customer).await.unwrap();
                assert_eq!(open.map(|open| open.order), Some(top_up.order));
                let paid = pay(store, &top_up, NOON).await;
                assert!(matches!(paid, PaymentOutcome::Granted(_)), "{paid:?}");
                charged += 1;
            }
            TopUpClaiming::Hindered(SkipReason::Open) => tokio::task::yield_now().await,
            TopUpClaiming::Hindered(skip_reason) => {
                assert_eq!(skip_reason, SkipReason::Capped);
                return charged;
            }
        }
    }
}

#[tokio::test]
async fn concurrent_claims_stay_within_the_cap_with_one_open_charge() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;

    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..36 {
        let (store, caller) = ((*store).clone(), caller.clone());
        workers.spawn(async move { charge_until_capped(&store, &caller).await });
    }
    let charged: i64 = workers.join_all().await.into_iter().sum();

    // One charge, for as many packs as the cap allows.
    assert_eq!(charged, 1);
    assert_eq!(caller.balance(&store).await.available, credits(50));
    let spent = top_ups::spent_on(&store, caller.customer, NOON.day()).await.unwrap();
    assert_eq!(spent, 5_000);
    assert_sound(&store).await;
}

#[tokio::test]
async fn three_declines_in_a_day_turn_it_off() {
    let store = testing::store().await;
    let caller = wishing(&store, 100_000).await;
    let mut attempts = Vec::new();

    for minute in (0..24 * 60).step_by(5) {
        let now = NOON.plus_seconds(minute * 60);
        if let TopUpClaiming::Claimed(top_up) = try_claim(&store, &caller, now).await {
            let failed = decline(&store, &top_up, now).await;
            attempts.push((minute, failed));
        }
    }

    let expected = [
        (0, TopUpFailureOutcome::Later),
        (60, TopUpFailureOutcome::Later),
        (7 * 60, TopUpFailureOutcome::TurnedOff),
    ];
    assert_eq!(attempts, expected);
    let settings = top_up_settings::find(&store, caller.customer).await.unwrap().unwrap();
    assert_eq!((settings.enabled, settings.stopped_reason.as_deref()), (false, Some("declined")));
    assert_eq!(jobs::count(&store).await.unwrap().waiting, 1, "one email is sent");
    assert_sound(&store).await;
}

#[tokio::test]
async fn turning_it_on_again_allows_four_failures_a_day() {
    let store = testing::store().await;
    let caller = wishing(&store, 100_000).await;
    let mut attempts = 0;

    for minute in (0..24 * 60).step_by(5) {
        let now = NOON.plus_seconds(minute * 60);
        assert!(turn_on(&store, &caller, 100_000, now).await);
        if let TopUpClaiming::Claimed(top_up) = try_claim(&store, &caller, now).await {
            decline(&store, &top_up, now).await;
            attempts += 1;
        }
    }

    assert_eq!(attempts, 4);
    assert_eq!(
        skip_reason(&store, &caller, hours(24).plus_seconds(-1)).await,
        SkipReason::TooManyFailures
    );
    claim(&store, &caller, hours(25)).await;
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_success_resets_the_count_of_declines() {
    let store = testing::store().await;
    // The cap allows one pack a day.
    let caller = wishing(&store, 1_000).await;
    for (hour, succeeds) in [(0, false), (1, false), (7, true), (30, false), (31, false)] {
        let top_up = claim(&store, &caller, hours(hour)).await;
        if succeeds {
            pay(&store, &top_up, hours(hour)).await;
        } else {
            assert_eq!(decline(&store, &top_up, hours(hour)).await, TopUpFailureOutcome::Later);
        }
    }

    let settings = top_up_settings::find(&store, caller.customer).await.unwrap().unwrap();

    assert_eq!((settings.enabled, settings.declines_in_row), (true, 2));
    assert_sound(&store).await;
}

#[tokio::test]
async fn failed_charges_do_not_count_towards_the_cap_and_waiting_ones_do() {
    let store = testing::store().await;
    let caller = wishing(&store, 1_000).await;
    let failed = claim(&store, &caller, NOON).await;
    decline(&store, &failed, NOON).await;

    let waiting = claim(&store, &caller, hours(1)).await;
    let letter = letter(NOON);
    let told = top_ups::wait_for_customer(&store, waiting.order, "pi_1", &letter).await;
    assert!(told.unwrap());
    assert_eq!(skip_reason(&store, &caller, hours(2)).await, SkipReason::Open);
    let again = top_ups::wait_for_customer(&store, waiting.order, "pi_1", &letter).await;
    assert!(!again.unwrap(), "only one email is sent");
    let spent = top_ups::spent_on(&store, caller.customer, NOON.day()).await.unwrap();
    assert_eq!(spent, 1_000);

    // The customer authenticates: it is the same payment, however it is reported.
    let paid = pay(&store, &waiting, hours(3)).await;

    assert!(matches!(paid, PaymentOutcome::Granted(_)), "{paid:?}");
    assert_eq!(state(&store, &waiting).await, (TopUpState::Succeeded, OrderState::Paid));
    assert_eq!(skip_reason(&store, &caller, hours(4)).await, SkipReason::Capped);
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_cap_applies_to_the_utc_day_of_the_claim() {
    let midnight = Timestamp::from_rfc3339("2026-11-22T00:00:00Z").unwrap();
    let store = testing::store().await;
    let caller = wishing(&store, 1_000).await;
    let late = claim(&store, &caller, midnight.plus_seconds(-1)).await;

    assert_eq!(skip_reason(&store, &caller, midnight).await, SkipReason::Open);
    pay(&store, &late, midnight).await;
    let next = claim(&store, &caller, midnight).await;

    assert_ne!(late.order, next.order);
    assert_eq!(skip_reason(&store, &caller, midnight).await, SkipReason::Open);
    pay(&store, &next, midnight).await;
    assert_eq!(skip_reason(&store, &caller, midnight).await, SkipReason::Capped);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_lower_cap_applies_to_the_next_charge() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    let open = claim(&store, &caller, NOON).await;

    assert!(turn_on(&store, &caller, 1_500, NOON).await);
    let paid = pay(&store, &open, NOON).await;

    assert!(matches!(paid, PaymentOutcome::Granted(_)), "{paid:?}");
    assert_eq!(skip_reason(&store, &caller, NOON).await, SkipReason::Capped);
    assert_sound(&store).await;
}

#[tokio::test]
async fn removing_the_card_turns_it_off_but_keeps_the_open_charge() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    let open = claim(&store, &caller, NOON).await;

    assert!(cards::remove(&store, caller.customer, NOON).await.unwrap());

    let settings = top_up_settings::find(&store, caller.customer).await.unwrap().unwrap();
    assert_eq!(
        (settings.enabled, settings.stopped_reason.as_deref()),
        (false, Some("card_removed"))
    );
    assert!(!turn_on(&store, &caller, 5_000, NOON).await, "there is no card to charge");
    let paid = pay(&store, &open, NOON).await;
    assert!(matches!(paid, PaymentOutcome::Granted(_)), "{paid:?}");
    assert_eq!(skip_reason(&store, &caller, NOON).await, SkipReason::Off);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_dispute_turns_it_off() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    let top_up = claim(&store, &caller, NOON).await;
    pay(&store, &top_up, NOON).await;
    let intent = format!("pi_{}", top_up.order);

    let dispute =
        reversal(ReversalKind::Dispute, ("dp_1", &intent), 1_000, ReversalState::Standing);
    reversals::apply(&store, &dispute, &|_| Vec::new()).await.unwrap();

    let settings = top_up_settings::find(&store, caller.customer).await.unwrap().unwrap();
    assert_eq!((settings.enabled, settings.stopped_reason.as_deref()), (false, Some("dispute")));
    assert_sound(&store).await;
}

/// What is held comes back if the platform does not answer.
#[tokio::test]
async fn held_credits_do_not_lead_to_a_charge_until_they_are_spent() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    let missing = 150 - caller.balance(&store).await.available.whole();
    crate::support::grant(&store, caller.customer, missing).await;
    let metering = TestMetering::start(&store).await;
    let hold = caller.hold(60);
    assert!(is_held(&metering.hold(hold.clone()).await));
    let due = async || top_up_settings::list_due(&store, NOON, 10).await.unwrap();

    assert_eq!(skip_reason(&store, &caller, NOON).await, SkipReason::Enough);
    assert_eq!(due().await, []);
    assert!(metering.end(hold.call_id, Outcome::Answered).await);

    assert_eq!(due().await, [caller.customer]);
    assert_eq!(claim(&store, &caller, NOON).await.cents, 1_000);
}

#[tokio::test]
async fn an_abandoned_charge_is_taken_over_once() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    let left = claim(&store, &caller, NOON).await;
    let (early, late) = (NOON.plus_seconds(59), NOON.plus_seconds(60));
    testing::take_over(&store, early).await.unwrap();
    assert!(top_ups::list_left(&store, late, 10).await.unwrap().is_empty());
    testing::take_over(&store, late).await.unwrap();

    let found = top_ups::list_left(&store, late, 10).await.unwrap();

    assert_eq!(found, std::slice::from_ref(&left));
    let until = late.plus_seconds(60);
    assert!(top_ups::take_over(&store, &left, until).await.unwrap());
    assert!(!top_ups::take_over(&store, &left, until).await.unwrap(), "another node did");
    assert!(
        top_up_settings::list_due(&store, late, 10).await.unwrap().is_empty(),
        "one charge is open"
    );
}

#[tokio::test]
async fn a_failure_counts_once_and_late_payments_are_granted() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    let top_up = claim(&store, &caller, NOON).await;
    assert_eq!(decline(&store, &top_up, NOON).await, TopUpFailureOutcome::Later);
    assert_eq!(decline(&store, &top_up, NOON).await, TopUpFailureOutcome::Ended);
    let settings = top_up_settings::find(&store, caller.customer).await.unwrap().unwrap();
    assert_eq!(settings.declines_in_row, 1);

    let paid = pay(&store, &top_up, hours(1)).await;

    assert!(matches!(paid, PaymentOutcome::Granted(_)), "{paid:?}");
    assert_eq!(state(&store, &top_up).await, (TopUpState::Succeeded, OrderState::Paid));
    assert_eq!(decline(&store, &top_up, hours(2)).await, TopUpFailureOutcome::Ended);
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_top_ups_order_cannot_be_closed_separately() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    let top_up = claim(&store, &caller, NOON).await;

    let closed = orders::close(&store, top_up.order, OrderState::Failed, None, NOON).await;

    assert!(!closed.unwrap());
    assert_eq!(state(&store, &top_up).await, (TopUpState::Claimed, OrderState::Pending));
}

#[tokio::test]
async fn customers_with_enough_credits_or_top_up_off_or_closed_are_not_charged() {
    let store = testing::store().await;
    let caller = wishing(&store, 5_000).await;
    crate::support::grant(&store, caller.customer, 100).await;
    assert_eq!(skip_reason(&store, &caller, NOON).await, SkipReason::Enough);
    assert!(top_up_settings::list_due(&store, NOON, 10).await.unwrap().is_empty());

    let poor = wishing(&store, 999).await;
    assert_eq!(top_up_settings::list_due(&store, NOON, 10).await.unwrap(), [poor.customer]);
    assert_eq!(skip_reason(&store, &poor, NOON).await, SkipReason::Capped);
    top_up_settings::turn_off(&store, poor.customer, NOON).await.unwrap();
    assert_eq!(skip_reason(&store, &poor, NOON).await, SkipReason::Off);

    let closed = wishing(&store, 5_000).await;
    store::customers::disable(&store, closed.customer, NOON).await.unwrap();
    assert_eq!(skip_reason(&store, &closed, NOON).await, SkipReason::Off);
}

#[tokio::test]
async fn violated_top_up_rules_are_detected() {
    let store = testing::store().await;
    let caller = wishing(&store, 1_000).await;
    let top_up = claim(&store, &caller, NOON).await;
    pay(&store, &top_up, NOON).await;
    assert_sound(&store).await;

    testing::run_raw(&store, "update top_ups set cap_cents = 999").await.unwrap();
    testing::run_raw(&store, "update top_ups set cents = 1001").await.unwrap();

    let found = verify::check(&store, NOON).await.unwrap();
    let rules: Vec<&str> = found.iter().map(|violation| violation.rule).collect();
    assert_eq!(
        rules,
        [
            "the top-ups of a customer's day stay within the cap that each was claimed under",
            "a top-up has the same outcome and price as its order",
        ]
    );
}

#[tokio::test]
async fn charges_waiting_for_their_customer_are_listed_by_age() {
    let store = testing::store().await;
    let (waiting, claimed) = (wishing(&store, 1_000).await, wishing(&store, 1_000).await);
    let TopUpClaiming::Claimed(top_up) = try_claim(&store, &waiting, NOON).await else {
        panic!("there is no reason to skip it");
    };
    assert!(matches!(try_claim(&store, &claimed, NOON).await, TopUpClaiming::Claimed(_)));
    let mail = letter(NOON);
    assert!(top_ups::wait_for_customer(&store, top_up.order, "pi_w", &mail).await.unwrap());
    let listed = async |before: Timestamp, limit: i64| {
        let found = top_ups::list_waiting(&store, before, limit).await.unwrap();
        found.iter().map(|one| one.order).collect::<Vec<_>>()
    };

    assert_eq!(listed(NOON, 10).await, []);
    assert_eq!(listed(hours(1), 10).await, [top_up.order]);
    assert_eq!(listed(hours(1), 0).await, []);
    assert_sound(&store).await;
}
