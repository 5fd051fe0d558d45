//! Fields of requests: every one is checked against what the contract says of it, and every wrong one is named.
//!
//! A request's type declares its schema; that schema is what `openapi.json` shows and what a request is checked
//! against, so the two cannot differ. Rules that a schema cannot say are in `check` of the type, which sees the
//! fields that are good so far. Only a request without any problem is read into its type.

mod check;
mod formats;
mod json;
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

/// The most problems that one response names: enough for any form, and no gift to a body of junk.
const PROBLEMS_MAX: usize = 50;

/// What a JSON body is read into.
pub trait RequestBody: DeserializeOwned + ToSchema + 'static {
    /// Adds the problems that no schema can describe. Fields that are wrong already are absent here.
    fn check(_fields: &GoodFields<'_>, _web: &WebState, _problems: &mut FieldProblems) {}
}

/// What a query is read into.
pub trait RequestQuery: DeserializeOwned + IntoParams + 'static {
    /// Adds the problems that no schema can describe. Parameters that are wrong already are absent here.
    fn check(_fields: &GoodFields<'_>, _web: &WebState, _problems: &mut FieldProblems) {}
}

/// What is wrong with a request so far.
#[derive(Debug, Default)]
pub struct FieldProblems(Vec<FieldProblem>);

impl FieldProblems {
    /// Adds one; beyond the most that a response names it is dropped.
    pub fn add(&mut self, problem: FieldProblem) {
        if self.0.len() < PROBLEMS_MAX {
            self.0.push(problem);
        }
    }

    /// Adds one of a field of the body.
    pub fn body(&mut self, field: &str, kind: FieldErrorKind, message: impl Into<String>) {
        self.add(FieldProblem::new("body", field, kind, message));
    }

    /// Adds one of a query parameter.
    pub fn query(&mut self, name: &str, kind: FieldErrorKind, message: impl Into<String>) {
        self.add(FieldProblem::new("query", name, kind, message));
    }

    /// Adds what keeps a field from being a new password.
    pub fn new_password(&mut self, fields: &GoodFields<'_>, field: &str) {
        let problem = fields.text(field).and_then(|text| problem_of_new(field, text));
        if let Some(problem) = problem {
            self.add(problem);
        }
    }

    /// Nothing is wrong, or the 422 that names all that is.
    pub fn finish(self) -> Result<(), ApiError> {
        if self.0.is_empty() { Ok(()) } else { Err(ApiError::Failure(Failure::Invalid(self.0))) }
    }
}

/// The fields that are good by themselves, for rules between fields and rules of the deployment.
#[derive(Debug)]
pub struct GoodFields<'a> {
    good: &'a Map<String, Value>,
    sent: &'a Map<String, Value>,
}

impl GoodFields<'_> {
    /// The value of a field; nothing where it is absent, null or wrong.
    pub fn value(&self, field: &str) -> Option<&Value> {
        self.good.get(field).filter(|value| !value.is_null())
    }

    /// Whether a field was not sent, or sent as null.
    pub fn is_absent(&self, field: &str) -> bool {
        self.sent.get(field).is_none_or(Value::is_null)
    }

    /// The text of a field as it was sent, be it wrong or not.
    pub fn sent_text(&self, field: &str) -> Option<&str> {
        self.sent.get(field)?.as_str()
    }

    /// The same, of a text.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.value(field)?.as_str()
    }

    /// The same, read into one of our types.
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

/// The same with rules that only the handler knows.
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

/// Refuses every query parameter: the route takes none.
pub fn refuse_query(query: Option<&str>) -> Result<(), ApiError> {
    refuse_query_beside(query, &[])
}

/// Refuses every query parameter but these, which the route reads by itself.
pub fn refuse_query_beside(query: Option<&str>, known: &[&str]) -> Result<(), ApiError> {
    let mut problems = FieldProblems::default();
    query::refuse_beside(query, known, &mut problems);
    problems.finish()
}

/// A value that has the shape of its type is one of its values. `scripts/contract-test` looks for one that is not, with
/// values made from the schemas: it would be an internal error.
fn into_type<T: DeserializeOwned>(value: Value) -> Result<T, ApiError> {
    serde_json::from_value(value).map_err(|error| {
        ApiError::Failure(Failure::Internal(format!("a checked request cannot be read: {error}")))
    })
}

static SHAPES: LazyLock<RwLock<HashMap<TypeId, Arc<ValueShape>>>> = LazyLock::new(RwLock::default);

/// The shape of a type, made once.
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
