//! Documents as pages, as Markdown, and in the list for programs.

use crate::{Docs, assert_has, values};

/// The addresses of all documents, as the list for programs names them.
async fn listed(docs: &Docs) -> Vec<String> {
    let list = docs.ask("/llms.txt", "*/*").await.text;
    let links = list.split("](https://gateway.example").skip(1);
    let paths = links.filter_map(|rest| rest.split(')').next());
    paths.filter(|path| path.starts_with("/docs/")).map(str::to_owned).collect()
}

#[tokio::test]
async fn every_document_that_is_listed_is_there_in_both_forms() {
    let docs = Docs::new();
    let listed = listed(&docs).await;
    assert!(listed.len() > 20, "{listed:?}");
    for path in listed {
        let markdown = docs.ask(&path, "*/*").await;
        let page = docs.page(path.strip_suffix(".md").unwrap()).await;

        assert_eq!(markdown.status, 200, "{path}");
        assert_eq!(markdown.headers["content-type"], "text/markdown; charset=utf-8");
        assert_eq!(markdown.headers["cache-control"], "public, max-age=300");
        assert!(markdown.text.starts_with("# "), "{path}");
        assert_has(
            &page,
            &[
                &format!("<link rel=\"alternate\" type=\"text/markdown\" href=\"{path}\">"),
                "aria-current=\"page\"",
            ],
        );
        assert_eq!(page.matches("<h1>").count(), 1, "{path}");
    }
}

#[tokio::test]
async fn a_page_for_people_is_for_one_visitor_and_loads_nothing_from_elsewhere() {
    let docs = Docs::new();
    for path in ["/docs", "/docs/credits", "/docs/api", "/docs/platforms", "/docs/search"] {
        let answer = docs.get(path).await;

        assert_eq!(answer.headers["cache-control"], "private, no-store", "{path}");
        let policy = answer.headers["content-security-policy"].to_str().unwrap().to_owned();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'self'; script-src 'self';"),
            "{policy}"
        );
        for source in values(&answer.text, " src=\"") {
            assert!(source.starts_with('/') && !source.starts_with("//"), "{path}: {source}");
        }
    }
}

#[tokio::test]
async fn the_meaning_of_errors_is_a_page_for_people_and_markdown_for_programs() {
    let docs = Docs::new();
    for (accept, media_type) in [
        ("text/html", "text/html; charset=utf-8"),
        ("application/json", "text/markdown; charset=utf-8"),
        ("*/*", "text/markdown; charset=utf-8"),
        ("text/html;q=0", "text/markdown; charset=utf-8"),
    ] {
        let answer = docs.ask("/docs/errors", accept).await;

        assert_eq!((answer.status, &answer.headers["vary"]), (200, &"Accept".parse().unwrap()));
        assert_eq!(answer.headers["content-type"], media_type, "{accept}");
    }
    // Other documents are pages for everybody: their address has a form with an ending.
    assert_eq!(
        docs.ask("/docs/credits", "*/*").await.headers["content-type"],
        "text/html; charset=utf-8"
    );
}

#[tokio::test]
async fn an_image_is_sent_as_a_drawing() {
    let docs = Docs::new();
    for name in ["performance.svg", "exports.svg"] {
        let image = docs.ask(&format!("/docs/{name}"), "image/*").await;

        assert_eq!(
            (image.status, &image.headers["content-type"]),
            (200, &"image/svg+xml; charset=utf-8".parse().unwrap())
        );
        assert!(image.text.contains("<svg"), "{name}");
        assert!(!image.text.contains("<script"), "{name}");
    }
}

#[tokio::test]
async fn what_is_no_document_is_not_found() {
    let docs = Docs::new();
    for path in [
        "/docs/nothing",
        "/docs/nothing.md",
        "/docs/.md",
        "/docs/credits.md.md",
        "/docs/Credits",
        "/docs/money",
        "/docs/other.svg",
        "/docs/..%2FCargo.toml",
        "/docs/%00",
        "/docs/api/nothing",
        "/docs/platforms/platform_beta",
    ] {
        assert_eq!(docs.get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn long_documents_have_a_table_of_their_chapters_and_short_ones_have_none() {
    let docs = Docs::new();
    let mut with = 0;
    for path in listed(&docs).await {
        let page = docs.page(path.strip_suffix(".md").unwrap()).await;
        let prose = page.split_once("<div class=\"prose\">").unwrap().1;
        let chapters = prose.matches("<h2 id=").count();

        let table = page.split_once("<nav class=\"toc\"").map(|(_, rest)| rest);
        let entries =
            table.map(|rest| rest.split("</nav>").next().unwrap().matches("<li>").count());

        let expected = (3..=60).contains(&chapters).then_some(chapters);
        assert_eq!(entries, expected, "{path}");
        with += usize::from(expected.is_some());
    }
    assert!(with > 10, "{with}");
}

#[tokio::test]
async fn the_list_for_programs_has_the_prices_the_platforms_and_the_address_of_this_service() {
    let list = Docs::new().ask("/llms.txt", "*/*").await;

    assert_eq!(list.headers["content-type"], "text/plain; charset=utf-8");
    assert_has(
        &list.text,
        &[
            "# creator-gateway\n\n> An HTTP API to creator platforms (platform_alpha, platform_gamma):",
            "A read costs 3, a write 7, an export 10 credits.",
            "`https://gateway.example/v1/{account}/native/{path}`",
            "[Routes of platform_gamma](https://gateway.example/v1/platforms/platform_gamma/openapi.json)",
            "\n## Optional\n\n",
        ],
    );
    assert!(!list.text.contains("platform_beta"), "it is not offered");
    assert!(!list.text.contains("Run your own"), "{}", list.text);
}

#[tokio::test]
async fn the_overview_shows_a_call_to_a_platform_that_is_offered() {
    let page = Docs::new().page("/docs").await;

    assert_has(
        &page,
        &["https://gateway.example/v1/demo_", "X-Credits-Cost: 3", "X-Credits-Balance: 497"],
    );
    let bare = Docs::of("", serde_json::Value::Null).page("/docs").await;
    assert_has(&bare, &["/v1/my_account/native/me", "X-Route: GET me"]);
}
