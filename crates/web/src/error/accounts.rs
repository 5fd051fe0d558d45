//! Failures of connected accounts, and their rows of the table.

use domain::account::InactiveReason;
use failures::AccountProblem;
use http::StatusCode;
use serde_json::{Value, json};

use super::table::FailureRow;

/// The row of the table for this failure.
pub(super) const fn row(problem: &AccountProblem) -> FailureRow {
    match problem {
        AccountProblem::Inactive(_) | AccountProblem::SwitchedOff(_) => ACCOUNT_INACTIVE,
        AccountProblem::NoFreeSlot { .. } => NO_FREE_SLOT,
        AccountProblem::CreatorExists(_) => super::table::CREATOR_EXISTS,
    }
}

/// Members of the problem besides the code, for programs.
pub(super) fn members(problem: &AccountProblem) -> Vec<(&'static str, Value)> {
    match problem {
        AccountProblem::Inactive(_) => vec![("inactive_reason", json!(InactiveReason::NoFreeSlot))],
        AccountProblem::SwitchedOff(_) => {
            vec![("inactive_reason", json!(InactiveReason::SwitchedOff))]
        }
        AccountProblem::NoFreeSlot { platform, limit, accounts, .. } => vec![
            ("platform", json!(platform)),
            ("limit", json!(limit)),
            ("accounts", json!(accounts)),
        ],
        AccountProblem::CreatorExists(_) => Vec::new(),
    }
}
/// `account_inactive`
pub(in crate::error) const ACCOUNT_INACTIVE: FailureRow = FailureRow {
    code: "account_inactive",
    status: StatusCode::FORBIDDEN,
    title: "Account inactive",
    retryable: false,
    meaning: "The account is connected but not in use; `inactive_reason` says why. `no_free_slot`: the plan has no free slot for it; free a slot or add one. `switched_off`: switch it on with `PATCH /v1/accounts/{account}` and `{\"state\": \"active\"}`.",
};
/// `no_free_slot`
pub(in crate::error) const NO_FREE_SLOT: FailureRow = FailureRow {
    code: "no_free_slot",
    status: StatusCode::CONFLICT,
    title: "No free slot",
    retryable: false,
    meaning: "The account cannot be switched on because other accounts have all slots of its platform: `limit` is their number, `accounts` lists the active ones that the key may use. Switch one off with `PATCH /v1/accounts/{account}`, delete one, or add a slot; a limited key cannot add slots, and `detail` says what the caller can do. Nothing was changed.",
};
