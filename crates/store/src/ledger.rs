//! The ledger: every grant and removal of credits, once for each source, never changed afterwards.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId, LotId};
use domain::lots::{Lot, LotSource};
use domain::time::Timestamp;

use crate::audit::{self, AuditEntry};
use crate::lots::{self, CreditHoldings, EntryLabel, LotSelection};
use crate::tx::Tx;
use crate::{Store, StoreError};

/// Credits to be added, or taken away, once.
#[derive(Debug, Clone, Copy)]
pub struct CreditGrant<'a> {
    /// The id of the entry. The lot that it begins has the same.
    pub entry: EntryId,
    /// Whose credits.
    pub customer: CustomerId,
    /// How many, more than zero, whichever way they go.
    pub amount: Credits,
    /// What it is called in the ledger, such as `trial` or `pack`.
    pub kind: &'a str,
    /// Where it comes from, such as `pi`; unique together with `source_id`.
    pub source: &'a str,
    /// The object of the source: the same one is booked only once, however often it is seen.
    pub source_id: &'a str,
    /// What a person would look for, such as an order's number.
    pub reference: Option<&'a str>,
    /// What the lot is for. Of no meaning where credits are taken.
    pub lot: LotSource,
    /// When what is left of it expires; none if it does not.
    pub expires_at: Option<Timestamp>,
    /// Now.
    pub at: Timestamp,
}

/// How a booking ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreditGrantOutcome {
    /// Booked.
    Granted {
        /// What is available now.
        balance: Credits,
    },
    /// This source was booked before; nothing changed.
    Repeated,
    /// More was to be taken than the customer was ever granted and still has or has spent; nothing changed.
    TooMany {
        /// How many can be taken.
        at_most: Credits,
    },
    /// There is no such customer.
    NoCustomer,
}

/// What the operator gave or took under one reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OperatorAdjustment {
    /// How many credits, less than zero where they were taken.
    pub amount: i64,
    /// When what is left of a gift expires.
    pub expires_at: Option<Timestamp>,
}

/// Adds credits as a lot, paying a debt first. Once for each source.
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

/// Takes credits away, in the order of spending. What was spent before becomes debt, which the next credits pay. Once for
/// each source.
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

/// Adds credits, or takes them away when `takes` says so, and writes that into the customer's audit list: both or
/// neither, once for each source.
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
    if matches!(granting, CreditGrantOutcome::Granted { .. }) {
        audit::insert(&mut tx, entry).await?;
        tx.commit().await?;
    }
    Ok(granting)
}

/// Adds credits within a transaction that has more to do.
pub(crate) async fn grant_in(
    tx: &mut Tx,
    grant: &CreditGrant<'_>,
) -> Result<CreditGrantOutcome, StoreError> {
    let opened =
        lots::open(tx, grant.customer, LotSelection::None, (grant.entry, grant.at)).await?;
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

/// Takes credits away within a transaction that has more to do.
pub(crate) async fn remove_in(
    tx: &mut Tx,
    removal: &CreditGrant<'_>,
) -> Result<CreditGrantOutcome, StoreError> {
    let opened =
        lots::open(tx, removal.customer, LotSelection::Spent, (removal.entry, removal.at)).await?;
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

/// What was booked under this reference, of entries that the operator made; nothing where there are none.
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
        let amount = so_far.saturating_add(row.int(0)?);
        found = Some(OperatorAdjustment { amount, expires_at: row.optional_time(1)? });
    }
    Ok(found)
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
