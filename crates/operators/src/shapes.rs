//! What the commands return: one stable shape for each, for `--json` and for HTTP. Fields are only
//! added.

use domain::account::CreatorId;
use domain::customer::CustomerState;
use domain::id::{CallId, CustomerId, KeyId, OrderId};
use domain::platform::Platform;
use domain::staff::Permission;
use domain::subscription::SubscriptionStatus;
use domain::time::Timestamp;

use crate::payment_shapes::{
    DisputeLine, InvoiceLine, OrderRefund, ReversalLine, UnmatchedLine, UnmatchedResult,
};

/// The result of a command.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub enum OperatorOutcome {
    /// A page of customers.
    Customers {
        /// The customers, the newest first.
        customers: Vec<CustomerLine>,
        /// The cursor of the next page; absent on the last one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        next_cursor: Option<CustomerId>,
    },
    /// The customers that a text names.
    CustomersFound {
        /// One entry for each customer and match.
        matches: Vec<CustomerMatch>,
    },
    /// One customer.
    Customer(Box<CustomerProfile>),
    /// A customer was suspended or resumed.
    Suspension(SuspensionView),
    /// All sessions of a customer have ended.
    SessionsEnded {
        /// The customer.
        customer_id: CustomerId,
        /// How many there were, expired ones that were not removed yet included.
        ended: u64,
    },
    /// A customer was erased.
    CustomerErased(CustomerErasure),
    /// The calls of a request.
    Calls {
        /// The calls, the newest first.
        calls: Vec<CallView>,
    },
    /// An order was refunded.
    OrderRefunded(OrderRefund),
    /// The credits that customers can still spend.
    Liability(LiabilityReport),
    /// Disputes and warnings of fraud.
    Disputes {
        /// The disputes and warnings, the newest first.
        disputes: Vec<DisputeLine>,
    },
    /// Payments that matched no order.
    Unmatched {
        /// The payments, the newest first.
        payments: Vec<UnmatchedLine>,
    },
    /// A payment that matched no order was settled.
    UnmatchedSettled(UnmatchedResult),
}

/// The credits that customers can still spend: what the operator owes.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct LiabilityReport {
    /// The instant at which all balances were read.
    pub at: Timestamp,
    /// The sum of all balances, and of the rows.
    pub outstanding: i64,
    /// What is held for running calls and exports.
    pub held: i64,
    /// What customers owe.
    pub debt: i64,
    /// Customers who can spend something.
    pub customers: i64,
    /// By source and age; without rows that are empty.
    pub rows: Vec<LiabilityRow>,
}

/// Credits of one source and one age.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct LiabilityRow {
    /// What they were granted for, such as `pack`.
    pub source: String,
    /// The youngest of them, in days since the grant.
    pub days_from: i64,
    /// The days at which they count as older; absent for the oldest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days_until: Option<i64>,
    /// The credits that can still be spent.
    pub credits: i64,
    /// Those of them that never expire.
    pub without_expiry: i64,
    /// The number of grants.
    pub lots: i64,
}

/// A customer in a list.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CustomerLine {
    /// Its id.
    pub customer_id: CustomerId,
    /// Its address.
    pub email: String,
    /// Its name; may be empty.
    pub name: String,
    /// What it can do.
    pub state: CustomerState,
    /// When it registered.
    pub created_at: Timestamp,
    /// Its plan.
    pub plan: Option<String>,
    /// The status of its subscription.
    pub subscription: SubscriptionStatus,
    /// What it can spend.
    pub balance: i64,
    /// What it owes.
    pub debt: i64,
}

/// A customer that a text names.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CustomerMatch {
    /// Its id.
    pub customer_id: CustomerId,
    /// Its address.
    pub email: String,
    /// What it can do.
    pub state: CustomerState,
    /// What the text names, such as `order`.
    pub matched: String,
    /// The value that matched.
    pub value: String,
}

