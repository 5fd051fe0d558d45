//! Slot changes: one open at a time, never below what is in use, with limits that hold in every
//! read meanwhile.

use std::sync::Arc;

use domain::account::AccountState;
use domain::id::{ChangeId, CustomerId};
use domain::platform::Platform;
use domain::slot::{ChangeProration, ChangeStep, SlotChangeKind, SlotChangeState};
use domain::subscription::SubscriptionStatus::Active;
use domain::time::Timestamp;
use store::accounts::{self, NewAccount};
use store::audit::AuditEntry;
use store::change_previews::{self, StoredPreview};
use store::slot_assignment::{OccupiedSlots, SlotShift};
use store::slot_changes::{
    self, NewSlotChange, SlotChange, SlotChangeFailure, SlotChangeItem, SlotChangeStart,
};

use store::subscriptions;
use store::{Store, sales, slot_limits, testing};

use crate::account_switch::switch;
use crate::subscriptions::{allowances, apply, connect, in_use, pro};
use crate::support::{NOON, TestCaller, creator, new_account, node, unique};

const LEASE_END: Timestamp = NOON.plus_seconds(60);

pub(crate) fn slots(platform: Platform, count_before: i64, count_after: i64) -> SlotChangeItem {
    SlotChangeItem {
        platform: Some(platform),
        plan_id: None,
        item_id: Some(format!("si_{}", platform.as_str())),
        price_id: "price_slot".to_owned(),
        price_before: None,
        paid_price_id: None,
        count_before,
        count_after,
    }
}

pub(crate) async fn change(
    store: &Store,
    customer: CustomerId,
    kind: SlotChangeKind,
    items: Vec<SlotChangeItem>,
) -> NewSlotChange {
    NewSlotChange {
        id: ChangeId::new(NOON, unique()),
        customer,
        version: subscriptions::version(store, customer).await.unwrap(),
        kind,
        subscription_id: "sub_1".to_owned(),
        creator: None,
        proration: match kind {
            SlotChangeKind::Raise => ChangeProration::PayNow,
            _ => ChangeProration::NextInvoice,
        },
        step: ChangeStep::Change,
        period_end: Some(NOON.plus_seconds(86_400)),
        proration_date_s: NOON.unix_seconds(),
        actor: "key".to_owned(),
        items,
        at: NOON,
        leased_until: LEASE_END,
    }
}

async fn start(store: &Store, new: &NewSlotChange) -> SlotChangeStart {
    slot_changes::start(store, new, &allowances()).await.unwrap()
}

fn started(start: SlotChangeStart) -> SlotChange {
    match start {
        SlotChangeStart::Started(change) => *change,
        other => panic!("{other:?}"),
    }
}

async fn limit(store: &Store, customer: CustomerId) -> i64 {
    let standing = slot_limits::usage(store, customer, &allowances()).await.unwrap();
    standing.limits.limit.on(Platform::ALPHA)
}

#[tokio::test]
async fn a_change_is_stored_completely() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 2, 0)).await;
    let mut new = change(&store, customer, SlotChangeKind::Switch, Vec::new()).await;
    new.items = vec![slots(Platform::ALPHA, 2, 1), slots(Platform::BETA, 0, 1)];
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

#[tokio::test]
async fn only_one_change_is_open_at_a_time() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 1, 0)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for count in 2..22 {
        let items = vec![slots(Platform::ALPHA, 1, count)];
        let new = change(&store, customer, SlotChangeKind::Raise, items).await;
        let shared = (*store).clone();
        tasks.spawn(async move { (new.id, start(&shared, &new).await) });
    }

    let ended = tasks.join_all().await;

    let open: Vec<_> =
        ended.iter().filter(|(_, start)| matches!(start, SlotChangeStart::Started(_))).collect();
    assert_eq!(open.len(), 1);
    let busy = |start: &SlotChangeStart| matches!(start, SlotChangeStart::Busy(change) if change.id == open[0].0);
    assert_eq!(ended.iter().filter(|(_, start)| busy(start)).count(), 19);
}

#[tokio::test]
async fn a_change_based_on_an_outdated_version_is_refused() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 1, 0)).await;
    let items = vec![slots(Platform::ALPHA, 1, 2)];
    let new = change(&store, customer, SlotChangeKind::Raise, items).await;
    apply(&store, customer, &pro(Active, 5, 0)).await;

    assert_eq!(start(&store, &new).await, SlotChangeStart::Overtaken);
}

