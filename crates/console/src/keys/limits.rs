//! The limits of a key in a form: accounts, monthly budget, expiry.

use serde_json::{Map, Value, json};

use crate::keys::view::ShownKey;
use console_kit::form::{FormData, FormView};
use console_kit::sure::PASSWORD_FIELD;
use console_kit::values::{number, time};

/// Above this number of accounts their names are typed, so that the page stays small.
const BOXES_MAX: usize = 40;

/// How the request's fields are called in the form.
pub(crate) const RENAMED: &[(&str, &str)] = &[("accounts", "accounts")];

/// The accounts that a form offers.
pub(crate) struct AccountChoice {
    /// Their names, in order.
    pub(crate) names: Vec<String>,
    /// Whether there are so many that they are typed.
    pub(crate) is_typed: bool,
}

impl AccountChoice {
    /// The customer's accounts, and those that the key has been limited to.
    pub(crate) fn new(accounts: Vec<String>, key: Option<&ShownKey>) -> Self {
        let mut names = accounts;
        let own = key.and_then(|key| key.accounts.as_ref()).into_iter().flatten();
        names.extend(own.cloned());
        names.sort();
        names.dedup();
        Self { is_typed: names.len() > BOXES_MAX, names }
    }
}

/// The accounts of a form, or what is wrong with them. `None` are all accounts.
pub(crate) fn accounts(data: &FormData) -> Result<Option<Vec<String>>, &'static str> {
    let named = data.all("accounts").flat_map(|value| value.split([' ', ',', '\n', '\r', '\t']));
    let named: Vec<String> = named.filter(|name| !name.is_empty()).map(str::to_owned).collect();
    match (data.text("reach"), named.is_empty()) {
        ("all", true) => Ok(None),
        ("all", false) => {
            Err("You named accounts but chose all of them. Choose “Only these” or clear them.")
        }
        ("some", false) => Ok(Some(named)),
        ("some", true) => Err("Choose at least one account."),
        _ => Err("Choose which accounts the key may use."),
    }
}

/// The body that creates a key, or the form with what is wrong.
pub(crate) fn creation(data: &FormData) -> Result<Value, FormView> {
    let accounts = accounts(data).map_err(|problem| wrong(data, problem))?;
    let mut body = Map::new();
    body.insert("name".to_owned(), json!(data.text("name")));
    body.insert("scope".to_owned(), json!(data.text("scope")));
    let mut put = |name: &str, value: Option<Value>| {
        body.extend(value.map(|value| (name.to_owned(), value)));
    };
    let password = Some(data.raw(PASSWORD_FIELD)).filter(|password| !password.is_empty());
    put(PASSWORD_FIELD, password.map(|password| json!(password)));
    put("accounts", accounts.map(|names| json!(names)));
    put("monthly_budget_credits", data.optional("monthly_budget_credits").map(number));
    put("expires_at", data.optional("expires_at").map(|text| json!(time(text))));
    Ok(Value::Object(body))
}

/// The body that changes a key: only what differs from it, since an unchanged limit may not be
/// accepted any more, such as an account that was disconnected.
pub(crate) fn change(data: &FormData, key: &ShownKey) -> Result<Value, FormView> {
    let accounts = accounts(data).map_err(|problem| wrong(data, problem))?;
    let mut body = Map::new();
    if data.text("name") != key.name {
        body.insert("name".to_owned(), json!(data.text("name")));
    }
    if sorted(accounts.as_ref()) != sorted(key.accounts.as_ref()) {
        body.insert("accounts".to_owned(), json!(accounts));
    }
    let budget = data.optional("monthly_budget_credits").map_or(Value::Null, number);
    if budget != json!(key.monthly_budget_credits) {
        body.insert("monthly_budget_credits".to_owned(), budget);
    }
    if data.text("expires_at") != local_time(key) {
        let at = data.optional("expires_at").map_or(Value::Null, |text| json!(time(text)));
        body.insert("expires_at".to_owned(), at);
    }
    Ok(Value::Object(body))
}

/// A key's limits, as a form shows them.
pub(crate) fn filled(key: &ShownKey) -> FormData {
    let budget = key.monthly_budget_credits.map(|budget| budget.to_string()).unwrap_or_default();
    let data = FormData::default()
        .with("name", key.name.as_str())
        .with("reach", if key.accounts.is_some() { "some" } else { "all" })
        .with("monthly_budget_credits", budget)
        .with("expires_at", local_time(key));
    data.with_all("accounts", key.accounts.clone().unwrap_or_default())
}

/// When it expires, as a browser's field writes it.
fn local_time(key: &ShownKey) -> String {
    let at = key.expires_at.as_deref().unwrap_or_default();
    at.get(..16).unwrap_or_default().to_owned()
}

fn sorted(names: Option<&Vec<String>>) -> Option<Vec<String>> {
    let mut names = names.cloned();
    if let Some(names) = &mut names {
        names.sort();
        names.dedup();
    }
    names
}

fn wrong(data: &FormData, problem: &str) -> FormView {
    FormView::filled(data.clone()).mark("accounts", problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_chosen_by_intent() {
        let of = |reach: &str, names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            accounts(&FormData::default().with("reach", reach).with_all("accounts", names))
        };

        assert_eq!(of("all", &[]), Ok(None));
        assert!(of("all", &["a"]).is_err(), "it would open more than the person ticked");
        assert_eq!(of("some", &["a", "b, c\nd"]).unwrap().unwrap(), ["a", "b", "c", "d"]);
        assert!(of("some", &[]).is_err());
        assert!(of("", &[]).is_err());
    }
}
