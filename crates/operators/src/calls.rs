//! What happened to a call.

use std::collections::BTreeSet;

use domain::credits::Credits;
use domain::customer::CustomerRef;
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use domain::ledger::SumKind;
use domain::request_key::RequestKey;
use domain::time::Timestamp;
use failures::{Failure, FieldProblem};
use runtime::audit;
use serde_json::json;
use store::call_details::{self, CallDetails, CallSearch};
use store::ledger_pages::{self, LedgerQuery};
use store::usage::UsageOf;

use crate::shapes::LedgerPoint;
use crate::{CallView, OperatorIdentity, OperatorOutcome, OperatorsState, unknown};

/// How many lines of the ledger are searched for those of the call's day.
const LINES_MAX: i64 = 10_000;

/// Shows the calls of a request, or those made with an `Idempotency-Key`. They are then in the
/// audit list of their customer.
pub(crate) async fn show(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    named: (Option<&str>, Option<&str>),
    customer: Option<&CustomerRef>,
) -> Result<OperatorOutcome, Failure> {
    let customer = match customer {
        Some(owner) => Some(operators.find(owner).await?.id),
        None => None,
    };
    let (search, text) = match (named, customer) {
        ((Some(request), None), customer) => (CallSearch::of_request(request, customer), request),
        ((None, Some(key)), Some(customer)) => {
            (CallSearch::of_key(RequestKey::new(key.as_bytes()).hash(), customer), key)
        }
        _ => return Err(unclear()),
    };
    let found = call_details::find(&operators.store, &search).await?;
    if found.is_empty() {
        return Err(unknown("call of the request", text));
    }
    let owners: BTreeSet<CustomerId> = found.iter().map(|details| details.call.customer).collect();
    for owner in owners {
        let ids = found.iter().filter(|details| details.call.customer == owner);
        let ids: Vec<String> = ids.map(|details| details.call.id.to_string()).collect();
        let details = json!({"call_ids": ids});
        operators.record(who, owner, audit::OPERATOR_VIEWED_CALL, details).await?;
    }
    let mut calls = Vec::new();
    for details in found {
        calls.push(view(operators, details).await?);
    }
    Ok(OperatorOutcome::Calls { calls })
}

fn unclear() -> Failure {
    let message = "name a request, or a customer and an `Idempotency-Key`".to_owned();
    FieldProblem::new("body", "request", FieldErrorKind::Missing, message).into()
}

async fn view(operators: &OperatorsState, details: CallDetails) -> Result<CallView, Failure> {
    let call = details.call;
    let ledger = lines(operators, call.customer, call.at).await?;
    Ok(CallView {
        call_id: call.id,
        request_id: call.request,
        customer_id: call.customer,
        key_id: call.key,
        account: call.account,
        platform: call.platform,
        method: call.method.to_string(),
        path: call.path,
        route: call.route,
        state: call.state.to_string(),
        outcome: call.outcome,
        status: call.status,
        cost: call.cost.whole(),
        credits: call.credits.map(Credits::whole),
        held_at: call.at,
        expires_at: details.expires_at,
        resolved_at: call.resolved_at,
        duration_ms: call.duration_ms,
        upstream_ms: call.upstream_ms,
        node: details.node.to_string(),
        epoch: details.epoch,
        has_idempotency_key: details.has_idempotency_key,
        ledger,
    })
}

/// The lines of the ledger that sum up the calls of a day.
async fn lines(
    operators: &OperatorsState,
    customer: CustomerId,
    at: Timestamp,
) -> Result<Vec<LedgerPoint>, Failure> {
    let query = LedgerQuery {
        of: UsageOf { customer, key: None, only_allowed: false },
        kind: Some(SumKind::Usage.as_str()),
        before: None,
        limit: LINES_MAX,
        now: operators.clock.now(),
    };
    let found = ledger_pages::page(&operators.store, &query).await?.unwrap_or_default();
    let day = at.day().to_string();
    let of_day = found.into_iter().filter(|entry| entry.reference.as_ref() == Some(&day));
    Ok(of_day
        .map(|entry| LedgerPoint {
            line: entry.line.to_string(),
            at: entry.at,
            amount: entry.amount.whole(),
            balance_after: entry.balance_after.map(Credits::whole),
        })
        .collect())
}
