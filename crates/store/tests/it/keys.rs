//! Keys: which secrets are accepted, and until when.

use domain::charge::Outcome;
use domain::key::KeyScope;
use store::key_changes::{self, KeyChange, KeyChanging, LimitChange};
use store::keys::{self, KeyCreation, KeyRotation, NewKey};
use store::metering::{Hold, HoldOutcome};
use store::{Store, accounts, key_list, testing};

use crate::support::{
    NOON, TestCaller, TestMetering, assert_sound, create_key, creator, credits, entry,
    fresh_secret, is_held, new_account, new_key, secret,
};

fn rotation(caller: &TestCaller) -> KeyRotation {
    KeyRotation {
        key: caller.key,
        customer: caller.customer,
        secret: fresh_secret(),
        scope: None,
        at: NOON,
        old_valid_until: None,
    }
}

#[tokio::test]
async fn keys_are_found_by_secret_and_listed_by_customer() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    accounts::connect(&store, &new_account(caller.customer, "bob")).await.unwrap();
    let limited = NewKey {
        name: "ci".to_owned(),
        scope: KeyScope::ReadOnly,
        accounts: vec![creator("ada"), creator("bob")],
        expires_at: Some(NOON.plus_seconds(60)),
        ..new_key(secret(7))
    };

    create_key(&store, caller.customer, &limited).await;

    let presented = keys::find_by_hash(&store, &limited.secret.hash).await.unwrap().unwrap();
    assert_eq!(presented.key.scope, KeyScope::ReadOnly);
    assert_eq!(presented.key.accounts, limited.accounts);
    assert!(presented.is_usable(NOON.plus_seconds(59)));
    assert!(!presented.is_usable(NOON.plus_seconds(60)));
    let listed = key_list::list(&store, caller.customer, NOON.day()).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|listed| listed.key.id).collect();
    assert_eq!(ids, [caller.key, limited.id]);
    assert_eq!(listed[1].key, presented.key);
    assert_eq!(
        keys::find(&store, caller.customer, limited.id).await.unwrap(),
        Some(presented.key.clone())
    );
    assert_eq!(keys::find_by_id(&store, limited.id).await.unwrap(), Some(presented.key));
}

#[tokio::test]
async fn an_unknown_secret_is_not_found() {
    let store = testing::store().await;
    TestCaller::with(&store, 0).await;

    assert_eq!(keys::find_by_hash(&store, &secret(200).hash).await.unwrap(), None);
    assert_eq!(keys::find_by_id(&store, new_key(secret(1)).id).await.unwrap(), None);
}

#[tokio::test]
async fn a_rotation_without_grace_ends_the_old_secret() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let rotation = KeyRotation { scope: Some(KeyScope::ReadOnly), ..rotation(&caller) };

    let rotated = keys::rotate(&store, &rotation, &entry(caller.customer)).await.unwrap().unwrap();

    assert_eq!(
        (rotated.id, rotated.scope, rotated.rotated_at),
        (caller.key, KeyScope::ReadOnly, Some(NOON))
    );
    assert_eq!(rotated.shown_suffix, rotation.secret.shown_suffix);
    assert_eq!(keys::find_by_hash(&store, &caller.key_hash).await.unwrap(), None);
    let presented = keys::find_by_hash(&store, &rotation.secret.hash).await.unwrap().unwrap();
    assert!(presented.is_usable(NOON));
}

#[tokio::test]
async fn calls_with_a_rotated_secret_are_refused() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let metering = TestMetering::start(&store).await;
    let rotation = rotation(&caller);
    keys::rotate(&store, &rotation, &entry(caller.customer)).await.unwrap().unwrap();

    let old = metering.hold(caller.hold(1)).await;
    let renewed = TestCaller { key_hash: rotation.secret.hash, key_version: 1, ..caller.clone() };
    let new = metering.hold(renewed.hold(1)).await;

    assert!(matches!(old, HoldOutcome::KeyRefused), "{old:?}");
    assert!(is_held(&new), "{new:?}");
    assert_sound(&store).await;
}

