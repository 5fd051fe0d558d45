//! The page of results.

use serde_json::json;

use crate::{CONFIG, Docs, assert_has, values};

#[tokio::test]
async fn results_name_what_they_are_and_mark_what_was_looked_for() {
    let contract = json!({
        "tags": [{"name": "things"}],
        "paths": {"/v1/zebras": {"get": {"tags": ["things"], "operationId": "list_zebras",
            "summary": "Lists zebras of a herd", "responses": {}}}},
    });
    let docs = Docs::of(CONFIG, contract);

    let one = docs.page("/docs/search?q=zebras").await;
    let many = docs.page("/docs/search?q=credits").await;

    assert_has(
        &one,
        &[
            "1 result<",
            "<a class=\"break\" href=\"/docs/api/things/list_zebras\">GET /v1/zebras</a>",
            "<span class=\"badge\">API</span>",
            "API reference: things",
            "Lists <mark>zebras</mark> of a herd",
        ],
    );
    assert_has(&many, &["30 results<", "<mark>", "value=\"credits\""]);
}

#[tokio::test]
async fn a_code_of_an_error_is_the_first_result_for_its_words() {
    let docs = Docs::new();
    for text in ["insufficient_credits", "Insufficient+Credits"] {
        let page = docs.page(&format!("/docs/search?q={text}")).await;

        let first = page.split("<a class=\"break\" href=\"").nth(1).unwrap();
        assert!(first.starts_with("/docs/errors#insufficient_credits\""), "{first}");
    }
}

#[tokio::test]
async fn without_words_there_are_neither_results_nor_suggestions() {
    let docs = Docs::new();
    for path in
        ["/docs/search", "/docs/search?q=", "/docs/search?q=+%20", "/docs/search?other=credits"]
    {
        let page = docs.page(path).await;

        assert!(!page.contains("Nothing found") && !page.contains("results<"), "{path}: {page}");
    }
}

#[tokio::test]
async fn where_nothing_is_found_three_titles_that_are_alike_are_offered() {
    let page = Docs::new().page("/docs/search?q=insuficient_creddits").await;

    assert_has(&page, &["Nothing found", "/docs/errors#insufficient_credits"]);
    let offered = page.split("The closest:").nth(1).unwrap().split("</ul>").next().unwrap();
    assert_eq!(offered.matches("<li>").count(), 3);
}

#[tokio::test]
async fn what_was_typed_is_shown_as_text_whatever_it_is() {
    let docs = Docs::new();
    for typed in [
        "%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "%00%ff%fe",
        "%F0%9F%98%80%F0%9F%98%80",
        "%E2%80%AE",
        "%zz%",
        "'+OR+1=1--",
        "(((((((((((((((((a*)*)*",
    ] {
        let page = docs.page(&format!("/docs/search?q={typed}")).await;

        assert!(!page.contains("<script>"), "{typed}: {page}");
        assert_eq!(page.matches("<script").count(), 1, "{typed}");
    }
    let long = docs.page(&format!("/docs/search?q={}", "a".repeat(5_000))).await;
    assert_has(&long, &[&format!("value=\"{}\"", "a".repeat(200))]);
    let many = docs.page(&format!("/docs/search?q={}", "credits+".repeat(500))).await;
    assert_has(&many, &["results<"]);
}

#[tokio::test]
async fn routes_of_platforms_are_found_with_the_page_that_describes_them() {
    let file = "[[routes]]\nmethod = \"GET\"\ntemplate = \"okapis/{id}\"\n\
                description = \"Feeds an okapi with <leaves>.\"\nnotes = \"Not at night.\"\n";
    let docs = Docs::of_platform(file);
    for text in ["OKAPIS", "get+okapis", "leaves+okapi", "own+okapi"] {
        let page = docs.page(&format!("/docs/search?q={text}")).await;

        assert_has(
            &page,
            &[
                "1 result<",
                "<a class=\"break\" href=\"/docs/platforms/own/get_okapis_id\">GET okapis/{id}</a>",
                "<span class=\"badge\">Route</span> <span class=\"muted small\">own</span>",
            ],
        );
        assert!(!page.contains("<leaves>"), "{page}");
    }
    assert_has(&docs.page("/docs/search?q=okapi+giraffe").await, &["Nothing found"]);
}

#[tokio::test]
async fn every_result_leads_to_a_page_that_is_there() {
    let docs = Docs::new();
    for text in ["cursor", "insufficient", "chats", "idempotency"] {
        let page = docs.page(&format!("/docs/search?q={text}")).await;
        let results = values(&page, "<a class=\"break\" href=\"");

        assert!(!results.is_empty(), "{text}");
        for result in results {
            let (path, anchor) = result.split_once('#').unwrap_or((result, ""));
            let found = docs.page(path).await;
            let place = format!("id=\"{anchor}\"");
            assert!(anchor.is_empty() || found.contains(&place), "{text}: {result}");
        }
    }
}
