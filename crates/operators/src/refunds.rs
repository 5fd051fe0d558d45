//! Refunds of orders: money goes back through the payment processor, and the credits follow as they
//! do for any refund, whoever makes it.
//!
//! The command may be repeated after a crash: the processor's refunds of the payment are read
//! first, and the request has an idempotency key that is derived from the order.

use billing::reversals;
use domain::credits::Credits;
use domain::id::{CustomerId, EntryId, OrderId};
use domain::lots::LotSource;
use domain::payment::{OrderState, ReversalKind, ReversalState};
use failures::{Failure, OperatorProblem};
use processor_client::objects::PaymentRefund;
use processor_client::{ListFilter, NewRefund};
use runtime::audit;
use serde_json::json;
use store::ledger::{CreditGrant, CreditGrantOutcome};
use store::orders::Order;
use store::reversals::{PaymentReversal, RefundableSale};

use crate::{
    CreditTreatment, OperatorIdentity, OperatorOutcome, OperatorsState, OrderRefund, unknown,
};

/// Refunds what is left of an order.
pub(crate) async fn refund(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    id: OrderId,
    credits: CreditTreatment,
    dry_run: bool,
) -> Result<OperatorOutcome, Failure> {
    let order = store::orders::find_any(&operators.store, id).await?;
    let order = order.ok_or_else(|| unknown("order", id))?;
    if !order.state.is_paid() {
        return Err(OperatorProblem::NotRefundable(order.state).into());
    }
    let Some(intent) = order.payment.clone() else {
        return Err(OperatorProblem::NothingPaid.into());
    };
    let preview = preview(operators, &order, &intent, credits).await?;
    let RefundPreview { mut result, order_state } = preview.ok_or(OperatorProblem::NothingPaid)?;
    if result.amount_cents == 0 && order_state == Some(OrderState::Paid) {
        return Err(OperatorProblem::Disputed.into());
    }
    if dry_run {
        let details = json!({"command": "refund", "order_id": id});
        operators.record(who, order.customer, audit::OPERATOR_PREVIEWED, details).await?;
        return Ok(OperatorOutcome::OrderRefunded(OrderRefund { dry_run, ..result }));
    }
    let details = json!({"order_id": id, "amount_cents": result.amount_cents, "credits": credits});
    operators.record(who, order.customer, audit::ORDER_REFUNDED, details).await?;
    result.refund_id = send(operators, id, &intent).await?;
    result.applied = result.refund_id.is_some();
    if !result.applied {
        // Somebody else has refunded it since the preview.
        (result.amount_cents, result.credits_taken) = (0, 0);
    }
    if credits == CreditTreatment::Keep {
        result.credits_kept = keep(operators, who, &order, &intent).await?;
    }
    let balance = store::usage::balance(&operators.store, order.customer).await?;
    if let Some(balance) = balance {
        (result.balance, result.debt) = (balance.available.whole(), balance.debt.whole());
    }
    Ok(OperatorOutcome::OrderRefunded(result))
}

/// Makes the refund at the processor and records it, with any that were not recorded yet. None if
/// all of the money had gone back before.
async fn send(
    operators: &OperatorsState,
    id: OrderId,
    intent: &str,
) -> Result<Option<String>, Failure> {
    let processor = operators.billing.processor()?;
    let listing = ListFilter { payment_intent: Some(intent), ..ListFilter::default() };
    let known = processor.list_refunds(&listing).await?.data;
    for refund in &known {
        reversals::take_refund(&operators.billing, refund).await?;
    }
    let order = store::orders::find_any(&operators.store, id).await?;
    if order.is_some_and(|order| order.state == OrderState::Refunded) {
        return Ok(None);
    }
    // A refund that failed does not stand for the next one.
    let failed = known.iter().filter(|refund| is_undone(refund)).count();
    let key = billing::key("refund", format!("{id}:{failed}"))?;
    let order_id = id.to_string();
    let new = NewRefund {
        payment_intent: intent,
        amount_cents: None,
        metadata: &[("order_id", &order_id)],
    };
    let refund = processor.create_refund(&new, &key).await?;
    reversals::take_refund(&operators.billing, &refund).await?;
    Ok(Some(refund.id))
}

pub(crate) fn is_undone(refund: &PaymentRefund) -> bool {
    matches!(refund.status.as_deref(), Some("failed" | "canceled"))
}

/// What a refund would do, and the state of the order at the moment of which that is true: another
/// operator may refund it at the same time.
struct RefundPreview {
    result: OrderRefund,
    order_state: Option<OrderState>,
}

