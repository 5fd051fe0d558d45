//! Changes of slots: one at a time, never below what is in use, and limits that hold in every read meanwhile.

use std::sync::Arc;

use domain::account::AccountState;
use domain::id::{ChangeId, CustomerId};
use domain::platform::Platform;
use domain::slot::{SlotChangeKind, SlotChangeState};
use domain::subscription::SubscriptionStatus::Active;
use domain::time::Timestamp;
use store::accounts::{self, NewAccount};
use store::slot_changes::{self, Change, ChangeItem, Failure, NewChange, Start};
use store::slot_previews::{self, Preview};
use store::subscriptions::{self, Told};
use store::{Store, limits, testing};

use crate::subscriptions::{allowances, apply, connect, in_use, pro};
use crate::support::{Caller, NOON, creator, new_account, unique};

const LEASE_END: Timestamp = NOON.plus_seconds(60);

fn slots(platform: Platform, count_before: i64, count_after: i64) -> ChangeItem {
    ChangeItem {
        platform: Some(platform),
        plan_id: None,
        item_id: Some(format!("si_{}", platform.as_str())),
        price_id: "price_slot".to_owned(),
        count_before,
        count_after,
    }
}

async fn change(
    store: &Store,
    customer: CustomerId,
    kind: SlotChangeKind,
    items: Vec<ChangeItem>,
) -> NewChange {
    NewChange {
        id: ChangeId::new(NOON, unique()),
        customer,
        version: subscriptions::version(store, customer).await.unwrap(),
        kind,
        subscription_id: "sub_1".to_owned(),
        creator: None,
        is_charged_at_once: kind == SlotChangeKind::Raise,
        proration_date_s: NOON.unix_seconds(),
        actor: "key".to_owned(),
        items,
        at: NOON,
        leased_until: LEASE_END,
    }
}

async fn start(store: &Store, new: &NewChange) -> Start {
    slot_changes::start(store, new, &allowances()).await.unwrap()
}

fn started(start: Start) -> Change {
    match start {
        Start::Started(change) => *change,
        other => panic!("{other:?}"),
    }
}

async fn limit(store: &Store, customer: CustomerId) -> i64 {
    let standing = limits::standing(store, customer, &allowances()).await.unwrap();
    standing.parts.limit.on(Platform::Alpha)
}

#[tokio::test]
async fn a_change_reads_back_as_it_was_written() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(Active, 2, 0)).await;
        let mut new = change(&store, customer, SlotChangeKind::Switch, Vec::new()).await;
        new.items = vec![slots(Platform::Alpha, 2, 1), slots(Platform::Beta, 0, 1)];
        new.items[1].item_id = None;
        new.creator = Some(creator("ada"));

        let open = started(start(&store, &new).await);

        assert_eq!((open.id, open.kind, &open.items), (new.id, new.kind, &new.items));
        assert_eq!((open.state, open.attempts), (SlotChangeState::Open, 1));
        assert_eq!(open.creator, new.creator);
        let found = slot_changes::find_open(&store, customer).await.unwrap();
        assert_eq!(found.as_ref(), Some(&open));
        assert_eq!(slot_changes::find(&store, new.id).await.unwrap(), found);
    }
}

#[tokio::test]
async fn one_change_at_a_time_is_open() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(Active, 1, 0)).await;
        let mut tasks = tokio::task::JoinSet::new();
        for count in 2..22 {
            let items = vec![slots(Platform::Alpha, 1, count)];
            let new = change(&store, customer, SlotChangeKind::Raise, items).await;
            let shared = (*store).clone();
            tasks.spawn(async move { (new.id, start(&shared, &new).await) });
        }

        let ended = tasks.join_all().await;

        let open: Vec<_> =
            ended.iter().filter(|(_, start)| matches!(start, Start::Started(_))).collect();
        assert_eq!(open.len(), 1);
        let busy = |start: &Start| matches!(start, Start::Busy(change) if change.id == open[0].0);
        assert_eq!(ended.iter().filter(|(_, start)| busy(start)).count(), 19);
    }
}

