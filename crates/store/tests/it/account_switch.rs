//! Switching accounts off and on: an account that is off has no slot and gets none by itself, and
//! its credentials are kept.

use std::sync::Arc;

use domain::account::{AccountState, InactiveReason};
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::slot::AccountAllowances;
use domain::subscription::SubscriptionStatus;
use store::account_switch::{self, AccountSwitch, SwitchOutcome};
use store::accounts::{self, Account, ConnectionOutcome, NewAccount};
use store::audit::{self, AuditEntry, AuditQuery};
use store::authority::ChangeAuthority;
use store::metering::HoldOutcome;
use store::slot_assignment::SlotShift;
use store::{Store, testing};

use crate::subscriptions;
use crate::support::{
    NOON, TestCaller, TestMetering, create_key, creator, entry, fresh_secret, is_held, new_account,
    new_key, removal, unnoted,
};

/// Switches an account of a customer with this many slots on each platform.
async fn switch_within(
    store: &Store,
    (customer, authority): (CustomerId, ChangeAuthority),
    name: &str,
    (on, limit): (bool, i64),
) -> SwitchOutcome {
    let note = |shifts: &[SlotShift]| {
        let noted = AuditEntry { action: "accounts.activated".to_owned(), ..entry(customer) };
        (!shifts.is_empty()).then_some(noted)
    };
    let entry = AuditEntry { action: "account.switched".to_owned(), ..entry(customer) };
    let wanted = AccountSwitch {
        customer,
        authority,
        creator_id: &creator(name),
        on,
        allowances: &AccountAllowances::of_each(limit),
        entry: &entry,
        note: &note,
    };
    account_switch::switch(store, &wanted).await.unwrap()
}

/// Switches an account under the limits of the customer's subscription.
pub(crate) async fn switch(store: &Store, customer: CustomerId, name: &str, on: bool) {
    let entry = entry(customer);
    let wanted = AccountSwitch {
        customer,
        authority: ChangeAuthority::Operator,
        creator_id: &creator(name),
        on,
        allowances: &subscriptions::allowances(),
        entry: &entry,
        note: &unnoted,
    };
    let switched = account_switch::switch(store, &wanted).await.unwrap();
    assert!(matches!(switched, SwitchOutcome::Done { changed: true, .. }), "{switched:?}");
}

async fn connect(store: &Store, customer: CustomerId, name: &str, limit: i64) -> AccountState {
    let allowances = Arc::new(AccountAllowances::of_each(limit));
    let new = NewAccount { allowances, ..new_account(customer, name) };
    match accounts::connect(store, &new).await.unwrap() {
        ConnectionOutcome::Connected { state, .. } => state,
        refused @ (ConnectionOutcome::Refused(_) | ConnectionOutcome::CookiesChanged) => {
            panic!("{refused:?}")
        }
    }
}

async fn find(store: &Store, customer: CustomerId, name: &str) -> Account {
    accounts::find(store, customer, &creator(name)).await.unwrap().unwrap()
}

async fn noted(store: &Store, customer: CustomerId) -> Vec<String> {
    let wanted = AuditQuery { customer, action: "account", before: None, limit: 100 };
    let mut words: Vec<String> =
        audit::list(store, &wanted).await.unwrap().into_iter().map(|it| it.action).collect();
    words.retain(|action| action != "account.connected");
    words.sort_unstable();
    words
}

#[tokio::test]
async fn switching_off_keeps_credentials_and_passes_the_slot_on() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, by) = (caller.customer, (caller.customer, ChangeAuthority::Operator));
    assert_eq!(connect(&store, customer, "bob", 1).await, AccountState::Inactive);
    let before = find(&store, customer, "ada").await;

    let off = switch_within(&store, by, "ada", (false, 1)).await;
    let again = switch_within(&store, by, "ada", (false, 1)).await;

    let SwitchOutcome::Done { account, changed: true, shifts } = off else { panic!("{off:?}") };
    assert_eq!((account.state, account.switched_off_at), (AccountState::Inactive, Some(NOON)));
    assert_eq!(account.inactive_reason(), Some(InactiveReason::SwitchedOff));
    assert_eq!(account.credentials, before.credentials);
    assert!(account.version > before.version);
    let given = SlotShift {
        creator_id: creator("bob"),
        platform: Platform::ALPHA,
        state: AccountState::Active,
    };
    assert_eq!(shifts, [given]);
    assert_eq!(again, SwitchOutcome::Done { account, changed: false, shifts: Vec::new() });
    assert_eq!(noted(&store, customer).await, ["account.switched", "accounts.activated"]);
}

