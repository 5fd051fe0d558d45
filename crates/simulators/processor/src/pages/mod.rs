//! The processor's pages: checkout, the bank's page for authentication, the portal, invoices and
//! receipts, and the script for the merchant's own pages.

mod authenticate;
mod checkout;
mod index;
mod invoices;
mod layout;
mod portal;

use bytes::Bytes;
use http::header::{ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL};
use http::{Method, StatusCode};
use simulator_kit::script::WireReply;

use super::ProcessorSimulator;
use super::form::FormParams;

const SCRIPT: &str = include_str!("stripe.js");
const FILLING: &str = include_str!("page.js");
const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

/// Responds to a request below `/processor/`; `path` is what follows.
pub(crate) fn answer(
    processor: &ProcessorSimulator,
    method: &Method,
    target: &str,
    body: &Bytes,
) -> WireReply {
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    let posted = *method == Method::POST;
    let form = FormParams::parse(if posted {
        std::str::from_utf8(body).unwrap_or_default()
    } else {
        query
    });
    match (posted, parts.as_slice()) {
        (false, [""]) => index::show(processor),
        (false, ["js"]) => script(SCRIPT.to_owned().replace("{{base}}", &processor.base())),
        (false, ["page.js"]) => script(FILLING.to_owned()),
        (false, ["checkout", id]) => checkout::show(processor, id, None),
        (true, ["checkout", id]) => checkout::pay(processor, id, &form),
        (false, ["authenticate", id]) => authenticate::show(processor, id, &form),
        (true, ["authenticate", id]) => authenticate::answer(processor, id, &form),
        (false, ["invoices", id]) => invoices::show(processor, id),
        (false, ["invoices", id, "pdf"]) => invoices::pdf(processor, id),
        (false, ["receipts", id]) => invoices::receipt(processor, id),
        (false, ["portal", secret]) => portal::show(processor, secret, None),
        (true, ["portal", secret]) => portal::act(processor, secret, &form),
        _ => layout::message(
            StatusCode::NOT_FOUND,
            "There is no such page",
            "The link may be too old.",
        ),
    }
}

fn script(text: String) -> WireReply {
    WireReply::new(StatusCode::OK)
        .header(ACCESS_CONTROL_ALLOW_ORIGIN, "*")
        .header(CACHE_CONTROL, "no-cache")
        .content(JAVASCRIPT, text)
}
