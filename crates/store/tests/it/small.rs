//! Verified routes, nodes, settings and the audit list.

use domain::id::{AuditId, NodeId};
use domain::platform::Platform;
use store::audit::{self, AuditEntry, AuditQuery};
use store::nodes::{self, Node};
use store::routes::{self, VerifiedRoute};
use store::{metering, testing};

use crate::support::{NOON, TestCaller, entry, node, unique};

#[tokio::test]
async fn a_route_is_verified_by_its_first_2xx() {
    let store = testing::store().await;
    let later = NOON.plus_seconds(1);

    assert!(routes::mark_verified(&store, Platform::BETA, "account/me", NOON).await.unwrap());
    assert!(!routes::mark_verified(&store, Platform::BETA, "account/me", later).await.unwrap());
    assert!(routes::mark_verified(&store, Platform::ALPHA, "users/me", later).await.unwrap());

    let route = |platform, route: &str, verified_at| VerifiedRoute {
        platform,
        route: route.to_owned(),
        verified_at,
    };
    assert_eq!(
        routes::list_verified(&store).await.unwrap(),
        [route(Platform::ALPHA, "users/me", later), route(Platform::BETA, "account/me", NOON),]
    );
}

#[tokio::test]
async fn nodes_are_registered_at_start_and_send_heartbeats() {
    let store = testing::store().await;
    assert!(!nodes::heartbeat(&store, node(), NOON).await.unwrap());
    let other = NodeId::new(NOON, [8; 10]);
    metering::recover(&store, other, NOON).await.unwrap();
    metering::recover(&store, node(), NOON).await.unwrap();
    metering::recover(&store, node(), NOON).await.unwrap();

    assert!(nodes::heartbeat(&store, node(), NOON.plus_seconds(5)).await.unwrap());
    let live = async |seconds| nodes::count_live(&store, NOON.plus_seconds(seconds)).await;
    assert_eq!((live(5).await.unwrap(), live(6).await.unwrap()), (1, 0));

    assert_eq!(
        nodes::list(&store).await.unwrap(),
        [
            Node { id: node(), epoch: 2, heartbeat_at: NOON.plus_seconds(5) },
            Node { id: other, epoch: 1, heartbeat_at: NOON },
        ]
    );
}

#[tokio::test]
async fn the_first_value_of_a_setting_stays() {
    let store = testing::store().await;
    assert_eq!(nodes::setting(&store, "node").await.unwrap(), None);

    assert_eq!(nodes::settle_setting(&store, "node", "one").await.unwrap(), "one");
    assert_eq!(nodes::settle_setting(&store, "node", "two").await.unwrap(), "one");

    assert_eq!(nodes::setting(&store, "node").await.unwrap().as_deref(), Some("one"));
}

#[tokio::test]
async fn the_audit_list_is_append_only() {
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let written = entry(caller.customer);
    audit::record(&store, &written).await.unwrap();

    for statement in ["update audit set details = 'nothing'", "delete from audit"] {
        let refused = testing::run_raw(&store, statement).await.unwrap_err();
        let told = format!("{refused:?}");
        assert!(told.contains("the audit list is append only"), "{told}");
    }

    let query = AuditQuery { customer: caller.customer, action: "key.", before: None, limit: 9 };
    assert_eq!(audit::list(&store, &query).await.unwrap(), [written]);
}

/// The previous version reads no other prefix and may run at the same time, so a row with its
/// spelling is the same row.
#[tokio::test]
async fn audit_ids_are_stored_in_the_form_of_earlier_versions() {
    const SAME_ID: &str = "
        insert into audit (id, customer_id, at, actor, action, details)
        select 'ent_01990000000070008000000000000001', customer_id, at, actor, action, details from audit
        where id = 'ent_01990000000070008000000000000001'";
    const OTHER_ID: &str = "
        insert into audit (id, customer_id, at, actor, action, details)
        select 'ent_01990000000070008000000000000002', customer_id, at, actor, action, details from audit
        where id = 'ent_01990000000070008000000000000001'";
    let store = testing::store().await;
    let caller = TestCaller::with(&store, 0).await;
    let id = "aud_01990000000070008000000000000001".parse().unwrap();
    audit::record(&store, &AuditEntry { id, ..entry(caller.customer) }).await.unwrap();

    testing::run_raw(&store, SAME_ID).await.unwrap_err();
    assert_eq!(testing::run_raw(&store, OTHER_ID).await.unwrap(), 1);

    let query = AuditQuery { customer: caller.customer, action: "", before: None, limit: 9 };
    let listed = audit::list(&store, &query).await.unwrap();
    let ids: Vec<String> = listed
        .iter()
        .map(|entry| entry.id.to_string())
        .filter(|text| text.starts_with("aud_01990000"))
        .collect();
    assert_eq!(
        ids,
        ["aud_01990000000070008000000000000002", "aud_01990000000070008000000000000001"]
    );
}

#[tokio::test]
async fn the_audit_list_returns_a_customers_newest_entries_in_pages() {
    let store = testing::store().await;
    let (caller, other) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    let at_second = |customer, seconds| AuditEntry {
        id: AuditId::new(NOON, unique()),
        customer,
        at: NOON.plus_seconds(seconds),
        actor: "operator".to_owned(),
        action: "calls.read".to_owned(),
        details: format!("{seconds}"),
    };
    let entries: Vec<AuditEntry> =
        (0..3).map(|seconds| at_second(caller.customer, seconds)).collect();
    for written in &entries {
        audit::record(&store, written).await.unwrap();
    }
    audit::record(&store, &at_second(other.customer, 9)).await.unwrap();

    let query = AuditQuery { customer: caller.customer, action: "calls", before: None, limit: 2 };
    let newest = audit::list(&store, &query).await.unwrap();
    let older = AuditQuery { before: Some(newest[1].id), ..query.clone() };
    let foreign = AuditQuery { customer: other.customer, ..older.clone() };
    let others = AuditQuery { action: "keys", ..query };

    assert_eq!(newest, [entries[2].clone(), entries[1].clone()]);
    assert_eq!(audit::list(&store, &older).await.unwrap(), [entries[0].clone()]);
    assert_eq!(audit::list(&store, &foreign).await.unwrap(), []);
    assert_eq!(audit::list(&store, &others).await.unwrap(), []);
}
