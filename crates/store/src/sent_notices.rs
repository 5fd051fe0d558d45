//! Notices that were sent: each once, whichever node found the reason, and whatever crashed.
//!
//! The row that says that a notice was sent and the job that sends it are one transaction. Looking
//! for reasons is a claim of one node at a time, so that many nodes do not all read the same rows.

use domain::credits::Credits;
use domain::id::CustomerId;
use domain::notice::NoticeKind;
use domain::time::Timestamp;

use crate::jobs::{self, NewJob};
use crate::tx::Tx;
use crate::{Store, StoreError, dialect};

/// When a node last began to look for reasons, and until when all events were looked at.
const CLAIMED: &str = "notices_claimed_at";
const LOOKED_UNTIL: &str = "notices_looked_until";
/// Transactions may commit some time after the times of their rows.
const OVERLAP_S: i64 = 600;
/// Events from before this many seconds are not told any more.
const OLD_S: i64 = 3 * 86_400;

/// A reason to write to a customer.
#[derive(Debug, Clone, Copy)]
pub struct NoticeReason<'a> {
    /// The kind.
    pub kind: NoticeKind,
    /// The customer.
    pub customer: CustomerId,
    /// What it is about. The email is sent if one of these was not told before.
    pub subjects: &'a [String],
    /// The current time.
    pub at: Timestamp,
}

/// What one look for reasons covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeLook {
    /// Events since this time are told.
    pub since: Timestamp,
    /// Whether nobody has looked before: what is so already is not news then.
    pub is_first: bool,
}

/// Enqueues the email, unless all of its subjects were told before or the customer is closed. Then
/// it returns false.
pub async fn send_once(
    store: &Store,
    reason: &NoticeReason<'_>,
    email: &NewJob,
) -> Result<bool, StoreError> {
    const SQL: &str = "
        insert into sent_notices (kind, customer_id, subject, sent_at)
        select $1, id, $3, $4 from customers where id = $2 and disabled_at is null
        on conflict (kind, customer_id, subject) do nothing";
    let mut tx = store.write().await?;
    let mut news = 0;
    for subject in reason.subjects {
        let values = [
            reason.kind.as_str().into(),
            reason.customer.into(),
            subject.as_str().into(),
            reason.at.into(),
        ];
        news += tx.execute(SQL, &values).await?;
    }
    if news == 0 {
        return Ok(false);
    }
    jobs::insert(&mut tx, email).await?;
    tx.commit().await?;
    Ok(true)
}

/// Claims the next look for reasons. None if one began less than `every_s` seconds ago.
pub async fn claim_look(
    store: &Store,
    now: Timestamp,
    every_s: i64,
) -> Result<Option<NoticeLook>, StoreError> {
    const BEGIN: &str = "
        insert into settings (name, value) values ($1, '0') on conflict (name) do nothing";
    let mut tx = store.write().await?;
    tx.execute(BEGIN, &[CLAIMED.into()]).await?;
    let claimed = read_time(&mut tx, CLAIMED).await?;
    // A clock that was set back does not stop the notices.
    let is_recent =
        |at: Timestamp| at <= now && now.micros_since(at) < every_s.saturating_mul(1_000_000);
    if claimed.is_some_and(is_recent) {
        return Ok(None);
    }
    write_time(&mut tx, CLAIMED, now).await?;
    let until = read_time(&mut tx, LOOKED_UNTIL).await?;
    tx.commit().await?;
    let since = until.map_or(now, |until| until.plus_seconds(-OVERLAP_S));
    Ok(Some(NoticeLook { since: since.max(now.plus_seconds(-OLD_S)), is_first: until.is_none() }))
}

/// Records that the look that began at `now` has told everything.
pub async fn end_look(store: &Store, now: Timestamp) -> Result<(), StoreError> {
    let mut tx = store.write().await?;
    write_time(&mut tx, LOOKED_UNTIL, now).await?;
    tx.commit().await
}

/// Counts balances that are low already as told. For the first look: an update of the service must
/// not write to everyone who stopped using it long ago.
pub async fn skip_low_balances(
    store: &Store,
    threshold: Credits,
    now: Timestamp,
) -> Result<u64, StoreError> {
    const SQL: &str = "
        insert into sent_notices (kind, customer_id, subject, sent_at)
        select 'low_balance', c.customer_id, '', $2 from customer_credits c
        left join notice_choices n on n.customer_id = c.customer_id and n.kind = 'low_balance'
        where c.available < coalesce(n.threshold_credits, $1)
        on conflict (kind, customer_id, subject) do nothing";
    let mut tx = store.write().await?;
    let skipped = tx.execute(SQL, &[threshold.into(), now.into()]).await?;
    tx.commit().await?;
    Ok(skipped)
}

/// Forgets the notices of low balances that are half as high again as the threshold, so that the
/// next fall is told, and a balance that moves around the threshold is told once.
pub async fn forget_risen_balances(store: &Store, threshold: Credits) -> Result<u64, StoreError> {
    const SQL: &str = "
        delete from sent_notices where kind = 'low_balance' and customer_id in (
            select s.customer_id from sent_notices s
            join customer_credits c on c.customer_id = s.customer_id
            left join notice_choices n on n.customer_id = s.customer_id and n.kind = 'low_balance'
            where s.kind = 'low_balance' and s.subject = ''
              and 2 * c.available >= 3 * coalesce(n.threshold_credits, $1)) and subject = ''";
    let mut tx = store.write().await?;
    let forgotten = tx.execute(SQL, &[threshold.into()]).await?;
    tx.commit().await?;
    Ok(forgotten)
}

/// Deletes notices that were sent before this time; those of low balances stay while they are low.
pub async fn delete_old(store: &Store, before: Timestamp) -> Result<u64, StoreError> {
    const SQL: &str = "
        delete from sent_notices where sent_at < $1 and not (kind = 'low_balance' and subject = '')";
    let mut tx = store.write().await?;
    let deleted = tx.execute(SQL, &[before.into()]).await?;
    tx.commit().await?;
    Ok(deleted)
}

/// A time among the single values of the installation, locked; none if it is not set.
async fn read_time(tx: &mut Tx, name: &str) -> Result<Option<Timestamp>, StoreError> {
    let text =
        format!("select value from settings where name = $1{}", dialect::for_update(tx.database()));
    let row = tx.row(sqlx::AssertSqlSafe(text), &[name.into()]).await?;
    let Some(row) = row else { return Ok(None) };
    let micros: i64 = row.parse("value", "settings")?;
    Ok((micros > 0).then(|| Timestamp::from_unix_micros(micros)))
}

async fn write_time(tx: &mut Tx, name: &str, at: Timestamp) -> Result<(), StoreError> {
    const SQL: &str = "
        insert into settings (name, value) values ($1, $2)
        on conflict (name) do update set value = excluded.value";
    tx.execute(SQL, &[name.into(), at.unix_micros().to_string().into()]).await?;
    Ok(())
}
