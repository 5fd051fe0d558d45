//! Suspended and erased customers: what each outcome changes, and what the database refuses.

use domain::customer::CustomerState;
use store::erasure::{self, ErasureMode, ErasureObstacle, ErasureOutcome};
use store::metering::HoldOutcome;
use store::suspensions::{self, SuspensionOutcome};
use store::{audit, testing};

use crate::support::{TestCaller, TestMetering, assert_sound, entry, is_held};

fn no_jobs(_: &[String]) -> Vec<store::jobs::NewJob> {
    Vec::new()
}

#[tokio::test]
async fn a_suspended_customer_holds_nothing_until_it_is_resumed() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let metering = TestMetering::start(&store).await;
    let by = || entry(caller.customer);

    let suspended = suspensions::suspend(&store, "a test", &by()).await.unwrap();
    let again = suspensions::suspend(&store, "another", &by()).await.unwrap();
    let refused = metering.hold(caller.hold(1)).await;
    let standing = suspensions::find(&store, caller.customer).await.unwrap().unwrap();
    let resumed = suspensions::resume(&store, &by()).await.unwrap();
    let twice = suspensions::resume(&store, &by()).await.unwrap();

    assert_eq!(
        [suspended, again, resumed, twice],
        [
            SuspensionOutcome::Changed,
            SuspensionOutcome::Repeated,
            SuspensionOutcome::Changed,
            SuspensionOutcome::Repeated,
        ]
    );
    assert!(matches!(refused, HoldOutcome::KeyRefused), "{refused:?}");
    assert_eq!(standing.suspended_reason.as_deref(), Some("a test"));
    let held = caller.hold(1);
    let call = held.call_id;
    assert!(is_held(&metering.hold(held).await));
    assert!(metering.end(call, domain::charge::Outcome::Answered).await);
    metering.stop().await;
    assert_sound(&store).await;
}

/// Only the details of an erased customer's entries can change, and only to one text.
#[tokio::test]
async fn an_erasure_empties_the_audit_list_and_nothing_else_can() {
    let store = testing::store().await;
    let (ada, bob) = (TestCaller::with(&store, 5).await, TestCaller::with(&store, 5).await);
    for caller in [&ada, &bob] {
        audit::record(&store, &entry(caller.customer)).await.unwrap();
    }
    let forged = r#"update audit set details = '{"erased":true}'"#;
    testing::run_raw(&store, forged).await.unwrap_err();

    let by = entry(ada.customer);
    let preview = erasure::erase(&store, &by, ErasureMode::Preview, &no_jobs).await.unwrap();
    let standing = suspensions::find(&store, ada.customer).await.unwrap().unwrap();
    assert_eq!(standing.state, CustomerState::Unconfirmed);
    let erased = erasure::erase(&store, &by, ErasureMode::Commit, &no_jobs).await.unwrap();
    let again = erasure::erase(&store, &by, ErasureMode::Commit, &no_jobs).await.unwrap();

    assert_eq!(erased, preview);
    assert!(matches!(erased, ErasureOutcome::Erased(_)));
    assert_eq!(again, ErasureOutcome::Repeated);
    let resumed = suspensions::resume(&store, &by).await.unwrap();
    assert_eq!(resumed, SuspensionOutcome::Closed(CustomerState::Erased));
    for statement in [
        "update audit set details = 'nothing'",
        "update audit set actor = 'nobody', details = '{\"erased\":true}'",
        "delete from audit",
        forged,
    ] {
        let refused = testing::run_raw(&store, statement).await.unwrap_err();
        assert!(format!("{refused:?}").contains("append only"), "{statement}: {refused:?}");
    }
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_customer_with_held_credits_is_not_erased() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let metering = TestMetering::start(&store).await;
    let held = caller.hold(1);
    let call = held.call_id;
    assert!(is_held(&metering.hold(held).await));
    let by = entry(caller.customer);

    let refused = erasure::erase(&store, &by, ErasureMode::Commit, &no_jobs).await.unwrap();
    assert!(metering.end(call, domain::charge::Outcome::Answered).await);
    let erased = erasure::erase(&store, &by, ErasureMode::Commit, &no_jobs).await.unwrap();

    assert_eq!(refused, ErasureOutcome::Refused(vec![ErasureObstacle::HeldCredits]));
    assert!(matches!(erased, ErasureOutcome::Erased(_)), "{erased:?}");
    metering.stop().await;
    assert_sound(&store).await;
}
