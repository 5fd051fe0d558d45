//! How a page uses the service: by the routes that programs use, called inside the process, as the
//! person who is signed in.
//!
//! So a page has exactly the permissions, limits, codes and receipts of the API, and cannot do what
//! the API does not offer (docs/decisions.md 550).

use std::pin::Pin;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use failures::FieldProblem;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use web::error::PendingFailure;

/// The largest response that a page reads: lists have pages, so they stay far below.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The service's own routes and native calls, without a socket. `node` implements it.
pub trait ServiceRoutes: Send + Sync {
    /// Serves the request. Its caller is identified as for a request from outside, or by the
    /// extension [`web::auth::DelegatedKey`].
    fn serve(&self, request: Request) -> Pin<Box<dyn Future<Output = Response> + Send>>;
}

/// The response of a route, read whole.
#[derive(Debug)]
pub struct ServiceResponse {
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body; empty if it could not be read.
    pub body: Bytes,
    /// Why the service refused, if it did.
    problem: Option<ServiceProblem>,
}

/// Why a route refused a request, or failed.
#[derive(Debug, Clone)]
pub struct ServiceProblem {
    /// The status of the refusal.
    pub status: StatusCode,
    /// The code of the API, such as `slots_in_use`.
    pub code: String,
    /// What went wrong, in a few words.
    pub title: String,
    /// What it means and what to do.
    pub detail: String,
    /// The wrong fields, if there are some.
    pub fields: Vec<FieldProblem>,
    /// Further members of the problem, such as `decline_code`.
    pub members: Box<serde_json::Map<String, serde_json::Value>>,
}

impl ServiceResponse {
    /// Reads a response.
    pub async fn read(response: Response) -> Self {
        let (parts, incoming) = response.into_parts();
        let pending = parts.extensions.get::<PendingFailure>();
        let problem = pending.map(ServiceProblem::of);
        let limited = http_body_util::Limited::new(incoming, BODY_BYTES_MAX);
        let body = limited.collect().await.map(http_body_util::Collected::to_bytes);
        let Ok(body) = body else {
            return Self {
                headers: parts.headers,
                body: Bytes::new(),
                problem: Some(ServiceProblem::unreadable()),
            };
        };
        let is_failure = parts.status.is_client_error() || parts.status.is_server_error();
        let problem = problem.or_else(|| is_failure.then(|| read_problem(parts.status, &body)));
        Self { headers: parts.headers, body, problem }
    }

    /// The response's JSON, or why there is none.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, ServiceProblem> {
        if let Some(problem) = &self.problem {
            return Err(problem.clone());
        }
        serde_json::from_slice(&self.body).map_err(|error| ServiceProblem {
            detail: format!("a response of the service could not be read: {error}"),
            ..ServiceProblem::unreadable()
        })
    }

    /// Nothing, or why the request was refused.
    pub fn done(self) -> Result<Self, ServiceProblem> {
        match self.problem {
            Some(problem) => Err(problem),
            None => Ok(self),
        }
    }
}

impl ServiceProblem {
    fn of(PendingFailure(error): &PendingFailure) -> Self {
        let row = error.row();
        Self {
            status: row.status,
            code: row.code.to_owned(),
            title: row.title.to_owned(),
            detail: error.to_string(),
            fields: error.field_problems().unwrap_or_default(),
            members: Box::new(error.members()),
        }
    }

    fn unreadable() -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            code: "internal_error".to_owned(),
            title: "Something went wrong on our side".to_owned(),
            detail: "The service's response could not be read.".to_owned(),
            fields: Vec::new(),
            members: Box::default(),
        }
    }
}

/// The name of a wrong field, without the part of the request that it is in; dots join the levels.
pub fn name_of(problem: &FieldProblem) -> String {
    problem.loc.get(1..).unwrap_or_default().join(".")
}

/// A problem that was stored or came from the platform, as far as its body says.
fn read_problem(status: StatusCode, body: &[u8]) -> ServiceProblem {
    let read: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let text = |name: &str| read.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    ServiceProblem {
        status,
        code: text("code").unwrap_or_default(),
        title: text("title").unwrap_or_else(|| format!("The request failed with {status}")),
        detail: text("detail").unwrap_or_default(),
        fields: Vec::new(),
        members: Box::new(read.as_object().cloned().unwrap_or_default()),
    }
}

/// A request to a route, without headers.
pub fn request(method: &http::Method, path: &str, body: Body) -> Request {
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    // A path that cannot be written is answered like one that does not exist.
    *request.uri_mut() = path.parse().unwrap_or_default();
    request
}