#[tokio::test]
async fn a_raise_assigns_slots_once_the_processor_shows_it() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 0, 0)).await;
    connect(&store, customer, &["bob", "cyd", "dan", "eve", "fay"]).await;
    assert_eq!(in_use(&store, customer).await, ["ada", "bob", "cyd"]);
    let items = vec![slots(Platform::ALPHA, 0, 2)];
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

#[tokio::test]
async fn lowering_below_the_slots_in_use_is_refused_with_the_accounts() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 2, 1)).await;
    connect(&store, customer, &["bob", "cyd", "dan"]).await;
    let lower = async |count| {
        let items = vec![slots(Platform::ALPHA, 2, count)];
        change(&store, customer, SlotChangeKind::Lower, items).await
    };

    let refused = start(&store, &lower(0).await).await;

    let SlotChangeStart::InUse(occupied) = refused else { panic!("{refused:?}") };
    let accounts = ["ada", "bob", "cyd", "dan"].map(creator).to_vec();
    let platform = Platform::ALPHA;
    let expected = OccupiedSlots { platform, must_free: 1, accounts, waiting: Vec::new() };
    assert_eq!(occupied, expected);
    assert_eq!(slot_changes::find_open(&store, customer).await.unwrap(), None);
    assert!(matches!(start(&store, &lower(1).await).await, SlotChangeStart::Started(_)));
}

#[tokio::test]
async fn a_refused_lowering_names_waiting_accounts() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 2, 1)).await;
    connect(&store, customer, &["bob", "cyd", "dan", "eve", "fay", "gil"]).await;
    switch(&store, customer, "gil", false).await;
    let items = vec![slots(Platform::ALPHA, 2, 0)];
    let lower = change(&store, customer, SlotChangeKind::Lower, items).await;

    let SlotChangeStart::InUse(occupied) = start(&store, &lower).await else { panic!() };

    // Accounts that are switched off take no slot.
    assert_eq!((occupied.must_free, occupied.waiting), (2, vec![creator("fay")]));
}

/// Writes no audit entry.
fn unnoted(_: &[SlotShift]) -> Option<AuditEntry> {
    None
}

#[tokio::test]
async fn slots_being_given_up_cannot_be_used() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 1, 0)).await;
    connect(&store, customer, &["bob", "cyd"]).await;
    let items = vec![slots(Platform::ALPHA, 1, 0)];
    let lower = change(&store, customer, SlotChangeKind::Lower, items).await;
    let open = started(start(&store, &lower).await);

    let late = connect(&store, customer, &["dan"]).await;
    let limit_meanwhile = limit(&store, customer).await;
    let failure = SlotChangeFailure { code: "resource_missing", decline_code: None, at: NOON };
    let failed = slot_changes::fail(&store, &open, failure, &allowances(), &unnoted).await;

    assert_eq!((late, limit_meanwhile), (vec![AccountState::Inactive], 3));
    // The slot was kept after all, so the waiting account gets it.
    let shifts = failed.unwrap().unwrap();
    assert_eq!(shifts[0].creator_id, creator("dan"));
    assert_eq!(limit(&store, customer).await, 4);
    assert_eq!(in_use(&store, customer).await, ["ada", "bob", "cyd", "dan"]);
}