#[tokio::test]
async fn the_old_secret_is_accepted_during_its_grace_period() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let until = NOON.plus_seconds(60);
    let rotation = KeyRotation { old_valid_until: Some(until), ..rotation(&caller) };

    keys::rotate(&store, &rotation, &entry(caller.customer)).await.unwrap().unwrap();

    let old = keys::find_by_hash(&store, &caller.key_hash).await.unwrap().unwrap();
    assert!(old.is_usable(until.plus_micros(-1)));
    assert!(!old.is_usable(until));
    let metering = TestMetering::start(&store).await;
    let before = metering.hold(caller.hold(1)).await;
    assert!(matches!(before, HoldOutcome::KeyChanged), "the scope may have changed: {before:?}");
    let caller = TestCaller { key_version: 1, ..caller };
    assert!(is_held(&metering.hold(caller.hold(1)).await));
    let late = Hold { held_at: until, ..caller.hold(1) };
    let refused = metering.hold(late).await;
    assert!(matches!(refused, HoldOutcome::KeyRefused), "{refused:?}");
}

#[tokio::test]
async fn a_second_rotation_ends_the_grace_period_of_the_first() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 5).await;
    let until = Some(NOON.plus_seconds(600));
    let first = KeyRotation { old_valid_until: until, ..rotation(&caller) };
    let second = KeyRotation { old_valid_until: until, ..rotation(&caller) };
    keys::rotate(&store, &first, &entry(caller.customer)).await.unwrap().unwrap();

    keys::rotate(&store, &second, &entry(caller.customer)).await.unwrap().unwrap();

    assert_eq!(keys::find_by_hash(&store, &caller.key_hash).await.unwrap(), None);
    for hash in [first.secret.hash, second.secret.hash] {
        let presented = keys::find_by_hash(&store, &hash).await.unwrap().unwrap();
        assert!(presented.is_usable(NOON));
    }
}

#[tokio::test]
async fn concurrent_rotations_leave_one_secret() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut tasks = tokio::task::JoinSet::new();
    let rotations: Vec<KeyRotation> = (0..10).map(|_| rotation(&caller)).collect();
    for rotation in rotations.clone() {
        let shared = (*store).clone();
        tasks.spawn(async move {
            keys::rotate(&shared, &rotation, &entry(caller.customer)).await.unwrap()
        });
    }

    assert!(tasks.join_all().await.iter().all(Option::is_some));

    let mut open = 0;
    for rotation in &rotations {
        let found = keys::find_by_hash(&store, &rotation.secret.hash).await.unwrap();
        open += usize::from(found.is_some());
    }
    assert_eq!(open, 1);
}

/// A change increments the version, and a caller with the old version can hold nothing.
#[tokio::test]
async fn changed_limits_apply_to_the_next_hold() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 10).await;
    let metering = TestMetering::start(&store).await;
    let change = KeyChange {
        key: caller.key,
        customer: caller.customer,
        name: None,
        accounts: LimitChange::Set(vec![creator("ada")]),
        monthly_budget: LimitChange::Set(credits(1)),
        expires_at: LimitChange::Set(NOON.plus_seconds(60)),
    };
    assert!(is_held(&metering.hold(caller.hold(2)).await));

    let changing = key_changes::change(&store, &change, &entry(caller.customer)).await.unwrap();

    let KeyChanging::Changed(changed) = changing else { panic!("{changing:?}") };
    assert_eq!((changed.accounts, changed.version), (vec![creator("ada")], 1));
    assert_eq!(
        (changed.monthly_budget, changed.expires_at),
        (Some(credits(1)), Some(NOON.plus_seconds(60)))
    );
    assert_eq!(changed.name, "first");
    let old = metering.hold(caller.hold(1)).await;
    assert!(matches!(old, HoldOutcome::KeyChanged), "{old:?}");
    let caller = TestCaller { key_version: 1, ..caller };
    let over = metering.hold(caller.hold(1)).await;
    assert!(matches!(over, HoldOutcome::BudgetExhausted { .. }), "2 are held: {over:?}");
    let late = metering.hold(Hold { held_at: NOON.plus_seconds(60), ..caller.hold(0) }).await;
    assert!(matches!(late, HoldOutcome::KeyRefused), "{late:?}");
    assert_sound(&store).await;
}