#[tokio::test]
async fn free_slots_do_not_switch_an_account_on() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let customer = caller.customer;
    let view = subscriptions::pro(SubscriptionStatus::Active, 1, 0);
    subscriptions::apply(&store, customer, &view).await;
    connect(&store, customer, "bob", 5).await;
    switch(&store, customer, "ada", false).await;

    // A further slot, a deleted account, another import: none of them switches it on.
    let larger = subscriptions::pro(SubscriptionStatus::Active, 4, 0);
    let bought = subscriptions::apply(&store, customer, &larger).await;
    let (bob, limits, told) = (creator("bob"), AccountAllowances::of_each(5), entry(customer));
    let removal = removal(customer, &bob, &limits);
    let freed = accounts::delete(&store, &removal, &told, &unnoted).await.unwrap().unwrap();
    let imported = connect(&store, customer, "ada", 5).await;

    assert_eq!((bought.shifts, freed), (Vec::new(), Vec::new()));
    assert_eq!(imported, AccountState::Inactive);
    let ada = find(&store, customer, "ada").await;
    assert_eq!(ada.inactive_reason(), Some(InactiveReason::SwitchedOff));
    switch(&store, customer, "ada", true).await;
    let back = find(&store, customer, "ada").await;
    assert_eq!((back.state, back.switched_off_at), (AccountState::Active, None));
}

#[tokio::test]
async fn switching_on_needs_a_free_slot() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, by) = (caller.customer, (caller.customer, ChangeAuthority::Operator));
    switch_within(&store, by, "ada", (false, 2)).await;
    for name in ["bob", "cyd", "dan"] {
        connect(&store, customer, name, 2).await;
    }
    let in_use = vec![creator("bob"), creator("cyd")];
    let refusal =
        |accounts| SwitchOutcome::NoFreeSlot { platform: Platform::ALPHA, limit: 2, accounts };

    // One is off, one waits: neither displaces those in use.
    for name in ["ada", "dan"] {
        assert_eq!(switch_within(&store, by, name, (true, 2)).await, refusal(in_use.clone()));
    }
    let limited = limited_to(&store, customer, &["ada", "cyd"]).await;
    let shown = switch_within(&store, (customer, limited), "ada", (true, 2)).await;
    let hidden = switch_within(&store, (customer, limited), "bob", (false, 2)).await;

    assert_eq!(shown, refusal(vec![creator("cyd")]));
    assert_eq!(hidden, SwitchOutcome::NoAccount);
    assert_eq!(switch_within(&store, by, "eve", (true, 2)).await, SwitchOutcome::NoAccount);
    assert_eq!(find(&store, customer, "ada").await.state, AccountState::Inactive);
    assert_eq!(noted(&store, customer).await, ["account.switched"]);
}

/// A key that is limited to these accounts.
async fn limited_to(store: &Store, customer: CustomerId, names: &[&str]) -> ChangeAuthority {
    let mut key = new_key(fresh_secret());
    key.accounts = names.iter().map(|name| creator(name)).collect();
    create_key(store, customer, &key).await;
    ChangeAuthority::Key(key.id)
}

#[tokio::test]
async fn calls_prepared_before_switching_off_are_refused() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    assert!(is_held(&metering.hold(caller.hold(1)).await));
    let by = (caller.customer, ChangeAuthority::Operator);

    switch_within(&store, by, "ada", (false, 1)).await;

    let late = metering.hold(caller.hold(1)).await;
    assert!(matches!(late, HoldOutcome::AccountChanged), "{late:?}");
}

#[tokio::test]
async fn state_changes_do_not_activate_inactive_accounts() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let (customer, ada) = (caller.customer, creator("ada"));
    switch_within(&store, (customer, ChangeAuthority::Operator), "ada", (false, 1)).await;
    let version = find(&store, customer, "ada").await.version;

    for state in [AccountState::ReconnectNeeded, AccountState::Active] {
        let changed = accounts::set_state(&store, customer, &ada, version, state).await;
        assert_eq!(changed.unwrap(), None);
    }

    assert_eq!(find(&store, customer, "ada").await.state, AccountState::Inactive);
}

#[tokio::test]
async fn an_account_activated_by_an_older_version_is_in_use() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let customer = caller.customer;
    let by = (customer, ChangeAuthority::Operator);
    switch_within(&store, by, "ada", (false, 1)).await;
    // It does not know about switched-off accounts.
    let sql = "update accounts set state = 'active', version = version + 1";
    testing::run_raw(&store, sql).await.unwrap();

    let ada = find(&store, customer, "ada").await;
    let off = switch_within(&store, by, "ada", (false, 1)).await;

    assert_eq!((ada.switched_off_at, ada.inactive_reason()), (None, None));
    assert!(matches!(off, SwitchOutcome::Done { changed: true, .. }), "{off:?}");
}

#[tokio::test]
async fn concurrent_switching_on_never_exceeds_the_limit() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let customer = caller.customer;
    let names: Vec<String> = (0..10).map(|number| format!("creator-{number}")).collect();
    for name in &names {
        connect(&store, customer, name, 100).await;
        switch_within(&store, (customer, ChangeAuthority::Operator), name, (false, 100)).await;
    }
    let mut tasks = tokio::task::JoinSet::new();
    for name in names {
        let shared = (*store).clone();
        tasks.spawn(async move {
            let by = (customer, ChangeAuthority::Operator);
            switch_within(&shared, by, &name, (true, 4)).await
        });
    }

    let switched = tasks.join_all().await;

    // One account was in use before.
    let done = |outcome: &&SwitchOutcome| matches!(outcome, SwitchOutcome::Done { .. });
    assert_eq!(switched.iter().filter(done).count(), 3);
    assert_eq!(accounts::count(&store, customer, Platform::ALPHA).await.unwrap().in_use, 4);
}
