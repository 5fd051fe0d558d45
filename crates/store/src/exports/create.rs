//! Creating an export: the row, the hold on its credits and the stored response are written in one
//! transaction.

use domain::account::AccountState;
use domain::call_tag::CallTag;
use domain::credits::Credits;
use domain::id::CustomerId;
use domain::key::KeyScope;

use super::{ExportCreation, NewExport};
use crate::balance;
use crate::balance_cache::{BalanceCache, CreditTaking};
use crate::idempotency::{self, CompletedRequest, WantedRequest};
use crate::metering::used_in;
use crate::sql::hex;
use crate::tx::Tx;
use crate::{Store, StoreError};

/// Stores an export and holds its credits, or returns why not. A repetition of an earlier request
/// is detected before any other check.
pub async fn create(store: &Store, new: &NewExport) -> Result<ExportCreation, StoreError> {
    let mut tx = store.write().await?;
    // The lock on the customer's balance serializes concurrent requests, so that the counts below
    // stay valid.
    let mut balances = balance::lock(&mut tx, std::iter::once(new.customer)).await?;
    let Some(balance) = balances.get_mut(new.customer) else {
        return Ok(ExportCreation::KeyRefused);
    };
    if let Some((claim, _)) = &new.idempotency {
        let (key_hash, fingerprint) = (hex(&claim.key_hash), hex(&claim.fingerprint));
        let now = new.created_at;
        let identity = claim.identity.map(|identity| hex(&identity));
        let wanted = WantedRequest {
            key_hash: &key_hash,
            fingerprint: &fingerprint,
            identity: identity.as_deref(),
        };
        let existing = idempotency::find_in(&mut tx, new.customer, wanted, now).await?;
        if let Some(existing) = existing {
            return Ok(ExportCreation::Repeated(existing));
        }
    }
    if let Some(refused) = refusal(&mut tx, new).await? {
        return Ok(refused);
    }
    let cost = new.cost.whole();
    let taken = ReservedCredits::take(store, new.customer, balance.available, cost);
    let taken = match taken {
        Ok(taken) => taken,
        Err(left) => {
            return Ok(ExportCreation::Insufficient { balance: Credits::from_whole(left) });
        }
    };
    if !balance.hold(cost) {
        return Ok(ExportCreation::Insufficient {
            balance: Credits::from_whole(balance.available),
        });
    }
    let left = Credits::from_whole(balance.available);
    balance::save(&mut tx, &balances).await?;
    insert(&mut tx, new).await?;
    if let Some((claim, answer)) = &new.idempotency {
        let id = new.id.to_string();
        let completed = CompletedRequest { id: &id, answer, now: new.created_at };
        idempotency::store_in(&mut tx, new.customer, claim, completed).await?;
    }
    tx.note_release(new.customer, cost);
    tx.commit().await?;
    taken.released_by_commit();
    Ok(ExportCreation::Created { balance: left })
}

/// Credits reserved in memory while their hold is written, so that no read sent meanwhile can use
/// them. Dropped before the commit, they are returned; the commit itself releases them.
struct ReservedCredits<'s> {
    balance_cache: Option<&'s BalanceCache>,
    customer: CustomerId,
    cost: i64,
}

impl<'s> ReservedCredits<'s> {
    /// Only within a write transaction, in which `available` was read. Fails with what is left.
    fn take(
        store: &'s Store,
        customer: CustomerId,
        available: i64,
        cost: i64,
    ) -> Result<Self, i64> {
        let Some(balance_cache) = store.balance_cache() else {
            return Ok(Self { balance_cache: None, customer, cost });
        };
        balance_cache.load(customer, available);
        match balance_cache.take(customer, cost) {
            CreditTaking::Taken => Ok(Self { balance_cache: Some(balance_cache), customer, cost }),
            CreditTaking::TooLow(left) => Err(left),
            CreditTaking::Unknown => Err(available),
        }
    }

    fn released_by_commit(mut self) {
        self.balance_cache = None;
    }
}

impl Drop for ReservedCredits<'_> {
    fn drop(&mut self) {
        if let Some(balance_cache) = self.balance_cache {
            balance_cache.give_back(self.customer, self.cost);
        }
    }
}

