//! Fields of requests: each one is checked against the contract, and each wrong one is reported.
//!
//! A request's type declares its schema. `openapi.json` shows that schema and requests are checked
//! against it, so the two cannot differ. Rules that a schema cannot express are in the type's
//! `check`, which sees the fields that are good so far. A request is read into its type only if it
//! has no problems.

mod check;
mod formats;
mod json;
mod names;
mod new_password;
mod numbers;
mod query;
mod shape;

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use domain::field_error::FieldErrorKind;
use failures::Failure;
use failures::FieldProblem;
use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::openapi::path::ParameterIn;
use utoipa::{IntoParams, ToSchema};

use crate::WebState;
use crate::error::ApiError;

pub use check::short;
pub use new_password::problem_of_new;
pub use numbers::DecimalNumber;
pub use shape::ValueShape;

/// The most problems that one response names: enough for any form, and a limit to what a body of
/// junk can cause.
const PROBLEMS_MAX: usize = 50;

/// A type that JSON bodies are read into.
pub trait RequestBody: DeserializeOwned + ToSchema + 'static {
    /// Adds the problems that no schema can describe. Fields with a problem are absent from
    /// `_fields`.
    fn check(_fields: &GoodFields<'_>, _web: &WebState, _problems: &mut FieldProblems) {}
}

/// A type that queries are read into.
pub trait RequestQuery: DeserializeOwned + IntoParams + 'static {
    /// Adds the problems that no schema can describe. Parameters with a problem are absent.
    fn check(_fields: &GoodFields<'_>, _web: &WebState, _problems: &mut FieldProblems) {}
}

/// The problems of a request so far.
#[derive(Debug, Default)]
pub struct FieldProblems(Vec<FieldProblem>);

impl FieldProblems {
    /// Adds a problem, or drops it if there are already as many as a response names.
    pub fn add(&mut self, problem: FieldProblem) {
        if self.0.len() < PROBLEMS_MAX {
            self.0.push(problem);
        }
    }

    /// Adds a problem of a body field.
    pub fn body(&mut self, field: &str, kind: FieldErrorKind, message: impl Into<String>) {
        self.add(FieldProblem::new("body", field, kind, message));
    }

    /// Adds a problem of a query parameter.
    pub fn query(&mut self, name: &str, kind: FieldErrorKind, message: impl Into<String>) {
        self.add(FieldProblem::new("query", name, kind, message));
    }

    /// Adds the problem of a field that cannot be a new password, for the field `email` if there is
    /// one.
    pub fn new_password(&mut self, fields: &GoodFields<'_>, web: &WebState, field: &str) {
        let email = fields.parsed("email");
        let problem = fields
            .text(field)
            .and_then(|text| problem_of_new(&web.config, field, text, email.as_ref()));
        if let Some(problem) = problem {
            self.add(problem);
        }
    }

    /// Ok if there are no problems, otherwise the 422 that lists them.
    pub fn finish(self) -> Result<(), ApiError> {
        if self.0.is_empty() { Ok(()) } else { Err(ApiError::Failure(Failure::Invalid(self.0))) }
    }
}

/// The fields that are good by themselves, for rules that span fields and rules of the deployment.
#[derive(Debug)]
pub struct GoodFields<'a> {
    good: &'a Map<String, Value>,
    sent: &'a Map<String, Value>,
}

impl GoodFields<'_> {
    /// The value of a field; `None` if it is absent, null or wrong.
    pub fn value(&self, field: &str) -> Option<&Value> {
        self.good.get(field).filter(|value| !value.is_null())
    }

    /// Whether a field was not sent, or sent as null.
    pub fn is_absent(&self, field: &str) -> bool {
        self.sent.get(field).is_none_or(Value::is_null)
    }

    /// The text of a field as it was sent, even if it is wrong.
    pub fn sent_text(&self, field: &str) -> Option<&str> {
        self.sent.get(field)?.as_str()
    }

    /// The value of a field, if it is a text.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.value(field)?.as_str()
    }

    /// The text of a field, parsed into one of our types.
    pub fn parsed<T: std::str::FromStr>(&self, field: &str) -> Option<T> {
        self.text(field)?.parse().ok()
    }
}