/// Everything that an operator needs about one customer.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CustomerProfile {
    /// Its id.
    pub customer_id: CustomerId,
    /// Its address.
    pub email: String,
    /// Its name; may be empty.
    pub name: String,
    /// What it can do.
    pub state: CustomerState,
    /// When it registered.
    pub created_at: Timestamp,
    /// When its address was confirmed.
    pub email_confirmed_at: Option<Timestamp>,
    /// When it was suspended.
    pub suspended_at: Option<Timestamp>,
    /// Why.
    pub suspended_reason: Option<String>,
    /// When it was erased.
    pub erased_at: Option<Timestamp>,
    /// What it can spend.
    pub balance: i64,
    /// What is held for running calls and exports.
    pub held: i64,
    /// What it spent in all.
    pub spent: i64,
    /// What it owes.
    pub debt: i64,
    /// The credits that are left, in the order of spending.
    pub lots: Vec<LotLine>,
    /// The plan that is paid for.
    pub plan: Option<String>,
    /// The status of the subscription.
    pub subscription: SubscriptionStatus,
    /// Its id at the payment processor.
    pub subscription_id: Option<String>,
    /// When the paid period ends.
    pub period_end: Option<Timestamp>,
    /// The slots of each platform.
    pub slots: Vec<SlotLine>,
    /// The keys, without their secrets.
    pub keys: Vec<KeyLine>,
    /// The connected accounts.
    pub accounts: Vec<ProfileAccount>,
    /// The newest calls.
    pub calls: Vec<CallPoint>,
    /// The orders that may still be paid, and the newest others.
    pub orders: Vec<OrderLine>,
    /// The newest invoices.
    #[serde(default)]
    pub invoices: Vec<InvoiceLine>,
    /// The newest refunds and disputes that are recorded in the ledger.
    #[serde(default)]
    pub reversals: Vec<ReversalLine>,
    /// The newest disputes and warnings of fraud.
    #[serde(default)]
    pub disputes: Vec<DisputeLine>,
    /// The customer's id at the payment processor.
    pub processor_customer: Option<String>,
    /// The card that is charged, such as `visa 4242`.
    pub card: Option<String>,
    /// Until when support access is open; absent if it is not.
    pub support_access_until: Option<Timestamp>,
    /// What the customer may do as staff.
    pub permissions: Vec<Permission>,
    /// The newest failed payments of invoices that the customer was told about.
    pub notices: Vec<DebtNotice>,
}

/// Credits of one grant.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct LotLine {
    /// What they were granted for.
    pub source: String,
    /// Something to look up, such as the order.
    pub reference: Option<String>,
    /// How many were granted.
    pub granted: i64,
    /// How many are left.
    pub left: i64,
    /// When they expire.
    pub expires_at: Option<Timestamp>,
}

/// The slots of a platform.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct SlotLine {
    /// The platform.
    pub platform: Platform,
    /// How many accounts may be active.
    pub limit: i64,
    /// How many are.
    pub active: i64,
    /// How many are connected.
    pub connected: i64,
}

/// A key without its secret.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct KeyLine {
    /// Its id.
    pub key_id: KeyId,
    /// Its name.
    pub name: String,
    /// How its secret begins.
    pub prefix: String,
    /// `full` or `read_only`.
    pub scope: String,
    /// The accounts it is limited to; empty: all.
    pub accounts: Vec<CreatorId>,
    /// What it may spend in a month.
    pub monthly_budget: Option<i64>,
    /// What it has spent this month.
    pub used: i64,
    /// When it was last used.
    pub last_used_at: Option<Timestamp>,
    /// When it expires.
    pub expires_at: Option<Timestamp>,
    /// When it was revoked.
    pub revoked_at: Option<Timestamp>,
}

/// A connected account.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct ProfileAccount {
    /// The customer's name for it.
    pub creator_id: CreatorId,
    /// The platform.
    pub platform: Platform,
    /// The platform's id of it.
    pub platform_account_id: String,
    /// `active`, `inactive` or `reconnect_needed`.
    pub state: String,
    /// When it was connected.
    pub connected_at: Timestamp,
}

/// A call in a list.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CallPoint {
    /// Its id.
    pub call_id: CallId,
    /// The id of its request.
    pub request_id: String,
    /// When it began.
    pub at: Timestamp,
    /// The account.
    pub account: CreatorId,
    /// Method and route.
    pub route: String,
    /// The platform's status.
    pub status: Option<u16>,
    /// How it ended.
    pub outcome: Option<String>,
    /// What it was charged.
    pub credits: Option<i64>,
}