/// Why the export is refused, apart from the balance.
async fn refusal(tx: &mut Tx, new: &NewExport) -> Result<Option<ExportCreation>, StoreError> {
    const KEY: &str = "
        select s.valid_until, k.expires_at, k.revoked_at, c.disabled_at, k.scope, k.monthly_budget
        from key_secrets s
        join keys k on k.id = s.key_id
        join customers c on c.id = k.customer_id
        where s.hash = $1 and k.id = $2 and k.customer_id = $3";
    const PENDING: &str = "
        select count(*) as pending from export_jobs
        where customer_id = $1 and credit_state = 'held' and state = 'pending'";
    let now = new.created_at;
    let key = [hex(new.key_hash.as_bytes()).into(), new.key.into(), new.customer.into()];
    let Some(row) = tx.row(KEY, &key).await? else { return Ok(Some(ExportCreation::KeyRefused)) };
    let ended = [row.optional_time("valid_until")?, row.optional_time("expires_at")?];
    let is_over = ended.into_iter().flatten().any(|end| end <= now);
    if is_over
        || row.optional_time("revoked_at")?.is_some()
        || row.optional_time("disabled_at")?.is_some()
    {
        return Ok(Some(ExportCreation::KeyRefused));
    }
    if row.parse::<KeyScope>("scope", "keys")? != KeyScope::Full {
        return Ok(Some(ExportCreation::KeyReadOnly));
    }
    if let Some(refused) = account_refusal(tx, new).await? {
        return Ok(Some(refused));
    }
    let pending = tx.row(PENDING, &[new.customer.into()]).await?;
    if pending.map_or(Ok(0), |count| count.int("pending"))? >= new.pending_max {
        return Ok(Some(ExportCreation::TooManyPending));
    }
    let Some(budget) = row.optional_int("monthly_budget")? else { return Ok(None) };
    let used = used_in(tx, new.customer, new.key, now.day()).await?;
    if used.saturating_add(new.cost.whole()) <= budget {
        return Ok(None);
    }
    Ok(Some(ExportCreation::BudgetExhausted {
        budget: Credits::from_whole(budget),
        used: Credits::from_whole(used),
        resets_at: now.day().next_month_start().start(),
    }))
}

async fn account_refusal(
    tx: &mut Tx,
    new: &NewExport,
) -> Result<Option<ExportCreation>, StoreError> {
    const ALLOWED: &str = "
        select count(*) as allowed, count(case when creator_id = $2 then 1 end) as matching
        from key_accounts where key_id = $1";
    const ACCOUNT: &str = "
        select state, platform, switched_off_at from accounts where customer_id = $1 and creator_id = $2";
    let allowed = tx.row(ALLOWED, &[new.key.into(), (&new.account).into()]).await?;
    if let Some(row) = allowed
        && row.int("allowed")? > 0
        && row.int("matching")? == 0
    {
        return Ok(Some(ExportCreation::NoAccount));
    }
    let account = tx.row(ACCOUNT, &[new.customer.into(), (&new.account).into()]).await?;
    let Some(account) = account else { return Ok(Some(ExportCreation::NoAccount)) };
    if account.text("platform")? != new.platform.stored_name() {
        return Ok(Some(ExportCreation::NoAccount));
    }
    match account.parse::<AccountState>("state", "accounts")? {
        AccountState::Inactive => {
            let is_switched_off = account.optional_time("switched_off_at")?.is_some();
            Ok(Some(ExportCreation::AccountInactive { is_switched_off }))
        }
        AccountState::Active | AccountState::ReconnectNeeded => Ok(None),
    }
}

async fn insert(tx: &mut Tx, new: &NewExport) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into export_jobs (id, customer_id, key_id, creator_id, platform, dataset, format, params,
            start_date, end_date, max_rows, cost, credit_state, state, created_at, csv_bom, columns, tag)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'held', 'pending', $13, $14, $15, $16)";
    let columns =
        new.columns.as_ref().map(|names| serde_json::Value::from(names.as_slice()).to_string());
    let values = [
        new.id.into(),
        new.customer.into(),
        new.key.into(),
        (&new.account).into(),
        new.platform.stored_name().into(),
        new.dataset.as_str().into(),
        new.format.as_str().into(),
        new.params.as_str().into(),
        new.start_date.as_deref().into(),
        new.end_date.as_deref().into(),
        new.max_rows.into(),
        new.cost.into(),
        new.created_at.into(),
        i64::from(new.csv_bom).into(),
        columns.as_deref().into(),
        new.tag.as_ref().map(CallTag::as_str).into(),
    ];
    tx.execute(SQL, &values).await?;
    Ok(())
}
