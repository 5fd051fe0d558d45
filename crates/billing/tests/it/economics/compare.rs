//! The differences between the model's state and the observed one.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A field that differs from the model.
#[derive(Debug, Clone)]
pub(super) struct Difference {
    pub(super) field: String,
    pub(super) expected: Value,
    pub(super) seen: Value,
}

/// The model's state of a sequence so far.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Invoices as last shown by the model, by their number.
    invoices: BTreeMap<usize, Value>,
}

const PLAIN: [&str; 10] = [
    "balance",
    "debt",
    "credit_cents",
    "next_invoice_cents",
    "limits",
    "status",
    "plan",
    "next_plan",
    "period_end",
    "cancel_at_period_end",
];
const OF_INVOICES: [&str; 6] = ["reason", "tax", "total", "charged", "status", "reversed"];

impl Comparison {
    /// Compares a step. While events are held back, the service may know of a payment before the
    /// model does, because it made the request itself; then there may be additional lots.
    pub(super) fn of(&mut self, expect: &Value, seen: &Value, deaf: bool) -> Vec<Difference> {
        for invoice in expect["invoices"].as_array().into_iter().flatten() {
            let number = invoice["id"].as_str().unwrap().trim_start_matches("in_").parse().unwrap();
            self.invoices.insert(number, invoice.clone());
        }
        let mut differences = Vec::new();
        for field in PLAIN {
            let is_credits = field == "balance";
            if !(deaf && is_credits) {
                note(&mut differences, field, &expect[field], &seen[field]);
            }
        }
        let (expected, found) = (sorted(&expect["lots"]), sorted(&seen["lots"]));
        let is_good =
            if deaf { expected.iter().all(|lot| found.contains(lot)) } else { expected == found };
        if !is_good {
            differences.push(difference("lots", &json!(expected), &json!(found)));
        }
        self.of_invoices(&seen["invoices"], &mut differences);
        differences
    }

    fn of_invoices(&self, seen: &Value, differences: &mut Vec<Difference>) {
        let seen = seen.as_array().unwrap();
        if seen.len() != self.invoices.len() {
            let ids = |all: &mut dyn Iterator<Item = &Value>| -> Value {
                all.map(|one| json!([one["id"], one["reason"], one["total"], one["status"]]))
                    .collect()
            };
            let (expected, seen) = (ids(&mut self.invoices.values()), ids(&mut seen.iter()));
            differences.push(difference("invoices", &expected, &seen));
            return;
        }
        for (expected, found) in self.invoices.values().zip(seen) {
            let id = expected["id"].as_str().unwrap();
            for field in OF_INVOICES {
                note(differences, &format!("{id}.{field}"), &expected[field], &found[field]);
            }
            let lines = (sorted(&expected["lines"]), sorted(&found["lines"]));
            note(differences, &format!("{id}.lines"), &json!(lines.0), &json!(lines.1));
        }
    }
}

fn note(differences: &mut Vec<Difference>, field: &str, expected: &Value, seen: &Value) {
    if expected != seen {
        differences.push(difference(field, expected, seen));
    }
}

fn difference(field: &str, expected: &Value, seen: &Value) -> Difference {
    Difference { field: field.to_owned(), expected: expected.clone(), seen: seen.clone() }
}

fn sorted(all: &Value) -> Vec<Value> {
    let mut all = all.as_array().cloned().unwrap_or_default();
    all.sort_by_key(Value::to_string);
    all
}
