//! People get pages and programs get JSON, by what they accept.

use super::{BROWSER, person};
use test_service::{Reply, TestApp};

#[track_caller]
fn assert_failure_page(reply: &Reply, status: u16, code: &str) {
    let html = reply.text();
    assert_eq!(reply.status, status, "{html}");
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8", "{html}");
    assert!(html.contains(&format!("/docs/errors#{code}")), "{html}");
    assert!(html.contains(reply.header("x-request-id")), "{html}");
    assert!(vary(reply).contains("Accept"), "{reply:?}");
    assert_eq!(reply.header("x-error-source"), "gateway");
}

#[track_caller]
fn assert_problem(reply: &Reply, status: u16) {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert!(reply.header("content-type").ends_with("json"), "{}", reply.text());
}

fn vary(reply: &Reply) -> String {
    let lines = reply.headers.get_all("vary").iter();
    lines.filter_map(|line| line.to_str().ok()).collect::<Vec<_>>().join(", ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_start_page_leads_people_on_and_lists_for_programs_what_there_is() {
    let app = TestApp::on_sqlite("").await;
    let person = person(&app);

    let led = person.get("/").await;
    let back = person.with("cookie", "a=b; session=whatever").get("/").await;
    let listed = app.anonymous().get("/").await;

    assert_eq!((led.status, led.header("location")), (303, "/docs"));
    assert_eq!((back.status, back.header("location")), (303, "/console"));
    assert_eq!(listed.json()["documentation"], "/docs");
    for reply in [&led, &back, &listed] {
        assert!(vary(reply).contains("Accept") && vary(reply).contains("Cookie"), "{reply:?}");
    }
    let index = listed.json();
    for (name, path) in index.as_object().unwrap() {
        if let Some(path) = path.as_str().filter(|path| path.starts_with('/')) {
            assert_eq!(app.anonymous().get(path).await.status, 200, "{name}");
        }
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_who_fails_reads_a_page_and_a_program_reads_a_problem() {
    let app = TestApp::on_sqlite("").await;
    let (person, program) = (person(&app), app.anonymous());

    for (path, status, code) in [
        ("/nothing", 404, "not_found"),
        ("/docs/nothing", 404, "not_found"),
        ("/docs/nothing.md", 404, "not_found"),
        ("/docs/api/billing/nothing", 404, "not_found"),
        ("/assets/nothing.css", 404, "not_found"),
        ("/console/logout", 405, "method_not_allowed"),
        ("/v1/billing", 401, "missing_key"),
        ("/v1/nothing", 404, "not_found"),
    ] {
        assert_failure_page(&person.get(path).await, status, code);
        let problem = program.get(path).await;
        assert_problem(&problem, status);
        assert_eq!(problem.failure().1, code, "{path}");
        assert!(vary(&problem).contains("Accept"), "{path}");
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_and_native_calls_stay_json_for_programs_that_accept_html_by_habit() {
    let app = TestApp::on_sqlite("").await;
    let habit = app.anonymous().with("accept", BROWSER);
    let script = habit.with("sec-fetch-mode", "cors");

    for client in [&habit, &script] {
        for path in ["/v1/billing", "/v1/nothing", "/v1/exports/x/download", "/v1"] {
            let reply = client.get(path).await;
            assert!(reply.header("content-type").ends_with("json"), "{path}: {}", reply.text());
        }
        let posted = client.send("POST", "/v1/billing", None).await;
        assert_problem(&posted, 405);
    }
    for client in [&habit, &person(&app)] {
        let native = client.get("/v1/demo/native/me").await;
        assert_problem(&native, 401);
        assert!(!vary(&native).contains("Accept"), "native calls are the same for everybody");
    }
    assert_problem(&person(&app).send("POST", "/v1/nothing", None).await, 404);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_about_a_failure_keeps_the_headers_of_the_problem() {
    let app = TestApp::on_sqlite("").await;

    let wrong_method = person(&app).get("/v1/connect/import").await;
    let wrong_value = person(&app)
        .with("x-api-key", &app.customer(0).await.key)
        .get("/v1/billing/usage/daily?days=x")
        .await;

    assert_failure_page(&wrong_method, 405, "method_not_allowed");
    assert_eq!(wrong_method.header("allow"), "POST");
    assert_eq!(wrong_method.header("x-should-retry"), "false");
    assert_failure_page(&wrong_value, 422, "invalid_request");
    assert!(wrong_value.text().contains("days"), "{}", wrong_value.text());
    app.end().await;
}
