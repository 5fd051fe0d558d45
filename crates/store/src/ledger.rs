//! The ledger: every grant and removal of credits, once for each source, never changed afterwards.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId};
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::balance;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// Credits to be added, or taken away, once.
#[derive(Debug, Clone, Copy)]
pub struct Grant<'a> {
    /// The id of the entry.
    pub entry: EntryId,
    /// Whose credits.
    pub customer: CustomerId,
    /// How many, more than zero, whichever way they go.
    pub amount: Credits,
    /// What it is called in the ledger, such as `trial` or `purchase`.
    pub kind: &'a str,
    /// Where it comes from, such as `pi`; unique together with `source_id`.
    pub source: &'a str,
    /// The object of the source: the same one is booked only once, however often it is seen.
    pub source_id: &'a str,
    /// What a person would look for, such as an order's number.
    pub reference: Option<&'a str>,
    /// Now.
    pub at: Timestamp,
}

/// How a booking ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Granting {
    /// Booked.
    Granted {
        /// What is available now.
        balance: Credits,
    },
    /// This source was booked before; nothing changed.
    Repeated,
    /// There is no such customer.
    NoCustomer,
}

/// Adds credits, paying a debt first. Once for each source.
pub async fn grant(store: &Store, grant: &Grant<'_>) -> Result<Granting, StoreError> {
    let mut tx = store.write().await?;
    let granting = grant_in(&mut tx, grant).await?;
    if matches!(granting, Granting::Granted { .. }) {
        tx.commit().await?;
    }
    Ok(granting)
}

/// Takes credits away (a refund, a dispute). What is no longer there becomes debt, which the next credits
/// pay. Once for each source.
pub async fn remove(store: &Store, removal: &Grant<'_>) -> Result<Granting, StoreError> {
    let mut tx = store.write().await?;
    let granting = remove_in(&mut tx, removal).await?;
    if matches!(granting, Granting::Granted { .. }) {
        tx.commit().await?;
    }
    Ok(granting)
}

/// Adds credits, or takes them away when `takes` says so, and writes that into the customer's audit list: both or
/// neither, once for each source.
pub async fn adjust(
    store: &Store,
    adjustment: &Grant<'_>,
    takes: bool,
    entry: &AuditEntry,
) -> Result<Granting, StoreError> {
    let mut tx = store.write().await?;
    let direction = if takes { Direction::Out } else { Direction::In };
    let granting = book(&mut tx, adjustment, direction).await?;
    if matches!(granting, Granting::Granted { .. }) {
        audit::insert(&mut tx, entry).await?;
        tx.commit().await?;
    }
    Ok(granting)
}

/// Adds credits within a transaction that has more to do.
pub(crate) async fn grant_in(tx: &mut Tx, grant: &Grant<'_>) -> Result<Granting, StoreError> {
    book(tx, grant, Direction::In).await
}

/// Takes credits away within a transaction that has more to do.
pub(crate) async fn remove_in(tx: &mut Tx, removal: &Grant<'_>) -> Result<Granting, StoreError> {
    book(tx, removal, Direction::Out).await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    In,
    Out,
}

async fn book(
    tx: &mut Tx,
    grant: &Grant<'_>,
    direction: Direction,
) -> Result<Granting, StoreError> {
    const BOOKED: &str = "select 1 from ledger where source = $1 and source_id = $2";
    const INSERT: &str = "
        insert into ledger
            (id, customer_id, at, kind, amount, balance_after, source, source_id, reference)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        on conflict (source, source_id) do nothing";
    let mut balances = balance::lock(tx, std::iter::once(grant.customer)).await?;
    let Some(balance) = balances.get_mut(grant.customer) else {
        return Ok(Granting::NoCustomer);
    };
    if tx.row(BOOKED, &[grant.source.into(), grant.source_id.into()]).await?.is_some() {
        return Ok(Granting::Repeated);
    }
    let amount = grant.amount.whole().max(0);
    let signed = match direction {
        Direction::In => {
            balance.granted.checked_add(amount).ok_or(StoreError::TooLarge)?;
            balance.grant(amount);
            amount
        }
        Direction::Out => {
            balance.removed.checked_add(amount).ok_or(StoreError::TooLarge)?;
            balance.remove(amount);
            -amount
        }
    };
    let available = balance.available;
    let inserted = tx
        .execute(
            INSERT,
            &[
                grant.entry.into(),
                grant.customer.into(),
                grant.at.into(),
                grant.kind.into(),
                signed.into(),
                available.into(),
                grant.source.into(),
                grant.source_id.into(),
                grant.reference.into(),
            ],
        )
        .await?;
    if inserted == 0 {
        return Ok(Granting::Repeated);
    }
    balance::save(tx, &balances).await?;
    Ok(Granting::Granted { balance: Credits::from_whole(available) })
}
