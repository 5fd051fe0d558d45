//! What programs read: documents as Markdown, and the list of them.

use super::values;
use test_service::TestApp;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_for_programs_names_documents_that_are_there_as_markdown() {
    let app = TestApp::on_sqlite("").await;
    let program = app.anonymous();
    let base = app.config().http.public_base_url.clone();

    let list = program.get("/llms.txt").await;

    assert_eq!(list.header("content-type"), "text/plain; charset=utf-8");
    let text = String::from_utf8(list.body.to_vec()).unwrap();
    assert!(text.starts_with("# ") && text.contains("\n\n> "), "{text}");
    let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let paths: Vec<String> =
        links.map(|link| link.strip_prefix(&base).unwrap_or(link).to_owned()).collect();
    assert!(paths.len() > 20, "{text}");
    for path in paths {
        let reply = program.get(&path).await;
        assert_eq!(reply.status, 200, "{path}");
        if path.contains(".md") {
            assert_eq!(reply.header("content-type"), "text/markdown; charset=utf-8", "{path}");
        }
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_links_of_a_document_as_markdown_lead_to_markdown() {
    let app = TestApp::on_sqlite("").await;
    let program = app.anonymous();

    let text = program.get("/docs/paging.md").await.text();

    assert!(text.contains("](/docs/exports.md)"), "{text}");
    assert!(text.contains("](/docs/conventions.md#documents-for-generators)"), "{text}");
    assert!(!text.contains("](../"), "{text}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_errors_are_markdown_for_programs_and_a_page_for_people() {
    let app = TestApp::on_sqlite("").await;

    let program = app.anonymous().get("/docs/errors").await;
    let person = super::person(&app).get("/docs/errors").await;

    assert_eq!(program.header("content-type"), "text/markdown; charset=utf-8");
    assert!(program.text().contains("\n## insufficient_credits\n"));
    let html = super::page(&person);
    assert!(values(&html, " id=\"").any(|id| id == "insufficient_credits"));
    for reply in [&program, &person] {
        assert_eq!(reply.header("vary"), "Accept");
    }
    app.end().await;
}
