//! Which emails are sent without being asked for.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use console_kit::form::{FormData, FormView};
use console_kit::values;

/// The field of the balance below which an email is sent.
const THRESHOLD: &str = "low_balance_credits";
/// The kinds of emails: the name in the API, and what they are about.
const KINDS: &[(&str, &str)] = &[
    ("low_balance", "The balance falls below the threshold"),
    ("key_budgets", "A key has used 80 or 100 % of its monthly budget"),
    ("expiring_credits", "Credits expire soon"),
    ("expiring_card", "The saved card expires soon"),
    ("payments", "Automatic top-up charged the card, or an invoice was paid"),
    ("subscription_end", "The plan has ended"),
    ("key_changes", "A key was created, or got a new secret"),
    ("exports", "An export has finished"),
];

/// The members of `GET /v1/notices`.
#[derive(Deserialize)]
pub(super) struct NoticeChoices(Map<String, Value>);

/// One kind of email.
pub(super) struct NoticeSwitch {
    pub(super) name: &'static str,
    pub(super) words: &'static str,
    pub(super) is_on: bool,
}

impl NoticeChoices {
    /// The switches as they are, or as they were sent with a form that was refused.
    pub(super) fn switches(&self, sent: Option<&FormView>) -> Vec<NoticeSwitch> {
        let switches = KINDS.iter().map(|&(name, words)| {
            let stored = self.0.get(name).and_then(Value::as_bool).unwrap_or_default();
            let is_on = sent.map_or(stored, |form| form.has(name, "on"));
            NoticeSwitch { name, words, is_on }
        });
        switches.collect()
    }

    /// The form of the threshold. None is shown as empty.
    pub(super) fn form(&self) -> FormView {
        let threshold = self.0.get(THRESHOLD).and_then(Value::as_i64).filter(|value| *value > 0);
        let text = threshold.map(|value| value.to_string()).unwrap_or_default();
        FormView::filled(FormData::default().with(THRESHOLD, text))
    }
}

/// The change that a form asks for. An empty threshold stays as it is, and so does one shown
/// already: if it is the service's own, saving the form must not make it the customer's.
pub(super) fn patch_of(data: &FormData, known: &NoticeChoices) -> Value {
    let switches = KINDS.iter().map(|(name, _)| ((*name).to_owned(), json!(data.is_ticked(name))));
    let mut patch: Map<String, Value> = switches.collect();
    let is_new = |text: &&str| known.0.get(THRESHOLD) != Some(&values::number(text));
    if let Some(text) = data.optional(THRESHOLD).filter(is_new) {
        patch.insert(THRESHOLD.to_owned(), values::number(text));
    }
    Value::Object(patch)
}
