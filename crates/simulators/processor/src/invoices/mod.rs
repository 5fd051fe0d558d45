//! Invoices: the price of a subscription, its collection, and its outcome.

mod collect;
mod credited;
mod draft;
mod lines;
mod make;
mod of_session;
mod preview;

use serde_json::Value;

pub(super) use collect::{CollectionOutcome, collect, paid_by, prepare};
pub(super) use credited::{credit, settle_credited};
pub(super) use draft::{
    ITEM_PARAMS, PARAMS as DRAFT_PARAMS, UPDATE_PARAMS, create, create_item, delete, delete_item,
    finalize, mark_uncollectible, retrieve_item, send, update,
};
pub(super) use lines::{InvoiceLine, add_pending, lines_of, pending_of};
pub(super) use make::{InvoiceDraft, make};
pub(super) use of_session::of_session;
pub(super) use preview::{PARAMS as PREVIEW_PARAMS, preview};

use super::api_call::ApiCall;
use super::balance::{self, BalanceMovement};
use super::charges::ChargeMode;
use super::fields::{list as items, set, text, whole};
use super::object_store::ObjectStore;
use super::problem::ApiError;
use super::{events, lists, payment_methods};

pub(super) fn retrieve(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    found(call, &id).cloned()
}

fn found<'a>(call: &'a ApiCall<'_>, id: &str) -> Result<&'a Value, ApiError> {
    call.store.find("invoice", id, "invoice").map_err(|problem| problem.status(404))
}

pub(super) fn list(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let wanted = [
        ("customer", params.text("customer")),
        ("status", params.text("status")),
        ("collection_method", params.text("collection_method")),
        ("parent.subscription_details.subscription", params.text("subscription")),
    ];
    lists::page(call, "invoice", "/v1/invoices", |invoice| {
        wanted.iter().all(|(path, value)| value.is_none_or(|value| text(invoice, path) == value))
    })
}

pub(super) fn list_lines(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let invoice = found(call, &id)?.clone();
    let all: Vec<&Value> = items(&invoice, "lines.data").iter().collect();
    lists::of(call, &all, &format!("/v1/invoices/{id}/lines"))
}

pub(super) fn pay(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let invoice = found(call, &id)?.clone();
    match text(&invoice, "status") {
        "open" => {}
        "draft" => make::finalize(call.store, &id),
        "paid" => {
            return Err(ApiError::invalid("Invoice is already paid").code("invoice_already_paid"));
        }
        status => {
            let message =
                format!("You can only pay an open invoice. This invoice has a status of {status}.");
            return Err(ApiError::invalid(message).code("invoice_not_editable"));
        }
    }
    if let Some(given) = call.params.text("payment_method") {
        let method = payment_methods::named(call.store, given, "payment_method")?;
        call.store.change(&id, |invoice| set(invoice, "_.method", method));
    }
    let how = ChargeMode {
        off_session: call.params.flag("off_session")?.unwrap_or(true),
        authenticated: false,
    };
    match collect(call.store, &id, how) {
        CollectionOutcome::Paid => call.store.find("invoice", &id, "invoice").cloned(),
        CollectionOutcome::WantsAction => {
            let message = "This invoice's payment requires additional user action before it can be completed successfully.";
            Err(ApiError::card("invoice_payment_intent_requires_action", None, message))
        }
        CollectionOutcome::Failed(problem) => Err(*problem),
    }
}

pub(super) fn void(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let id = call.id(0);
    let status = text(found(call, &id)?, "status").to_owned();
    if !matches!(status.as_str(), "open" | "uncollectible") {
        let message = format!(
            "You can only pass in open or uncollectible invoices. This invoice isn't open: it is {status}."
        );
        return Err(ApiError::invalid(message).code("invoice_not_editable"));
    }
    give_up(call.store, &id);
    call.store.find("invoice", &id, "invoice").cloned()
}

/// An open invoice will not be paid. The part that the customer's balance had paid is credited
/// again; credits on its lines are not.
fn give_up(store: &mut ObjectStore, id: &str) {
    let Some(before) = store.get(id).cloned() else { return };
    let now = store.now;
    store.change(id, |invoice| {
        set(invoice, "status", "void");
        set(invoice, "amount_remaining", 0);
        set(invoice, "status_transitions.voided_at", now);
        set(invoice, "next_payment_attempt", Value::Null);
        set(invoice, "_.due", Value::Null);
    });
    collect::abandon(store, id);
    let taken = whole(&before, "starting_balance") - whole(&before, "ending_balance");
    let movement = BalanceMovement::of_invoice(&before, "unapplied_from_invoice", taken);
    let _id = balance::move_by(store, text(&before, "customer"), &movement);
    events::emit(store, "invoice.voided", id);
    super::subscriptions::invoice_voided(store, id);
}

pub(super) fn payments(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let wanted =
        ["invoice", "status", "payment.payment_intent"].map(|path| (path, params.text(path)));
    lists::page(call, "invoice_payment", "/v1/invoice_payments", |payment| {
        wanted.iter().all(|(path, value)| value.is_none_or(|value| text(payment, path) == value))
    })
}

pub(super) fn list_items(call: &mut ApiCall<'_>) -> Result<Value, ApiError> {
    let params = call.params;
    let (customer, invoice) = (params.text("customer"), params.text("invoice"));
    let pending = params.flag("pending")?;
    lists::page(call, "invoiceitem", "/v1/invoiceitems", |item| {
        customer.is_none_or(|customer| text(item, "customer") == customer)
            && invoice.is_none_or(|invoice| text(item, "invoice") == invoice)
            && pending.is_none_or(|pending| text(item, "invoice").is_empty() == pending)
    })
}
