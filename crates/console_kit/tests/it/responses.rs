//! Responses of the service, as pages read them: success, refusals of every kind, and bodies that
//! cannot be read.

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use console_kit::service::{ServiceResponse, name_of, request};
use domain::field_error::FieldErrorKind;
use failures::{Failure, FieldProblem};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use web::error::ApiError;

fn response(status: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response
}

#[tokio::test]
async fn a_success_is_read_into_what_the_page_needs() {
    let read = ServiceResponse::read(response(200, r#"{"balance": 7, "more": true}"#)).await;

    let value: Value = read.json().unwrap();

    assert_eq!(value, json!({"balance": 7, "more": true}));
    assert!(read.done().is_ok());
}

#[tokio::test]
async fn a_success_without_a_body_is_done_and_is_no_json() {
    let read = ServiceResponse::read(response(204, Body::empty())).await;

    assert_eq!(read.json::<Value>().unwrap_err().code, "internal_error");
    assert!(read.done().unwrap().body.is_empty());
}

#[tokio::test]
async fn a_success_of_another_shape_is_a_failure_on_our_side() {
    #[derive(serde::Deserialize, Debug)]
    struct Wanted {
        #[expect(dead_code, reason = "only its absence matters")]
        balance: i64,
    }
    let read = ServiceResponse::read(response(200, r#"{"credits": 7}"#)).await;

    let problem = read.json::<Wanted>().unwrap_err();

    assert_eq!(problem.status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(problem.detail.contains("balance"), "{}", problem.detail);
}

#[tokio::test]
async fn a_refusal_of_ours_has_its_code_its_words_and_its_fields() {
    let field = FieldProblem::new("body", "name", FieldErrorKind::TooLong, "is too long");
    let refused = ApiError::Failure(Failure::Invalid(vec![field])).into_response();

    let problem = ServiceResponse::read(refused).await.done().unwrap_err();

    assert_eq!(problem.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(problem.fields.iter().map(name_of).collect::<Vec<_>>(), ["name"]);
    assert!(!problem.title.is_empty() && !problem.code.is_empty());
}

#[tokio::test]
async fn a_stored_refusal_is_read_from_its_body() {
    let body = json!({
        "code": "slots_in_use", "title": "Slots are in use", "detail": "disconnect one",
        "accounts": ["ada", "eve"],
    });
    let read = ServiceResponse::read(response(409, body.to_string())).await;

    let problem = read.done().unwrap_err();

    assert_eq!((problem.status.as_u16(), problem.code.as_str()), (409, "slots_in_use"));
    assert_eq!(
        (problem.title.as_str(), problem.detail.as_str()),
        ("Slots are in use", "disconnect one")
    );
    assert_eq!(problem.members.get("accounts"), Some(&json!(["ada", "eve"])));
}

#[tokio::test]
async fn a_platforms_failure_has_its_status_whatever_its_body_is() {
    for body in ["", "<html>502</html>", "[1, 2]", "\"text\"", "{\"code\": 7}"] {
        let problem = ServiceResponse::read(response(502, body)).await.done().unwrap_err();

        assert_eq!(problem.status, StatusCode::BAD_GATEWAY, "{body}");
        assert_eq!(problem.title, "The request failed with 502 Bad Gateway", "{body}");
        assert_eq!(problem.code, "", "{body}");
    }
}

#[tokio::test]
async fn a_body_that_is_too_large_or_breaks_off_is_a_failure_on_our_side() {
    let large = ServiceResponse::read(response(200, vec![b' '; 4 * 1024 * 1024 + 1])).await;
    let fits = ServiceResponse::read(response(200, vec![b' '; 4 * 1024 * 1024])).await;
    let broken = futures_util::stream::iter([Ok("{"), Err(std::io::Error::other("it broke"))]);
    let broken = ServiceResponse::read(response(200, Body::from_stream(broken))).await;

    for unread in [large, broken] {
        assert!(unread.body.is_empty());
        let problem = unread.done().unwrap_err();
        assert_eq!(problem.status, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(problem.detail, "The service's response could not be read.");
    }
    assert!(fits.done().is_ok());
}

#[test]
fn a_field_is_named_without_the_part_of_the_request_and_with_its_levels() {
    let problem = |place: &str| FieldProblem::new("body", place, FieldErrorKind::Missing, "m");

    assert_eq!(name_of(&problem("name")), "name");
    let nested = FieldProblem {
        loc: ["body", "auth", "headers", "x"].map(str::to_owned).to_vec(),
        ..problem("")
    };
    assert_eq!(name_of(&nested), "auth.headers.x");
    assert_eq!(name_of(&FieldProblem { loc: vec!["body".to_owned()], ..problem("") }), "");
}

#[test]
fn a_path_that_cannot_be_written_leads_nowhere() {
    let good = request(&Method::DELETE, "/v1/auth/keys/key_1?x=%20", Body::empty());
    let bad = request(&Method::GET, "/v1/a b\r\nhost: x", Body::empty());

    assert_eq!((good.method(), good.uri().path()), (&Method::DELETE, "/v1/auth/keys/key_1"));
    assert_eq!(good.uri().query(), Some("x=%20"));
    assert_eq!(bad.uri().path(), "/");
    assert!(bad.headers().is_empty() && good.headers().is_empty());
}
