//! Plan versions: a price keeps the terms it was first seen with, and limits follow the version
//! that was paid for.

use domain::plan::PlanVersion;
use domain::platform::Platform;
use domain::slot::AccountCounts;
use domain::subscription::SubscriptionStatus::{Active, Canceled};
use store::plan_versions::{self, UnknownVersion};
use store::subscriptions::{self, ChangeRecords, SubscriptionReading};
use store::{slot_limits, testing};

use crate::subscriptions::{allowances, apply, pro, pro_version};
use crate::support::{NOON, TestCaller};

#[tokio::test]
async fn a_price_keeps_the_terms_it_was_first_seen_with() {
    let store = testing::store().await;
    let first = pro_version();
    let edited = PlanVersion { monthly_credits: 1, ..first.clone() };
    let other = PlanVersion { price_id: "price_2".to_owned(), ..edited.clone() };
    assert_eq!(plan_versions::find(&store, &first.price_id).await.unwrap(), None);

    let written = plan_versions::write_down(&store, &first, NOON).await.unwrap();
    let kept = plan_versions::write_down(&store, &edited, NOON).await.unwrap();
    let second = plan_versions::write_down(&store, &other, NOON).await.unwrap();

    assert_eq!((&written, &kept, &second), (&first, &first, &other));
    let found = plan_versions::find(&store, &first.price_id).await.unwrap();
    assert_eq!(found, Some(first));
}

#[tokio::test]
async fn running_subscriptions_to_unrecorded_versions_are_listed() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let write = async |status| {
        let version = subscriptions::version(&store, customer).await.unwrap();
        let (view, allowances, tell) =
            (pro(status, 0, 0), allowances(), &|_: &_| ChangeRecords::default());
        let reading = SubscriptionReading {
            customer,
            version,
            view: &view,
            allowances: &allowances,
            at: NOON,
            tell,
        };
        subscriptions::apply(&store, &reading).await.unwrap();
    };
    write(Active).await;

    let unknown = plan_versions::list_unknown(&store).await.unwrap();
    write(Canceled).await;
    let ended = plan_versions::list_unknown(&store).await.unwrap();
    write(Active).await;
    plan_versions::write_down(&store, &pro_version(), NOON).await.unwrap();
    let known = plan_versions::list_unknown(&store).await.unwrap();

    let (price_id, plan_id) = ("price_si_plan".to_owned(), Some("pro".to_owned()));
    assert_eq!(unknown, [UnknownVersion { price_id, plan_id }]);
    assert_eq!((ended, known), (Vec::new(), Vec::new()));
}

#[tokio::test]
async fn limits_follow_the_version_that_was_paid_for() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let paid = PlanVersion {
        price_id: "price_paid".to_owned(),
        accounts: AccountCounts::each(|_| 5),
        ..pro_version()
    };
    plan_versions::write_down(&store, &paid, NOON).await.unwrap();
    let mut view = pro(Active, 1, 0);
    let limit = async || {
        let standing = slot_limits::usage(&store, customer, &allowances()).await.unwrap();
        standing.limits.limit.on(Platform::ALPHA)
    };

    apply(&store, customer, &view).await;
    let by_item = limit().await;
    view.paid = Some(paid);
    apply(&store, customer, &view).await;
    let by_payment = limit().await;
    view.status = Canceled;
    apply(&store, customer, &view).await;

    assert_eq!((by_item, by_payment, limit().await), (4, 7, 1));
}
