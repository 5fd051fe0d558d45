//! Permissions, which make a customer a member of staff.

use domain::customer::Email;
use domain::id::CustomerId;
use domain::staff::Permission;
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// A permission of a customer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedPermission {
    /// The customer who has it.
    pub customer: CustomerId,
    /// The customer's address, for display.
    pub email: Email,
    /// What it allows.
    pub permission: Permission,
    /// When it was granted.
    pub granted_at: Timestamp,
}

/// The outcome of granting a permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermissionGranting {
    /// The customer has it from now on.
    Granted,
    /// The customer had it before; nothing changed.
    Repeated,
    /// There is no such customer.
    NoCustomer,
}

/// Grants a permission to a customer. `entry` is written to the audit list if it is new.
pub async fn grant(
    store: &Store,
    customer: CustomerId,
    permission: Permission,
    entry: &AuditEntry,
) -> Result<PermissionGranting, StoreError> {
    const CUSTOMER: &str = "select 1 from customers where id = $1";
    const SQL: &str = "
        insert into staff_permissions (customer_id, permission, granted_at) values ($1, $2, $3)
        on conflict (customer_id, permission) do nothing";
    let mut tx = store.write().await?;
    if tx.row(CUSTOMER, &[customer.into()]).await?.is_none() {
        return Ok(PermissionGranting::NoCustomer);
    }
    let values = [customer.into(), permission.as_str().into(), entry.at.into()];
    if tx.execute(SQL, &values).await? == 0 {
        return Ok(PermissionGranting::Repeated);
    }
    audit::insert(&mut tx, entry).await?;
    tx.commit().await?;
    Ok(PermissionGranting::Granted)
}

/// Revokes a permission, for every request that begins after this. False if the customer does not
/// have it.
pub async fn revoke(
    store: &Store,
    customer: CustomerId,
    permission: Permission,
    entry: &AuditEntry,
) -> Result<bool, StoreError> {
    const SQL: &str = "delete from staff_permissions where customer_id = $1 and permission = $2";
    let mut tx = store.write().await?;
    if tx.execute(SQL, &[customer.into(), permission.as_str().into()]).await? == 0 {
        return Ok(false);
    }
    audit::insert(&mut tx, entry).await?;
    tx.commit().await?;
    Ok(true)
}

/// All granted permissions, by address.
pub async fn list(store: &Store) -> Result<Vec<GrantedPermission>, StoreError> {
    const SQL: &str = "
        select p.customer_id, c.email, p.permission, p.granted_at
        from staff_permissions p join customers c on c.id = p.customer_id
        order by c.email, p.permission";
    let rows = store.read().await?.rows(SQL, &[]).await?;
    rows.iter()
        .map(|row| {
            Ok(GrantedPermission {
                customer: row.parse("customer_id", "staff_permissions")?,
                email: row.parse("email", "customers")?,
                permission: row.parse("permission", "staff_permissions")?,
                granted_at: row.time("granted_at")?,
            })
        })
        .collect()
}

/// What a customer may do as staff; nothing for a closed customer, and for all others.
pub async fn find(store: &Store, customer: CustomerId) -> Result<Vec<Permission>, StoreError> {
    of(&mut store.read().await?, customer).await
}

/// The same, in a transaction.
pub(crate) async fn of(tx: &mut Tx, customer: CustomerId) -> Result<Vec<Permission>, StoreError> {
    const SQL: &str = "
        select p.permission from staff_permissions p join customers c on c.id = p.customer_id
        where p.customer_id = $1 and c.disabled_at is null order by p.permission";
    let rows = tx.rows(SQL, &[customer.into()]).await?;
    rows.iter().map(|row| row.parse("permission", "staff_permissions")).collect()
}
