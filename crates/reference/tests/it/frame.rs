//! What is around every page: the sidebar, the operator's own words, and what is no page.

use axum::body::Body;
use http::{Method, Request};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{CONFIG, Docs, assert_has, values};

fn docs() -> Docs {
    let contract = json!({"tags": [{"name": "things"}], "paths": {"/v1/things": {"get": {
        "tags": ["things"], "operationId": "list_things"}}}});
    Docs::of(CONFIG, contract)
}

/// The links that are marked as where the reader is, each with its mark.
fn marked(page: &str) -> Vec<(&str, &str)> {
    let links = page.split("<li><a href=\"").skip(1).filter_map(|link| {
        let (path, rest) = link.split_once('"')?;
        let mark = rest.strip_prefix(" aria-current=\"")?.split('"').next()?;
        Some((path, mark))
    });
    links.collect()
}

#[tokio::test]
async fn the_sidebar_marks_the_page_itself_or_the_one_above_it() {
    let docs = docs();
    for (path, expected) in [
        ("/docs", ("/docs", "page")),
        ("/docs/errors", ("/docs/errors", "page")),
        ("/docs/performance-log", ("/docs/performance-log", "page")),
        ("/docs/api", ("/docs/api", "page")),
        ("/docs/api/things", ("/docs/api", "true")),
        ("/docs/api/things/list_things", ("/docs/api", "true")),
        ("/docs/platforms/platform_alpha", ("/docs/platforms", "true")),
    ] {
        assert_eq!(marked(&docs.page(path).await), [expected], "{path}");
    }
    assert_eq!(marked(&docs.page("/docs/search?q=x").await), []);
}

#[tokio::test]
async fn every_link_of_the_sidebar_leads_to_a_page() {
    let docs = docs();
    let overview = docs.page("/docs").await;
    let nav = overview.split_once("<nav class=\"nav\"").unwrap().1.split("</nav>").next().unwrap();
    let links = values(nav, "<li><a href=\"");

    assert!(links.len() > 25, "{links:?}");
    for link in links {
        docs.page(link).await;
    }
}

#[tokio::test]
async fn choosing_a_theme_leads_back_to_the_page() {
    let docs = docs();
    for path in ["/docs", "/docs/credits", "/docs/api/things/list_things", "/docs/search"] {
        let page = docs.page(path).await;

        assert_has(&page, &[&format!("<input type=\"hidden\" name=\"back\" value=\"{path}\">")]);
    }
}

#[tokio::test]
async fn the_operators_words_are_on_every_page_as_text() {
    let config = format!(
        "{CONFIG}\n[brand]\nname = \"Zoo <API>\"\noperator = \"Ada & Co\"\n\
         announcement = \"<b>Maintenance</b> on Sunday.\"\nstatus_url = \"https://status.example\"\n"
    );
    let own = Docs::of(&config, Value::Null);
    let plain = docs();
    for path in ["/docs", "/docs/credits", "/docs/platforms/platform_gamma", "/docs/search?q=zz"] {
        assert_has(
            &own.page(path).await,
            &[
                " · Zoo &#60;API&#62;</title>",
                "Ada &#38; Co",
                "&#60;b&#62;Maintenance&#60;/b&#62; on Sunday.",
                "<a href=\"https://status.example\">",
            ],
        );
        let page = plain.page(path).await;
        assert!(!page.contains("<footer") && !page.contains("data-announcement"), "{path}");
    }
    assert!(own.ask("/llms.txt", "*/*").await.text.starts_with("# Zoo <API>\n"));
}

#[tokio::test]
async fn what_is_not_there_is_refused_as_a_problem_that_says_where_to_look() {
    let docs = docs();
    for path in ["/docs/nothing", "/docs/api/nothing", "/docs/platforms/platform_alpha/nothing"] {
        let answer = docs.get(path).await;

        assert_eq!(answer.headers["content-type"], "application/problem+json", "{path}");
        let problem: Value = serde_json::from_str(&answer.text).unwrap();
        assert_eq!((answer.status, &problem["code"]), (404, &json!("not_found")), "{path}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains("`GET /llms.txt` lists what there is"), "{detail}");
    }
}

#[tokio::test]
async fn documentation_can_only_be_read() {
    let docs = docs();
    let paths =
        ["/docs", "/docs/credits", "/docs/api", "/docs/search", "/docs/platforms", "/llms.txt"];
    for path in paths {
        for (method, status) in [(Method::HEAD, 200), (Method::POST, 405), (Method::DELETE, 405)] {
            let request = Request::builder().method(&method).uri(path);
            let request = request.body(Body::empty()).unwrap();

            let response = docs.0.clone().oneshot(request).await.unwrap();

            assert_eq!(response.status(), status, "{method} {path}");
            let body = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
            assert!(body.is_empty(), "{method} {path}");
        }
    }
}
