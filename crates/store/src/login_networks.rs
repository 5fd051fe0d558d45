//! Networks in which a customer's login succeeded lately, so that a flood of logins from elsewhere does not keep the
//! customer out. They are remembered for some time, and a bounded number of each customer.

use domain::customer::Email;
use domain::id::CustomerId;
use domain::time::Timestamp;

use crate::customers::{self, Customer};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// Networks that are remembered of one customer; of more, those used last.
const NETWORKS_MAX: i64 = 20;
/// Seconds after its last login that a network is remembered.
const KEPT_S: i64 = 90 * 86_400;

/// A customer who may be logging in, as the address says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginCandidate {
    /// The customer.
    pub customer: Customer,
    /// Whether a login of the customer succeeded in this network lately.
    pub is_known_network: bool,
}

/// The customer with this address. The work is the same for an address that no customer has.
pub async fn find_candidate(
    store: &Store,
    email: &Email,
    network: &str,
    now: Timestamp,
) -> Result<Option<LoginCandidate>, StoreError> {
    const SQL: &str = "
        select id, email, name, password_hash, email_verified_at, trial_state, created_at, disabled_at,
               (select count(*) from login_networks n
                where n.customer_id = c.id and n.network = $2 and n.last_login_at > $3)
        from customers c where email = $1";
    let since = now.plus_seconds(-KEPT_S);
    let row = store.read().await?.row(SQL, &[email.into(), network.into(), since.into()]).await?;
    row.map(|row| {
        let customer = customers::customer(&row)?;
        Ok(LoginCandidate { customer, is_known_network: row.int(8)? > 0 })
    })
    .transpose()
}

/// Forgets networks whose last login is too long ago; gives how many.
pub async fn delete_old(store: &Store, now: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "delete from login_networks where last_login_at <= $1";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[now.plus_seconds(-KEPT_S).into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// Remembers a success, in its transaction.
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
