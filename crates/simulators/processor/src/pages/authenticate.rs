//! The bank's page, on which a card's owner authenticates.

use http::StatusCode;
use simulator_kit::script::WireReply;

use super::layout::{escaped, go_to, message, money, page, whole as whole_page};
use crate::ProcessorSimulator;
use crate::checkout;
use crate::fields::{text, whole};
use crate::form::FormParams;

/// The thing that requires authentication.
struct PendingPayment {
    /// Cents and currency; `None` if a card is only saved.
    amount: Option<(i64, String)>,
    /// Where the customer goes next: the session's page, or the merchant's.
    session: Option<String>,
    return_url: Option<String>,
}

fn find(processor: &ProcessorSimulator, id: &str) -> Option<PendingPayment> {
    processor.with_store(|store| {
        let found = store.get(id)?;
        match text(found, "object") {
            "payment_intent" => {
                let session = text(found, "_.session").to_owned();
                let url = text(found, "_.return_url").to_owned();
                let currency = text(found, "currency").to_owned();
                let wanted = |text: String| {
                    Some(text).filter(|text| !text.is_empty() && !text.starts_with("session:"))
                };
                Some(PendingPayment {
                    amount: Some((whole(found, "amount"), currency)),
                    session: wanted(session),
                    return_url: wanted(url),
                })
            }
            "checkout.session" => Some(PendingPayment {
                amount: None,
                session: Some(id.to_owned()),
                return_url: None,
            }),
            _ => None,
        }
    })
}

/// Renders the page.
pub(super) fn show(processor: &ProcessorSimulator, id: &str, query: &FormParams) -> WireReply {
    let Some(payment) = find(processor, id) else {
        return message(
            StatusCode::NOT_FOUND,
            "There is nothing to authenticate",
            "The link may be too old.",
        );
    };
    let what = match &payment.amount {
        Some((cents, currency)) => {
            format!("a payment of <strong>{}</strong>", money(*cents, currency))
        }
        None => "the use of this card".to_owned(),
    };
    let embedded = if query.has("embedded") {
        "<input type=\"hidden\" name=\"embedded\" value=\"1\">"
    } else {
        ""
    };
    let content = format!(
        "<section class=\"card narrow\"><h1>Your bank asks</h1><p>Do you confirm {what}? A real bank would ask for a code \
         or in its app.</p><form method=\"post\">{embedded}<button class=\"main\" id=\"complete\" name=\"outcome\" value=\"complete\">\
         Complete authentication</button><p><button class=\"bad\" id=\"fail\" name=\"outcome\" value=\"fail\">Fail authentication</button></p>\
         </form></section>"
    );
    page(StatusCode::OK, whole_page("Card authentication", &content), true)
}

/// Handles one of its buttons.
pub(super) fn answer(processor: &ProcessorSimulator, id: &str, form: &FormParams) -> WireReply {
    let Some(payment) = find(processor, id) else {
        return message(
            StatusCode::NOT_FOUND,
            "There is nothing to authenticate",
            "The link may be too old.",
        );
    };
    let proven = form.text("outcome") == Some("complete");
    let done = processor.with_store(|store| checkout::authenticated(store, id, proven));
    if let Some(session) = &payment.session {
        return match done {
            Ok(()) => go_to(&format!("/processor/checkout/{session}")),
            Err(problem) => super::checkout::show(processor, session, Some(&problem.message)),
        };
    }
    match payment.return_url.filter(|_| !form.has("embedded")) {
        Some(url) => go_to(&with_intent(processor, &url, id)),
        None => over(id, done.is_ok()),
    }
}

/// The merchant's URL with the parameters of the payment.
fn with_intent(processor: &ProcessorSimulator, url: &str, id: &str) -> String {
    let secret = processor
        .with_store(|store| store.get(id).map(|intent| text(intent, "client_secret").to_owned()));
    let mark = if url.contains('?') { '&' } else { '?' };
    format!(
        "{url}{mark}payment_intent={id}&payment_intent_client_secret={}",
        secret.unwrap_or_default()
    )
}

fn over(id: &str, is_proven: bool) -> WireReply {
    let (title, text) = if is_proven {
        ("Authenticated", "You can close this page.")
    } else {
        ("Not authenticated", "The payment was not made. You can close this page.")
    };
    let content = format!(
        "<section class=\"card narrow\" data-done=\"{}\"><h1>{title}</h1><p>{text}</p></section>",
        escaped(id)
    );
    page(StatusCode::OK, whole_page(title, &content), true)
}
