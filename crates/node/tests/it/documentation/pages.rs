//! The pages: what they link to exists, they are small, and they load nothing from elsewhere.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{page, person, values};
use test_service::TestApp;

/// Pages of ours stay below this; documents are as long as they are.
const PAGE_BYTES_MAX: usize = 60 * 1024;
const ELEMENTS_MAX: usize = 1_500;

/// Documents that are longer than a page of ours.
const LONG_DOCUMENTS: [&str; 5] =
    ["/docs/changes", "/docs/conventions", "/docs/guarantees", "/docs/operations", "/docs/credits"];

/// A page that was read.
struct ReadPage {
    anchors: BTreeSet<String>,
    /// Where its links lead: the path, and the anchor.
    links: Vec<(String, String)>,
}

/// Reads every page that can be reached from the overview.
async fn crawl(app: &TestApp) -> BTreeMap<String, ReadPage> {
    let client = person(app);
    let mut pages = BTreeMap::new();
    let mut waiting = VecDeque::from(["/docs".to_owned()]);
    let mut known: BTreeSet<String> = waiting.iter().cloned().collect();
    while let Some(path) = waiting.pop_front() {
        let html = page(&client.get(&path).await);
        assert_own(&path, &html);
        let links = links(&path, &html);
        for (to, _) in &links {
            if is_page(to) && known.insert(to.clone()) {
                waiting.push_back(to.clone());
            }
        }
        let anchors = values(&html, " id=\"").map(str::to_owned).collect();
        pages.insert(path, ReadPage { anchors, links });
    }
    pages
}

/// Links without their queries.
fn links(path: &str, html: &str) -> Vec<(String, String)> {
    let link = |link: &str| {
        let (to, anchor) = link.split_once('#').unwrap_or((link, ""));
        let to = to.split('?').next().unwrap_or_default();
        let to = if to.is_empty() { path } else { to };
        (to.to_owned(), anchor.to_owned())
    };
    let own = values(html, "<a href=\"").chain(values(html, " class=\"mono\" href=\""));
    let own = own
        .chain(values(html, " class=\"mono break\" href=\""))
        .chain(values(html, " class=\"break\" href=\""));
    own.chain(values(html, " class=\"hash\" href=\"")).map(link).collect()
}

fn is_page(path: &str) -> bool {
    let is_file = path.contains('.');
    (path == "/docs" || path.starts_with("/docs/")) && !is_file
}

