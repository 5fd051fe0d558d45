//! Subscriptions: an older state never replaces a newer one, limits follow the state, and accounts
//! get and lose their slots with it.

use std::sync::Arc;

use domain::account::AccountState;
use domain::id::CustomerId;
use domain::plan::PlanVersion;
use domain::platform::Platform;
use domain::slot::{AccountAllowances, AccountCounts};
use domain::subscription::SubscriptionStatus;
use store::accounts::{self, ConnectionOutcome, NewAccount};
use store::audit::{self, AuditQuery};
use store::subscriptions::{
    self, ChangeRecords, ItemBenefit, PaidItem, StoredSubscription, SubscriptionApplication,
    SubscriptionReading, SubscriptionUpdate, SubscriptionView,
};
use store::{Store, invoice_notices, plan_versions, slot_limits, subscription_offers, testing};

use crate::support::{NOON, TestCaller, creator, entry, new_account, unique};

/// One permanent slot on each platform.
pub(crate) fn allowances() -> AccountAllowances {
    AccountAllowances::of_each(1)
}

/// The only version of the plan `pro`, which adds two slots on alpha.
pub(crate) fn pro_version() -> PlanVersion {
    PlanVersion {
        price_id: "price_si_plan".to_owned(),
        plan_id: "pro".to_owned(),
        price_cents: 4_900,
        monthly_credits: 30_000,
        accounts: AccountCounts::each(|platform| if platform == Platform::ALPHA { 2 } else { 0 }),
    }
}

/// A subscription to `pro` with this many extra slots on alpha and beta.
pub(crate) fn pro(status: SubscriptionStatus, alpha: i64, beta: i64) -> SubscriptionView {
    let item = |id: &str, gives, quantity| PaidItem {
        id: id.to_owned(),
        price_id: format!("price_{id}"),
        gives,
        quantity,
    };
    SubscriptionView {
        subscription_id: Some("sub_1".to_owned()),
        status,
        period_start: Some(NOON),
        period_end: Some(NOON.plus_seconds(30 * 86_400)),
        cancels_at: None,
        items: vec![
            item("si_alpha", ItemBenefit::Slots(Platform::ALPHA), alpha),
            item("si_beta", ItemBenefit::Slots(Platform::BETA), beta),
            item("si_plan", ItemBenefit::Plan("pro".to_owned()), 1),
        ],
        paid: None,
        paid_until: None,
        latest_invoice_id: None,
    }
}

fn silent(_: &SubscriptionUpdate) -> ChangeRecords {
    ChangeRecords::default()
}

/// Stores a state as a reader who read `version` before.
pub(crate) async fn apply_after(
    store: &Store,
    customer: CustomerId,
    version: i64,
    view: &SubscriptionView,
) -> SubscriptionApplication {
    plan_versions::write_down(store, &pro_version(), NOON).await.unwrap();
    let allowances = allowances();
    let tell = &silent;
    let reading =
        SubscriptionReading { customer, version, view, allowances: &allowances, at: NOON, tell };
    subscriptions::apply(store, &reading).await.unwrap()
}

/// Stores a state as the latest reader.
pub(crate) async fn apply(
    store: &Store,
    customer: CustomerId,
    view: &SubscriptionView,
) -> SubscriptionUpdate {
    let version = subscriptions::version(store, customer).await.unwrap();
    match apply_after(store, customer, version, view).await {
        SubscriptionApplication::Applied(happened) => *happened,
        SubscriptionApplication::Overtaken => panic!("no other writer runs"),
    }
}

/// Connects accounts on alpha, one second apart, and returns their states.
pub(crate) async fn connect(
    store: &Store,
    customer: CustomerId,
    names: &[&str],
) -> Vec<AccountState> {
    let mut states = Vec::new();
    for (number, name) in (1..).zip(names) {
        let new = NewAccount {
            at: NOON.plus_seconds(number),
            allowances: Arc::new(allowances()),
            ..new_account(customer, name)
        };
        match accounts::connect(store, &new).await.unwrap() {
            ConnectionOutcome::Connected { state, .. } => states.push(state),
            other @ (ConnectionOutcome::Refused(_) | ConnectionOutcome::CookiesChanged) => {
                panic!("{other:?}")
            }
        }
    }
    states
}

/// The ids of the accounts in use.
pub(crate) async fn in_use(store: &Store, customer: CustomerId) -> Vec<String> {
    let all = accounts::list(store, customer).await.unwrap();
    let active = all.into_iter().filter(|account| account.state != AccountState::Inactive);
    active.map(|account| account.creator_id.to_string()).collect()
}

