//! Failures as pages: who is not signed in is led to the login, everybody else reads what happened.

use axum::response::IntoResponse as _;
use console_kit::failure::PageFailure;
use http::{HeaderMap, StatusCode};
use pages::{PageFrame, PagesState};
use settings::Config;

use super::{refusal, text};

fn frame() -> PageFrame {
    PagesState::new(&Config::from_toml("").unwrap()).frame(&HeaderMap::new())
}

/// The status and the text of the page about a refusal.
async fn page(status: u16, title: &str, detail: &str) -> (StatusCode, String) {
    let mut problem = refusal(status, detail, &[]);
    title.clone_into(&mut problem.title);
    let failure = PageFailure::Problem {
        frame: frame(),
        problem: Box::new(problem),
        request_id: "req_1".to_owned(),
    };
    let response = failure.into_response();
    (response.status(), text(response).await)
}

#[tokio::test]
async fn who_is_not_signed_in_comes_back_to_the_page_with_its_query() {
    let next = "/console/calls?account=a&q=b c/ü".to_owned();

    let response = PageFailure::SignIn { next }.into_response();

    assert_eq!(response.status(), StatusCode::SEE_OTHER);
    let place = response.headers()["location"].to_str().unwrap().to_owned();
    let query = place.strip_prefix("/console/login?").unwrap();
    let pairs: Vec<(String, String)> = serde_urlencoded::from_str(query).unwrap();
    assert_eq!(pairs, [("next".to_owned(), "/console/calls?account=a&q=b c/ü".to_owned())]);
}

#[tokio::test]
async fn a_form_that_is_not_ours_says_that_nothing_was_changed() {
    let response = PageFailure::BadForm(frame()).into_response();
    let status = response.status();
    let html = text(response).await;

    assert_eq!(status, StatusCode::FORBIDDEN);
    assert!(html.contains("This form can&#39;t be sent again"), "{html}");
    assert!(html.contains("Nothing was changed."), "{html}");
}

#[tokio::test]
async fn what_is_missing_or_foreign_reads_the_same() {
    let (status, html) = page(404, "Some title", "there is no key key_1 of yours").await;

    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(html.contains("Nothing here"), "{html}");
    assert!(!html.contains("key_1"), "{html}");
}

#[tokio::test]
async fn a_failure_on_our_side_has_no_details_but_the_requests_id() {
    let (status, html) = page(500, "Panic", "the column x cannot be read").await;

    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert!(html.contains("Something went wrong on our side"), "{html}");
    assert!(html.contains("req_1") && !html.contains("column"), "{html}");
}

#[tokio::test]
async fn other_refusals_have_the_words_of_the_service_as_a_sentence() {
    let (status, html) = page(409, "Change in progress", "another change is in progress").await;

    assert_eq!(status, StatusCode::CONFLICT);
    assert!(html.contains("Change in progress"), "{html}");
    assert!(html.contains("Another change is in progress."), "{html}");
    assert!(html.contains("some_code"), "{html}");
}

#[tokio::test]
async fn words_of_the_service_are_never_taken_for_html() {
    let (_, html) = page(409, "<b>title</b>", "<script>alert(1)</script> & more").await;

    assert!(!html.contains("<script>alert") && !html.contains("<b>title"), "{html}");
}

#[tokio::test]
async fn a_problem_is_never_shown_as_a_success() {
    let (status, _) = page(200, "Fine", "nothing is wrong").await;

    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
}