#[tokio::test]
async fn a_change_from_an_older_state_is_decided_anew() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(Active, 1, 0)).await;
        let items = vec![slots(Platform::Alpha, 1, 2)];
        let new = change(&store, customer, SlotChangeKind::Raise, items).await;
        apply(&store, customer, &pro(Active, 5, 0)).await;

        assert_eq!(start(&store, &new).await, Start::Overtaken);
    }
}

#[tokio::test]
async fn a_raise_gives_its_places_when_the_processor_shows_it_and_the_named_account_is_first() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(Active, 0, 0)).await;
        connect(&store, customer, &["bob", "cyd", "dan", "eve", "fay"]).await;
        assert_eq!(in_use(&store, customer).await, ["ada", "bob", "cyd"]);
        let items = vec![slots(Platform::Alpha, 0, 2)];
        let mut new = change(&store, customer, SlotChangeKind::Raise, items).await;
        new.creator = Some(creator("fay"));

        let open = started(start(&store, &new).await);
        let meanwhile = (limit(&store, customer).await, in_use(&store, customer).await.len());
        let happened = apply(&store, customer, &pro(Active, 2, 0)).await;

        assert_eq!(meanwhile, (3, 3));
        assert_eq!(in_use(&store, customer).await, ["ada", "bob", "cyd", "dan", "fay"]);
        assert_eq!(happened.applied.unwrap().id, open.id);
        let closed = slot_changes::find(&store, open.id).await.unwrap().unwrap();
        assert_eq!(closed.state, SlotChangeState::Applied);
        assert_eq!(slot_changes::find_open(&store, customer).await.unwrap(), None);
    }
}

#[tokio::test]
async fn a_decrease_below_what_is_in_use_names_the_accounts_and_writes_nothing() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(Active, 2, 1)).await;
        connect(&store, customer, &["bob", "cyd", "dan"]).await;
        let lower = async |count| {
            let items = vec![slots(Platform::Alpha, 2, count)];
            change(&store, customer, SlotChangeKind::Lower, items).await
        };

        let refused = start(&store, &lower(0).await).await;

        let Start::InUse(occupants) = refused else { panic!("{refused:?}") };
        let names: Vec<_> = occupants.iter().map(|occupant| occupant.creator_id.as_str()).collect();
        assert_eq!(names, ["ada", "bob", "cyd", "dan"]);
        assert_eq!(slot_changes::find_open(&store, customer).await.unwrap(), None);
        assert!(matches!(start(&store, &lower(1).await).await, Start::Started(_)));
    }
}

#[tokio::test]
async fn a_place_that_is_being_given_up_cannot_be_taken() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(Active, 1, 0)).await;
        connect(&store, customer, &["bob", "cyd"]).await;
        let items = vec![slots(Platform::Alpha, 1, 0)];
        let lower = change(&store, customer, SlotChangeKind::Lower, items).await;
        let open = started(start(&store, &lower).await);

        let late = connect(&store, customer, &["dan"]).await;
        let limit_meanwhile = limit(&store, customer).await;
        let failure = Failure { code: "resource_missing", decline_code: None, at: NOON };
        let told = Told::default();
        let failed = slot_changes::fail(&store, &open, failure, &allowances(), &told).await;

        assert_eq!((late, limit_meanwhile), (vec![AccountState::Inactive], 3));
        // The place was not given up after all, so whoever waits for it gets it.
        let shifts = failed.unwrap().unwrap();
        assert_eq!(shifts[0].creator_id, creator("dan"));
        assert_eq!(limit(&store, customer).await, 4);
        assert_eq!(in_use(&store, customer).await, ["ada", "bob", "cyd", "dan"]);
    }
}

