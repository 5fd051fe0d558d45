//! Networks from which a customer has recently logged in, so that a flood of logins from elsewhere
//! does not lock the customer out. They are kept for a limited time, and in a limited number for
//! each customer.

use domain::customer::Email;
use domain::id::CustomerId;
use domain::time::Timestamp;

use crate::customers::{self, Customer};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// The maximum number of networks kept for a customer: the most recently used.
const NETWORKS_MAX: i64 = 20;
/// How long a network is kept after its last login, in seconds.
const KEPT_S: i64 = 90 * 86_400;

/// A customer with the address that a login attempt gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginCandidate {
    /// The customer.
    pub customer: Customer,
    /// Whether the customer has recently logged in from this network.
    pub is_known_network: bool,
}

/// The customer with this address. Does the same work for an address without a customer.
pub async fn find_candidate(
    store: &Store,
    email: &Email,
    network: &str,
    now: Timestamp,
) -> Result<Option<LoginCandidate>, StoreError> {
    const SQL: &str = "
        select id, email, name, password_hash, email_verified_at, trial_state, created_at, disabled_at,
               (select count(*) from login_networks n
                where n.customer_id = c.id and n.network = $2 and n.last_login_at > $3) as known_networks
        from customers c where email = $1";
    let since = now.plus_seconds(-KEPT_S);
    let row = store.read().await?.row(SQL, &[email.into(), network.into(), since.into()]).await?;
    row.map(|row| {
        let customer = customers::customer(&row)?;
        Ok(LoginCandidate { customer, is_known_network: row.int("known_networks")? > 0 })
    })
    .transpose()
}

/// Deletes networks whose last login is too old, and returns how many.
pub async fn delete_old(store: &Store, now: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "delete from login_networks where last_login_at <= $1";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[now.plus_seconds(-KEPT_S).into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// Records a successful login, in its transaction.
pub(crate) async fn remember(
    tx: &mut Tx,
    customer: CustomerId,
    network: &str,
    now: Timestamp,
) -> Result<(), StoreError> {
    const REMEMBER: &str = "
        insert into login_networks (customer_id, network, last_login_at) values ($1, $2, $3)
        on conflict (customer_id, network) do update set last_login_at = excluded.last_login_at";
    const FORGET_SURPLUS: &str = "
        delete from login_networks where customer_id = $1 and network not in (
            select network from login_networks where customer_id = $1
            order by last_login_at desc, network limit $2
        )";
    tx.execute(REMEMBER, &[customer.into(), network.into(), now.into()]).await?;
    tx.execute(FORGET_SURPLUS, &[customer.into(), NETWORKS_MAX.into()]).await?;
    Ok(())
}
