//! What the commands about payments return; the others are in `shapes`. Fields are only added.

use domain::id::{CustomerId, LotId, OrderId};
use domain::time::Timestamp;

/// An invoice.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct InvoiceLine {
    /// Its id at the payment processor.
    pub invoice_id: String,
    /// Its number on the document.
    pub number: String,
    /// `open`, `paid`, `void` or `uncollectible`.
    pub state: String,
    /// Why it was made, such as `subscription_cycle`.
    pub reason: String,
    /// Its amount, in cents.
    pub amount_cents: i64,
    /// What was paid, in cents.
    pub paid_cents: i64,
    /// What has gone back of it by refunds and disputes, in cents.
    pub returned_cents: i64,
    /// The currency.
    pub currency: String,
    /// The order, of an invoice for a pack.
    pub order_id: Option<OrderId>,
    /// When it was made.
    pub created_at: Timestamp,
}

/// A refund or a dispute, as the ledger has it.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct ReversalLine {
    /// Its id at the payment processor.
    pub reversal_id: String,
    /// `refund` or `dispute`.
    pub kind: String,
    /// `waiting` (no money has moved), `standing` (the money has gone back) or `undone`.
    pub state: String,
    /// The payment intent of a pack, or the invoice.
    pub payment: String,
    /// The order, if a pack was bought.
    pub order_id: Option<OrderId>,
    /// How much, in cents.
    pub amount_cents: i64,
    /// The currency.
    pub currency: String,
    /// When it was first seen.
    pub created_at: Timestamp,
}

/// A dispute, or a warning of fraud.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct DisputeLine {
    /// Its id at the payment processor.
    pub dispute_id: String,
    /// Where it stands: `warned`, `inquiry`, `inquiry_answered`, `open`, `answered`, `lost`,
    /// `ended` or `won`.
    pub stage: String,
    /// The payment processor's own word for it.
    pub status: String,
    /// What to do, for people.
    pub next: String,
    /// The disputed amount, in cents.
    pub amount_cents: i64,
    /// The currency.
    pub currency: String,
    /// The bank's reason, or the kind of fraud that it warns of.
    pub reason: String,
    /// Until when evidence is taken.
    pub due_by: Option<Timestamp>,
    /// Who paid, if that is known.
    pub customer_id: Option<CustomerId>,
    /// The order, if a pack was bought.
    pub order_id: Option<OrderId>,
    /// The invoice, if a plan or slots were bought.
    pub invoice_id: Option<String>,
    /// The charge at the payment processor.
    pub charge: Option<String>,
    /// The payment intent there.
    pub payment: Option<String>,
    /// When it began.
    pub opened_at: Timestamp,
    /// When it was last seen to change.
    pub changed_at: Timestamp,
}

/// A refund of an order.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct OrderRefund {
    /// The order.
    pub order_id: OrderId,
    /// The customer.
    pub customer_id: CustomerId,
    /// False if all of it was refunded before.
    pub applied: bool,
    /// The refund at the payment processor; absent with `dry_run`.
    pub refund_id: Option<String>,
    /// The money that goes back, in cents.
    pub amount_cents: i64,
    /// The currency.
    pub currency: String,
    /// The credits that the refund takes back.
    pub credits_taken: i64,
    /// The credits of the order that the customer keeps, although all of its money has gone back.
    pub credits_kept: i64,
    /// The lots that the refund changes; none if the credits are kept.
    #[serde(default)]
    pub lots: Vec<RefundedLot>,
    /// The balance afterwards.
    pub balance: i64,
    /// The debt afterwards.
    pub debt: i64,
    /// Whether nothing was changed, because only that was asked for.
    pub dry_run: bool,
}

/// What a refund changes of one lot of credits.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RefundedLot {
    /// The lot.
    pub lot_id: LotId,
    /// By how many credits it changes: negative where they are taken.
    pub credits: i64,
}

/// A payment that matched no order.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct UnmatchedLine {
    /// The processor's object.
    pub object: String,
    /// Why it matched nothing.
    pub reason: String,
    /// What was expected and what was found.
    pub details: String,
    /// How often it was seen.
    pub times: i64,
    /// When it was first seen.
    pub first_at: Timestamp,
    /// When it was last seen.
    pub last_at: Timestamp,
    /// When it was settled.
    pub settled_at: Option<Timestamp>,
    /// Who settled it.
    pub settled_by: Option<String>,
    /// What was decided.
    pub settlement: Option<String>,
}

/// A payment that matched no order and was settled.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct UnmatchedResult {
    /// The processor's object.
    pub object: String,
    /// False if it was settled before; then nothing changed.
    pub applied: bool,
    /// What was decided.
    pub settlement: String,
    /// The credits that were granted for it.
    pub credits: i64,
    /// The refund at the payment processor.
    pub refund_id: Option<String>,
    /// Whether nothing was changed, because only that was asked for.
    pub dry_run: bool,
}
