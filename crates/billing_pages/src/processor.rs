//! The payment processor's origins: where our forms may lead, and whose script may run on the page
//! where a bank asks for the customer.

use axum::response::{IntoResponse, Redirect, Response};
use http::StatusCode;
use http::uri::Uri;
use pages::respond::PagePolicy;
use settings::billing::ProcessorSection;

use console_kit::shell::{ConsoleSection, PageShell};
use console_kit::visitor::ConsoleVisitor;

/// The host of a known processor's script, and what that script needs.
const SCRIPT_HOST: &str = "https://js.stripe.com";
const SCRIPTS: [&str; 1] = ["https://*.js.stripe.com"];
const FRAMES: [&str; 2] = ["https://*.js.stripe.com", "https://hooks.stripe.com"];
/// Its checkout and its portal.
const PAGES: [&str; 2] = ["https://checkout.stripe.com", "https://billing.stripe.com"];

/// The policy of pages with buttons that lead to the processor's pages.
pub(crate) fn leading_out(section: &ProcessorSection) -> PagePolicy {
    PagePolicy { form_origins: page_origins(section), ..PagePolicy::default() }
}

/// The policy of the page where a bank asks for the customer: the processor's script runs, calls
/// the processor, and shows the bank's page.
pub(crate) fn running_script(section: &ProcessorSection) -> PagePolicy {
    let (js, api) = (origin(&section.js_url), origin(&section.base_url));
    let (scripts, frames) =
        if is_known(section) { (&SCRIPTS[..], &FRAMES[..]) } else { (&[][..], &[][..]) };
    let list = |first: &[&String], rest: &[&str]| {
        let first = first.iter().map(|origin| (*origin).clone());
        let mut all: Vec<String> = Vec::new();
        for origin in first.chain(rest.iter().map(|origin| (*origin).to_owned())) {
            if !origin.is_empty() && !all.contains(&origin) {
                all.push(origin);
            }
        }
        all
    };
    PagePolicy {
        script_origins: list(&[&js], scripts),
        connect_origins: list(&[&js, &api], &[]),
        frame_origins: list(&[&js, &api], frames),
        form_origins: page_origins(section),
    }
}

/// Leads to a page of the processor. Where it is at an origin that the policy does not name, such
/// as a domain of the operator's, browsers would refuse the redirect: then a link leads there.
pub(crate) fn lead_out(visitor: &ConsoleVisitor, url: &str) -> Response {
    if page_origins(&visitor.config().processor).contains(&origin(url)) {
        return Redirect::to(url).into_response();
    }
    let page = LeavePage { frame: visitor.shell(ConsoleSection::Billing), url: url.to_owned() };
    visitor.show(StatusCode::OK, &page)
}

#[derive(askama::Template)]
#[template(path = "console/billing/leave.html")]
struct LeavePage {
    frame: PageShell,
    url: String,
}

fn page_origins(section: &ProcessorSection) -> Vec<String> {
    if !section.is_configured() {
        return Vec::new();
    }
    if is_known(section) {
        return PAGES.iter().map(|&origin| origin.to_owned()).collect();
    }
    vec![origin(&section.base_url)]
}

fn is_known(section: &ProcessorSection) -> bool {
    origin(&section.js_url) == SCRIPT_HOST
}

/// Scheme, host and port of an address; empty if it has none.
fn origin(url: &str) -> String {
    let Ok(uri) = url.parse::<Uri>() else { return String::new() };
    match (uri.scheme_str(), uri.authority()) {
        (Some(scheme), Some(authority)) => {
            let host = authority.as_str().rsplit('@').next().unwrap_or_default();
            format!("{scheme}://{host}")
        }
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(js_url: &str, base_url: &str) -> ProcessorSection {
        let mut section = *settings::Config::from_toml("").unwrap().processor;
        (section.js_url, section.base_url) = (js_url.to_owned(), base_url.to_owned());
        section
    }

    #[test]
    fn the_known_processor_gets_the_origins_that_its_script_and_pages_need() {
        let section = section("https://js.stripe.com/v3/", "https://api.stripe.com");
        let policy = running_script(&section);

        assert_eq!(policy.script_origins, ["https://js.stripe.com", "https://*.js.stripe.com"]);
        assert_eq!(policy.connect_origins, ["https://js.stripe.com", "https://api.stripe.com"]);
        assert_eq!(
            policy.frame_origins,
            [
                "https://js.stripe.com",
                "https://api.stripe.com",
                "https://*.js.stripe.com",
                "https://hooks.stripe.com"
            ]
        );
        assert_eq!(policy.form_origins, PAGES);
        assert!(leading_out(&section).script_origins.is_empty());
    }

    #[test]
    fn another_processor_gets_its_own_origins_alone() {
        let here = "http://127.0.0.1:9000";
        let policy = running_script(&section("http://127.0.0.1:9000/processor/js", here));

        for origins in [policy.script_origins, policy.connect_origins, policy.frame_origins] {
            assert_eq!(origins, [here]);
        }
        assert_eq!(policy.form_origins, [here]);
        assert!(leading_out(&section("", "")).form_origins.is_empty());
    }

    #[test]
    fn origin_has_no_path_and_no_user() {
        assert_eq!(origin("https://me@example.com:8443/x?y"), "https://example.com:8443");
        assert_eq!(origin("nothing; script-src *"), "");
    }
}
