//! The limits of keys: read from requests, checked, and told to the audit list.

use domain::account::CreatorId;
use domain::field_error::FieldErrorKind;
use domain::time::Timestamp;
use serde::{Deserialize, Deserializer};
use store::key_changes::{KeyChange, LimitChange};
use store::keys::NewKey;

use crate::error::{ApiError, FieldProblem};
use crate::fields::{Good, Problems};

/// Reads a limit of a change that is present: null ends it. One that is absent is kept, by default.
pub(super) fn limit_change<'de, T, D>(from: D) -> Result<LimitChange<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.map_or(LimitChange::End, LimitChange::Set))
}

/// An expiry must be a time to come.
pub(super) fn check_expiry(fields: &Good<'_>, now: Timestamp, problems: &mut Problems) {
    let at = fields.text("expires_at").and_then(Timestamp::from_rfc3339);
    if at.is_some_and(|at| at <= now) {
        let message = "must be a time in the future; delete the key to end it now";
        problems.body("expires_at", FieldErrorKind::OutOfRange, message);
    }
}

pub(super) fn no_account(account: &CreatorId) -> ApiError {
    let message = format!("there is no account `{account}`; `GET /v1/accounts` lists them");
    FieldProblem::new("body", "accounts", FieldErrorKind::NotFound, message).into()
}

/// A new key, for the audit list.
pub(super) fn described(key: &NewKey) -> String {
    let mut words = vec![format!("{} ({})", key.id, key.name), key.scope.to_string()];
    if !key.accounts.is_empty() {
        words.push(only(&key.accounts));
    }
    words.extend(key.monthly_budget.map(|budget| format!("{budget} credits a month")));
    words.extend(key.expires_at.map(|expires_at| format!("until {expires_at}")));
    words.join(", ")
}

/// What becomes different about a key, for the audit list.
pub(super) fn described_change(change: &KeyChange) -> String {
    let mut words = vec![change.key.to_string()];
    words.extend(change.name.as_ref().map(|name| format!("called {name}")));
    let accounts = told(&change.accounts, "all accounts", |accounts| only(accounts));
    let budget =
        told(&change.monthly_budget, "no budget", |budget| format!("{budget} credits a month"));
    let expiry = told(&change.expires_at, "without an end", |at| format!("until {at}"));
    words.extend([accounts, budget, expiry].into_iter().flatten());
    words.join(", ")
}

fn told<T>(change: &LimitChange<T>, ended: &str, set: impl FnOnce(&T) -> String) -> Option<String> {
    match change {
        LimitChange::Keep => None,
        LimitChange::End => Some(ended.to_owned()),
        LimitChange::Set(limit) => Some(set(limit)),
    }
}

fn only(accounts: &[CreatorId]) -> String {
    let names = accounts.iter().map(CreatorId::as_str).collect::<Vec<_>>();
    format!("{} only", names.join(" "))
}
