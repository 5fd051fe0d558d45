//! Why a request failed, in the processor's error format.

use serde_json::{Map, Value, json};

const REFERENCE: &str = "https://docs.stripe.com/error-codes";

/// An error body and its status.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(crate) status: u16,
    pub(crate) kind: &'static str,
    pub(crate) code: Option<Box<str>>,
    pub(crate) decline_code: Option<Box<str>>,
    pub(crate) message: String,
    pub(crate) param: Option<Box<str>>,
    /// Objects in the body: (field, id). A charge is represented by its id, all others completely.
    pub(crate) shown: Vec<(&'static str, String)>,
    /// Whether changes made so far are kept: a declined payment is recorded.
    pub(crate) keeps: bool,
}

impl ApiError {
    /// 400: the request is invalid.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self {
            status: 400,
            kind: "invalid_request_error",
            code: None,
            decline_code: None,
            message: message.into(),
            param: None,
            shown: Vec::new(),
            keeps: false,
        }
    }

    /// 400 for this parameter.
    pub(crate) fn param(param: &str, message: impl Into<String>) -> Self {
        Self { param: Some(param.into()), ..Self::invalid(message) }
    }

    /// A required parameter is missing.
    pub(crate) fn missing(param: &str) -> Self {
        Self::param(param, format!("Missing required param: {param}.")).code("parameter_missing")
    }

    /// 404: no object has this id.
    pub(crate) fn no_such(kind: &str, id: &str, param: &str) -> Self {
        let name = if kind == "payment_method" { "PaymentMethod" } else { kind };
        let message = format!("No such {name}: '{id}'");
        // An object in the path is not found; one in a parameter makes the request invalid.
        let status = if param == "id" || param == "intent" { 404 } else { 400 };
        Self { status, ..Self::param(param, message).code("resource_missing") }
    }

    /// 402: the card was not charged.
    pub(crate) fn card(code: &str, decline_code: Option<&str>, message: impl Into<String>) -> Self {
        Self {
            status: 402,
            kind: "card_error",
            decline_code: decline_code.map(Into::into),
            keeps: true,
            ..Self::invalid(message)
        }
        .code(code)
    }

    /// Sets the code.
    pub(crate) fn code(mut self, code: &str) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Sets the status.
    pub(crate) fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Adds an object to the body.
    pub(crate) fn showing(mut self, field: &'static str, id: &str) -> Self {
        self.shown.push((field, id.to_owned()));
        self
    }

    /// The body; `find` returns the objects in it.
    pub(crate) fn body(&self, request_id: &str, find: impl Fn(&str) -> Option<Value>) -> Value {
        let mut error = Map::new();
        if let Some(code) = &self.code {
            error.insert("code".to_owned(), json!(code));
            error.insert(
                "doc_url".to_owned(),
                json!(format!("{REFERENCE}/{}", code.replace('_', "-"))),
            );
        }
        for (name, value) in [("decline_code", &self.decline_code), ("param", &self.param)] {
            if let Some(value) = value {
                error.insert(name.to_owned(), json!(value));
            }
        }
        error.insert("message".to_owned(), json!(self.message));
        for (name, id) in &self.shown {
            if *name == "charge" {
                error.insert((*name).to_owned(), json!(id));
            } else if let Some(object) = find(id) {
                error.insert((*name).to_owned(), object);
            }
        }
        let log = format!("https://dashboard.stripe.com/test/workbench/logs?object={request_id}");
        error.insert("request_log_url".to_owned(), json!(log));
        error.insert("type".to_owned(), json!(self.kind));
        json!({"error": error})
    }
}