/// Reads a JSON body and the query beside it, which must be empty.
pub fn read_body<T: RequestBody>(
    web: &WebState,
    query: Option<&str>,
    bytes: &[u8],
) -> Result<T, ApiError> {
    read_body_with(web, query, bytes, |_, _| Ok(()))
}

/// The same, with rules that only the handler knows.
pub fn read_body_with<T: RequestBody>(
    web: &WebState,
    query: Option<&str>,
    bytes: &[u8],
    rules: impl FnOnce(&GoodFields<'_>, &mut FieldProblems) -> Result<(), ApiError>,
) -> Result<T, ApiError> {
    let mut problems = FieldProblems::default();
    query::refuse_beside(query, &[], &mut problems);
    let Some(sent) = json::object(bytes, &mut problems) else {
        return Err(ApiError::Failure(Failure::Invalid(problems.0)));
    };
    let mut place = check::Place::of("body", &mut problems);
    let good = check::object(&body_shape::<T>(), sent.clone(), &mut place);
    let fields = GoodFields { good: &good, sent: &sent };
    T::check(&fields, web, &mut problems);
    rules(&fields, &mut problems)?;
    problems.finish()?;
    into_type(Value::Object(good))
}

/// Reads the query parameters.
pub fn read_query<T: RequestQuery>(web: &WebState, query: Option<&str>) -> Result<T, ApiError> {
    let mut problems = FieldProblems::default();
    let shape = query_shape::<T>();
    let sent = query::values(&shape, query, &mut problems);
    let mut place = check::Place::of("query", &mut problems);
    let good = check::object(&shape, sent.clone(), &mut place);
    T::check(&GoodFields { good: &good, sent: &sent }, web, &mut problems);
    problems.finish()?;
    into_type(Value::Object(good))
}

/// Refuses every query parameter, for routes that take none.
pub fn refuse_query(query: Option<&str>) -> Result<(), ApiError> {
    refuse_query_beside(query, &[])
}

/// Refuses every query parameter except these, which the route reads itself.
pub fn refuse_query_beside(query: Option<&str>, known: &[&str]) -> Result<(), ApiError> {
    let mut problems = FieldProblems::default();
    query::refuse_beside(query, known, &mut problems);
    problems.finish()
}

/// Reads a checked value into its type. A value that fits the schema but not the type would be an
/// internal error; `scripts/contract-test` searches for one with values generated from the schemas.
fn into_type<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|error| {
        ApiError::Failure(Failure::Internal(format!("a checked request cannot be read: {error}")))
    })
}

static SHAPES: LazyLock<RwLock<HashMap<TypeId, Arc<ValueShape>>>> = LazyLock::new(RwLock::default);

/// The shape of a type, computed once.
fn shape_of(id: TypeId, make: impl FnOnce() -> ValueShape) -> Arc<ValueShape> {
    if let Some(known) = SHAPES.read().get(&id) {
        return Arc::clone(known);
    }
    Arc::clone(SHAPES.write().entry(id).or_insert_with(|| Arc::new(make())))
}

fn body_shape<T: RequestBody>() -> Arc<ValueShape> {
    shape_of(TypeId::of::<T>(), || {
        ValueShape::of_schema(&serde_json::to_value(T::schema()).unwrap_or_default())
    })
}

fn query_shape<T: RequestQuery>() -> Arc<ValueShape> {
    shape_of(TypeId::of::<T>(), || {
        let parameters = T::into_params(|| Some(ParameterIn::Query));
        ValueShape::of_parameters(&serde_json::to_value(parameters).unwrap_or_default())
    })
}