/// An order.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct OrderLine {
    /// Its id.
    pub order_id: OrderId,
    /// Its state.
    pub state: String,
    /// How it is paid: `checkout`, `charge` or `top_up`.
    pub channel: String,
    /// What was bought.
    pub pack_id: String,
    /// The credits.
    pub credits: i64,
    /// The price in cents.
    pub amount_cents: i64,
    /// The currency.
    pub currency: String,
    /// The payment at the processor.
    pub payment: Option<String>,
    /// What has gone back of it by refunds and disputes, in cents.
    #[serde(default)]
    pub returned_cents: i64,
    /// When it was opened.
    pub created_at: Timestamp,
}

/// A failed payment of an invoice.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct DebtNotice {
    /// The invoice.
    pub invoice_id: String,
    /// Which attempt failed.
    pub attempt: i64,
    /// When the customer was told.
    pub told_at: Timestamp,
}

/// A suspension that began or ended.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct SuspensionView {
    /// The customer.
    pub customer_id: CustomerId,
    /// What it can do now; with `dry_run`, afterwards.
    pub state: CustomerState,
    /// False if it was so before; then nothing changed.
    pub applied: bool,
    /// The subscription that was ended.
    pub cancelled_subscription: Option<String>,
    /// Whether nothing was changed, because only that was asked for.
    pub dry_run: bool,
}

/// What an erasure removed.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CustomerErasure {
    /// The customer.
    pub customer_id: CustomerId,
    /// False if it was erased before; then nothing changed.
    pub applied: bool,
    /// The rows that were deleted or emptied, by table.
    pub tables: Vec<ErasedTable>,
    /// The customers of the payment processor that are being deleted there.
    pub processor_customers: Vec<String>,
    /// The credits left of what the customer paid for, which it loses.
    #[serde(default)]
    pub forfeited_credits: i64,
    /// Its credit for later invoices at the processor, which it loses, in cents.
    #[serde(default)]
    pub forfeited_cents: i64,
    /// Whether nothing was changed, because only that was asked for.
    pub dry_run: bool,
}

/// The rows of one table.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct ErasedTable {
    /// The table.
    pub table: String,
    /// How many rows.
    pub rows: u64,
}

/// Everything that is recorded about a call.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct CallView {
    /// Its id.
    pub call_id: CallId,
    /// The id of its request.
    pub request_id: String,
    /// Who made it.
    pub customer_id: CustomerId,
    /// The key.
    pub key_id: KeyId,
    /// The account.
    pub account: CreatorId,
    /// The platform.
    pub platform: Platform,
    /// The method.
    pub method: String,
    /// The native path, without its query.
    pub path: String,
    /// The route of the catalogue.
    pub route: String,
    /// `held`, `settled` or `refunded`.
    pub state: String,
    /// How it ended.
    pub outcome: Option<String>,
    /// The platform's status.
    pub status: Option<u16>,
    /// What it costs when it is charged.
    pub cost: i64,
    /// What it was charged.
    pub credits: Option<i64>,
    /// When it began: its credits were held.
    pub held_at: Timestamp,
    /// Until when the hold counts; none once the call has ended.
    pub expires_at: Option<Timestamp>,
    /// When it ended.
    pub resolved_at: Option<Timestamp>,
    /// The milliseconds from the request to the response.
    pub duration_ms: Option<i64>,
    /// Those of it that the platform took.
    pub upstream_ms: Option<i64>,
    /// The node that made it.
    pub node: String,
    /// Which start of that node.
    pub epoch: i64,
    /// Whether it had an `Idempotency-Key`.
    pub has_idempotency_key: bool,
    /// The lines of the ledger with the calls of its day.
    pub ledger: Vec<LedgerPoint>,
}

/// A line of the ledger.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct LedgerPoint {
    /// The line, as the ledger's own pages name it.
    pub line: String,
    /// When it ended.
    pub at: Timestamp,
    /// The credits.
    pub amount: i64,
    /// The balance after it.
    pub balance_after: Option<i64>,
}
