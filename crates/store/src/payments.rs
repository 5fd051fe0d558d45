//! Payments: the one way to grant credits for money.
//!
//! However a payment becomes known (an event, a charge, a page that comes back, the reconciler, auto top-up), it ends in
//! `fulfil`. What it is given was read from the processor. In one transaction the order is read and compared with it,
//! the ledger entry is written once for the payment, the credits are added (a debt first) and the order is closed. What
//! does not match is granted nothing and noted for somebody to look at.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId, OrderId};
use domain::payment::{Mismatch, PaymentSource};
use domain::time::{Day, Timestamp};

use crate::ledger::{self, Grant, Granting};
use crate::orders::{self, Order};
use crate::tx::Tx;
use crate::unmatched::{self, Unmatched};
use crate::{Store, StoreError, processor_customers, top_ups};

/// Money that arrived, as the processor's own object says.
#[derive(Debug, Clone, Copy)]
pub struct Paid<'a> {
    /// The id of the ledger entry, if there will be one.
    pub entry: EntryId,
    /// What was paid for.
    pub what: PaidFor<'a>,
    /// The payment intent, or the invoice: what is granted once.
    pub payment: &'a str,
    /// The payment intent that the money came with, where the processor says it; refunds name it.
    pub intent: Option<&'a str>,
    /// Who paid, by the processor.
    pub processor_customer: Option<&'a str>,
    /// How much arrived, in the smallest unit of the currency.
    pub amount_cents: i64,
    /// Its currency, in small letters.
    pub currency: &'a str,
    /// Whether it was real money.
    pub livemode: bool,
    /// Now.
    pub at: Timestamp,
}

/// What money was paid for.
#[derive(Debug, Clone, Copy)]
pub enum PaidFor<'a> {
    /// A pack, by its order; the order says how many credits.
    Order(OrderId),
    /// A period of a subscription, by its invoice.
    Plan {
        /// The credits of the period, more than zero.
        credits: Credits,
        /// What a person would look for, such as the plan's name.
        reference: &'a str,
        /// Whether this deployment means real money.
        livemode: bool,
    },
}

/// How a payment was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fulfilled {
    /// Granted, just now.
    Granted(Receipt),
    /// It was granted before; nothing changed.
    Repeated(Receipt),
    /// Not granted.
    Unmatched {
        /// Why.
        reason: Mismatch,
        /// What was expected and what was found.
        details: String,
        /// Whether nobody was told before.
        is_new: bool,
    },
}

/// What a payment brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Whose credits.
    pub customer: CustomerId,
    /// How many were granted for it.
    pub credits: Credits,
    /// What is available now.
    pub balance: Credits,
}

/// What does not fit, in words.
struct Difference {
    reason: Mismatch,
    details: String,
}

/// Whom a payment is granted to.
struct Grantee {
    customer: CustomerId,
    credits: Credits,
    reference: String,
}

/// Grants the credits of a payment, once, if it is what was ordered.
pub async fn fulfil(store: &Store, paid: &Paid<'_>) -> Result<Fulfilled, StoreError> {
    let mut tx = store.write().await?;
    let grantee = match paid.what {
        PaidFor::Order(id) => of_order(orders::lock(&mut tx, id).await?.as_ref(), paid),
        PaidFor::Plan { .. } => of_plan(&mut tx, paid).await?,
    };
    let grantee = match grantee {
        Ok(grantee) => grantee,
        Err(difference) => return refuse(tx, difference, paid).await,
    };
    match grant(&mut tx, &grantee, paid).await? {
        Granting::Granted { balance } => {
            close(&mut tx, &grantee, paid).await?;
            tx.commit().await?;
            Ok(Fulfilled::Granted(grantee.receipt(balance)))
        }
        Granting::Repeated => repeated(tx, &grantee, paid).await,
        Granting::NoCustomer => Err(StoreError::corrupt("customer_credits", grantee.customer)),
    }
}

/// Whether the money of a payment intent is on the books, as a pack's or as an invoice's.
pub async fn is_booked(store: &Store, intent: &str) -> Result<bool, StoreError> {
    const SQL: &str = "select 1 from payments where intent_id = $1";
    Ok(store.read().await?.row(SQL, &[intent.into()]).await?.is_some())
}