#[tokio::test]
async fn an_open_change_is_taken_over_once_after_its_lease() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 1, 0)).await;
    let items = vec![slots(Platform::ALPHA, 1, 2)];
    let new = change(&store, customer, SlotChangeKind::Raise, items).await;
    let open = started(start(&store, &new).await);
    let later = LEASE_END.plus_seconds(60);

    let early = slot_changes::take_over(&store, &open, NOON, later).await.unwrap();
    let left_early = slot_changes::list_left(&store, NOON, 10).await.unwrap();
    let by_time = slot_changes::list_left(&store, later, 10).await.unwrap();
    assert_eq!(by_time, [], "the time alone ends no lease");
    assert_eq!(testing::take_over(&store, LEASE_END).await.unwrap().leases, 1);
    let left = slot_changes::list_left(&store, LEASE_END, 10).await.unwrap();
    let taken = slot_changes::take_over(&store, &open, LEASE_END, later).await.unwrap();
    let twice = slot_changes::take_over(&store, &open, later, later).await.unwrap();

    assert_eq!((early, left_early.len()), (None, 0));
    assert_eq!(left, std::slice::from_ref(&open));
    let taken = taken.unwrap();
    assert_eq!((taken.attempts, taken.leased_until), (2, later));
    assert_eq!(twice, None);
    // A node that lost the lease can end nothing.
    let failure = SlotChangeFailure { code: "late", decline_code: None, at: NOON };
    let zombie = slot_changes::fail(&store, &open, failure, &allowances(), &unnoted).await;
    assert_eq!(zombie.unwrap(), None);
    slot_changes::release(&store, &taken, LEASE_END).await.unwrap();
    assert_eq!(slot_changes::list_left(&store, LEASE_END, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_last_preview_of_each_subject_is_kept() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let preview = |subject: &str, wanted: &str| StoredPreview {
        subject: subject.to_owned(),
        wanted: wanted.to_owned(),
        proration_date_s: 1_000,
        made_at: NOON,
    };
    for (subject, wanted) in [("platform_alpha", "1"), ("plan", "price_1"), ("platform_alpha", "3")]
    {
        change_previews::remember(&store, customer, &preview(subject, wanted)).await.unwrap();
    }

    let found = async |subject| change_previews::find(&store, customer, subject).await.unwrap();
    assert_eq!(found("platform_alpha").await, Some(preview("platform_alpha", "3")));
    assert_eq!(found("plan").await, Some(preview("plan", "price_1")));
    assert_eq!(found("switch").await, None);
}

/// A change of the plan's item from `before` to `wanted`, while the period was paid with `paid`.
fn plan(before: &str, wanted: &str, paid: &str) -> SlotChangeItem {
    SlotChangeItem {
        platform: None,
        plan_id: Some("big".to_owned()),
        item_id: Some("si_plan".to_owned()),
        price_id: wanted.to_owned(),
        price_before: Some(before.to_owned()),
        paid_price_id: Some(paid.to_owned()),
        count_before: 1,
        count_after: 1,
    }
}

#[tokio::test]
async fn an_upgrade_advances_through_its_steps_and_applies_only_at_its_own() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    let mut view = pro(Active, 0, 0);
    apply(&store, customer, &view).await;
    let items = vec![plan("price_cheap", "price_big", "price_si_plan")];
    let mut new = change(&store, customer, SlotChangeKind::Plan, items).await;
    (new.proration, new.step) = (ChangeProration::PayNow, ChangeStep::TakeBack);
    let open = started(start(&store, &new).await);
    "price_big".clone_into(&mut view.items[2].price_id);
    let later = LEASE_END.plus_seconds(60);

    let early = open.is_shown_by(&view);
    let stale = SlotChange { attempts: 0, ..open.clone() };
    let stolen = slot_changes::set_step(&store, &stale, ChangeStep::Change, later).await;
    let next = slot_changes::set_step(&store, &open, ChangeStep::Change, later).await.unwrap();
    let next = next.unwrap();
    let failure =
        SlotChangeFailure { code: "card_declined", decline_code: Some("no_funds"), at: NOON };
    let restoring = slot_changes::begin_restore(&store, &next, failure, later).await.unwrap();
    let found = slot_changes::find_open(&store, customer).await.unwrap();

    assert_eq!((early, stolen.unwrap()), (false, None));
    assert!(next.is_shown_by(&view));
    assert_eq!(open.pending_before(), Some("price_cheap"));
    let restoring = restoring.unwrap();
    assert_eq!(found.as_ref(), Some(&restoring));
    assert_eq!((restoring.step, restoring.leased_until), (ChangeStep::Restore, later));
    assert_eq!(restoring.decline_code.as_deref(), Some("no_funds"));
    assert!(!restoring.is_shown_by(&view));
}

/// Only one process uses an SQLite file; on PostgreSQL another node may be working on the change.
#[tokio::test]
async fn a_start_ends_the_leases_of_a_dead_process() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 0, 0)).await;
    let items = vec![plan("price_si_plan", "price_big", "price_si_plan")];
    let new = change(&store, customer, SlotChangeKind::Plan, items).await;
    let open = started(start(&store, &new).await);
    let is_sqlite = store.database() == store::DatabaseKind::Sqlite;
    // The lease was another process's.
    store.act_as(node());

    let ended = store::leases::release_left(&store).await.unwrap();

    assert_eq!(ended, u64::from(is_sqlite));
    let taken = slot_changes::take_over(&store, &open, NOON, LEASE_END).await.unwrap();
    assert_eq!(taken.is_some(), is_sqlite);
}

