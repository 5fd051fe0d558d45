//! The layout of all pages, and their responses.

use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, LOCATION, REFERRER_POLICY};
use simulator_kit::script::WireReply;

const STYLE: &str = include_str!("page.css");

/// A whole page around its content, which is HTML.
pub(super) fn whole(title: &str, content: &str) -> String {
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><meta name=\"robots\" content=\"noindex\">\
         <style>{STYLE}</style></head><body><p class=\"test\">Simulated processor: no money moves. Never enter a real card here.</p>\
         <main>{content}</main><script src=\"/processor/page.js\"></script></body></html>",
        title = escaped(title),
    )
}

/// A page; only pages with `framed` may be shown inside others.
pub(super) fn page(status: StatusCode, html: String, framed: bool) -> WireReply {
    let policy = if framed {
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; base-uri 'none'"
    } else {
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; base-uri 'none'; frame-ancestors 'none'"
    };
    WireReply::new(status)
        .header(CONTENT_SECURITY_POLICY, policy)
        .header(CACHE_CONTROL, "no-store")
        .header(REFERRER_POLICY, "no-referrer")
        .content("text/html; charset=utf-8", html)
}

/// Redirects the browser.
pub(super) fn go_to(url: &str) -> WireReply {
    WireReply::new(StatusCode::SEE_OTHER).header(LOCATION, url).header(CACHE_CONTROL, "no-store")
}

/// A page with only a message.
pub(super) fn message(status: StatusCode, title: &str, text: &str) -> WireReply {
    let content = format!(
        "<section class=\"card\"><h1>{}</h1><p>{}</p></section>",
        escaped(title),
        escaped(text)
    );
    page(status, whole(title, &content), false)
}

/// Cents in a readable form.
pub(super) fn money(cents: i64, currency: &str) -> String {
    let sign = if cents < 0 { "−" } else { "" };
    let mark = match currency {
        "eur" => "€",
        "gbp" => "£",
        _ => "$",
    };
    let cents = cents.unsigned_abs();
    format!("{sign}{mark}{}.{:02}", cents / 100, cents % 100)
}

/// Escapes text for HTML and its attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => written.push_str("&amp;"),
            '<' => written.push_str("&lt;"),
            '>' => written.push_str("&gt;"),
            '"' => written.push_str("&quot;"),
            '\'' => written.push_str("&#39;"),
            other => written.push(other),
        }
    }
    written
}

/// The fields for a card, and buttons that fill them in.
pub(super) fn card_fields(cards: &[(&str, &str)]) -> String {
    let buttons: Vec<String> = cards
        .iter()
        .map(|(number, says)| {
            format!("<button type=\"button\" class=\"fill\" data-number=\"{number}\"><span>{}</span><code>{}</code></button>", escaped(says), grouped(number))
        })
        .collect();
    let buttons = buttons.concat();
    format!(
        "<div class=\"fields\"><label>Card number<input name=\"number\" inputmode=\"numeric\" autocomplete=\"off\" required \
         placeholder=\"4242 4242 4242 4242\"></label><div class=\"pair\"><label>Expires<input name=\"expires\" inputmode=\"numeric\" \
         autocomplete=\"off\" required placeholder=\"MM / YY\" pattern=\"\\s*\\d{{1,2}}\\s*/\\s*\\d{{2,4}}\\s*\"></label>\
         <label>Code<input name=\"cvc\" inputmode=\"numeric\" autocomplete=\"off\" required placeholder=\"123\"></label></div></div>\
         <details class=\"cards\"><summary>Test cards</summary><div class=\"grid\">{buttons}</div></details>"
    )
}

fn grouped(number: &str) -> String {
    let mut written = String::new();
    for (place, digit) in number.chars().enumerate() {
        if place > 0 && place % 4 == 0 {
            written.push(' ');
        }
        written.push(digit);
    }
    written
}

/// The month and the year of `12 / 34`.
pub(super) fn expiry(text: &str) -> (i64, i64) {
    let (month, year) = text.split_once('/').unwrap_or((text, ""));
    (month.trim().parse().unwrap_or(0), year.trim().parse().unwrap_or(0))
}

/// An error above a form.
pub(super) fn alert(text: Option<&str>) -> String {
    text.map_or_else(String::new, |text| {
        format!("<p class=\"alert\" role=\"alert\">{}</p>", escaped(text))
    })
}
