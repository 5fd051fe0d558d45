//! Permissions and consent: which staff may view which data, and that each access is recorded
//! first.

use domain::id::CustomerId;
use domain::staff::Permission;
use domain::time::Timestamp;
use store::audit::{self, AuditEntry, AuditQuery};
use store::permissions::{self, PermissionGranting};
use store::support_access::{self, SupportLook, SupportLookOutcome};
use store::{Store, customers, testing};

use crate::support::{NOON, TestCaller, entry, entry_at};

async fn permit(store: &Store, member: CustomerId, permission: Permission) {
    let granting = permissions::grant(store, member, permission, &entry(member)).await.unwrap();
    assert_eq!(granting, PermissionGranting::Granted);
}

/// Requests access to the customer's data at this time.
async fn look_at(
    store: &Store,
    (staff, needs): (CustomerId, &[Permission]),
    customer: CustomerId,
    at: Timestamp,
) -> SupportLookOutcome {
    let told = AuditEntry { actor: staff.to_string(), ..entry_at(customer, at) };
    support_access::look(store, &SupportLook { staff, needs, customer }, &told).await.unwrap()
}

async fn looks(store: &Store, staff: CustomerId, customer: CustomerId) -> usize {
    let query = AuditQuery { customer, action: "key.", before: None, limit: 100 };
    let entries = audit::list(store, &query).await.unwrap();
    entries.iter().filter(|told| told.actor == staff.to_string()).count()
}

#[tokio::test]
async fn permissions_are_granted_listed_and_revoked() {
    let store = testing::store().await;
    let member = TestCaller::with(&store, 0).await.customer;
    let nobody = CustomerId::new(NOON, [7; 10]);
    let told = entry(member);

    permit(&store, member, Permission::SupportRead).await;
    let again = permissions::grant(&store, member, Permission::SupportRead, &told).await.unwrap();
    let missing =
        permissions::grant(&store, nobody, Permission::SupportRead, &entry(nobody)).await.unwrap();
    let listed = permissions::list(&store).await.unwrap();
    let revoked = permissions::revoke(&store, member, Permission::SupportRead, &told).await;
    let twice = permissions::revoke(&store, member, Permission::SupportRead, &entry(member)).await;

    assert_eq!((again, missing), (PermissionGranting::Repeated, PermissionGranting::NoCustomer));
    assert_eq!(listed.len(), 1);
    assert_eq!((listed[0].customer, listed[0].permission), (member, Permission::SupportRead));
    assert_eq!((revoked.unwrap(), twice.unwrap()), (true, false));
    assert_eq!(permissions::list(&store).await.unwrap(), []);
    let query = AuditQuery { customer: member, action: "key.", before: None, limit: 9 };
    assert_eq!(
        audit::list(&store, &query).await.unwrap().len(),
        2,
        "changes without effect are not recorded"
    );
}

/// Every permission and every state of the consent: access needs all required permissions, at a
/// time the customer allows.
#[tokio::test]
async fn staff_access_needs_permissions_and_consent_and_is_recorded() {
    let store = testing::store().await;
    let victim = TestCaller::with(&store, 0).await.customer;
    let mut members = Vec::new();
    for held in [
        &[][..],
        &[Permission::SupportRead],
        &[Permission::DataExportManage],
        &[Permission::SupportRead, Permission::DataExportManage],
    ] {
        let member = TestCaller::with(&store, 0).await.customer;
        for permission in held {
            permit(&store, member, *permission).await;
        }
        members.push((member, held));
    }
    let until = NOON.plus_seconds(3_600);
    let refused =
        |may| if may { SupportLookOutcome::NotOpen } else { SupportLookOutcome::NotPermitted };

    for (member, held) in members {
        let mut traces = 0;
        for needs in [Permission::TO_LOOK, Permission::TO_MANAGE_EXPORTS] {
            let may = needs.iter().all(|needed| held.contains(needed));
            let asked = (member, needs);
            let before = NOON.plus_seconds(-1);
            assert_eq!(look_at(&store, asked, victim, before).await, refused(may));

            support_access::enable(&store, until, &entry(victim)).await.unwrap();
            let open =
                if may { SupportLookOutcome::Allowed } else { SupportLookOutcome::NotPermitted };
            assert_eq!(look_at(&store, asked, victim, NOON).await, open);
            assert_eq!(look_at(&store, asked, victim, until.plus_micros(-1)).await, open);
            assert_eq!(look_at(&store, asked, victim, until).await, refused(may));
            traces += if may { 2 } else { 0 };

            assert!(support_access::disable(&store, &entry(victim)).await.unwrap());
            assert!(!support_access::disable(&store, &entry(victim)).await.unwrap());
            assert_eq!(look_at(&store, asked, victim, NOON).await, refused(may));
            let unknown = CustomerId::new(NOON, [8; 10]);
            assert_eq!(look_at(&store, asked, unknown, NOON).await, refused(may));
        }
        assert_eq!(looks(&store, member, victim).await, traces, "{held:?}");
    }
}

#[tokio::test]
async fn closed_staff_members_have_no_access() {
    let store = testing::store().await;
    let (victim, member) = (TestCaller::with(&store, 0).await, TestCaller::with(&store, 0).await);
    permit(&store, member.customer, Permission::SupportRead).await;
    support_access::enable(&store, NOON.plus_seconds(60), &entry(victim.customer)).await.unwrap();
    let asked = (member.customer, Permission::TO_LOOK);
    assert_eq!(look_at(&store, asked, victim.customer, NOON).await, SupportLookOutcome::Allowed);

    assert!(customers::disable(&store, member.customer, NOON).await.unwrap());

    assert_eq!(
        look_at(&store, asked, victim.customer, NOON).await,
        SupportLookOutcome::NotPermitted
    );
}