/// Two customers may change their plans in the same second, and one of them more than once.
#[tokio::test]
async fn plan_prices_are_looked_up_by_subscription_and_proration_date() {
    let store = testing::store().await;
    let date = NOON.unix_seconds();
    for (number, wanted, is_made) in
        [(1, "price_declined", false), (1, "price_big", true), (2, "price_huge", true)]
    {
        let customer = TestCaller::with(&store, 0).await.customer;
        let id = format!("sub_{number}");
        let mut view = pro(Active, 0, 0);
        view.subscription_id = Some(id.clone());
        apply(&store, customer, &view).await;
        let items = vec![plan("price_si_plan", wanted, "price_si_plan")];
        let mut new = change(&store, customer, SlotChangeKind::Plan, items).await;
        (new.subscription_id, new.proration) = (id, ChangeProration::PayNow);
        let open = started(start(&store, &new).await);
        if !is_made {
            let failure = SlotChangeFailure { code: "declined", decline_code: None, at: NOON };
            slot_changes::fail(&store, &open, failure, &allowances(), &unnoted).await.unwrap();
        }
    }

    let asked = async |id: &str, at: i64| sales::plan_price_at(&store, id, at).await.unwrap();
    assert_eq!(asked("sub_1", date).await.as_deref(), Some("price_big"));
    assert_eq!(asked("sub_2", date).await.as_deref(), Some("price_huge"));
    assert_eq!((asked("sub_1", date + 1).await, asked("sub_3", date).await), (None, None));
}

#[tokio::test]
async fn only_upgrades_from_a_pending_plan_have_a_price_to_restore() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    for (proration, before, pending) in [
        (ChangeProration::PayNow, "price_cheap", Some("price_cheap")),
        (ChangeProration::PayNow, "price_si_plan", None),
        (ChangeProration::None, "price_cheap", None),
    ] {
        apply(&store, customer, &pro(Active, 0, 0)).await;
        let items = vec![plan(before, "price_big", "price_si_plan")];
        let mut new = change(&store, customer, SlotChangeKind::Plan, items).await;
        new.proration = proration;

        let open = started(start(&store, &new).await);
        slot_changes::note_charge(&store, open.id, "in_1", 15_000).await.unwrap();
        let noted = slot_changes::find(&store, open.id).await.unwrap().unwrap();
        let failure = SlotChangeFailure { code: "declined", decline_code: None, at: NOON };
        slot_changes::fail(&store, &open, failure, &allowances(), &unnoted).await.unwrap();

        assert_eq!(open.pending_before(), pending, "{proration:?}");
        assert_eq!(open.proration, proration);
        assert_eq!(noted.invoice_id.as_deref(), Some("in_1"));
        assert_eq!(noted.charged_cents, Some(15_000));
    }
}

/// 20 concurrent changes and 20 connects, with constant reads: the accounts in use never exceed the
/// limit of the same instant.
#[tokio::test]
async fn concurrent_changes_never_exceed_the_slot_limit() {
    let store = testing::store().await;
    let customer = TestCaller::with(&store, 0).await.customer;
    apply(&store, customer, &pro(Active, 4, 0)).await;
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let (changer, connector) = ((*store).clone(), (*store).clone());
        tasks.spawn(async move { change_to(&changer, customer, number % 8).await });
        let name = format!("creator-{number}");
        tasks.spawn(async move {
            let new =
                NewAccount { allowances: Arc::new(allowances()), ..new_account(customer, &name) };
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
    let standing = slot_limits::usage(&store, customer, &allowances()).await.unwrap();
    let slots = standing.subscription.unwrap().view.slots(Platform::ALPHA);
    assert_eq!(standing.limits.limit.on(Platform::ALPHA), 3 + slots);
    assert_eq!(standing.active.on(Platform::ALPHA), 3 + slots);
}

async fn assert_within_limit(store: &Store, customer: CustomerId) {
    let standing = slot_limits::usage(store, customer, &allowances()).await.unwrap();
    for platform in Platform::all() {
        let (active, limit) = (standing.active.on(platform), standing.limits.limit.on(platform));
        assert!(active <= limit, "{active} of {limit} on {platform}");
    }
}

/// Changes the number of slots to `count` as the service does, with a processor that accepts
/// everything.
async fn change_to(store: &Store, customer: CustomerId, count: i64) {
    loop {
        let known = subscriptions::find(store, customer).await.unwrap().unwrap();
        let before = known.view.slots(Platform::ALPHA);
        let kind = if count > before { SlotChangeKind::Raise } else { SlotChangeKind::Lower };
        let items = vec![slots(Platform::ALPHA, before, count)];
        let new =
            NewSlotChange { version: known.version, ..change(store, customer, kind, items).await };
        match start(store, &new).await {
            SlotChangeStart::Started(_) => {
                apply(store, customer, &pro(Active, count, 0)).await;
                return;
            }
            SlotChangeStart::InUse(_) | SlotChangeStart::Busy(_) => return,
            SlotChangeStart::Overtaken => {}
        }
    }
}