#[tokio::test]
async fn the_processors_state_is_stored_completely() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    assert_eq!(subscriptions::find(&store, customer).await.unwrap(), None);
    let mut view = pro(SubscriptionStatus::PastDue, 3, 0);
    view.cancels_at = Some(NOON.plus_seconds(9));
    view.paid = Some(pro_version());
    view.paid_until = Some(NOON.plus_seconds(8));
    view.latest_invoice_id = Some("in_1".to_owned());
    view.items.push(PaidItem {
        id: "si_support".to_owned(),
        price_id: "price_support".to_owned(),
        gives: ItemBenefit::Other,
        quantity: 7,
    });

    let first = apply(&store, customer, &view).await;
    let second = apply(&store, customer, &SubscriptionView::none()).await;

    assert_eq!((first.before, first.now), (None, view.clone()));
    assert_eq!((second.before, second.now), (Some(view), SubscriptionView::none()));
    let known = subscriptions::find(&store, customer).await.unwrap();
    let none = StoredSubscription { version: 2, view: SubscriptionView::none(), synced_at: NOON };
    assert_eq!(known, Some(none));
}

#[tokio::test]
async fn an_older_state_never_replaces_a_newer_one() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let active = pro(SubscriptionStatus::Active, 2, 0);
    let canceled = pro(SubscriptionStatus::Canceled, 2, 0);
    let version = subscriptions::version(&store, customer).await.unwrap();

    // Two readers read the same version; the one with the newer state writes first.
    let newer = apply_after(&store, customer, version, &canceled).await;
    let older = apply_after(&store, customer, version, &active).await;

    assert!(matches!(newer, SubscriptionApplication::Applied(_)), "{newer:?}");
    assert_eq!(older, SubscriptionApplication::Overtaken);
    let known = subscriptions::find(&store, customer).await.unwrap().unwrap();
    assert_eq!(known.view.status, SubscriptionStatus::Canceled);
}

#[tokio::test]
async fn of_concurrent_writers_one_succeeds() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let mut tasks = tokio::task::JoinSet::new();
    for slots in 0..20 {
        let shared = (*store).clone();
        tasks.spawn(async move {
            let view = pro(SubscriptionStatus::Active, slots, 0);
            matches!(
                apply_after(&shared, customer, 0, &view).await,
                SubscriptionApplication::Applied(_)
            )
        });
    }

    let applied = tasks.join_all().await;

    assert_eq!(applied.iter().filter(|applied| **applied).count(), 1);
    assert_eq!(subscriptions::version(&store, customer).await.unwrap(), 1);
}

#[tokio::test]
async fn the_limit_adds_permanent_plan_and_extra_slots() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let limit = async |platform: Platform| {
        let standing = slot_limits::usage(&store, customer, &allowances()).await.unwrap();
        standing.limits.limit.on(platform)
    };
    assert_eq!((limit(Platform::ALPHA).await, limit(Platform::BETA).await), (1, 1));

    for status in SubscriptionStatus::ALL {
        apply(&store, customer, &pro(*status, 3, 1)).await;

        let found = (limit(Platform::ALPHA).await, limit(Platform::BETA).await);
        let expected = if status.entitles() { (6, 2) } else { (1, 1) };
        assert_eq!(found, expected, "{status}");
        assert_eq!(limit(Platform::GAMMA).await, 1);
    }
}

#[tokio::test]
async fn waiting_accounts_get_slots_as_soon_as_there_are_some() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let states = connect(&store, customer, &["bob", "cyd", "dan", "eve"]).await;
    assert!(states.iter().all(|state| *state == AccountState::Inactive));

    let happened = apply(&store, customer, &pro(SubscriptionStatus::Active, 1, 0)).await;

    // Ada was connected before; the oldest three of the others fit.
    assert_eq!(in_use(&store, customer).await, ["ada", "bob", "cyd", "dan"]);
    let shifted: Vec<_> = happened.shifts.iter().map(|shift| shift.creator_id.as_str()).collect();
    assert_eq!(shifted, ["bob", "cyd", "dan"]);
}

