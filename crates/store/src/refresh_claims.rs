//! Refreshes of tokens: the claim by which one of several nodes refreshes, and what it brings.
//!
//! A claim covers every id under which its customer has connected the same platform account,
//! because these may hold copies of one refresh token. It is a lease: renewed while the refresh
//! runs, and taken over only if its node is gone (`takeover`), so that no clock that jumps lets two
//! nodes use one refresh token.

use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;

use crate::accounts::{self, Account, SealedCredentials};
use crate::sql::SqlRow;
use crate::tx::Tx;
use crate::{Store, StoreError, dialect, notices};

/// An account whose token is to be refreshed.
#[derive(Debug, Clone, Copy)]
pub struct RefreshSubject<'a> {
    /// The customer who owns it.
    pub customer: CustomerId,
    /// The account.
    pub creator: &'a CreatorId,
    /// The version whose refresh token is to be used.
    pub version: i64,
}

/// A claim of a refresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefreshClaim {
    customer: CustomerId,
    /// All ids of the platform account, sorted.
    creators: Vec<CreatorId>,
    /// When it was to be renewed at the latest; changes with every renewal.
    stamp: Timestamp,
    /// A renewal that may have been written or not.
    unsure: Option<Timestamp>,
}

/// The outcome of claiming a refresh.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// It is claimed.
    Claimed(RefreshClaim),
    /// Another node has claimed it.
    Taken,
    /// The account was changed meanwhile, or there is no such account any more.
    Changed,
}

/// Credentials that a refresh brought, in place of those of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenewedCredentials {
    /// The account.
    pub creator: CreatorId,
    /// The version whose credentials they replace.
    pub version: i64,
    /// The credentials.
    pub credentials: SealedCredentials,
    /// Whether they clear the mark `reconnect_needed`.
    pub clears_mark: bool,
}

/// Claims the refresh of a token until `until`, if nobody has claimed it.
pub async fn claim(
    store: &Store,
    subject: RefreshSubject<'_>,
    now: Timestamp,
    until: Timestamp,
) -> Result<ClaimOutcome, StoreError> {
    let mut tx = store.write().await?;
    let rows = lock(&mut tx, subject).await?;
    let is_own = |row: &&ClaimRow| row.creator == *subject.creator;
    if rows.iter().find(is_own).is_none_or(|own| own.version != subject.version) {
        return Ok(ClaimOutcome::Changed);
    }
    let claims = || rows.iter().filter_map(|row| row.claimed_until);
    // Nodes of earlier versions have claims without a name, which end with their time.
    if rows.iter().any(|row| row.is_held) || claims().any(|stamp| stamp > now) {
        return Ok(ClaimOutcome::Taken);
    }
    // Whoever holds the earlier claim, if anybody, must not take this one for its own.
    let stamp = claims().map(|stamp| stamp.plus_micros(1)).max().map_or(until, |it| it.max(until));
    let creators: Vec<CreatorId> = rows.into_iter().map(|row| row.creator).collect();
    let claim = RefreshClaim { customer: subject.customer, creators, stamp, unsure: None };
    for creator in &claim.creators {
        const SQL: &str = "
            update accounts set refresh_claimed_until = $3, refresh_claimed_by = $4
            where customer_id = $1 and creator_id = $2";
        let values = [claim.customer.into(), creator.into(), stamp.into(), store.holder().into()];
        tx.execute(SQL, &values).await?;
    }
    tx.commit().await?;
    Ok(ClaimOutcome::Claimed(claim))
}

/// Renews a claim until then. False if it was lost: the account was connected again, or another
/// node has taken it over.
pub async fn renew(
    store: &Store,
    claim: &mut RefreshClaim,
    until: Timestamp,
) -> Result<bool, StoreError> {
    let next = until.max(claim.unsure.unwrap_or(claim.stamp).plus_micros(1));
    let before = claim.stamps();
    // If this fails, it is unknown whether it was written.
    claim.unsure = Some(next);
    let is_renewed = write(store, claim, before, Some(next)).await?;
    if is_renewed {
        claim.stamp = next;
    }
    // What is lost may look like that now, and be another node's.
    claim.unsure = None;
    Ok(is_renewed)
}

/// Releases a claim, so that the next refresh need not wait until it is overdue.
pub async fn release(store: &Store, claim: &RefreshClaim) -> Result<(), StoreError> {
    write(store, claim, claim.stamps(), None).await.map(drop)
}

/// The account under all ids that a claim of its refresh covers, sorted by id; none if there is no
/// such account any more.
pub async fn covered(
    store: &Store,
    customer: CustomerId,
    creator: &CreatorId,
) -> Result<Vec<Account>, StoreError> {
    let mut tx = store.read().await?;
    let mut covered = Vec::new();
    for row in same_account(&mut tx, customer, creator, "").await? {
        covered.extend(accounts::find_in(&mut tx, customer, &row.creator).await?);
    }
    Ok(covered)
}

