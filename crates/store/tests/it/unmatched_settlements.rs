//! Unmatched payments: counted, listed until they are settled, and settled by one decision.

use domain::payment::{Mismatch, ReversalState};
use domain::time::Timestamp;
use store::payments;
use store::unmatched::UnmatchedMoney;
use store::unmatched_settlements::{self, SettlementClaim, UnmatchedPayment, UnmatchedSettlement};
use store::{Store, reversals, testing, unmatched};

use crate::payments::{dispute, refund};
use crate::support::NOON;

async fn note(store: &Store, (object, reason): (&str, Mismatch), at: Timestamp) -> bool {
    let money = UnmatchedMoney { object, reason, details: "5 cents, not 7", at };
    payments::note_unmatched(store, &money).await.unwrap()
}

const fn decided<'a>(object: &'a str, decision: &'a str, at: Timestamp) -> UnmatchedSettlement<'a> {
    UnmatchedSettlement { object, decision, by: "ada", at }
}

async fn claim(
    store: &Store,
    settled: &UnmatchedSettlement<'_>,
    moves_money: bool,
) -> SettlementClaim {
    unmatched_settlements::claim(store, settled, moves_money).await.unwrap()
}

async fn find(store: &Store, object: &str) -> Vec<UnmatchedPayment> {
    unmatched_settlements::find(store, object).await.unwrap()
}

async fn objects(store: &Store, with_settled: bool, limit: i64) -> Vec<String> {
    let listed = unmatched_settlements::list(store, with_settled, limit).await.unwrap();
    listed.into_iter().map(|one| one.object).collect()
}

#[tokio::test]
async fn what_is_seen_again_is_counted_and_keeps_its_first_details() {
    let store = testing::store().await;
    let (object, later) = ("pi_'%_é", NOON.plus_seconds(60));

    assert!(note(&store, (object, Mismatch::OtherAmount), NOON).await);
    let again = UnmatchedMoney {
        object,
        reason: Mismatch::OtherAmount,
        details: "another text",
        at: later,
    };
    assert!(!payments::note_unmatched(&store, &again).await.unwrap());
    assert!(note(&store, (object, Mismatch::OtherCurrency), later).await);

    let found = find(&store, object).await;
    let shown: Vec<_> =
        found.iter().map(|one| (one.reason, one.times, one.first_at, one.last_at)).collect();
    assert_eq!(
        shown,
        [(Mismatch::OtherAmount, 2, NOON, later), (Mismatch::OtherCurrency, 1, later, later),]
    );
    assert_eq!(found[0].details, "5 cents, not 7");
    assert_eq!(find(&store, "pi_").await, []);
}

#[tokio::test]
async fn unmatched_payments_are_listed_newest_first_until_they_are_settled() {
    let store = testing::store().await;
    for (object, seconds) in [("pi_old", 0), ("pi_b", 5), ("pi_a", 5), ("pi_new", 9)] {
        note(&store, (object, Mismatch::OtherAmount), NOON.plus_seconds(seconds)).await;
    }
    // What is seen again stays in its place.
    note(&store, ("pi_old", Mismatch::OtherAmount), NOON.plus_seconds(99)).await;

    let settled = decided("pi_a", "ignored", NOON.plus_seconds(100));
    assert_eq!(claim(&store, &settled, false).await, SettlementClaim::Claimed);

    assert_eq!(objects(&store, false, 10).await, ["pi_new", "pi_b", "pi_old"]);
    assert_eq!(objects(&store, true, 10).await, ["pi_new", "pi_a", "pi_b", "pi_old"]);
    assert_eq!(objects(&store, true, 2).await, ["pi_new", "pi_a"]);
    assert_eq!(objects(&store, false, 2).await, ["pi_new", "pi_b"]);
    assert_eq!(objects(&store, true, 0).await, [""; 0]);
    let all = unmatched::list(&store, 10).await.unwrap();
    let counted: Vec<_> = all.iter().map(|one| (one.object.as_str(), one.times)).collect();
    assert_eq!(counted, [("pi_new", 1), ("pi_a", 1), ("pi_b", 1), ("pi_old", 2)]);
}

#[tokio::test]
async fn a_decision_settles_every_open_row_of_its_object_and_no_other() {
    let store = testing::store().await;
    for reason in [Mismatch::OtherAmount, Mismatch::OtherCurrency] {
        note(&store, ("pi_1", reason), NOON).await;
    }
    note(&store, ("pi_12", Mismatch::OtherAmount), NOON).await;
    let at = NOON.plus_seconds(60);

    let settled = UnmatchedSettlement { by: "grace", ..decided("pi_1", "refunded", at) };
    assert_eq!(claim(&store, &settled, true).await, SettlementClaim::Claimed);
    let later = decided("pi_1", "refunded", at.plus_seconds(60));
    assert_eq!(claim(&store, &later, true).await, SettlementClaim::Repeated);

    for one in find(&store, "pi_1").await {
        assert_eq!(one.settled_at, Some(at), "{:?}", one.reason);
        assert_eq!(one.settled_by.as_deref(), Some("grace"));
        assert_eq!(one.settlement.as_deref(), Some("refunded"));
    }
    assert_eq!(find(&store, "pi_12").await[0].settled_at, None);
}