#[tokio::test]
async fn a_key_change_keeps_unnamed_limits() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let limited = NewKey {
        accounts: vec![creator("ada")],
        monthly_budget: Some(credits(5)),
        expires_at: Some(NOON.plus_seconds(60)),
        ..new_key(fresh_secret())
    };
    create_key(&store, caller.customer, &limited).await;
    let nothing = KeyChange {
        key: limited.id,
        customer: caller.customer,
        name: Some("other".to_owned()),
        accounts: LimitChange::Keep,
        monthly_budget: LimitChange::Keep,
        expires_at: LimitChange::Keep,
    };
    let unknown = KeyChange {
        accounts: LimitChange::Set(vec![creator("ada"), creator("nobody")]),
        name: Some("never".to_owned()),
        ..nothing.clone()
    };
    let endless = KeyChange {
        name: None,
        accounts: LimitChange::End,
        monthly_budget: LimitChange::End,
        expires_at: LimitChange::End,
        ..nothing.clone()
    };
    let foreign =
        KeyChange { customer: TestCaller::with(&store, 0).await.customer, ..nothing.clone() };
    let told = || entry(caller.customer);

    let kept = key_changes::change(&store, &nothing, &told()).await.unwrap();
    let refused = key_changes::change(&store, &unknown, &told()).await.unwrap();
    let missed = key_changes::change(&store, &foreign, &told()).await.unwrap();
    let ended = key_changes::change(&store, &endless, &told()).await.unwrap();

    let KeyChanging::Changed(kept) = kept else { panic!("{kept:?}") };
    assert_eq!((kept.name.as_str(), &kept.accounts), ("other", &limited.accounts));
    assert_eq!(
        (kept.monthly_budget, kept.expires_at),
        (limited.monthly_budget, limited.expires_at)
    );
    assert_eq!(refused, KeyChanging::NoAccount(creator("nobody")));
    assert_eq!(missed, KeyChanging::NotFound);
    let KeyChanging::Changed(ended) = ended else { panic!("{ended:?}") };
    assert_eq!((ended.name.as_str(), ended.is_limited()), ("other", false));
}

#[tokio::test]
async fn concurrent_creations_never_exceed_the_key_limit() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let shared = Store::clone(&store);
        tasks.spawn(async move {
            let new = new_key(fresh_secret());
            keys::create(&shared, caller.customer, &new, 4, &entry(caller.customer)).await.unwrap()
        });
    }

    let made = tasks.join_all().await;

    assert_eq!(made.iter().filter(|made| **made == KeyCreation::Created).count(), 3);
    assert_eq!(made.iter().filter(|made| **made == KeyCreation::TooMany).count(), 17);
}

#[tokio::test]
async fn a_revoked_key_stays_revoked() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;

    assert!(
        keys::revoke(&store, caller.customer, caller.key, &entry(caller.customer)).await.unwrap()
    );
    assert!(
        !keys::revoke(&store, caller.customer, caller.key, &entry(caller.customer)).await.unwrap()
    );

    assert_eq!(keys::find_by_hash(&store, &caller.key_hash).await.unwrap(), None);
    assert_eq!(
        keys::rotate(&store, &rotation(&caller), &entry(caller.customer)).await.unwrap(),
        None
    );
    let listed = key_list::list(&store, caller.customer, NOON.day()).await.unwrap();
    assert_eq!(listed[0].key.revoked_at, Some(NOON));
}

#[tokio::test]
async fn customers_cannot_change_each_others_keys() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    let foreign = KeyRotation { customer: other.customer, ..rotation(&caller) };

    assert_eq!(keys::rotate(&store, &foreign, &entry(caller.customer)).await.unwrap(), None);
    assert!(
        !keys::revoke(&store, other.customer, caller.key, &entry(other.customer)).await.unwrap()
    );
    assert_eq!(keys::find(&store, other.customer, caller.key).await.unwrap(), None);

    let presented = keys::find_by_hash(&store, &caller.key_hash).await.unwrap().unwrap();
    assert!(presented.is_usable(NOON));
}

/// Whether its calls are counted yet or not, and in whatever order they were made.
#[tokio::test]
async fn a_key_was_last_used_when_its_latest_call_began() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 99).await;
    let unused = new_key(secret(8));
    create_key(&store, caller.customer, &unused).await;
    let metering = TestMetering::start(&store).await;
    let last_used = async || {
        let listed = key_list::list(&store, caller.customer, NOON.day()).await.unwrap();
        let one = key_list::find(&store, caller.customer, caller.key, NOON.day()).await.unwrap();
        assert_eq!(one.as_ref(), listed.first());
        listed.into_iter().map(|listed| listed.last_used_at).collect::<Vec<_>>()
    };
    let two_days = 2 * 86_400;
    assert_eq!(last_used().await, [None, None]);

    for (seconds, latest) in [(5, 5), (two_days, two_days), (9, two_days), (0, two_days)] {
        for _ in 0..20 {
            let hold = Hold { held_at: NOON.plus_seconds(seconds), ..caller.hold(1) };
            assert!(is_held(&metering.hold(hold.clone()).await));
            assert!(metering.end(hold.call_id, Outcome::Answered).await);
        }
        assert_eq!(last_used().await, [Some(NOON.plus_seconds(latest)), None]);
    }
    metering.stop().await;
}