/// What an order's payment brought, and what is available now; nothing before it is paid.
pub async fn receipt(store: &Store, order: OrderId) -> Result<Option<Receipt>, StoreError> {
    const SQL: &str = "
        select p.customer_id, p.credits, c.available
        from payments p join customer_credits c on c.customer_id = p.customer_id
        where p.order_id = $1";
    let row = store.read().await?.row(SQL, &[order.into()]).await?;
    row.map(|row| {
        let customer = row.parse(0, "payments")?;
        Ok(Receipt { customer, credits: row.credits(1)?, balance: row.credits(2)? })
    })
    .transpose()
}

/// A payment on the books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Booked {
    /// The payment intent or the invoice.
    pub payment: String,
    /// Which of the two.
    pub source: PaymentSource,
    /// How much was booked, in the smallest unit of the currency.
    pub cents: i64,
    /// The currency, in small letters.
    pub currency: String,
}

/// Whether credits were granted for this invoice, or for this payment intent of a pack.
pub async fn is_granted(store: &Store, payment: &str) -> Result<bool, StoreError> {
    const SQL: &str = "select 1 from payments where payment_id = $1";
    Ok(store.read().await?.row(SQL, &[payment.into()]).await?.is_some())
}

/// Every payment that was booked on this UTC day.
pub async fn list_booked(store: &Store, day: Day) -> Result<Vec<Booked>, StoreError> {
    const SQL: &str = "
        select payment_id, source, amount_cents, currency from payments
        where at >= $1 and at < $2 order by at, payment_id";
    let values = [day.start().into(), day.plus_days(1).start().into()];
    let rows = store.read().await?.rows(SQL, &values).await?;
    rows.iter()
        .map(|row| {
            Ok(Booked {
                payment: row.text(0)?,
                source: row.parse(1, "payments")?,
                cents: row.int(2)?,
                currency: row.text(3)?,
            })
        })
        .collect()
}

/// Notes money that matches nothing; true when it was not known yet.
pub async fn note_unmatched(store: &Store, unmatched: &Unmatched<'_>) -> Result<bool, StoreError> {
    let mut tx = store.write().await?;
    let is_new = unmatched::note(&mut tx, unmatched).await?;
    tx.commit().await?;
    Ok(is_new)
}

impl Grantee {
    const fn receipt(&self, balance: Credits) -> Receipt {
        Receipt { customer: self.customer, credits: self.credits, balance }
    }
}

impl PaidFor<'_> {
    /// The kind of the ledger entry.
    const fn kind(&self) -> &'static str {
        match self {
            Self::Order(_) => "pack",
            Self::Plan { .. } => "plan",
        }
    }

    const fn source(&self) -> PaymentSource {
        match self {
            Self::Order(_) => PaymentSource::Intent,
            Self::Plan { .. } => PaymentSource::Invoice,
        }
    }
}

/// Whose order it is, if what was paid is what was ordered.
fn of_order(order: Option<&Order>, paid: &Paid<'_>) -> Result<Grantee, Difference> {
    let differ = |reason, details: String| Err(Difference { reason, details });
    let Some(order) = order else {
        return differ(Mismatch::UnknownOrder, format!("{} names no order of ours", paid.payment));
    };
    if paid.processor_customer != Some(order.processor_customer.as_str()) {
        let who = paid.processor_customer.unwrap_or("nobody");
        let details = format!("{} is of {}, paid by {who}", order.id, order.processor_customer);
        return differ(Mismatch::OtherCustomer, details);
    }
    if order.livemode != paid.livemode {
        let details =
            format!("{} has livemode {}, the payment {}", order.id, order.livemode, paid.livemode);
        return differ(Mismatch::OtherMode, details);
    }
    if order.currency != paid.currency {
        let details = format!("{} is in {}, paid in {}", order.id, order.currency, paid.currency);
        return differ(Mismatch::OtherCurrency, details);
    }
    if order.amount_cents != paid.amount_cents {
        let details = format!(
            "{} costs {} cents, paid were {}",
            order.id, order.amount_cents, paid.amount_cents
        );
        return differ(Mismatch::OtherAmount, details);
    }
    let payment = order.payment.as_deref();
    if order.state.is_paid() && payment != Some(paid.payment) {
        let details = format!("{} was paid by {} before", order.id, payment.unwrap_or("nothing"));
        return differ(Mismatch::OtherPayment, details);
    }
    let reference = order.id.to_string();
    Ok(Grantee { customer: order.customer, credits: order.credits, reference })
}

