//! Refunds of orders: money goes back through the payment processor, and the credits follow as they
//! do for any refund, whoever makes it.
//!
//! The command may be repeated after a crash: the processor's refunds of the payment are read
//! first, and the request has an idempotency key that is derived from the order. A refund that
//! leaves the customer its credits carries a mark at the processor, so that events and the
//! reconciler treat it like this command does.

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
    CreditTreatment, OperatorIdentity, OperatorOutcome, OperatorsState, OrderRefund, RefundedLot,
    unknown,
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
    result.refund_id = send(operators, id, &intent, credits).await?;
    result.applied = result.refund_id.is_some();
    if !result.applied {
        // It was refunded before, or somebody else has refunded it since the preview.
        (result.amount_cents, result.credits_taken, result.lots) = (0, 0, Vec::new());
    }
    if let Some(sale) = store::reversals::find_sale(&operators.store, &intent).await? {
        result.credits_kept = sale.granted.whole().saturating_sub(sale.taken.whole());
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
    credits: CreditTreatment,
) -> Result<Option<String>, Failure> {
    let processor = operators.billing.processor()?;
    let read_at = operators.clock.now();
    let known = all_refunds(operators, intent).await?;
    for refund in &known {
        reversals::take_refund(&operators.billing, refund, read_at).await?;
    }
    let order = store::orders::find_any(&operators.store, id).await?;
    if order.is_some_and(|order| order.state == OrderState::Refunded) {
        return Ok(None);
    }
    // A refund that failed does not stand for the next one.
    let failed = known.iter().filter(|refund| is_undone(refund)).count();
    let order_id = id.to_string();
    let (mut attempt, mut metadata) =
        (format!("{id}:{failed}"), vec![("order_id", order_id.as_str())]);
    if credits == CreditTreatment::Keep {
        attempt.push_str(":keep");
        metadata.push(reversals::KEEP);
    }
    let key = billing::key("refund", attempt)?;
    let new = NewRefund { payment_intent: intent, amount_cents: None, metadata: &metadata };
    let made_at = operators.clock.now();
    let refund = processor.create_refund(&new, &key).await?;
    reversals::take_refund(&operators.billing, &refund, made_at).await?;
    Ok(Some(refund.id))
}

/// All refunds of a payment, newest first.
pub(crate) async fn all_refunds(
    operators: &OperatorsState,
    intent: &str,
) -> Result<Vec<PaymentRefund>, Failure> {
    let processor = operators.billing.processor()?;
    let (mut found, mut after) = (Vec::new(), None::<String>);
    loop {
        let listing = ListFilter {
            payment_intent: Some(intent),
            after: after.as_deref(),
            ..ListFilter::default()
        };
        let page = processor.list_refunds(&listing).await?;
        after = page.next().map(str::to_owned);
        found.extend(page.data);
        if after.is_none() {
            return Ok(found);
        }
    }
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
    let Some(RefundableSale { left_cents, granted, taken, order: order_state, .. }) = found else {
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
        is_kept: credits == CreditTreatment::Keep,
        notes: &[],
        credit_cents: 0,
        read_at: now,
        at: now,
    };
    let change = match left_cents {
        0 => None,
        _ => store::reversals::preview(&operators.store, &reversal).await?,
    };
    let balance = store::usage::balance(&operators.store, order.customer).await?;
    let balance = balance.ok_or_else(|| unknown("customer", order.customer))?;
    let credits_taken = change.as_ref().map_or(0, |change| change.taken.whole());
    let lots = change.as_ref().map(|change| change.lots.clone()).unwrap_or_default();
    let lots = lots.into_iter().map(|(lot_id, by)| RefundedLot { lot_id, credits: by }).collect();
    let (available, owed) =
        change.map_or((balance.available, balance.debt), |change| (change.balance, change.debt));
    let result = OrderRefund {
        order_id: order.id,
        customer_id: order.customer,
        applied: left_cents > 0,
        refund_id: None,
        amount_cents: left_cents,
        currency: order.currency.clone(),
        credits_taken,
        credits_kept: granted.whole().saturating_sub(taken.whole()).saturating_sub(credits_taken),
        lots,
        balance: available.whole(),
        debt: owed.whole(),
        dry_run: false,
    };
    Ok(Some(RefundPreview { result, order_state }))
}

/// Credits that the operator gives, once for each reference.
pub(crate) struct GiftedCredits<'a> {
    pub(crate) customer: CustomerId,
    pub(crate) credits: Credits,
    pub(crate) reference: &'a str,
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
        expires_at: None,
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
