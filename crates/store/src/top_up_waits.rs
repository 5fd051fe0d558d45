//! Why automatic top-up buys nothing although the balance is low, and until when.

use domain::time::Timestamp;
use domain::top_up::{FAILURES_PER_DAY_MAX, TopUpWait, TopUpWaitReason};

use crate::top_ups::{DAY_S, SkipReason, TopUpClaim};
use crate::tx::Tx;
use crate::{StoreError, top_up_settings};

/// What a customer is told about a claim that was skipped; nothing if it has to know nothing.
pub(crate) async fn of_skipped(
    tx: &mut Tx,
    claim: &TopUpClaim<'_>,
    skipped: SkipReason,
) -> Result<Option<TopUpWait>, StoreError> {
    let tomorrow = claim.at.day().plus_days(1).start();
    let (reason, until) = match skipped {
        SkipReason::Capped => (TopUpWaitReason::DailyCap, Some(tomorrow)),
        SkipReason::NoPack => (TopUpWaitReason::PackNotSold, None),
        SkipReason::TooManyFailures => {
            (TopUpWaitReason::FailedOften, failures_end_in(tx, claim).await?)
        }
        SkipReason::TooEarly => {
            let settings = top_up_settings::find_in(tx, claim.customer, "").await?;
            return Ok(settings.and_then(|settings| settings.wait));
        }
        SkipReason::Off | SkipReason::Enough | SkipReason::Open | SkipReason::NoCard => {
            return Ok(None);
        }
    };
    Ok(Some(TopUpWait { reason, until }))
}

/// When the first of the failures that are too many is a day old.
async fn failures_end_in(
    tx: &mut Tx,
    claim: &TopUpClaim<'_>,
) -> Result<Option<Timestamp>, StoreError> {
    const SQL: &str = "
        select claimed_at from top_ups where customer_id = $1 and state = 'failed'
        order by claimed_at desc limit $2";
    let rows = tx.rows(SQL, &[claim.customer.into(), FAILURES_PER_DAY_MAX.into()]).await?;
    let first = rows.last().map(|row| row.time("claimed_at")).transpose()?;
    Ok(first.map(|first| first.plus_seconds(DAY_S)))
}
