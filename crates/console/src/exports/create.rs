//! The form for a new export: the account first, because it decides which datasets there are; then
//! the dataset, with its columns; then the rest.

use axum::response::Response;
use http::Method;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::PATH;
use super::view::{ShownDataset, ShownExport};
use crate::accounts::ShownAccount;
use crate::keys::view::KeyList;
use crate::paying_keys::{self, KeyNeeds};
use console_kit::address;
use console_kit::failure::PageFailure;
use console_kit::flash::FlashMessage;
use console_kit::form::{FormData, FormView, SentForm};
use console_kit::format;
use console_kit::values;
use console_kit::visitor::{ConsoleVisitor, ServiceRequest};

/// How the request's fields are called in the form.
const RENAMED: &[(&str, &str)] = &[("params", "chat_id"), ("columns", "columns")];

/// The formats with their words.
const FORMATS: &[(&str, &str)] = &[
    ("csv", "CSV"),
    ("jsonl", "JSON lines"),
    ("xlsx", "Excel (XLSX)"),
    ("zip", "ZIP with manifest"),
];

/// The form as the page shows it.
pub(super) struct NewExport {
    pub(super) account: String,
    /// The datasets of the account's platform.
    pub(super) datasets: Vec<ShownDataset>,
    /// The chosen one.
    pub(super) dataset: ShownDataset,
    pub(super) formats: Vec<(String, String)>,
    pub(super) keys: Vec<(String, String)>,
    /// What it costs, in words; empty if that could not be found out.
    pub(super) cost: String,
    /// Whether the balance does not cover it.
    pub(super) is_too_expensive: bool,
    pub(super) token: String,
    pub(super) key: String,
}

/// The members of an estimate that the page shows.
#[derive(Deserialize)]
struct CostEstimate {
    cost: i64,
    is_covered: bool,
}

impl NewExport {
    /// The form for the account and the dataset that `form` names, or for the first ones. None
    /// without an account that has datasets.
    pub(super) async fn new(
        visitor: &ConsoleVisitor,
        accounts: &[ShownAccount],
        offered: (Vec<ShownDataset>, KeyList),
        form: &FormView,
    ) -> Option<Self> {
        let (mut datasets, keys) = offered;
        let is_named = |one: &&ShownAccount| one.creator_id == form.value("account");
        let first = || accounts.iter().find(|one| one.is_active()).or(accounts.first());
        let account = accounts.iter().find(is_named).or_else(first)?;
        datasets.retain(|dataset| dataset.platform == account.platform);
        let is_asked = |one: &&ShownDataset| one.name == form.value("dataset");
        let dataset = datasets.iter().find(is_asked).or(datasets.first())?.clone();
        let estimate = estimate(visitor, &account.creator_id, &dataset.name).await;
        let needs = KeyNeeds { account: &account.creator_id, is_write: true };
        let formats =
            FORMATS.iter().filter(|(name, _)| dataset.formats.iter().any(|one| one == name));
        Some(Self {
            account: account.creator_id.clone(),
            formats: formats.map(|(name, word)| ((*name).to_owned(), (*word).to_owned())).collect(),
            keys: paying_keys::choices(&keys.keys, needs, visitor.now()),
            cost: estimate.as_ref().map(|known| format::credits(known.cost)).unwrap_or_default(),
            is_too_expensive: estimate.is_some_and(|known| !known.is_covered),
            datasets,
            dataset,
            token: visitor.token(PATH),
            key: visitor.new_idempotency_key(),
        })
    }

    /// The address of the form for another dataset.
    pub(super) fn link(&self, dataset: &ShownDataset) -> String {
        let pairs = [("new_account", self.account.as_str()), ("new_dataset", &dataset.name)];
        format!("{PATH}{}#new", address::query(&pairs))
    }
}

/// What the export costs; none if the service does not say, such as for an account that was just
/// disconnected.
async fn estimate(visitor: &ConsoleVisitor, account: &str, dataset: &str) -> Option<CostEstimate> {
    let body = json!({ "account": account, "dataset": dataset });
    let about = ServiceRequest::default();
    let route = "/v1/billing/estimate";
    let sent = visitor.send(&Method::POST, route, &body, &about).await;
    sent.and_then(|done| done.json()).ok()
}

pub(super) async fn create(form: SentForm) -> Result<Response, PageFailure> {
    let SentForm { visitor, data } = form;
    let filter = super::ExportFilter::default();
    let Some(key) = paying_keys::chosen(data.text("key_id")) else {
        let view = FormView::filled(data).mark("key_id", "Choose the key that pays.");
        return super::page(&visitor, filter, view).await;
    };
    let about = ServiceRequest { idempotency_key: data.text("key"), paid_by: Some(key) };
    let route = format!("/v1/{}/exports", address::segment(data.text("account")));
    match visitor.send(&Method::POST, &route, &body(&data), &about).await {
        Ok(done) => {
            let export: ShownExport = done.json().map_err(|problem| visitor.fail(problem))?;
            let flash = FlashMessage::ok(
                "The export has started. You can leave this page. It keeps running.",
            );
            Ok(visitor.lead_to(&format!("{PATH}/{}", export.id), &flash))
        }
        Err(problem) => {
            let is_no_key = problem.code == "key_not_found";
            let view = FormView::refused(data, &problem, RENAMED);
            let view =
                if is_no_key { view.mark("key_id", "Choose one of your keys.") } else { view };
            super::page(&visitor, filter, view).await
        }
    }
}

/// The request of a form.
fn body(data: &FormData) -> Value {
    let mut body = Map::new();
    body.insert("dataset".to_owned(), json!(data.text("dataset")));
    for name in ["fmt", "start_date", "end_date"] {
        if let Some(text) = data.optional(name) {
            body.insert(name.to_owned(), json!(text));
        }
    }
    if let Some(text) = data.optional("max_rows") {
        body.insert("max_rows".to_owned(), values::number(text));
    }
    if data.is_ticked("csv_bom") {
        body.insert("csv_bom".to_owned(), json!(true));
    }
    let columns: Vec<&str> = data.all("columns").filter(|name| !name.is_empty()).collect();
    if !columns.is_empty() {
        body.insert("columns".to_owned(), json!(columns));
    }
    if let Some(text) = data.optional("chat_id") {
        body.insert("params".to_owned(), json!({ "chat_id": text }));
    }
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_left_empty_are_not_sent() {
        let data = FormData::default().with("dataset", "subscribers").with("max_rows", "");
        assert_eq!(body(&data), json!({"dataset": "subscribers"}));

        let columns = vec!["id".to_owned(), "amount".to_owned()];
        let whole = data
            .with("max_rows", "1,000")
            .with("csv_bom", "yes")
            .with("chat_id", "7")
            .with_all("columns", columns);
        assert_eq!(
            body(&whole),
            json!({
                "dataset": "subscribers", "max_rows": 1_000, "csv_bom": true,
                "columns": ["id", "amount"], "params": {"chat_id": "7"},
            })
        );
    }
}
