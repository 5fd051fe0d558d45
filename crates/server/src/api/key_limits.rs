//! The limits of keys: read from requests, checked, and told to the audit list.

use domain::account::CreatorId;
use domain::credits::Credits;
use domain::time::Timestamp;
use serde::{Deserialize, Deserializer};
use store::key_changes::{KeyChange, LimitChange};
use store::keys::NewKey;

use crate::error::{ApiError, FieldProblem};

const ACCOUNTS_MAX: usize = 100;

/// Limits as they are asked for with a new key.
pub(super) struct LimitsIn {
    pub(super) accounts: Option<Vec<CreatorId>>,
    pub(super) monthly_budget_credits: Option<i64>,
    pub(super) expires_at: Option<String>,
}

/// Limits of a new key.
pub(super) struct Limits {
    /// Empty: all.
    pub(super) accounts: Vec<CreatorId>,
    pub(super) monthly_budget: Option<Credits>,
    pub(super) expires_at: Option<Timestamp>,
}

/// Limits as they are to be changed.
pub(super) struct LimitsPatch {
    pub(super) accounts: LimitChange<Vec<CreatorId>>,
    pub(super) monthly_budget_credits: LimitChange<i64>,
    pub(super) expires_at: LimitChange<String>,
}

/// Checked changes.
pub(super) struct LimitsChange {
    pub(super) accounts: LimitChange<Vec<CreatorId>>,
    pub(super) monthly_budget: LimitChange<Credits>,
    pub(super) expires_at: LimitChange<Timestamp>,
}

impl LimitsIn {
    pub(super) fn check(self, now: Timestamp) -> Result<Limits, ApiError> {
        Ok(Limits {
            accounts: self.accounts.map(checked_accounts).transpose()?.unwrap_or_default(),
            monthly_budget: self.monthly_budget_credits.map(checked_budget).transpose()?,
            expires_at: self.expires_at.map(|text| checked_expiry(&text, now)).transpose()?,
        })
    }
}

impl LimitsPatch {
    pub(super) fn check(self, now: Timestamp) -> Result<LimitsChange, ApiError> {
        Ok(LimitsChange {
            accounts: self.accounts.try_map(checked_accounts)?,
            monthly_budget: self.monthly_budget_credits.try_map(checked_budget)?,
            expires_at: self.expires_at.try_map(|text| checked_expiry(&text, now))?,
        })
    }
}

/// Reads a limit of a change that is present: null ends it. One that is absent is kept, by default.
pub(super) fn limit_change<'de, T, D>(from: D) -> Result<LimitChange<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.map_or(LimitChange::End, LimitChange::Set))
}

/// An empty list is refused: taken for "none" it would be useless, taken for "all" dangerous.
fn checked_accounts(accounts: Vec<CreatorId>) -> Result<Vec<CreatorId>, ApiError> {
    if (1..=ACCOUNTS_MAX).contains(&accounts.len()) {
        return Ok(accounts);
    }
    let message = "must name 1 to 100 accounts; leave it out for a key that may use all";
    Err(FieldProblem::new("body", "accounts", "length", message).into())
}

fn checked_budget(credits: i64) -> Result<Credits, ApiError> {
    if credits >= 0 {
        return Ok(Credits::from_whole(credits));
    }
    Err(FieldProblem::new("body", "monthly_budget_credits", "range", "must be 0 or more").into())
}

fn checked_expiry(text: &str, now: Timestamp) -> Result<Timestamp, ApiError> {
    let problem = |kind, message: &str| FieldProblem::new("body", "expires_at", kind, message);
    let message = "must be a time with a zone, such as 2027-01-31T00:00:00Z";
    let at = Timestamp::from_rfc3339(text).ok_or_else(|| problem("value_error", message))?;
    if at > now {
        return Ok(at);
    }
    Err(problem("range", "must be a time to come; delete the key to end it now").into())
}

pub(super) fn no_account(account: &CreatorId) -> ApiError {
    let message = format!("there is no account `{account}`; `GET /v1/accounts` lists them");
    FieldProblem::new("body", "accounts", "unknown_account", message).into()
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