#[tokio::test]
async fn a_decision_that_moves_money_never_follows_another_one() {
    let store = testing::store().await;
    let (ignored, granted) = (decided("pi_1", "ignored", NOON), decided("pi_1", "granted", NOON));
    note(&store, ("pi_1", Mismatch::OtherAmount), NOON).await;
    assert_eq!(claim(&store, &ignored, false).await, SettlementClaim::Claimed);
    let otherwise = SettlementClaim::Otherwise("ignored".to_owned());
    assert_eq!(claim(&store, &granted, true).await, otherwise);
    assert_eq!(claim(&store, &granted, false).await, otherwise);

    // The same object is reported for another reason, which is open.
    note(&store, ("pi_1", Mismatch::OtherCurrency), NOON).await;
    assert_eq!(claim(&store, &granted, true).await, otherwise);
    assert_eq!(objects(&store, false, 10).await, ["pi_1"], "the refused claim changed nothing");
    assert_eq!(
        claim(&store, &decided("pi_1", "kept", NOON), false).await,
        SettlementClaim::Claimed
    );

    let found = find(&store, "pi_1").await;
    let decisions: Vec<_> = found.iter().map(|one| one.settlement.as_deref().unwrap()).collect();
    assert_eq!(decisions, ["ignored", "kept"]);
}

#[tokio::test]
async fn of_concurrent_decisions_one_is_carried_out() {
    let store = testing::store().await;
    for reason in [Mismatch::OtherAmount, Mismatch::OtherCurrency] {
        note(&store, ("pi_1", reason), NOON).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..16 {
        let shared = (*store).clone();
        tasks.spawn(async move {
            let decision = if number % 2 == 0 { "granted" } else { "refunded" };
            (decision, claim(&shared, &decided("pi_1", decision, NOON), true).await)
        });
    }

    let claims = tasks.join_all().await;

    let claimed: Vec<_> =
        claims.iter().filter(|(_, claim)| *claim == SettlementClaim::Claimed).collect();
    assert_eq!(claimed.len(), 1, "{claims:?}");
    let winner = claimed[0].0;
    for (decision, claim) in &claims {
        if *decision != winner {
            assert_eq!(*claim, SettlementClaim::Otherwise(winner.to_owned()));
        }
    }
    let repeated = claims.iter().filter(|(_, claim)| *claim == SettlementClaim::Repeated);
    assert_eq!(repeated.count(), 7);
    assert!(find(&store, "pi_1").await.iter().all(|one| one.settlement.as_deref() == Some(winner)));
}

#[tokio::test]
async fn only_the_claim_that_was_not_carried_out_is_taken_back() {
    let store = testing::store().await;
    note(&store, ("pi_1", Mismatch::OtherAmount), NOON).await;
    let settled = decided("pi_1", "granted", NOON);
    assert_eq!(claim(&store, &settled, true).await, SettlementClaim::Claimed);

    for other in [
        UnmatchedSettlement { at: NOON.plus_micros(1), ..settled },
        UnmatchedSettlement { by: "grace", ..settled },
        UnmatchedSettlement { decision: "refunded", ..settled },
        UnmatchedSettlement { object: "pi_2", ..settled },
    ] {
        unmatched_settlements::reopen(&store, &other).await.unwrap();
        assert_eq!(objects(&store, false, 10).await, [""; 0], "{other:?}");
    }
    unmatched_settlements::reopen(&store, &settled).await.unwrap();

    assert_eq!(objects(&store, false, 10).await, ["pi_1"]);
    let other = decided("pi_1", "refunded", NOON.plus_seconds(1));
    assert_eq!(claim(&store, &other, true).await, SettlementClaim::Claimed);
    unmatched_settlements::reopen(&store, &settled).await.unwrap();
    assert_eq!(objects(&store, false, 10).await, [""; 0], "a later decision stands");
}

#[tokio::test]
async fn an_object_that_was_settled_before_it_is_reported_never_waits_for_a_decision() {
    let store = testing::store().await;
    let settled = decided("re_1", "refunded", NOON);
    unmatched_settlements::note_settled(&store, &settled).await.unwrap();
    assert_eq!(objects(&store, false, 10).await, [""; 0]);

    // The processor reports the refund that settled another payment.
    let effect = reversals::apply(&store, &refund("re_1", "pi_0", 5), &|_| Vec::new()).await;

    assert_eq!(effect.unwrap(), reversals::ReversalEffect::Unmatched { is_new: false });
    let found = find(&store, "re_1").await;
    assert_eq!((found.len(), found[0].times), (1, 2));
    assert_eq!((found[0].reason, found[0].settled_at), (Mismatch::UnknownPayment, Some(NOON)));
    assert_eq!(objects(&store, false, 10).await, [""; 0]);
    assert_eq!(objects(&store, true, 10).await, ["re_1"]);
}

#[tokio::test]
async fn noting_a_settled_object_settles_an_open_row_and_keeps_a_decision() {
    let store = testing::store().await;
    let standing = dispute("dp_1", "pi_0", ReversalState::Standing);
    reversals::apply(&store, &standing, &|_| Vec::new()).await.unwrap();
    assert_eq!(objects(&store, false, 10).await, ["dp_1"]);

    let first = decided("dp_1", "refunded", NOON.plus_seconds(1));
    unmatched_settlements::note_settled(&store, &first).await.unwrap();
    let second = UnmatchedSettlement { by: "grace", ..decided("dp_1", "kept", NOON) };
    unmatched_settlements::note_settled(&store, &second).await.unwrap();

    let found = find(&store, "dp_1").await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].settled_at, Some(NOON.plus_seconds(1)));
    assert_eq!(found[0].settled_by.as_deref(), Some("ada"));
    assert_eq!(found[0].settlement.as_deref(), Some("refunded"));
    assert_eq!(found[0].times, 1, "only what the processor reports is counted");
}
