//! The documentation as people and programs read it.

mod negotiation;
mod pages;
mod programs;

use test_service::{Client, Reply, TestApp};

/// What browsers accept when a person opens an address.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// A person with a browser.
fn person(app: &TestApp) -> Client {
    app.anonymous().with("accept", BROWSER).with("sec-fetch-mode", "navigate")
}

/// The values of an attribute, such as ` href="`.
fn values<'a>(html: &'a str, attribute: &'a str) -> impl Iterator<Item = &'a str> {
    html.split(attribute).skip(1).filter_map(|rest| rest.split('"').next())
}

/// A page of ours, with the policy that lets it load nothing from elsewhere.
#[track_caller]
fn page(reply: &Reply) -> String {
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(
        reply.header("content-security-policy"),
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
         form-action 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'"
    );
    String::from_utf8_lossy(&reply.body).into_owned()
}
