//! Refunds and disputes: what they take back, and give again when they come to nothing.
//!
//! After each change, what a payment's refunds and disputes have taken in all is what their money is worth in
//! proportion, never more than the payment granted. Each refund and each dispute takes at most once and gives back at
//! most once. What is no longer there becomes debt.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId, OrderId};
use domain::payment::{self, Mismatch, ReversalKind, ReversalState};
use domain::time::Timestamp;

use crate::ledger::{self, Grant, Granting};
use crate::sql::Row;
use crate::tx::Tx;
use crate::unmatched::{self, Unmatched};
use crate::{Store, StoreError, dialect, orders, top_up_settings};

/// A refund or a dispute, as the processor's own object says.
#[derive(Debug, Clone, Copy)]
pub struct Reversal<'a> {
    /// The id of the ledger entry, if there will be one.
    pub entry: EntryId,
    /// The processor's id of the refund or the dispute.
    pub id: &'a str,
    /// Which of the two.
    pub kind: ReversalKind,
    /// The payment intent whose money it is.
    pub intent: &'a str,
    /// How much of it, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// Where it stands.
    pub state: ReversalState,
    /// Now.
    pub at: Timestamp,
}

/// What a refund or dispute changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reversed {
    /// Credits went out (positive) or came back (negative), perhaps none.
    Booked {
        /// Whose.
        customer: CustomerId,
        /// How many were taken.
        taken: Credits,
    },
    /// Nothing new.
    Unchanged,
    /// It is about a payment that was never booked.
    Unmatched {
        /// Whether nobody was told before.
        is_new: bool,
    },
}

/// The payment that money goes back of.
struct Payment {
    id: String,
    customer: CustomerId,
    order: Option<OrderId>,
    amount_cents: i64,
    credits: Credits,
}

/// What the refunds and disputes of a payment amount to.
#[derive(Default)]
struct Sums {
    /// Money that stands as gone, by refunds and disputes.
    gone_cents: i64,
    /// Money that stands as refunded.
    refunded_cents: i64,
    /// Credits taken, less those given back.
    taken: i64,
}

/// Takes note of where a refund or dispute stands, and takes or gives back the credits that follow from it.
pub async fn apply(store: &Store, reversal: &Reversal<'_>) -> Result<Reversed, StoreError> {
    let mut tx = store.write().await?;
    let Some(payment) = lock_payment(&mut tx, reversal.intent).await? else {
        return unknown(tx, reversal).await;
    };
    if !advance(&mut tx, &payment, reversal).await? {
        return Ok(Reversed::Unchanged);
    }
    let sums = sums(&mut tx, &payment.id).await?;
    if let Some(order) = payment.order {
        let is_refunded = sums.refunded_cents >= payment.amount_cents;
        orders::mark_refunded(&mut tx, order, is_refunded).await?;
    }
    let target = if sums.gone_cents > 0 {
        payment::taken_back(payment.credits, payment.amount_cents, sums.gone_cents)
    } else {
        Credits::ZERO
    };
    let taken = target.whole().saturating_sub(sums.taken);
    book(&mut tx, &payment, reversal, taken).await?;
    if taken > 0 {
        // Money that goes back must not be charged again without the customer.
        let reason = Some(reversal.kind.as_str());
        top_up_settings::stop_in(&mut tx, payment.customer, reason, reversal.at).await?;
    }
    tx.commit().await?;
    Ok(Reversed::Booked { customer: payment.customer, taken: Credits::from_whole(taken) })
}

async fn lock_payment(tx: &mut Tx, intent: &str) -> Result<Option<Payment>, StoreError> {
    let text = format!(
        "select payment_id, customer_id, order_id, amount_cents, credits
         from payments where intent_id = $1{}",
        dialect::for_update(tx.database())
    );
    let row = tx.row(sqlx::AssertSqlSafe(text), &[intent.into()]).await?;
    row.as_ref().map(payment_of).transpose()
}

fn payment_of(row: &Row) -> Result<Payment, StoreError> {
    Ok(Payment {
        id: row.text(0)?,
        customer: row.parse(1, "payments")?,
        order: row.parse_optional(2, "payments")?,
        amount_cents: row.int(3)?,
        credits: row.credits(4)?,
    })
}

