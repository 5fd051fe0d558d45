//! The limits of keys: read from requests, checked, and described for the audit list.

use domain::account::CreatorId;
use domain::field_error::FieldErrorKind;
use domain::time::Timestamp;
use failures::FieldProblem;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use store::key_changes::{KeyChange, LimitChange};
use store::keys::NewKey;
use web::error::ApiError;
use web::fields::{FieldProblems, GoodFields};

/// Reads a limit that is present in a change: null removes it. An absent limit is kept, by default.
pub(super) fn limit_change<'de, T, D>(from: D) -> Result<LimitChange<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.map_or(LimitChange::End, LimitChange::Set))
}

/// An expiry must be in the future.
pub(super) fn check_expiry(fields: &GoodFields<'_>, now: Timestamp, problems: &mut FieldProblems) {
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

/// A new key, for the audit list, with any limits it has.
pub(super) fn described(key: &NewKey) -> Value {
    let mut fields = Map::new();
    put(&mut fields, "key_id", &key.id);
    put(&mut fields, "name", &key.name);
    put(&mut fields, "scope", &key.scope);
    if !key.accounts.is_empty() {
        put(&mut fields, "accounts", &key.accounts);
    }
    if let Some(budget) = key.monthly_budget {
        put(&mut fields, "monthly_budget_credits", &budget.whole());
    }
    if let Some(expires_at) = key.expires_at {
        put(&mut fields, "expires_at", &expires_at);
    }
    Value::Object(fields)
}

/// The changes to a key, for the audit list; null for a limit that is removed.
pub(super) fn described_change(change: &KeyChange) -> Value {
    let mut fields = Map::new();
    put(&mut fields, "key_id", &change.key);
    if let Some(name) = &change.name {
        put(&mut fields, "name", name);
    }
    put_change(&mut fields, "accounts", &change.accounts);
    let budget = match change.monthly_budget {
        LimitChange::Keep => LimitChange::Keep,
        LimitChange::End => LimitChange::End,
        LimitChange::Set(budget) => LimitChange::Set(budget.whole()),
    };
    put_change(&mut fields, "monthly_budget_credits", &budget);
    put_change(&mut fields, "expires_at", &change.expires_at);
    Value::Object(fields)
}

fn put_change<T: Serialize>(fields: &mut Map<String, Value>, name: &str, change: &LimitChange<T>) {
    match change {
        LimitChange::Keep => {}
        LimitChange::End => put(fields, name, &Value::Null),
        LimitChange::Set(limit) => put(fields, name, limit),
    }
}

fn put(fields: &mut Map<String, Value>, name: &str, value: &impl Serialize) {
    fields.insert(name.to_owned(), serde_json::json!(value));
}
