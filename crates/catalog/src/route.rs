//! One route of a platform: what it is called, what it costs and what it needs.

use std::sync::Arc;

use domain::credits::{Credits, MeteringCosts};
use domain::method::Method;
use serde_json::Value;

use crate::body_rules::BodyRule;
use crate::route_docs::{RouteDocs, RouteParameter};
use crate::shorthand::Shorthand;
use crate::template::PathTemplate;
use crate::{FieldProblem, body_rules};

/// An entry of a platform's catalogue.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The stable name, such as `GET chats/{chat_id}/messages`: in receipts, logs and `X-Route`.
    pub name: String,
    /// The method it is for; a shorthand is for GET only.
    pub method: Method,
    /// The path after `/native/` with parameters in braces, such as `chats/{chat_id}/messages`.
    pub template: String,
    /// The group it belongs to, in the reference's words.
    pub group: String,
    /// OAuth scopes that the connected access token needs; empty where a platform has none.
    pub scopes: Vec<String>,
    /// What else a caller should know; may be empty.
    pub notes: String,
    /// What it does, in one line; may be empty in an operator's own file.
    pub description: String,
    /// Whether the file says that it was probed and answered 200.
    pub verified: bool,
    /// Whether bodies or answers carry bank, tax or login details, which nothing should keep or
    /// show.
    pub sensitive: bool,
    /// What becomes of a call to it.
    pub kind: RouteKind,
    /// Query parameters that are added when the caller does not give them: name and value, not
    /// encoded.
    pub default_query: Vec<(String, String)>,
    /// The query parameters that are documented; others pass as well.
    pub query_parameters: Vec<RouteParameter>,
    /// The parameters of its path that are text of the creator's own, such as a folder's name: they
    /// may hold slashes, which are percent-encoded in a path.
    pub free_text: Vec<String>,
    /// What is checked of a body before the call costs anything.
    pub body_rules: Vec<BodyRule>,
    /// What else is documented of it; calls do not need it.
    pub docs: Option<Arc<RouteDocs>>,
    /// The template in its parts, for the matcher.
    pub(crate) parsed: PathTemplate,
}

/// What becomes of a call to a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteKind {
    /// It is sent on under its own path.
    Native,
    /// It is rewritten to another path.
    Shorthand(Shorthand),
    /// It is not a native path: the upload at `POST /v1/{account}/media/upload`.
    Upload,
    /// The gateway calls it on its own, for exports; it is neither listed nor matched.
    Internal,
}

impl Route {
    /// What one call costs.
    pub const fn cost(&self, costs: &MeteringCosts) -> Credits {
        costs.of(self.method)
    }

    /// Where it is rewritten to, if it is a shorthand.
    pub const fn shorthand(&self) -> Option<&Shorthand> {
        match &self.kind {
            RouteKind::Shorthand(shorthand) => Some(shorthand),
            RouteKind::Native | RouteKind::Upload | RouteKind::Internal => None,
        }
    }

    /// Whether a body has to be looked at.
    pub const fn has_body_rules(&self) -> bool {
        !self.body_rules.is_empty()
    }

    /// Checks a JSON body against the rules of the route; the first problem is the answer.
    pub fn check_body(&self, body: &Value) -> Result<(), FieldProblem> {
        self.body_rules.iter().try_for_each(|rule| body_rules::check(rule, body))
    }

    /// The names of the parameters in its path, in order.
    pub fn parameter_names(&self) -> impl Iterator<Item = &str> {
        self.parsed.names()
    }

    /// Whether a native path can mean it: it is neither the upload nor internal.
    pub const fn is_native(&self) -> bool {
        matches!(self.kind, RouteKind::Native | RouteKind::Shorthand(_))
    }

    /// The parameter of its path that spans several segments, if it has one. It is the last.
    pub fn spanning_parameter(&self) -> Option<&str> {
        if self.parsed.spans() { self.parsed.names().last() } else { None }
    }

    /// Its path without the names of parameters, and without the mark of one that spans several
    /// segments: OpenAPI takes paths of one shape for the same.
    pub fn shape(&self) -> String {
        self.parsed.shape().replace("{*}", "{}")
    }

    /// Whether a text stands in its path, operation, description, group or notes, in whatever case.
    pub fn mentions(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        let operation = self.docs.as_ref().map_or("", |docs| docs.operation_id.as_str());
        let own = [&self.template, &self.description, &self.group, &self.notes];
        let mut texts = own.map(String::as_str).into_iter().chain([operation]);
        texts.any(|place| place.to_lowercase().contains(&text))
    }

    /// The scopes it needs beyond those granted, in the catalogue's order.
    pub fn missing_scopes(&self, granted: &[&str]) -> Vec<&str> {
        self.scopes.iter().map(String::as_str).filter(|scope| !granted.contains(scope)).collect()
    }
}
