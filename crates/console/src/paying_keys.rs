//! The key that pays for what a page sends: metered requests are a key's, with its limits and its
//! budget.

use domain::id::KeyId;
use domain::time::Timestamp;

use crate::keys::view::ShownKey;

/// What a key has to be able to do.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyNeeds<'a> {
    /// The account that is used.
    pub(crate) account: &'a str,
    /// Whether something is changed.
    pub(crate) is_write: bool,
}

/// The keys to choose from, as value and word.
pub(crate) fn choices(
    keys: &[ShownKey],
    needs: KeyNeeds<'_>,
    now: Timestamp,
) -> Vec<(String, String)> {
    let usable = keys.iter().filter(|key| is_usable(key, needs, now));
    usable.map(|key| (key.id.clone(), label(key))).collect()
}

fn is_usable(key: &ShownKey, needs: KeyNeeds<'_>, now: Timestamp) -> bool {
    let is_allowed = key
        .accounts
        .as_ref()
        .is_none_or(|accounts| accounts.iter().any(|account| account == needs.account));
    is_allowed && !key.has_ended(now) && (!needs.is_write || key.scope == "full")
}

fn label(key: &ShownKey) -> String {
    match key.monthly_budget_credits {
        Some(budget) => {
            let left =
                console_kit::format::number(budget.saturating_sub(key.used_this_month).max(0));
            format!("{} ({left} credits left)", key.label())
        }
        None => key.label(),
    }
}

/// The key that a form names; none if it names none.
pub(crate) fn chosen(text: &str) -> Option<KeyId> {
    text.parse().ok()
}