/// Stores what a refresh brought for these accounts of a customer, each in place of the version
/// that was read. Returns for each the new version; none if it was changed meanwhile. What is
/// stored ends the claim.
pub async fn store_renewed(
    store: &Store,
    customer: CustomerId,
    renewed: &[RenewedCredentials],
) -> Result<Vec<Option<i64>>, StoreError> {
    let mut tx = store.write().await?;
    let mut versions = Vec::with_capacity(renewed.len());
    for one in renewed {
        let version = replace(&mut tx, customer, one).await?;
        if version.is_some() {
            notices::tell_account(&mut tx, customer, &one.creator).await?;
        }
        versions.push(version);
    }
    tx.commit().await?;
    Ok(versions)
}

async fn replace(
    tx: &mut Tx,
    customer: CustomerId,
    one: &RenewedCredentials,
) -> Result<Option<i64>, StoreError> {
    const SQL: &str = "
        update accounts set credentials = $4, data_key_id = $5, scopes = $6, token_expires_at = $7,
               state = case when $8 = 1 and state = 'reconnect_needed' then 'active' else state end,
               refresh_claimed_until = null, refresh_claimed_by = null, version = version + 1
        where customer_id = $1 and creator_id = $2 and version = $3
        returning version";
    let credentials = &one.credentials;
    let scopes = credentials.scopes.as_ref().map(|scopes| scopes.join(" "));
    let values = [
        customer.into(),
        (&one.creator).into(),
        one.version.into(),
        credentials.sealed.as_slice().into(),
        credentials.data_key.into(),
        scopes.as_deref().into(),
        credentials.token_expires_at.into(),
        i64::from(one.clears_mark).into(),
    ];
    let row = tx.row(SQL, &values).await?;
    row.map(|row| row.int("version")).transpose()
}

impl RefreshClaim {
    /// What the rows hold, as far as is known.
    fn stamps(&self) -> [Timestamp; 2] {
        [self.stamp, self.unsure.unwrap_or(self.stamp)]
    }
}

/// Puts `next` in place of the claim. False if none of its accounts holds it any more.
async fn write(
    store: &Store,
    claim: &RefreshClaim,
    [stamp, unsure]: [Timestamp; 2],
    next: Option<Timestamp>,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        update accounts set refresh_claimed_until = $5, refresh_claimed_by = $6
        where customer_id = $1 and creator_id = $2 and refresh_claimed_until in ($3, $4)
          and refresh_claimed_by is not null";
    let mut tx = store.write().await?;
    let mut changed = 0;
    for creator in &claim.creators {
        let values = [
            claim.customer.into(),
            creator.into(),
            stamp.into(),
            unsure.into(),
            next.into(),
            next.map(|_| store.holder()).into(),
        ];
        changed += tx.execute(SQL, &values).await?;
    }
    tx.commit().await?;
    Ok(changed > 0)
}

struct ClaimRow {
    creator: CreatorId,
    version: i64,
    claimed_until: Option<Timestamp>,
    /// Whether somebody has it.
    is_held: bool,
}

/// The rows of a platform account, locked in the same order by all nodes.
async fn lock(tx: &mut Tx, subject: RefreshSubject<'_>) -> Result<Vec<ClaimRow>, StoreError> {
    let locking = dialect::for_update(tx.database());
    same_account(tx, subject.customer, subject.creator, locking).await
}

async fn same_account(
    tx: &mut Tx,
    customer: CustomerId,
    creator: &CreatorId,
    locking: &str,
) -> Result<Vec<ClaimRow>, StoreError> {
    const OWN: &str = "
        select platform, platform_account_id from accounts
        where customer_id = $1 and creator_id = $2";
    const SAME: &str = "
        select creator_id, version, refresh_claimed_until, refresh_claimed_by from accounts
        where customer_id = $1 and platform = $2
          and (creator_id = $4 or (platform_account_id = $3 and platform_account_id <> ''))
        order by creator_id";
    let Some(own) = tx.row(OWN, &[customer.into(), creator.into()]).await? else {
        return Ok(Vec::new());
    };
    let platform: Platform = own.platform("platform", "accounts")?;
    let identity = own.text("platform_account_id")?;
    let values =
        [customer.into(), platform.stored_name().into(), identity.as_str().into(), creator.into()];
    let text = format!("{SAME}{locking}");
    let rows = tx.rows(sqlx::AssertSqlSafe(text), &values).await?;
    rows.iter().map(claim_row).collect()
}

fn claim_row(row: &SqlRow) -> Result<ClaimRow, StoreError> {
    let claimed_until = row.optional_time("refresh_claimed_until")?;
    Ok(ClaimRow {
        creator: row.parse("creator_id", "accounts")?,
        version: row.int("version")?,
        claimed_until,
        // Earlier versions end a claim without its name.
        is_held: claimed_until.is_some() && row.optional_text("refresh_claimed_by")?.is_some(),
    })
}