#[tokio::test]
async fn the_newest_accounts_lose_their_slots_when_a_subscription_ends() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let customer = caller.customer;
    apply(&store, customer, &pro(SubscriptionStatus::Active, 1, 0)).await;
    connect(&store, customer, &["zoe", "bob", "cyd"]).await;
    // An account that needs to be reconnected occupies a slot like any other.
    let zoe = accounts::find(&store, customer, &creator("zoe")).await.unwrap().unwrap();
    let broken = AccountState::ReconnectNeeded;
    accounts::set_state(&store, customer, &zoe.creator_id, zoe.version, broken).await.unwrap();

    let fewer = apply(&store, customer, &pro(SubscriptionStatus::Active, 0, 0)).await;
    let kept = in_use(&store, customer).await;
    let ended = apply(&store, customer, &pro(SubscriptionStatus::Canceled, 0, 0)).await;

    let lost = |happened: &SubscriptionUpdate| {
        let shifts = happened.shifts.iter().map(|shift| {
            assert_eq!(shift.state, AccountState::Inactive);
            shift.creator_id.to_string()
        });
        shifts.collect::<Vec<_>>()
    };
    assert_eq!((lost(&fewer), kept), (vec!["cyd".to_owned()], vec_of(&["ada", "bob", "zoe"])));
    assert_eq!(lost(&ended), ["bob", "zoe"]);
    assert_eq!(in_use(&store, customer).await, ["ada"]);
    let ada = accounts::find(&store, customer, &creator("ada")).await.unwrap().unwrap();
    assert_eq!(ada.version, caller.account_version);
}

fn vec_of(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[tokio::test]
async fn records_are_written_together_with_the_state() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let (allowances, view) = (allowances(), pro(SubscriptionStatus::Active, 0, 0));
    let tell = &|happened: &SubscriptionUpdate| {
        let entries = vec![entry(happened.customer)];
        ChangeRecords { entries, jobs: Vec::new() }
    };
    for version in [0, 0, 1] {
        let reading = SubscriptionReading {
            customer,
            version,
            view: &view,
            allowances: &allowances,
            at: NOON,
            tell,
        };
        subscriptions::apply(&store, &reading).await.unwrap();
    }

    let query = AuditQuery { customer, action: "key.changed", before: None, limit: 9 };
    assert_eq!(audit::list(&store, &query).await.unwrap().len(), 2);
}

#[tokio::test]
async fn running_subscriptions_are_listed_in_pages() {
    let store = testing::store().await;
    let mut live = Vec::new();
    for status in SubscriptionStatus::ALL {
        let customer = TestCaller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(*status, 0, 0)).await;
        if status.is_live() {
            live.push(customer);
        }
    }
    live.sort_by_key(ToString::to_string);

    let first = subscriptions::list_live(&store, None, 4).await.unwrap();
    let rest = subscriptions::list_live(&store, first.last().copied(), 100).await.unwrap();

    assert_eq!(first, live[..4]);
    assert_eq!(rest, live[4..]);
}

#[tokio::test]
async fn a_customer_has_one_open_offer() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let offer = || subscription_offers::SubscriptionOffer {
        id: domain::id::OfferId::new(NOON, unique()),
        customer,
        plan_id: "pro".to_owned(),
        slots: String::new(),
        session_id: None,
        created_at: NOON,
    };
    let (first, second) = (offer(), offer());

    assert_eq!(subscription_offers::open(&store, &first).await.unwrap(), None);
    subscription_offers::set_session(&store, first.id, "cs_1").await.unwrap();
    let open = subscription_offers::open(&store, &second).await.unwrap().unwrap();
    subscription_offers::close(&store, first.id, NOON).await.unwrap();

    assert_eq!((open.id, open.session_id.as_deref()), (first.id, Some("cs_1")));
    assert_eq!(subscription_offers::open(&store, &second).await.unwrap(), None);
}

#[tokio::test]
async fn a_failed_payment_is_notified_once_per_attempt() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let letter = || store::jobs::NewJob {
        id: domain::id::JobId::new(NOON, unique()),
        kind: domain::job::JobKind::SendMail,
        payload: "{}".to_owned(),
        created_at: NOON,
    };
    let mut told = Vec::new();
    for attempt in [1, 1, 2] {
        let payment =
            invoice_notices::FailedPayment { invoice_id: "in_1", attempt, customer, at: NOON };
        let once = invoice_notices::tell_once(&store, payment, &letter()).await.unwrap();
        told.push(once);
    }

    assert_eq!(told, [true, false, true]);
    assert_eq!(store::jobs::count(&store).await.unwrap().waiting, 2);
}
