//! Automatic top-up: how many packs are bought, who is due, and what stops a charge.

use domain::credits::Credits;
use domain::id::OrderId;
use domain::payment::OrderState;
use domain::time::Timestamp;
use domain::top_up::TopUpState;
use store::top_up_settings::{self, TopUpRequest, TopUpThreshold};
use store::top_ups::{
    self, SkipReason, TopUpClaim, TopUpClaiming, TopUpFailure, TopUpFailureOutcome, TopUpOffer,
};
use store::{Store, cards, ledger, orders, processor_customers, testing};

use crate::ledger::purchase;
use crate::processor::card;
use crate::support::{NOON, TestCaller, assert_sound, credits, grant, unique};
use crate::top_ups::{PACK, claim, decline, hours, letter, pay, skip_reason, state, wishing};

/// A customer with a threshold of 100 credits and this daily cap, who has these credits.
async fn having(store: &Store, available: i64, daily_cap_cents: i64) -> TestCaller {
    let caller = wishing(store, daily_cap_cents).await;
    if available > 0 {
        grant(store, caller.customer, available).await;
    }
    caller
}

async fn claim_of(store: &Store, caller: &TestCaller, offers: &[TopUpOffer<'_>]) -> TopUpClaiming {
    let claim = TopUpClaim {
        customer: caller.customer,
        order: OrderId::new(NOON, unique()),
        offers,
        currency: "usd",
        livemode: false,
        at: NOON,
        leased_until: NOON.plus_seconds(60),
    };
    top_ups::claim(store, &claim).await.unwrap()
}

/// How many packs a customer with these credits buys of this offer.
async fn bought(store: &Store, caller: &TestCaller, offer: TopUpOffer<'_>) -> i64 {
    let claimed = match claim_of(store, caller, &[offer]).await {
        TopUpClaiming::Claimed(top_up) => *top_up,
        TopUpClaiming::Hindered(reason) => panic!("{reason:?}"),
    };
    let order = orders::find(store, caller.customer, claimed.order).await.unwrap().unwrap();
    assert_eq!(order.credits.whole(), offer.credits.whole() * order.packs);
    assert_eq!(order.amount_cents, offer.price_cents * order.packs);
    assert_eq!(claimed.cents, order.amount_cents);
    order.packs
}

#[tokio::test]
async fn as_many_packs_are_bought_as_reach_the_threshold_within_the_cap() {
    let store = testing::store().await;
    for (available, cap_cents, expected) in [
        (0, 100_000, 10),
        (1, 100_000, 10),
        (9, 100_000, 10),
        (10, 100_000, 9),
        (90, 100_000, 1),
        (99, 100_000, 1),
        (0, 9_999, 9),
        (0, 1_000, 1),
        (95, 1_999, 1),
    ] {
        let caller = having(&store, available, cap_cents).await;
        let packs = bought(&store, &caller, PACK).await;
        assert_eq!(packs, expected, "{available} credits, {cap_cents} cents");
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_debt_is_covered_by_the_charge_too() {
    let store = testing::store().await;
    let caller = having(&store, 20, 100_000).await;
    let metering = crate::support::TestMetering::start(&store).await;
    let hold = caller.hold(20);
    assert!(crate::support::is_held(&metering.hold(hold.clone()).await));
    assert!(metering.end(hold.call_id, domain::charge::Outcome::Answered).await);
    metering.stop().await;
    ledger::remove(&store, &purchase(&caller, 15, "re_1")).await.unwrap();
    assert_eq!(caller.balance(&store).await.debt, credits(15));

    // 100 are missing and 15 are owed.
    assert_eq!(bought(&store, &caller, PACK).await, 12);
    assert_sound(&store).await;
}

#[tokio::test]
async fn exactly_the_threshold_is_enough() {
    let store = testing::store().await;
    let (enough, low) = (having(&store, 100, 5_000).await, having(&store, 99, 5_000).await);

    assert_eq!(skip_reason(&store, &enough, NOON).await, SkipReason::Enough);
    assert_eq!(top_up_settings::list_due(&store, NOON, 10).await.unwrap(), [low.customer]);
    claim(&store, &low, NOON).await;
    assert_eq!(top_up_settings::list_due(&store, NOON, 10).await.unwrap(), []);
}

#[tokio::test]
async fn only_packs_on_sale_are_bought_by_customers_who_can_pay() {
    let store = testing::store().await;
    let caller = having(&store, 0, 5_000).await;
    let other = TopUpOffer { pack_id: "pack_20", ..PACK };
    let hindered = TopUpClaiming::Hindered;
    assert_eq!(claim_of(&store, &caller, &[]).await, hindered(SkipReason::NoPack));
    assert_eq!(claim_of(&store, &caller, &[other]).await, hindered(SkipReason::NoPack));
    let expensive = TopUpOffer { price_cents: 5_001, ..PACK };
    assert_eq!(claim_of(&store, &caller, &[expensive]).await, hindered(SkipReason::Capped));

    let name = crate::payments::processor_name(&caller);
    assert!(processor_customers::unlink(&store, &name, NOON).await.unwrap());
    cards::save(&store, caller.customer, &card("pm_2"), NOON).await.unwrap();
    let wish = TopUpRequest {
        customer: caller.customer,
        threshold: credits(100),
        pack_id: PACK.pack_id,
        daily_cap_cents: 5_000,
        at: NOON,
    };
    assert!(top_up_settings::turn_on(&store, &wish).await.unwrap());
    assert_eq!(
        claim_of(&store, &caller, &[PACK]).await,
        hindered(SkipReason::NoCard),
        "the card belongs to a deleted payer"
    );

    let nobody =
        TestCaller { customer: crate::support::new_customer("x@example.com").id, ..caller };
    assert_eq!(claim_of(&store, &nobody, &[PACK]).await, hindered(SkipReason::Off));
}

#[tokio::test]
async fn nothing_is_charged_before_the_pause_after_a_decline_ends() {
    let store = testing::store().await;
    let caller = having(&store, 0, 50_000).await;
    let declined = claim(&store, &caller, NOON).await;
    decline(&store, &declined, NOON).await;
    let due = async |at: Timestamp| top_up_settings::list_due(&store, at, 10).await.unwrap();
    let end = hours(1);

    assert_eq!(skip_reason(&store, &caller, end.plus_micros(-1)).await, SkipReason::TooEarly);
    assert_eq!(due(end.plus_micros(-1)).await, []);
    assert_eq!(due(end).await, [caller.customer]);
    claim(&store, &caller, end).await;
}

#[tokio::test]
async fn a_failure_that_is_no_decline_neither_delays_nor_counts_as_one() {
    let store = testing::store().await;
    let caller = having(&store, 0, 50_000).await;
    for number in 1..=4 {
        let top_up = claim(&store, &caller, NOON).await;
        let failure =
            TopUpFailure { reason: "processing_error", is_decline: false, letter: None, at: NOON };
        let ended = top_ups::fail(&store, top_up.order, &failure).await.unwrap();
        assert_eq!(ended, TopUpFailureOutcome::Later, "failure {number}");
        assert_eq!(state(&store, &top_up).await, (TopUpState::Failed, OrderState::Failed));
        let stored = top_ups::find(&store, top_up.order).await.unwrap().unwrap();
        assert_eq!(stored.failure.as_deref(), Some("processing_error"));
    }

    let settings = top_up_settings::find(&store, caller.customer).await.unwrap().unwrap();
    assert_eq!((settings.enabled, settings.declines_in_row), (true, 0));
    // Each day has a limit all the same.
    assert_eq!(skip_reason(&store, &caller, NOON).await, SkipReason::TooManyFailures);
    let next_day = hours(24);
    assert_eq!(
        skip_reason(&store, &caller, next_day.plus_micros(-1)).await,
        SkipReason::TooManyFailures
    );
    claim(&store, &caller, next_day).await;
    assert_sound(&store).await;
}

#[tokio::test]
async fn customers_are_due_in_the_order_of_their_next_attempts() {
    let store = testing::store().await;
    let mut expected = Vec::new();
    for seconds in [30, 10, 20] {
        let caller = having(&store, 0, 5_000).await;
        let at = NOON.plus_seconds(seconds);
        assert!(crate::top_ups::turn_on(&store, &caller, 5_000, at).await);
        expected.push((seconds, caller.customer));
    }
    expected.sort_by_key(|(seconds, _)| *seconds);
    let expected: Vec<_> = expected.into_iter().map(|(_, customer)| customer).collect();
    let due = async |seconds: i64, limit: i64| {
        top_up_settings::list_due(&store, NOON.plus_seconds(seconds), limit).await.unwrap()
    };

    assert_eq!(due(30, 10).await, expected);
    assert_eq!(due(30, 2).await, expected[..2]);
    assert_eq!(due(29, 10).await, expected[..2]);
    assert_eq!(due(9, 10).await, []);
    assert_eq!(due(30, 0).await, []);
}

#[tokio::test]
async fn thresholds_are_listed_while_top_up_is_on() {
    let store = testing::store().await;
    let (one, other) = (having(&store, 0, 5_000).await, having(&store, 0, 5_000).await);
    let largest = TopUpRequest {
        customer: other.customer,
        threshold: credits(i64::MAX),
        pack_id: PACK.pack_id,
        daily_cap_cents: i64::MAX,
        at: NOON,
    };
    assert!(top_up_settings::turn_on(&store, &largest).await.unwrap());
    let threshold = |caller: &TestCaller, threshold: Credits| TopUpThreshold {
        customer: caller.customer,
        threshold,
    };

    let mut both = top_up_settings::list_thresholds(&store).await.unwrap();
    both.sort_by_key(|found| found.threshold.whole());
    assert_eq!(both, [threshold(&one, credits(100)), threshold(&other, credits(i64::MAX))]);
    top_up_settings::turn_off(&store, other.customer, NOON).await.unwrap();

    let rest = top_up_settings::list_thresholds(&store).await.unwrap();
    assert_eq!(rest, [threshold(&one, credits(100))]);
    let settings = top_up_settings::find(&store, other.customer).await.unwrap().unwrap();
    assert_eq!((settings.enabled, settings.stopped_reason), (false, None));
}

#[tokio::test]
async fn a_charges_intent_is_kept_with_its_order_until_it_ends() {
    let store = testing::store().await;
    let caller = having(&store, 0, 5_000).await;
    let top_up = claim(&store, &caller, NOON).await;
    assert_eq!(top_up.intent, None);
    let intents = async || {
        let charge = top_ups::find(&store, top_up.order).await.unwrap().unwrap();
        let order = orders::find_any(&store, top_up.order).await.unwrap().unwrap();
        (charge.intent, order.payment)
    };
    let both = |intent: &str| (Some(intent.to_owned()), Some(intent.to_owned()));

    top_ups::note_intent(&store, top_up.order, "pi_a").await.unwrap();
    assert_eq!(intents().await, both("pi_a"));
    let mail = letter(NOON);
    assert!(top_ups::wait_for_customer(&store, top_up.order, "pi_b", &mail).await.unwrap());
    assert_eq!(intents().await, both("pi_b"));
    let intent = format!("pi_{}", top_up.order);
    pay(&store, &top_up, NOON).await;
    assert_eq!(intents().await, both(&intent));
    top_ups::note_intent(&store, top_up.order, "pi_late").await.unwrap();

    assert_eq!(intents().await, both(&intent));
    assert_eq!(top_ups::find_open(&store, caller.customer).await.unwrap(), None);
    assert_sound(&store).await;
}

#[tokio::test]
async fn abandoned_charges_are_listed_from_the_end_of_their_claim_the_oldest_first() {
    let store = testing::store().await;
    let mut expected = Vec::new();
    for seconds in [0, 10, 20] {
        let caller = having(&store, 0, 5_000).await;
        let top_up = claim(&store, &caller, NOON.plus_seconds(seconds)).await;
        expected.push(top_up.order);
    }
    let left = async |seconds: i64, limit: i64| {
        let found = top_ups::list_left(&store, NOON.plus_seconds(seconds), limit).await.unwrap();
        found.into_iter().map(|one| one.order).collect::<Vec<_>>()
    };

    assert_eq!(left(59, 10).await, []);
    assert_eq!(left(80, 10).await, [], "the time alone ends no lease");
    top_ups::release(&store, expected[0]).await.unwrap();
    assert_eq!(left(59, 10).await, [], "it was released before its time");
    testing::take_over(&store, NOON.plus_seconds(80)).await.unwrap();
    assert_eq!(left(60, 10).await, expected[..1]);
    assert_eq!(left(80, 10).await, expected);
    assert_eq!(left(80, 2).await, expected[..2]);
    let waiting = letter(NOON);
    assert!(top_ups::wait_for_customer(&store, expected[0], "pi_1", &waiting).await.unwrap());
    assert_eq!(left(80, 10).await, expected[1..]);
}
