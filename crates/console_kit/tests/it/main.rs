//! What pages of the console stand on, without a running service: forms, refusals, responses of the
//! service, addresses, and how numbers and times are written.
#![expect(
    clippy::unwrap_used,
    reason = "a test that meets what it does not expect must fail, and has its own stack"
)]

mod failures_as_pages;
mod forms;
mod in_service;
mod numbers;
mod responses;
mod shell;

use axum::response::Response;
use console_kit::service::ServiceProblem;
use domain::field_error::FieldErrorKind;
use failures::FieldProblem;
use http::StatusCode;

/// A refusal of the service with these wrong fields: (place, message).
fn refusal(status: u16, detail: &str, fields: &[(&str, &str)]) -> ServiceProblem {
    let field = |&(place, message): &(&str, &str)| {
        FieldProblem::new("body", place, FieldErrorKind::OutOfRange, message)
    };
    ServiceProblem {
        status: StatusCode::from_u16(status).unwrap(),
        detail: detail.to_owned(),
        fields: fields.iter().map(field).collect(),
        ..ServiceProblem::missing("some_code", "")
    }
}

/// The text of a response.
async fn text(response: Response) -> String {
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}
