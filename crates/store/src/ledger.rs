//! The ledger: every grant and removal of credits, once for each source, never changed afterwards.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId, LotId};
use domain::lots::{Lot, LotSource};
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::lots::{self, CreditHoldings, EntryLabel, LotSelection};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// Credits to be added or taken, once for each source.
#[derive(Debug, Clone, Copy)]
pub struct CreditGrant<'a> {
    /// The id of the entry, and of the lot that it begins.
    pub entry: EntryId,
    /// The customer whose credits change.
    pub customer: CustomerId,
    /// The number of credits: positive, whether added or taken.
    pub amount: Credits,
    /// The kind of entry, such as `trial` or `pack`.
    pub kind: &'a str,
    /// The source, such as `pi`; unique together with `source_id`.
    pub source: &'a str,
    /// The source's object: the same one is recorded only once, however often it is seen.
    pub source_id: &'a str,
    /// A reference for people, such as an order's id.
    pub reference: Option<&'a str>,
    /// What the lot comes from. Ignored when credits are taken.
    pub lot: LotSource,
    /// When the lot expires; none if it does not.
    pub expires_at: Option<Timestamp>,
    /// The current time.
    pub at: Timestamp,
}

/// The outcome of a grant or removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditGrantOutcome {
    /// Recorded.
    Granted {
        /// The available credits now.
        balance: Credits,
    },
    /// This source was recorded before; nothing changed.
    Repeated,
    /// More was to be taken than all lots have left or spent; nothing changed.
    TooMany {
        /// The maximum that can be taken.
        at_most: Credits,
    },
    /// There is no such customer.
    NoCustomer,
    /// The customer was erased: nobody could spend them.
    Erased,
}

/// What the operator added or took under one reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorAdjustment {
    /// The number of credits, negative if they were taken.
    pub amount: i64,
    /// When the added credits expire.
    pub expires_at: Option<Timestamp>,
}

/// Adds credits as a lot, paying debt first. Once for each source.
pub async fn grant(
    store: &Store,
    grant: &CreditGrant<'_>,
) -> Result<CreditGrantOutcome, StoreError> {
    let mut tx = store.write().await?;
    let granting = grant_in(&mut tx, grant).await?;
    if matches!(granting, CreditGrantOutcome::Granted { .. }) {
        tx.commit().await?;
    }
    Ok(granting)
}

/// Takes credits away, in the order of spending. Credits that were already spent become debt, which
/// the next credits pay. Once for each source.
pub async fn remove(
    store: &Store,
    removal: &CreditGrant<'_>,
) -> Result<CreditGrantOutcome, StoreError> {
    let mut tx = store.write().await?;
    let granting = remove_in(&mut tx, removal).await?;
    if matches!(granting, CreditGrantOutcome::Granted { .. }) {
        tx.commit().await?;
    }
    Ok(granting)
}

/// Adds credits, or takes them if `takes` is set, and writes an audit entry: both or neither, once
/// for each source. Nothing is added for a customer that was erased.
pub async fn adjust(
    store: &Store,
    adjustment: &CreditGrant<'_>,
    takes: bool,
    entry: &AuditEntry,
) -> Result<CreditGrantOutcome, StoreError> {
    let mut tx = store.write().await?;
    let granting = if takes {
        remove_in(&mut tx, adjustment).await?
    } else {
        grant_in(&mut tx, adjustment).await?
    };
    // Granting has locked the customer, so an erasure comes before or after.
    if !takes && is_erased(&mut tx, adjustment.customer).await? {
        return Ok(CreditGrantOutcome::Erased);
    }
    if matches!(granting, CreditGrantOutcome::Granted { .. }) {
        audit::insert(&mut tx, entry).await?;
        tx.commit().await?;
    }
    Ok(granting)
}

async fn is_erased(tx: &mut Tx, customer: CustomerId) -> Result<bool, StoreError> {
    const SQL: &str = "select 1 as erased from customers where id = $1 and erased_at is not null";
    Ok(tx.row(SQL, &[customer.into()]).await?.is_some())
}

