//! The routes of platforms: filtered, in pages, and one by one.

use std::collections::BTreeSet;

use crate::{Docs, assert_has, values};

/// The routes that a page lists, by their addresses.
fn listed(html: &str) -> Vec<&str> {
    let all = values(html, "<a class=\"mono break\" href=\"");
    all.into_iter().filter(|path| path.starts_with("/docs/platforms/")).collect()
}

#[tokio::test]
async fn only_what_is_offered_is_listed() {
    let page = Docs::new().page("/docs/platforms").await;

    assert_has(&page, &["/docs/platforms/platform_alpha", "/docs/platforms/platform_gamma"]);
    assert!(!page.contains("platform_beta") && !page.contains("platform_delta"), "{page}");
}

#[tokio::test]
async fn a_platform_that_is_not_offered_or_unknown_has_no_page() {
    let docs = Docs::new();
    for name in ["platform_beta", "platform_omega", "PLATFORM_ALPHA", "%00", "platform_alpha%20"] {
        assert_eq!(docs.get(&format!("/docs/platforms/{name}")).await.status, 404, "{name}");
        assert_eq!(docs.get(&format!("/docs/platforms/{name}/get_me")).await.status, 404, "{name}");
    }
}

#[tokio::test]
async fn every_route_of_a_platform_has_a_page_with_its_cost_and_its_call() {
    let docs = Docs::new();
    let list = docs.page("/docs/platforms/platform_gamma").await;
    let routes = listed(&list);
    assert!(routes.len() > 50, "{}", routes.len());
    let different: BTreeSet<&str> = routes.iter().copied().collect();
    assert_eq!(different.len(), routes.len());
    for path in routes {
        let page = docs.page(path).await;

        let is_read = page.contains("<span class=\"verb\">GET</span>");
        let cost = if is_read { "<dd>3 credits;" } else { "<dd>7 credits;" };
        assert_has(&page, &[cost, "<dt>Address</dt><dd><code>/v1/{account}/"]);
        let example = "https://gateway.example/v1/demo_gamma/";
        assert_eq!(page.contains(example), is_read, "{path}: only reads are to be copied");
        assert_eq!(page.contains("/docs/writing\">write safely"), !is_read, "{path}");
    }
}

#[tokio::test]
async fn a_filter_keeps_what_has_all_of_it_and_shows_what_was_asked_for() {
    let docs = Docs::new();
    let base = "/docs/platforms/platform_alpha";
    let all = docs.page(base).await;
    let count = listed(&all).len();
    let posts = docs.page(&format!("{base}?method=post")).await;
    let none = docs.page(&format!("{base}?q=%3Cscript%3E&method=x")).await;
    let words = docs.page(&format!("{base}?q=CHATS+messages")).await;

    assert!(!all.contains("Clear filters"), "nothing is filtered");
    let listed_posts = listed(&posts);
    assert!(!listed_posts.is_empty() && listed_posts.len() < count);
    assert_eq!(posts.matches("<span class=\"verb w\">POST</span>").count(), listed_posts.len());
    assert_has(&posts, &["<option selected>POST</option>", "Clear filters"]);
    assert_has(&none, &["No routes match", "value=\"&#60;script&#62;\""]);
    assert!(!none.contains("<script>"), "{none}");
    for path in listed(&words) {
        let page = docs.page(path).await.to_lowercase();
        assert!(page.contains("chats") && page.contains("messages"), "{path}");
    }
}

#[tokio::test]
async fn a_group_is_filtered_whatever_the_case_of_its_name() {
    let docs = Docs::new();
    let base = "/docs/platforms/platform_alpha";
    let all = docs.page(base).await;
    let group = values(&all, "<option value=\"\">All</option><option>").len();
    assert!(group > 0);
    let groups = all.split("name=\"group\">").nth(1).unwrap().split("</select>").next().unwrap();
    let names: Vec<&str> =
        groups.split("<option>").skip(1).filter_map(|rest| rest.split('<').next()).collect();
    let mut total = 0;
    for name in &names {
        let query = name.to_uppercase().replace(' ', "+").replace("&#38;", "%26");
        let page = docs.page(&format!("{base}?group={query}")).await;
        let found = listed(&page).len();
        assert!(found > 0, "{name}");
        total += found;
    }
    assert!(total <= listed(&all).len() && names.len() > 3, "{names:?}");
}

#[tokio::test]
async fn pages_of_routes_end_wherever_an_address_says_they_begin() {
    let docs = Docs::new();
    let base = "/docs/platforms/platform_alpha";
    let count = listed(&docs.page(base).await).len();
    for (skip, expected) in [
        ("0", count),
        ("-1", count),
        ("x", count),
        ("", count),
        ("1", count - 1),
        ("1000", 0),
        ("18446744073709551615", 0),
        ("18446744073709551616", count),
    ] {
        let page = docs.page(&format!("{base}?skip={skip}")).await;

        assert_eq!(listed(&page).len(), expected, "{skip}");
        assert!(!page.contains(">Next</a>"), "{skip}: all fit on one page");
    }
    assert_has(&docs.page(&format!("{base}?skip=1")).await, &[">First</a>"]);
}

#[tokio::test]
async fn a_platform_of_the_operators_own_with_many_routes_is_shown_in_pages() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("many.toml");
    let route = |at: usize| {
        format!(
            "[[routes]]\nmethod = \"GET\"\ntemplate = \"things/{at:03}\"\ngroup = \"A & B\"\n\
             description = \"Thing <{at}> of `it`, [more](javascript://x/%0aalert(1)).\"\n"
        )
    };
    std::fs::write(&file, (0..250).map(route).collect::<String>()).unwrap();
    let config = format!(
        "[platforms.own]\nbase_url = \"https://own.example\"\ncatalog = '{}'\ncatalog_mode = \"replace\"",
        file.display()
    );
    let docs = Docs::of(&config, serde_json::Value::Null);
    let mut path = "/docs/platforms/own?group=a+%26+b&q=thing".to_owned();
    let mut seen = Vec::new();
    for count in [120, 120, 10] {
        let page = docs.page(&path).await;

        let routes = listed(&page);
        assert_eq!(routes.len(), count, "{path}");
        assert_has(&page, &["250 of 250", "Thing &lt;", "of <code>it</code>, more."]);
        assert!(!page.contains("javascript:"), "{page}");
        seen.extend(routes.into_iter().map(str::to_owned));
        let next = page.split("\">Next</a>").next().and_then(|rest| rest.rsplit("href=\"").next());
        path = next.unwrap().replace("&#38;", "&");
    }
    let different: BTreeSet<&String> = seen.iter().collect();
    assert_eq!(different.len(), 250);
}
