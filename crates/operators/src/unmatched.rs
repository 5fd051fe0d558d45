//! Payments that matched no order: listed, and settled by a decision of the operator.

use clients::processor::NewRefund;
use domain::credits::Credits;
use domain::customer::CustomerRef;
use domain::field_error::FieldErrorKind;
use failures::{Failure, FieldProblem, OperatorProblem};
use runtime::audit;
use serde_json::json;
use store::unmatched_settlements::{self, UnmatchedPayment, UnmatchedSettlement};

use crate::customers::page_size;
use crate::refunds::{GiftedCredits, give};
use crate::suspend::check_text;
use crate::{
    OperatorIdentity, OperatorOutcome, OperatorsState, UnmatchedLine, UnmatchedResult, unknown,
};

/// The most credits that one settlement grants.
const CREDITS_MAX: i64 = 1_000_000_000_000;

/// How a payment is to be settled.
pub(crate) struct SettlementWish {
    pub(crate) object: String,
    pub(crate) note: String,
    pub(crate) grant: Option<(CustomerRef, i64)>,
    pub(crate) refund: bool,
    pub(crate) dry_run: bool,
}

/// The newest payments that matched no order.
pub(crate) async fn list(
    operators: &OperatorsState,
    with_settled: bool,
    limit: Option<i64>,
) -> Result<OperatorOutcome, Failure> {
    let limit = page_size(limit)?;
    let found = unmatched_settlements::list(&operators.store, with_settled, limit).await?;
    let payments = found.into_iter().map(UnmatchedLine::from).collect();
    Ok(OperatorOutcome::Unmatched { payments })
}

/// Settles a payment: with a note alone, with credits for a customer, or by giving the money back.
pub(crate) async fn settle(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    wish: &SettlementWish,
) -> Result<OperatorOutcome, Failure> {
    check(wish)?;
    let known = unmatched_settlements::find(&operators.store, &wish.object).await?;
    if known.is_empty() {
        return Err(unknown("unmatched payment", &wish.object));
    }
    let settlement = described(operators, wish).await?;
    let result = UnmatchedResult {
        object: wish.object.clone(),
        applied: true,
        settlement: settlement.text.clone(),
        credits: settlement.gift.as_ref().map_or(0, |(_, credits)| credits.whole()),
        refund_id: None,
        dry_run: wish.dry_run,
    };
    if known.iter().all(|known| known.settled_at.is_some()) {
        let before = known.into_iter().find_map(|known| known.settlement).unwrap_or_default();
        if before != settlement.text {
            return Err(OperatorProblem::SettledOtherwise(before).into());
        }
        return Ok(OperatorOutcome::UnmatchedSettled(UnmatchedResult { applied: false, ..result }));
    }
    if wish.dry_run {
        return Ok(OperatorOutcome::UnmatchedSettled(result));
    }
    let refund_id = carry_out(operators, who, wish, &settlement).await?;
    Ok(OperatorOutcome::UnmatchedSettled(UnmatchedResult { refund_id, ..result }))
}

/// A decision, in words and as what follows from it.
struct Decision {
    text: String,
    gift: Option<(domain::id::CustomerId, Credits)>,
}

async fn described(operators: &OperatorsState, wish: &SettlementWish) -> Result<Decision, Failure> {
    let note = wish.note.trim();
    if let Some((named, credits)) = &wish.grant {
        let customer = operators.find(named).await?.id;
        let text = format!("{credits} credits for {customer}: {note}");
        return Ok(Decision { text, gift: Some((customer, Credits::from_whole(*credits))) });
    }
    let text = if wish.refund { format!("refunded: {note}") } else { note.to_owned() };
    Ok(Decision { text, gift: None })
}

async fn carry_out(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    wish: &SettlementWish,
    decision: &Decision,
) -> Result<Option<String>, Failure> {
    let by = who.actor();
    let settled =
        |object, at| UnmatchedSettlement { object, decision: &decision.text, by: &by, at };
    if let Some((customer, credits)) = decision.gift {
        let reference = format!("payment {}", wish.object);
        let gift = GiftedCredits { customer, credits, reference: &reference, expires_at: None };
        if give(operators, who, &gift).await? {
            let details = json!({"object": wish.object});
            operators.record(who, (customer, audit::PAYMENT_SETTLED), details).await?;
        }
    }
    let refund_id =
        if wish.refund { Some(give_back(operators, &wish.object).await?) } else { None };
    let now = operators.clock.now();
    if let Some(refund) = &refund_id {
        unmatched_settlements::note_settled(&operators.store, &settled(refund, now)).await?;
    }
    unmatched_settlements::settle(&operators.store, &settled(&wish.object, now)).await?;
    Ok(refund_id)
}

/// Gives all of a payment's money back.
async fn give_back(operators: &OperatorsState, intent: &str) -> Result<String, Failure> {
    let key = billing::key("refund_unmatched", intent)?;
    let new = NewRefund { payment_intent: intent, amount_cents: None, metadata: &[] };
    Ok(operators.billing.processor()?.create_refund(&new, &key).await?.id)
}

fn check(wish: &SettlementWish) -> Result<(), Failure> {
    check_text("note", &wish.note)?;
    let problem = |field, message: &str| {
        Err(FieldProblem::new("body", field, FieldErrorKind::NotAllowed, message.to_owned()).into())
    };
    match &wish.grant {
        Some(_) if wish.refund => problem("refund", "either grant credits or refund, not both"),
        Some((_, credits)) if !(1..=CREDITS_MAX).contains(credits) => {
            problem("credits", "must be 1 or more")
        }
        _ if wish.refund && !wish.object.starts_with("pi_") => {
            Err(OperatorProblem::NotAPayment(wish.object.clone()).into())
        }
        Some(_) | None => Ok(()),
    }
}

impl From<UnmatchedPayment> for UnmatchedLine {
    fn from(found: UnmatchedPayment) -> Self {
        Self {
            object: found.object,
            reason: found.reason.to_string(),
            details: found.details,
            times: found.times,
            first_at: found.first_at,
            last_at: found.last_at,
            settled_at: found.settled_at,
            settled_by: found.settled_by,
            settlement: found.settlement,
        }
    }
}