/// Like `grant`, within a transaction.
pub(crate) async fn grant_in(
    tx: &mut Tx,
    grant: &CreditGrant<'_>,
) -> Result<CreditGrantOutcome, StoreError> {
    let opened = lots::open(tx, grant.customer, LotSelection::None, grant.entry, grant.at).await?;
    let Some(mut holdings) = opened else { return Ok(CreditGrantOutcome::NoCustomer) };
    if is_booked(tx, grant).await? {
        return Ok(CreditGrantOutcome::Repeated);
    }
    let amount = grant.amount.whole().max(0);
    let id = LotId::of(grant.entry);
    let mut lot = Lot::new(id, grant.lot, amount, grant.expires_at, grant.at);
    lot.reference = grant.reference.map(str::to_owned);
    holdings.lots.add(lot);
    finish(tx, holdings, grant).await
}

/// Like `remove`, within a transaction.
pub(crate) async fn remove_in(
    tx: &mut Tx,
    removal: &CreditGrant<'_>,
) -> Result<CreditGrantOutcome, StoreError> {
    let opened =
        lots::open(tx, removal.customer, LotSelection::Spent, removal.entry, removal.at).await?;
    let Some(mut holdings) = opened else { return Ok(CreditGrantOutcome::NoCustomer) };
    if is_booked(tx, removal).await? {
        return Ok(CreditGrantOutcome::Repeated);
    }
    let wanted = removal.amount.whole().max(0);
    let taken = holdings.lots.take_any(wanted);
    if taken < wanted {
        return Ok(CreditGrantOutcome::TooMany { at_most: Credits::from_whole(taken) });
    }
    finish(tx, holdings, removal).await
}

/// The sum of the operator's entries under this reference; none if there are none.
pub async fn find_adjustment(
    store: &Store,
    customer: CustomerId,
    reference: &str,
) -> Result<Option<OperatorAdjustment>, StoreError> {
    const SQL: &str = "
        select ledger.amount, lots.expires_at from ledger left join lots on lots.id = ledger.lot_id
        where ledger.customer_id = $1 and ledger.source = 'adjustment' and ledger.reference = $2";
    let rows = store.read().await?.rows(SQL, &[customer.into(), reference.into()]).await?;
    let mut found: Option<OperatorAdjustment> = None;
    for row in &rows {
        let so_far = found.map_or(0, |found| found.amount);
        let amount = so_far.saturating_add(row.int("amount")?);
        found = Some(OperatorAdjustment { amount, expires_at: row.optional_time("expires_at")? });
    }
    Ok(found)
}

/// The credits that a customer's trial granted; none if it granted nothing.
pub async fn trial(store: &Store, customer: CustomerId) -> Result<Credits, StoreError> {
    const SQL: &str = "
        select amount from ledger where customer_id = $1 and source = 'trial' and source_id = $1";
    let row = store.read().await?.row(SQL, &[customer.into()]).await?;
    row.map_or(Ok(Credits::ZERO), |row| Ok(Credits::from_whole(row.int("amount")?)))
}

async fn is_booked(tx: &mut Tx, grant: &CreditGrant<'_>) -> Result<bool, StoreError> {
    const BOOKED: &str = "select 1 from ledger where source = $1 and source_id = $2";
    Ok(tx.row(BOOKED, &[grant.source.into(), grant.source_id.into()]).await?.is_some())
}

async fn finish(
    tx: &mut Tx,
    mut holdings: CreditHoldings,
    grant: &CreditGrant<'_>,
) -> Result<CreditGrantOutcome, StoreError> {
    let label = EntryLabel {
        kind: grant.kind,
        source: Some((grant.source, grant.source_id)),
        reference: grant.reference,
    };
    if !holdings.book(tx, label).await? {
        return Ok(CreditGrantOutcome::Repeated);
    }
    let balance = Credits::from_whole(holdings.available());
    holdings.save(tx).await?;
    Ok(CreditGrantOutcome::Granted { balance })
}
