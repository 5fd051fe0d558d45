//! Payments that matched no order: listed, and settled by a decision of the operator.

use domain::credits::Credits;
use domain::customer::CustomerRef;
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use failures::{Failure, FieldProblem, OperatorProblem};
use processor_client::NewRefund;
use runtime::audit;
use serde_json::json;
use store::unmatched_settlements::{self, SettlementClaim, UnmatchedPayment, UnmatchedSettlement};

use crate::customers::page_size;
use crate::refunds::{GiftedCredits, all_refunds, give, is_undone};
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

impl SettlementWish {
    /// Whether credits or money go to someone.
    const fn moves_money(&self) -> bool {
        self.grant.is_some() || self.refund
    }
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
    let decision = described(operators, wish).await?;
    let result = UnmatchedResult {
        object: wish.object.clone(),
        applied: true,
        settlement: decision.text.clone(),
        credits: decision.gift.map_or(0, |gift| gift.credits.whole()),
        refund_id: None,
        dry_run: wish.dry_run,
    };
    if wish.dry_run {
        let applied = would_apply(&known, wish, &decision)?;
        return Ok(OperatorOutcome::UnmatchedSettled(UnmatchedResult { applied, ..result }));
    }
    let done = claim_and_carry_out(operators, who, wish, &decision).await?;
    Ok(OperatorOutcome::UnmatchedSettled(UnmatchedResult {
        applied: done.applied,
        refund_id: done.refund_id,
        ..result
    }))
}

/// Whether a settlement would change something. An error if another one was made.
fn would_apply(
    known: &[UnmatchedPayment],
    wish: &SettlementWish,
    decision: &SettlementDecision,
) -> Result<bool, Failure> {
    let is_open = known.iter().any(|row| row.settled_at.is_none());
    let other =
        known.iter().filter_map(|row| row.settlement.clone()).find(|text| *text != decision.text);
    match other {
        Some(other) if wish.moves_money() || !is_open => {
            Err(OperatorProblem::SettledOtherwise(other).into())
        }
        _ => Ok(is_open),
    }
}

/// A decision, in words and as what follows from it.
struct SettlementDecision {
    text: String,
    gift: Option<GiftDecision>,
}

/// The credits that a decision gives, and who gets them.
#[derive(Clone, Copy)]
struct GiftDecision {
    customer: CustomerId,
    credits: Credits,
}

async fn described(
    operators: &OperatorsState,
    wish: &SettlementWish,
) -> Result<SettlementDecision, Failure> {
    let note = wish.note.trim();
    if let Some((named, credits)) = &wish.grant {
        let customer = operators.find(named).await?.id;
        let text = format!("{credits} credits for {customer}: {note}");
        return Ok(SettlementDecision {
            text,
            gift: Some(GiftDecision { customer, credits: Credits::from_whole(*credits) }),
        });
    }
    let text = if wish.refund { format!("refunded: {note}") } else { note.to_owned() };
    Ok(SettlementDecision { text, gift: None })
}

/// What was done for a settlement.
#[derive(Default)]
struct SettlementEffect {
    applied: bool,
    refund_id: Option<String>,
}

/// Records the decision, so that nobody can make another one, and then carries it out. A decision
/// that was recorded before is carried out again, which changes nothing unless it was interrupted.
async fn claim_and_carry_out(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    wish: &SettlementWish,
    decision: &SettlementDecision,
) -> Result<SettlementEffect, Failure> {
    let by = who.actor();
    let settled = UnmatchedSettlement {
        object: &wish.object,
        decision: &decision.text,
        by: &by,
        at: operators.clock.now(),
    };
    let claim =
        unmatched_settlements::claim(&operators.store, &settled, wish.moves_money()).await?;
    if let SettlementClaim::Otherwise(other) = claim {
        return Err(OperatorProblem::SettledOtherwise(other).into());
    }
    let is_new = claim == SettlementClaim::Claimed;
    match carry_out(operators, who, wish, &settled, decision.gift).await {
        Ok(done) => Ok(SettlementEffect { applied: is_new || done.applied, ..done }),
        Err(error) => {
            if is_new && is_certainly_undone(&error) {
                unmatched_settlements::reopen(&operators.store, &settled).await?;
            }
            Err(error)
        }
    }
}

/// Whether a decision that failed with this error changed nothing.
const fn is_certainly_undone(error: &Failure) -> bool {
    match error {
        Failure::Payment(problem) => !problem.is_outcome_unknown(),
        Failure::Operator(_) => true,
        _ => false,
    }
}

/// Carries out a recorded decision. It may be repeated.
async fn carry_out(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    wish: &SettlementWish,
    settled: &UnmatchedSettlement<'_>,
    gift: Option<GiftDecision>,
) -> Result<SettlementEffect, Failure> {
    if let Some(GiftDecision { customer, credits }) = gift {
        let reference = format!("payment {}", wish.object);
        let credited = GiftedCredits { customer, credits, reference: &reference };
        let applied = give(operators, who, &credited).await?;
        if applied {
            let details = json!({"object": wish.object});
            operators.record(who, customer, audit::PAYMENT_SETTLED, details).await?;
        }
        return Ok(SettlementEffect { applied, refund_id: None });
    }
    if !wish.refund {
        return Ok(SettlementEffect::default());
    }
    let (refund, applied) = give_back(operators, &wish.object).await?;
    let of_refund = UnmatchedSettlement { object: &refund, ..*settled };
    unmatched_settlements::note_settled(&operators.store, &of_refund).await?;
    Ok(SettlementEffect { applied, refund_id: Some(refund) })
}

/// Gives back what is left of a payment's money. The refund's id, and whether it is new: an earlier
/// one stands for it if all of the money has gone back.
async fn give_back(operators: &OperatorsState, intent: &str) -> Result<(String, bool), Failure> {
    let processor = operators.billing.processor()?;
    let received = processor.retrieve_intent(intent).await?.amount_received;
    let known = all_refunds(operators, intent).await?;
    let standing = || known.iter().filter(|refund| !is_undone(refund));
    let gone = standing().fold(0_i64, |sum, refund| sum.saturating_add(refund.amount));
    if let Some(latest) = standing().next().filter(|_| gone >= received) {
        return Ok((latest.id.clone(), false));
    }
    let key = billing::key("refund_unmatched", format!("{intent}:{}", known.len()))?;
    let new = NewRefund { payment_intent: intent, amount_cents: None, metadata: &[] };
    Ok((processor.create_refund(&new, &key).await?.id, true))
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
