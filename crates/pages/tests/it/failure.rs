//! The page about a failed request, and what is sent where a page cannot be written.

use askama::Template;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use http::{HeaderMap, StatusCode};
use pages::plain::{FailureText, failure, or_apology, sentence};
use pages::respond::{PagePolicy, page};

use crate::{frame, state, text};

fn told() -> FailureText {
    FailureText {
        title: "Not found".to_owned(),
        detail: "There is no such page.".to_owned(),
        code: "not_found".to_owned(),
        request_id: "req_1".to_owned(),
    }
}

#[tokio::test]
async fn a_failure_says_what_happened_its_code_and_what_to_quote() {
    let response = failure(&frame("", "theme=dark"), StatusCode::NOT_FOUND, &told());

    assert_eq!(response.status(), 404);
    let headers = response.headers().clone();
    assert_eq!(headers[CONTENT_TYPE], "text/html; charset=utf-8");
    assert_eq!(headers[CACHE_CONTROL], "private, no-store");
    assert_eq!(headers[REFERRER_POLICY], "same-origin");
    assert!(headers[CONTENT_SECURITY_POLICY].to_str().unwrap().starts_with("default-src 'none';"));
    let html = text(response).await;
    for part in [
        "<html lang=\"en\" data-theme=\"dark\">",
        "<title>Not found · creator-gateway</title>",
        "<h1>Not found</h1>",
        "<p>There is no such page.</p>",
        ">404</span>",
        "<a href=\"/docs/errors#not_found\">",
        "<dd class=\"mono\" id=\"rid\">req_1</dd>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[tokio::test]
async fn a_failure_without_a_code_or_an_id_leaves_them_out() {
    let bare = FailureText { code: String::new(), request_id: String::new(), ..told() };
    let frame = state("").frame(&HeaderMap::new());

    let html = text(failure(&frame, StatusCode::BAD_GATEWAY, &bare)).await;

    assert!(html.contains("<html lang=\"en\">"), "{html}");
    assert!(!html.contains("<dt>"), "{html}");
    assert!(!html.contains("/docs/errors#"), "{html}");
}

#[tokio::test]
async fn nothing_that_is_shown_can_become_markup() {
    let evil = "\"><script>alert('x')</script>&amp;";
    let toml = "[brand]\nname = '''<b>&\"'''\noperator = '''<i>'''\nannouncement = '''<u>'''\n\
                terms_url = 'https://t.example/?a=\"><s>&b='";
    let shown = FailureText {
        title: evil.to_owned(),
        detail: evil.to_owned(),
        code: evil.to_owned(),
        request_id: evil.to_owned(),
    };

    let html = text(failure(&frame(toml, "theme=dark"), StatusCode::OK, &shown)).await;

    for markup in ["<script>", "<b>", "<i>", "<u>", "<s>", "&b="] {
        assert!(!html.contains(markup), "{markup}: {html}");
    }
    // Our own script is the only one.
    assert_eq!(html.matches("<script").count(), 1, "{html}");
}

#[tokio::test]
async fn the_operator_is_on_the_page_with_its_links_and_its_announcement() {
    let toml = "[brand]\nname = \"Acme\"\noperator = \"Acme Ltd\"\nannouncement = \"Soon.\"\n\
                terms_url = \"https://t.example/terms\"\nlogo_file = \"logo.png\"";

    let html = text(failure(&frame(toml, "a=b"), StatusCode::OK, &told())).await;

    for part in [
        "<title>Not found · Acme</title>",
        "<img src=\"/console/logo\" alt=\"\" height=\"22\">",
        "Operated by <span dir=\"auto\">Acme Ltd</span>",
        "<a href=\"https://t.example/terms\">Terms</a>",
        "data-announcement",
        "<div dir=\"auto\">Soon.</div>",
    ] {
        assert!(html.contains(part), "{part}: {html}");
    }
}

#[derive(Template)]
#[template(source = "{{ self.written()? }}", ext = "html")]
struct Unwritable(bool);

impl Unwritable {
    fn written(&self) -> Result<&'static str, askama::Error> {
        if self.0 { Ok("<written>") } else { Err(askama::Error::Fmt) }
    }
}

#[tokio::test]
async fn a_page_that_cannot_be_written_is_an_apology_and_not_half_a_page() {
    let policy = PagePolicy::default();

    let good = or_apology(StatusCode::CREATED, &Unwritable(true), &policy);
    let bad = or_apology(StatusCode::CREATED, &Unwritable(false), &policy);

    assert!(page(StatusCode::OK, &Unwritable(false), &policy).is_err());
    assert_eq!(
        (good.status(), bad.status()),
        (StatusCode::CREATED, StatusCode::INTERNAL_SERVER_ERROR)
    );
    assert_eq!(text(good).await, "&#60;written&#62;");
    assert_eq!(
        text(bad).await,
        "Something went wrong on our side. Nothing was changed. Try again."
    );
}

#[test]
fn only_plain_origins_join_the_policy_of_a_page() {
    let policy = |origin: &str| {
        let all = vec![origin.to_owned(), "https://good.example".to_owned()];
        let policy = PagePolicy {
            script_origins: all.clone(),
            connect_origins: all.clone(),
            frame_origins: all.clone(),
            form_origins: all,
        };
        let page = page(StatusCode::OK, &Unwritable(true), &policy).unwrap();
        page.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap().to_owned()
    };

    let expected = "default-src 'none'; style-src 'self'; script-src 'self' https://good.example; \
        img-src 'self'; connect-src 'self' https://good.example; \
        form-action 'self' https://good.example; object-src 'none'; base-uri 'none'; \
        frame-ancestors 'none'; frame-src https://good.example";
    for bad in ["", "a b", "a;b", "a,b", "a\nb", "ü", "\u{7f}", "'none'; script-src *"] {
        assert_eq!(policy(bad), expected, "{bad}");
    }
    assert!(policy("https://*.good.example").contains("script-src 'self' https://*.good.example "));
}

#[test]
fn a_sentence_begins_with_a_capital_unless_it_begins_with_code() {
    for (detail, expected) in [
        ("the key is unknown", "The key is unknown."),
        ("`limit` must be a number", "`limit` must be a number."),
        ("/v1/me does not exist", "/v1/me does not exist."),
        ("x_y is wrong", "x_y is wrong."),
        ("ändere es", "Ändere es."),
        ("is it?", "Is it?"),
        ("stop!", "Stop!"),
        ("as follows:", "As follows:"),
        ("3 are missing", "3 are missing."),
        ("a", "A."),
        (".", "."),
    ] {
        assert_eq!(sentence(detail), expected);
    }
}