#[tokio::test]
async fn an_open_change_is_taken_over_by_one_when_its_lease_is_over() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(Active, 1, 0)).await;
        let items = vec![slots(Platform::Alpha, 1, 2)];
        let new = change(&store, customer, SlotChangeKind::Raise, items).await;
        let open = started(start(&store, &new).await);
        let later = LEASE_END.plus_seconds(60);

        let early = slot_changes::take_over(&store, &open, NOON, later).await.unwrap();
        let left_early = slot_changes::list_left(&store, NOON, 10).await.unwrap();
        let left = slot_changes::list_left(&store, LEASE_END, 10).await.unwrap();
        let taken = slot_changes::take_over(&store, &open, LEASE_END, later).await.unwrap();
        let twice = slot_changes::take_over(&store, &open, later, later).await.unwrap();

        assert_eq!((early, left_early.len()), (None, 0));
        assert_eq!(left, std::slice::from_ref(&open));
        let taken = taken.unwrap();
        assert_eq!((taken.attempts, taken.leased_until), (2, later));
        assert_eq!(twice, None);
        // Who lost the lease ends nothing any more.
        let failure = Failure { code: "late", decline_code: None, at: NOON };
        let told = Told::default();
        let zombie = slot_changes::fail(&store, &open, failure, &allowances(), &told).await;
        assert_eq!(zombie.unwrap(), None);
        slot_changes::release(&store, &taken, LEASE_END).await.unwrap();
        assert_eq!(slot_changes::list_left(&store, LEASE_END, 10).await.unwrap().len(), 1);
    }
}

#[tokio::test]
async fn what_was_told_of_a_change_is_remembered_for_each_platform() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        let preview = |platform, slots| Preview {
            platform,
            slots,
            proration_date_s: 1_000 + slots,
            made_at: NOON,
        };
        for (platform, slots) in [(Platform::Alpha, 1), (Platform::Beta, 2), (Platform::Alpha, 3)] {
            slot_previews::remember(&store, customer, &preview(platform, slots)).await.unwrap();
        }

        let found = async |platform| slot_previews::find(&store, customer, platform).await.unwrap();
        assert_eq!(found(Platform::Alpha).await, Some(preview(Platform::Alpha, 3)));
        assert_eq!(found(Platform::Beta).await, Some(preview(Platform::Beta, 2)));
        assert_eq!(found(Platform::Gamma).await, None);
    }
}

/// Twenty changes and twenty connects at once, with somebody who reads all the time: the accounts in use are never
/// more than the limit of the same instant.
#[tokio::test]
async fn accounts_in_use_never_exceed_the_limit_while_slots_change_and_accounts_connect() {
    for store in testing::stores().await {
        let customer = Caller::with(&store, 0).await.customer;
        apply(&store, customer, &pro(Active, 4, 0)).await;
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..20 {
            let (changer, connector) = ((*store).clone(), (*store).clone());
            tasks.spawn(async move { change_to(&changer, customer, number % 8).await });
            let name = format!("creator-{number}");
            tasks.spawn(async move {
                let new = NewAccount {
                    allowances: Arc::new(allowances()),
                    ..new_account(customer, &name)
                };
                accounts::connect(&connector, &new).await.unwrap();
            });
        }

        let mut reads = 0;
        while !tasks.is_empty() {
            assert_within_limit(&store, customer).await;
            reads += 1;
            while tasks.try_join_next().is_some() {}
        }

        assert!(reads > 0);
        let standing = limits::standing(&store, customer, &allowances()).await.unwrap();
        let slots = standing.subscription.unwrap().view.slots(Platform::Alpha);
        assert_eq!(standing.parts.limit.on(Platform::Alpha), 3 + slots);
        assert_eq!(standing.active.on(Platform::Alpha), 3 + slots);
    }
}

async fn assert_within_limit(store: &Store, customer: CustomerId) {
    let standing = limits::standing(store, customer, &allowances()).await.unwrap();
    for platform in Platform::ALL {
        let (active, limit) = (standing.active.on(*platform), standing.parts.limit.on(*platform));
        assert!(active <= limit, "{active} of {limit} on {platform}");
    }
}

/// Brings the slots to `count` as the service does, with a processor that agrees to everything.
async fn change_to(store: &Store, customer: CustomerId, count: i64) {
    loop {
        let known = subscriptions::find(store, customer).await.unwrap().unwrap();
        let before = known.view.slots(Platform::Alpha);
        let kind = if count > before { SlotChangeKind::Raise } else { SlotChangeKind::Lower };
        let items = vec![slots(Platform::Alpha, before, count)];
        let new =
            NewChange { version: known.version, ..change(store, customer, kind, items).await };
        match start(store, &new).await {
            Start::Started(_) => {
                apply(store, customer, &pro(Active, count, 0)).await;
                return;
            }
            Start::InUse(_) | Start::Busy(_) => return,
            Start::Overtaken => {}
        }
    }
}