/// Asserts that a page is ours alone, and small.
fn assert_own(path: &str, html: &str) {
    for attribute in
        [" src=\"", "<link rel=\"stylesheet\" href=\"", "<link rel=\"icon\" href=\"", " action=\""]
    {
        for address in values(html, attribute) {
            assert!(address.starts_with('/') && !address.starts_with("//"), "{path}: {address}");
        }
    }
    for forbidden in [" style=\"", " onclick", "<style", "<script>", "javascript:"] {
        assert!(!html.contains(forbidden), "{path}: {forbidden}");
    }
    assert_eq!(html.matches("<h1").count(), 1, "{path}");
    let mut seen = BTreeSet::new();
    assert!(values(html, " id=\"").all(|id| seen.insert(id)), "{path} has an id twice");
    if !LONG_DOCUMENTS.contains(&path) {
        let elements = html.matches('<').count() - html.matches("</").count();
        assert!(html.len() <= PAGE_BYTES_MAX, "{path} has {} bytes", html.len());
        assert!(elements <= ELEMENTS_MAX, "{path} has {elements} elements");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_link_of_every_page_leads_to_a_page_and_to_an_anchor_on_it() {
    let app = TestApp::on_sqlite("").await;

    let pages = crawl(&app).await;

    let mut broken = Vec::new();
    for (path, read) in &pages {
        for (to, anchor) in read.links.iter().filter(|(to, _)| is_page(to)) {
            let is_there = anchor.is_empty() || pages[to].anchors.contains(anchor);
            if !is_there {
                broken.push(format!("{path}: {to}#{anchor}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
    let below = |folder: &str| pages.keys().filter(|path| path.starts_with(folder)).count();
    let operations = test_service::contract::document()["paths"].as_object().unwrap().len();
    assert!(below("/docs/api/") > operations, "every operation has a page");
    assert!(below("/docs/platforms/") > 300, "every route has a page");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_type_of_every_error_leads_to_its_meaning() {
    let app = TestApp::on_sqlite("").await;

    let html = page(&person(&app).get("/docs/errors").await);

    let anchors: BTreeSet<&str> = values(&html, " id=\"").collect();
    let all = web::error::documented::failures().into_iter();
    for failure in all.chain(web::error::documented::head_failures()) {
        assert!(anchors.contains(failure.code), "{}", failure.code);
    }
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_overview_shows_the_services_own_address_and_prices() {
    let app = TestApp::on_sqlite("[credits]\nread = 3\nwrite = 7").await;

    let html = page(&person(&app).get("/docs").await);

    assert!(html.contains("Reads cost 3 credits, writes 7, exports 10."), "{html}");
    let base = app.config().http.public_base_url.clone();
    assert!(html.contains(&format!("curl {base}/v1/demo_")), "{html}");
    assert!(html.contains("X-Credits-Cost: 3"), "{html}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn platforms_are_shown_under_the_names_that_the_operator_gave_them() {
    let renamed = "[platforms.platform_alpha]\nbase_url = \"\"\n[platforms.mine]\n\
                   extends = \"platform_alpha\"\nbase_url = \"http://127.0.0.1:1\"\n\
                   [platforms.platform_beta]\nbase_url = \"\"";
    let app = TestApp::on_sqlite(renamed).await;
    let client = person(&app);

    let overview = page(&client.get("/docs").await);
    let routes = page(&client.get("/docs/platforms/mine").await);
    let llms = client.get("/llms.txt").await.text();

    assert!(overview.contains("<a href=\"/docs/platforms/mine\">mine</a>"), "{overview}");
    for html in [&overview, &routes, &llms] {
        assert!(!html.contains("platform_alpha\">"), "{html}");
    }
    assert!(routes.contains("href=\"/docs/platforms/mine/"), "{routes}");
    assert!(llms.contains("/v1/platforms/mine/openapi.json"), "{llms}");
    assert_eq!(client.get("/docs/platforms/platform_beta").await.status, 404, "it isn't offered");
    assert_eq!(client.get("/docs/platforms/nothing").await.status, 404);
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn routes_are_found_by_text_method_and_group_and_show_what_they_cost() {
    let app = TestApp::on_sqlite("").await;
    let client = person(&app);
    let list = async |query: &str| {
        page(&client.get(&format!("/docs/platforms/platform_alpha{query}")).await)
    };
    let rows = |html: &str| html.matches("<th scope=\"row\" class=\"a\">").count();

    let all = list("").await;
    let found = list("?q=messages&method=post").await;
    let none = list("?q=%3Cscript%3Enothing&unknown=1").await;

    let catalog = catalog::Catalog::built_in().unwrap();
    let known = catalog.platform(domain::platform::Platform::ALPHA).routes();
    assert_eq!(rows(&all), known.len());
    let wanted =
        known.iter().filter(|route| route.method.as_str() == "POST" && route.mentions("messages"));
    assert_eq!(rows(&found), wanted.count(), "{found}");
    assert!(rows(&found) > 0 && rows(&found) < rows(&all));
    assert!(none.contains("No routes match") && none.contains("Clear filters"), "{none}");
    assert!(
        none.contains("&#60;script&#62;nothing") || none.contains("&lt;script&gt;nothing"),
        "{none}"
    );
    let message = page(&client.get("/docs/platforms/platform_alpha/get_users_me").await);
    assert!(message.contains("1 credit; nothing if the platform fails"), "{message}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_search_finds_errors_routes_operations_and_documents_and_offers_what_is_close() {
    let app = TestApp::on_sqlite("").await;
    let client = person(&app);
    let first = async |query: &str| {
        let html = page(&client.get(&format!("/docs/search?q={query}")).await);
        let results = html.split("class=\"card lines").nth(1).unwrap_or_default().to_owned();
        values(&results, " href=\"").next().map(str::to_owned)
    };

    assert_eq!(
        first("insufficient_credits").await.as_deref(),
        Some("/docs/errors#insufficient_credits")
    );
    assert_eq!(first("/v1/billing/ledger").await.as_deref(), Some("/docs/api/billing/list_ledger"));
    assert_eq!(first("page+through+a+list").await.as_deref(), Some("/docs/paging"));
    assert!(first("users%2Fme").await.is_some_and(|path| path.starts_with("/docs/platforms/")));
    let missed = page(&client.get("/docs/search?q=insuffizient_credts%3Cb%3E").await);
    assert!(missed.contains("Nothing found") && !missed.contains("<b>"), "{missed}");
    assert!(missed.contains("href=\"/docs/errors#insufficient_credits\""), "{missed}");
    let empty = page(&client.get("/docs/search").await);
    assert!(!empty.contains("Nothing found"), "{empty}");
    app.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_chosen_theme_is_written_into_the_page_and_the_way_back_is_kept() {
    let app = TestApp::on_sqlite("").await;

    let html = page(&person(&app).with("cookie", "theme=dark").get("/docs/paging").await);

    assert!(html.contains("<html lang=\"en\" data-theme=\"dark\">"), "{html}");
    assert!(html.contains("name=\"back\" value=\"/docs/paging\""), "{html}");
    assert!(html.contains("<a href=\"/docs/paging\" aria-current=\"page\">"), "{html}");
    app.end().await;
}
