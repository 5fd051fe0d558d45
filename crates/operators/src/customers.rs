//! Customers listed, and found by anything of theirs.

use std::collections::BTreeSet;

use domain::customer::CustomerState;
use domain::id::CustomerId;
use failures::{Failure, FieldProblem};
use runtime::audit;
use serde_json::json;
use store::customer_list::{CustomerQuery, ListedCustomer};
use store::customer_search::FoundCustomer;

use crate::{
    CustomerLine, CustomerMatch, OperatorIdentity, OperatorOutcome, OperatorsState, payers,
};

/// The page size if none is given, and the largest one.
const LIMIT_DEFAULT: i64 = 50;
const LIMIT_MAX: i64 = 500;

/// Which customers to list.
pub(crate) struct CustomerFilter {
    pub(crate) state: Option<CustomerState>,
    pub(crate) plan: Option<String>,
    pub(crate) in_debt: bool,
    pub(crate) text: Option<String>,
}

/// A page of customers, the newest first.
pub(crate) async fn list(
    operators: &OperatorsState,
    filter: &CustomerFilter,
    cursor: Option<CustomerId>,
    limit: Option<i64>,
) -> Result<OperatorOutcome, Failure> {
    let limit = page_size(limit)?;
    let text = filter.text.as_ref().map(|text| text.to_ascii_lowercase());
    let query = CustomerQuery {
        state: filter.state,
        plan: filter.plan.as_deref(),
        in_debt: filter.in_debt,
        text: text.as_deref(),
        before: cursor,
        // One more, to see whether there is a next page.
        limit: limit.saturating_add(1),
    };
    let mut found = store::customer_list::list(&operators.store, &query).await?;
    let has_more = i64::try_from(found.len()).is_ok_and(|count| count > limit);
    if has_more {
        found.pop();
    }
    let next_cursor = if has_more { found.last().map(|last| last.id) } else { None };
    let customers = found.into_iter().map(CustomerLine::from).collect();
    Ok(OperatorOutcome::Customers { customers, next_cursor })
}

/// The customers that a text names. Each of them has it in its audit list.
pub(crate) async fn find(
    operators: &OperatorsState,
    who: &OperatorIdentity,
    text: &str,
) -> Result<OperatorOutcome, Failure> {
    let text = text.trim();
    if text.len() < 3 {
        let message = "name at least three characters";
        let kind = domain::field_error::FieldErrorKind::TooShort;
        return Err(FieldProblem::new("body", "text", kind, message.to_owned()).into());
    }
    let mut found = store::customer_search::find(&operators.store, text).await?;
    if found.is_empty() {
        found.extend(payers::find(operators, text).await?);
    }
    let once: BTreeSet<(CustomerId, &str)> =
        found.iter().map(|found| (found.id, found.matched)).collect();
    for (customer, by) in once {
        operators.record(who, customer, audit::OPERATOR_FOUND, json!({"by": by})).await?;
    }
    let matches = found.into_iter().map(CustomerMatch::from).collect();
    Ok(OperatorOutcome::CustomersFound { matches })
}

/// Checks a page size.
pub(crate) fn page_size(limit: Option<i64>) -> Result<i64, Failure> {
    let limit = limit.unwrap_or(LIMIT_DEFAULT);
    if (1..=LIMIT_MAX).contains(&limit) {
        return Ok(limit);
    }
    let message = format!("must be 1 to {LIMIT_MAX}");
    let kind = domain::field_error::FieldErrorKind::OutOfRange;
    Err(FieldProblem::new("body", "limit", kind, message).into())
}

impl From<ListedCustomer> for CustomerLine {
    fn from(found: ListedCustomer) -> Self {
        Self {
            customer_id: found.id,
            email: found.email,
            name: found.name,
            state: found.state,
            created_at: found.created_at,
            plan: found.plan,
            subscription: found.subscription,
            balance: found.balance.whole(),
            debt: found.debt.whole(),
        }
    }
}

impl From<FoundCustomer> for CustomerMatch {
    fn from(found: FoundCustomer) -> Self {
        Self {
            customer_id: found.id,
            email: found.email,
            state: found.state,
            matched: found.matched.to_owned(),
            value: found.value,
        }
    }
}
