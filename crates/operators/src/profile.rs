//! One customer as the operator sees it.

use domain::customer::CustomerRef;
use domain::id::CustomerId;
use domain::lots::Lot;
use domain::platform::Platform;
use failures::Failure;
use runtime::audit;
use serde_json::json;
use store::accounts::Account;
use store::calls::{Call, RecentCalls};
use store::customers::Customer;
use store::invoices::{InvoiceQuery, StoredInvoice};
use store::key_list::ListedKey;
use store::orders::{Order, OrderQuery};
use store::returned_money::{RecordedReversal, ReturnedMoney};
use store::slot_limits::SlotUsage;

use crate::{
    CallPoint, CustomerProfile, DebtNotice, DisputeLine, InvoiceLine, KeyLine, LotLine,
    OperatorIdentity, OperatorOutcome, OperatorsState, OrderLine, ProfileAccount, ReversalLine,
    SlotLine, unknown,
};

/// How many of the newest calls, orders and notices are shown.
const SHOWN_MAX: i64 = 10;

/// Shows a customer, which is then in its audit list.
pub(crate) async fn show(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    named: &CustomerRef,
) -> Result<OperatorOutcome, Failure> {
    let customer = operators.find(named).await?;
    operators.record(who, customer.id, audit::OPERATOR_VIEWED, json!({})).await?;
    let profile = Box::pin(profile(operators, customer)).await?;
    Ok(OperatorOutcome::Customer(Box::new(profile)))
}

async fn profile(
    operators: &OperatorsState,
    customer: Customer,
) -> Result<CustomerProfile, Failure> {
    let (store, id) = (&operators.store, customer.id);
    let now = operators.clock.now();
    let standing = store::suspensions::find(store, id).await?;
    let standing = standing.ok_or_else(|| unknown("customer", id))?;
    let balance = store::usage::balance(store, id).await?;
    let balance = balance.ok_or_else(|| unknown("customer", id))?;
    let usage = store::slot_limits::usage(store, id, &operators.billing.allowances).await?;
    let subscription = usage.subscription.as_ref().map(|stored| &stored.view);
    let access = store::support_access::find(store, id).await?;
    let access = access.filter(|access| access.is_open(now));
    let card = store::cards::find(store, id).await?;
    let lots = billing::lots::list(&operators.billing, id).await?;
    let keys = store::key_list::list(store, id, now.day()).await?;
    let accounts = store::accounts::list(store, id).await?;
    let told = store::customer_notices::failures(store, id, SHOWN_MAX).await?;
    let returned = store::returned_money::of_customer(store, id).await?;
    Ok(CustomerProfile {
        customer_id: id,
        email: customer.email.as_str().to_owned(),
        name: customer.name,
        state: standing.state,
        created_at: customer.created_at,
        email_confirmed_at: customer.email_verified_at,
        suspended_at: standing.suspended_at,
        suspended_reason: standing.suspended_reason,
        erased_at: standing.erased_at,
        balance: balance.available.whole(),
        held: balance.held.whole(),
        spent: balance.spent.whole(),
        debt: balance.debt.whole(),
        lots: lots.into_iter().map(LotLine::from).collect(),
        plan: subscription.and_then(|view| view.paid.as_ref()).map(|paid| paid.plan_id.clone()),
        subscription: subscription
            .map_or(domain::subscription::SubscriptionStatus::None, |view| view.status),
        subscription_id: subscription.and_then(|view| view.subscription_id.clone()),
        period_end: subscription.and_then(|view| view.period_end),
        slots: slots(&usage),
        keys: keys.into_iter().map(KeyLine::from).collect(),
        accounts: accounts.into_iter().map(ProfileAccount::from).collect(),
        calls: calls(operators, id).await?,
        orders: orders(operators, id, &returned).await?,
        invoices: invoices(operators, id, &returned).await?,
        reversals: reversals(operators, id).await?,
        disputes: disputes(operators, id).await?,
        processor_customer: store::processor_customers::find(store, id).await?,
        card: card.map(|card| format!("{} {}", card.brand, card.last4)),
        support_access_until: access.map(|access| access.expires_at),
        permissions: store::customer_notices::permissions(store, id).await?,
        notices: told
            .into_iter()
            .map(|told| DebtNotice {
                invoice_id: told.invoice,
                attempt: told.attempt,
                told_at: told.told_at,
            })
            .collect(),
    })
}

fn slots(usage: &SlotUsage) -> Vec<SlotLine> {
    let line = |platform: Platform| SlotLine {
        platform,
        limit: usage.limits.limit.on(platform),
        active: usage.active.on(platform),
        connected: usage.connected.on(platform),
    };
    Platform::all().into_iter().map(line).collect()
}