async fn unknown(mut tx: Tx, reversal: &Reversal<'_>) -> Result<Reversed, StoreError> {
    let details =
        format!("the {} is of {}, which was never booked", reversal.kind, reversal.intent);
    let unmatched = Unmatched {
        object: reversal.id,
        reason: Mismatch::UnknownPayment,
        details: &details,
        at: reversal.at,
    };
    let is_new = unmatched::note(&mut tx, &unmatched).await?;
    tx.commit().await?;
    Ok(Reversed::Unmatched { is_new })
}

/// Writes where it stands. False when that was known, or is older than what is known: states only move on, since the
/// processor's events come in any order.
async fn advance(
    tx: &mut Tx,
    payment: &Payment,
    reversal: &Reversal<'_>,
) -> Result<bool, StoreError> {
    const KNOWN: &str = "select state from reversals where id = $1";
    const INSERT: &str = "
        insert into reversals
            (id, kind, payment_id, customer_id, amount_cents, state, taken_credits, returned_credits,
             created_at, changed_at)
        values ($1, $2, $3, $4, $5, $6, 0, 0, $7, $7)";
    const MOVE: &str = "
        update reversals set state = $2, amount_cents = $3, changed_at = $4 where id = $1";
    let known = tx.row(KNOWN, &[reversal.id.into()]).await?;
    let state = reversal.state.as_str();
    let Some(known) = known else {
        let values = [
            reversal.id.into(),
            reversal.kind.as_str().into(),
            payment.id.as_str().into(),
            payment.customer.into(),
            reversal.amount_cents.into(),
            state.into(),
            reversal.at.into(),
        ];
        tx.execute(INSERT, &values).await?;
        return Ok(true);
    };
    if known.parse::<ReversalState>(0, "reversals")? >= reversal.state {
        return Ok(false);
    }
    let values =
        [reversal.id.into(), state.into(), reversal.amount_cents.into(), reversal.at.into()];
    tx.execute(MOVE, &values).await?;
    Ok(true)
}

async fn sums(tx: &mut Tx, payment: &str) -> Result<Sums, StoreError> {
    const SQL: &str = "
        select cast(coalesce(sum(case when state = 'standing' then amount_cents else 0 end), 0) as bigint),
               cast(coalesce(sum(case when state = 'standing' and kind = 'refund' then amount_cents else 0 end), 0)
                    as bigint),
               cast(coalesce(sum(taken_credits - returned_credits), 0) as bigint)
        from reversals where payment_id = $1";
    let Some(row) = tx.row(SQL, &[payment.into()]).await? else { return Ok(Sums::default()) };
    Ok(Sums { gone_cents: row.int(0)?, refunded_cents: row.int(1)?, taken: row.int(2)? })
}

/// Books what is to be taken (positive) or given back (negative), in the name of this refund or dispute.
async fn book(
    tx: &mut Tx,
    payment: &Payment,
    reversal: &Reversal<'_>,
    taken: i64,
) -> Result<(), StoreError> {
    const TAKEN: &str = "
        update reversals set taken_credits = taken_credits + $2 where id = $1";
    const RETURNED: &str = "
        update reversals set returned_credits = returned_credits + $2 where id = $1";
    if taken == 0 {
        return Ok(());
    }
    let amount = taken.saturating_abs();
    let returned = format!("{}:returned", reversal.id);
    let reference = payment.order.map_or_else(|| payment.id.clone(), |order| order.to_string());
    let entry = Grant {
        entry: reversal.entry,
        customer: payment.customer,
        amount: Credits::from_whole(amount),
        kind: reversal.kind.as_str(),
        source: reversal.kind.as_str(),
        source_id: if taken > 0 { reversal.id } else { &returned },
        reference: Some(&reference),
        at: reversal.at,
    };
    let booked = if taken > 0 {
        tx.execute(TAKEN, &[reversal.id.into(), amount.into()]).await?;
        ledger::remove_in(tx, &entry).await?
    } else {
        tx.execute(RETURNED, &[reversal.id.into(), amount.into()]).await?;
        ledger::grant_in(tx, &entry).await?
    };
    match booked {
        Granting::Granted { .. } => Ok(()),
        // The states only move on, so neither direction comes twice.
        Granting::Repeated | Granting::NoCustomer => {
            Err(StoreError::corrupt("reversals", reversal.id))
        }
    }
}