/// What a refund of all that is left would take back, computed and not stored.
async fn preview(
    operators: &OperatorsState,
    order: &Order,
    intent: &str,
    credits: CreditTreatment,
) -> Result<Option<RefundPreview>, Failure> {
    let found = store::reversals::find_sale(&operators.store, intent).await?;
    let Some(RefundableSale { left_cents, taken, order: order_state, .. }) = found else {
        return Ok(None);
    };
    let now = operators.clock.now();
    let reversal = PaymentReversal {
        entry: EntryId::new(now, operators.random.bytes()),
        id: "preview",
        kind: ReversalKind::Refund,
        intent,
        amount_cents: left_cents,
        state: ReversalState::Standing,
        credit_cents: 0,
        at: now,
    };
    let change = match left_cents {
        0 => None,
        _ => store::reversals::preview(&operators.store, &reversal).await?,
    };
    let balance = store::usage::balance(&operators.store, order.customer).await?;
    let balance = balance.ok_or_else(|| unknown("customer", order.customer))?;
    let credits_taken = change.as_ref().map_or(0, |change| change.taken.whole());
    let kept = match credits {
        CreditTreatment::Take => 0,
        CreditTreatment::Keep => taken.whole().saturating_add(credits_taken),
    };
    let after =
        change.map_or((balance.available, balance.debt), |change| (change.balance, change.debt));
    let (available, owed) = with_kept(after.0.whole(), after.1.whole(), kept);
    let result = OrderRefund {
        order_id: order.id,
        customer_id: order.customer,
        applied: left_cents > 0,
        refund_id: None,
        amount_cents: left_cents,
        currency: order.currency.clone(),
        credits_taken,
        credits_kept: kept,
        balance: available,
        debt: owed,
        dry_run: false,
    };
    Ok(Some(RefundPreview { result, order_state }))
}

/// Balance and debt after credits are granted: they pay the debt first.
const fn with_kept(balance: i64, debt: i64, kept: i64) -> (i64, i64) {
    let paid = if kept < debt { kept } else { debt };
    (balance.saturating_add(kept - paid), debt - paid)
}

/// Grants again what refunds of the order have taken, once, with the expiry that it had.
async fn keep(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    order: &Order,
    intent: &str,
) -> Result<i64, Failure> {
    let found = store::reversals::find_sale(&operators.store, intent).await?;
    let Some(sale) = found.filter(|sale| sale.taken.whole() > 0) else { return Ok(0) };
    let now = operators.clock.now();
    let reference = format!("kept after the refund of {}", order.id);
    let gift = GiftedCredits {
        customer: order.customer,
        credits: sale.taken,
        reference: &reference,
        expires_at: sale.expires_at.filter(|end| *end > now),
    };
    give(operators, who, &gift).await?;
    Ok(sale.taken.whole())
}

/// Credits that the operator gives, once for each reference.
pub(crate) struct GiftedCredits<'a> {
    pub(crate) customer: CustomerId,
    pub(crate) credits: Credits,
    pub(crate) reference: &'a str,
    pub(crate) expires_at: Option<domain::time::Timestamp>,
}

/// Gives credits. False if they were given before.
pub(crate) async fn give(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    gift: &GiftedCredits<'_>,
) -> Result<bool, Failure> {
    let now = operators.clock.now();
    let grant = CreditGrant {
        entry: EntryId::new(now, operators.random.bytes()),
        customer: gift.customer,
        amount: gift.credits,
        kind: "adjustment",
        source: "adjustment",
        source_id: &format!("{}:{}", gift.customer, gift.reference),
        reference: Some(gift.reference),
        lot: LotSource::Gift,
        expires_at: gift.expires_at,
        at: now,
    };
    let details = json!({"credits": gift.credits.whole(), "reference": gift.reference});
    let entry = operators.entry(who, gift.customer, audit::CREDITS_ADJUSTED, details);
    match store::ledger::adjust(&operators.store, &grant, false, &entry).await? {
        CreditGrantOutcome::Granted { .. } => Ok(true),
        CreditGrantOutcome::Repeated => Ok(false),
        CreditGrantOutcome::TooMany { .. } => {
            Err(OperatorProblem::NotGranted("the ledger cannot hold that many").into())
        }
        CreditGrantOutcome::NoCustomer => Err(unknown("customer", gift.customer)),
        CreditGrantOutcome::Erased => Err(OperatorProblem::Erased.into()),
    }
}
