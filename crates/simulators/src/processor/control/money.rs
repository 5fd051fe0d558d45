//! Money that goes back, coupons, and what the operator sets.

use serde_json::{Value, json};

use super::super::books::Books;
use super::super::fields::{at, text};
use super::super::form::Params;
use super::super::problem::Problem;
use super::super::routes::{Call, Caller};
use super::super::{Processor, coupons, disputes, refunds, rules};
use super::customer::new_coupon;
use super::{Outcome, attempt};

/// The coupon that a request names, or a new one.
pub(super) fn coupon(books: &mut Books, body: &Value) -> Result<String, Problem> {
    if let Some(id) = at(body, "coupon").as_str() {
        return books.find("coupon", id, "coupon").map(|_| id.to_owned());
    }
    Ok(coupons::make(books, None, new_coupon(body)?))
}

/// The next checkout session gets a coupon.
pub(super) fn next_coupon(processor: &Processor, body: &Value) -> Outcome {
    attempt(processor, |books| {
        let coupon = coupon(books, body)?;
        rules::set_next_coupon(books, &coupon);
        Ok(json!({"coupon": coupon}))
    })
}

/// What the operator sets: tax, tries of unpaid invoices and more.
pub(super) fn rules(processor: &Processor, body: &Value) -> Outcome {
    attempt(processor, |books| {
        rules::apply(books, body)?;
        Ok(rules::shown(books))
    })
}

/// The charge that a `charge`, a `payment_intent` or an `invoice` names.
fn charge(books: &Books, body: &Value) -> Option<String> {
    let of_intent = |intent: &str| books.get(intent).map(|it| text(it, "latest_charge").to_owned());
    let of_invoice = |invoice: &str| {
        let payment =
            books.all("invoice_payment").rfind(|payment| text(payment, "invoice") == invoice)?;
        of_intent(text(payment, "payment.payment_intent"))
    };
    let given = |name: &str| at(body, name).as_str();
    let found = match (given("charge"), given("payment_intent"), given("invoice")) {
        (Some(charge), _, _) => Some(charge.to_owned()),
        (None, Some(intent), _) => of_intent(intent),
        (None, None, Some(invoice)) => of_invoice(invoice),
        (None, None, None) => None,
    };
    found.filter(|id| books.get(id).is_some_and(|it| text(it, "status") == "succeeded"))
}

fn no_charge() -> Problem {
    let message = "there is no charge that succeeded; name it by charge, payment_intent or invoice";
    Problem::param("charge", message)
}

/// Gives money of a charge back, as the merchant does: `amount` cents, or all that is left.
pub(super) fn refund(processor: &Processor, body: &Value) -> Outcome {
    attempt(processor, |books| {
        let charge = charge(books, body).ok_or_else(no_charge)?;
        let amount = at(body, "amount").as_i64().map(|cents| format!("&amount={cents}"));
        let params = Params::parse(&format!("charge={charge}{}", amount.unwrap_or_default()));
        let mut call = Call { books, params: &params, ids: Vec::new(), caller: Caller::Server };
        refunds::create(&mut call)
    })
}

/// Lets a refund arrive (`succeeded` true) or fail, for a `reason`.
pub(super) fn settle_refund(processor: &Processor, id: &str, body: &Value) -> Outcome {
    let succeeded = at(body, "succeeded")
        .as_bool()
        .ok_or_else(|| Problem::param("succeeded", "succeeded must be true or false"))?;
    let reason = if text(body, "reason").is_empty() { "declined" } else { text(body, "reason") };
    attempt(processor, |books| {
        let id = latest(books, "refund", id);
        refunds::settle(books, &id, if succeeded { Ok(()) } else { Err(reason) })
    })
}

/// Lets a bank take a charge back, for a `reason`.
pub(super) fn dispute(processor: &Processor, body: &Value) -> Outcome {
    let reason = if text(body, "reason").is_empty() { "fraudulent" } else { text(body, "reason") };
    attempt(processor, |books| {
        let charge = charge(books, body).ok_or_else(no_charge)?;
        let id = disputes::open(books, &charge, reason).ok_or_else(no_charge)?;
        books.find("dispute", &id, "id").cloned()
    })
}

/// Lets the bank decide a dispute: `won`.
pub(super) fn close_dispute(processor: &Processor, id: &str, body: &Value) -> Outcome {
    let won = at(body, "won")
        .as_bool()
        .ok_or_else(|| Problem::param("won", "won must be true or false"))?;
    attempt(processor, |books| {
        let id = latest(books, "dispute", id);
        disputes::decide(books, &id, won)
    })
}

/// The object of this kind with this id, or the latest one of the charge, intent or invoice with this id.
fn latest(books: &Books, kind: &str, id: &str) -> String {
    if books.get(id).is_some_and(|object| text(object, "object") == kind) {
        return id.to_owned();
    }
    let names = ["charge", "payment_intent", "invoice"];
    let charges: Vec<String> =
        names.into_iter().filter_map(|name| charge(books, &json!({name: id}))).collect();
    let of_charge = books.all(kind).rfind(|it| charges.iter().any(|one| one == text(it, "charge")));
    of_charge.map_or_else(|| id.to_owned(), |object| text(object, "id").to_owned())
}