async fn of_plan(tx: &mut Tx, paid: &Paid<'_>) -> Result<Result<Grantee, Difference>, StoreError> {
    let PaidFor::Plan { credits, reference, livemode } = paid.what else {
        return Err(StoreError::corrupt("payments", paid.payment));
    };
    if livemode != paid.livemode {
        let details =
            format!("livemode of the deployment is {livemode}, of the invoice {}", paid.livemode);
        return Ok(Err(Difference { reason: Mismatch::OtherMode, details }));
    }
    let payer = paid.processor_customer.unwrap_or_default();
    let Some(customer) = processor_customers::owner_in(tx, payer).await? else {
        let details = format!("{payer} is no customer of ours");
        return Ok(Err(Difference { reason: Mismatch::OtherCustomer, details }));
    };
    Ok(Ok(Grantee { customer, credits, reference: reference.to_owned() }))
}

async fn grant(tx: &mut Tx, grantee: &Grantee, paid: &Paid<'_>) -> Result<Granting, StoreError> {
    let grant = Grant {
        entry: paid.entry,
        customer: grantee.customer,
        amount: grantee.credits,
        kind: paid.what.kind(),
        source: paid.what.source().as_str(),
        source_id: paid.payment,
        reference: Some(&grantee.reference),
        at: paid.at,
    };
    ledger::grant_in(tx, &grant).await
}

/// Writes the payment down and closes its order, in the transaction of the grant.
async fn close(tx: &mut Tx, grantee: &Grantee, paid: &Paid<'_>) -> Result<(), StoreError> {
    const INSERT: &str = "
        insert into payments
            (payment_id, source, intent_id, customer_id, order_id, amount_cents, currency, livemode, credits, at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)";
    let order = match paid.what {
        PaidFor::Order(id) => {
            orders::mark_paid(tx, id, paid.payment, paid.at).await?;
            top_ups::succeed_in(tx, id, paid.payment, paid.at).await?;
            Some(id.to_string())
        }
        PaidFor::Plan { .. } => None,
    };
    let values = [
        paid.payment.into(),
        paid.what.source().as_str().into(),
        paid.intent.into(),
        grantee.customer.into(),
        order.as_deref().into(),
        paid.amount_cents.into(),
        paid.currency.into(),
        i64::from(paid.livemode).into(),
        grantee.credits.into(),
        paid.at.into(),
    ];
    tx.execute(INSERT, &values).await?;
    Ok(())
}

/// The payment was granted before: to this order, or to another one, which is wrong.
async fn repeated(mut tx: Tx, grantee: &Grantee, paid: &Paid<'_>) -> Result<Fulfilled, StoreError> {
    const SQL: &str = "
        select p.customer_id, p.order_id, p.credits, c.available
        from payments p join customer_credits c on c.customer_id = p.customer_id
        where p.payment_id = $1";
    let row = tx.row(SQL, &[paid.payment.into()]).await?;
    let row = row.ok_or_else(|| StoreError::corrupt("payments", paid.payment))?;
    let customer: CustomerId = row.parse(0, "payments")?;
    let order: Option<OrderId> = row.parse_optional(1, "payments")?;
    let is_same = match paid.what {
        PaidFor::Order(id) => order == Some(id),
        PaidFor::Plan { .. } => customer == grantee.customer,
    };
    if is_same {
        let receipt = Receipt { customer, credits: row.credits(2)?, balance: row.credits(3)? };
        return Ok(Fulfilled::Repeated(receipt));
    }
    let details = format!("{} was granted to {customer} before", paid.payment);
    refuse(tx, Difference { reason: Mismatch::OtherPayment, details }, paid).await
}

async fn refuse(
    mut tx: Tx,
    difference: Difference,
    paid: &Paid<'_>,
) -> Result<Fulfilled, StoreError> {
    let Difference { reason, details } = difference;
    let unmatched = Unmatched { object: paid.payment, reason, details: &details, at: paid.at };
    let is_new = unmatched::note(&mut tx, &unmatched).await?;
    tx.commit().await?;
    Ok(Fulfilled::Unmatched { reason, details, is_new })
}