async fn calls(
    operators: &OperatorsState,
    customer: CustomerId,
) -> Result<Vec<CallPoint>, Failure> {
    let wanted = RecentCalls::of(customer, SHOWN_MAX);
    let page = store::calls::recent(&operators.store, &wanted).await?;
    Ok(page.calls.into_iter().map(CallPoint::from).collect())
}

/// The newest orders.
async fn orders(
    operators: &OperatorsState,
    customer: CustomerId,
    returned: &ReturnedMoney,
) -> Result<Vec<OrderLine>, Failure> {
    let query = OrderQuery { customer, before: None, limit: SHOWN_MAX };
    let orders = store::orders::list(&operators.store, &query).await?;
    let line = |order: Order| {
        let returned_cents = returned.of_order(order.id);
        OrderLine { returned_cents, ..OrderLine::from(order) }
    };
    Ok(orders.into_iter().map(line).collect())
}

/// The newest invoices, as they are stored.
async fn invoices(
    operators: &OperatorsState,
    customer: CustomerId,
    returned: &ReturnedMoney,
) -> Result<Vec<InvoiceLine>, Failure> {
    let query = InvoiceQuery { customer, before: None, limit: SHOWN_MAX };
    let invoices = store::invoices::list(&operators.store, &query).await?;
    let line = |invoice: StoredInvoice| InvoiceLine {
        returned_cents: returned.of_invoice(&invoice.id, invoice.order),
        invoice_id: invoice.id,
        number: invoice.number,
        state: invoice.state.to_string(),
        reason: invoice.reason,
        amount_cents: invoice.sums.total_cents,
        paid_cents: invoice.sums.paid_cents,
        currency: invoice.currency,
        order_id: invoice.order,
        created_at: invoice.created_at,
    };
    Ok(invoices.into_iter().map(line).collect())
}

/// The newest refunds and disputes.
async fn reversals(
    operators: &OperatorsState,
    customer: CustomerId,
) -> Result<Vec<ReversalLine>, Failure> {
    let found = store::returned_money::list(&operators.store, customer, SHOWN_MAX).await?;
    let line = |one: RecordedReversal| ReversalLine {
        reversal_id: one.id,
        kind: one.kind.to_string(),
        state: one.state.to_string(),
        payment: one.payment,
        order_id: one.order,
        amount_cents: one.amount_cents,
        currency: one.currency,
        created_at: one.created_at,
    };
    Ok(found.into_iter().map(line).collect())
}

/// The newest disputes and warnings of fraud.
async fn disputes(
    operators: &OperatorsState,
    customer: CustomerId,
) -> Result<Vec<DisputeLine>, Failure> {
    let found = store::disputes::of_customer(&operators.store, customer, SHOWN_MAX).await?;
    Ok(found.into_iter().map(DisputeLine::from).collect())
}

impl From<Lot> for LotLine {
    fn from(lot: Lot) -> Self {
        Self {
            source: lot.source.to_string(),
            reference: lot.reference,
            granted: lot.granted,
            left: lot.left,
            expires_at: lot.expires_at,
        }
    }
}

impl From<ListedKey> for KeyLine {
    fn from(listed: ListedKey) -> Self {
        let key = listed.key;
        Self {
            key_id: key.id,
            name: key.name,
            prefix: key.shown_prefix,
            scope: key.scope.to_string(),
            accounts: key.accounts,
            monthly_budget: key.monthly_budget.map(domain::credits::Credits::whole),
            used: listed.used.whole(),
            last_used_at: listed.last_used_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
        }
    }
}

impl From<Account> for ProfileAccount {
    fn from(account: Account) -> Self {
        Self {
            creator_id: account.creator_id,
            platform: account.platform,
            platform_account_id: account.platform_account_id,
            state: account.state.to_string(),
            connected_at: account.connected_at,
        }
    }
}

impl From<Call> for CallPoint {
    fn from(call: Call) -> Self {
        Self {
            call_id: call.id,
            request_id: call.request,
            at: call.at,
            account: call.account,
            route: call.route,
            status: call.status,
            outcome: call.outcome,
            credits: call.credits.map(domain::credits::Credits::whole),
        }
    }
}

impl From<Order> for OrderLine {
    fn from(order: Order) -> Self {
        Self {
            order_id: order.id,
            state: order.state.to_string(),
            channel: order.channel.to_string(),
            pack_id: order.pack_id,
            credits: order.credits.whole(),
            amount_cents: order.amount_cents,
            currency: order.currency,
            payment: order.payment,
            returned_cents: 0,
            created_at: order.created_at,
        }
    }
}
