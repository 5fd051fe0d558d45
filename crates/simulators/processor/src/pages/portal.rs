//! The portal's page: cards and subscriptions of the customer who was sent here.

use http::StatusCode;
use serde_json::Value;
use simulator_kit::calendar;
use simulator_kit::script::WireReply;

use super::layout::{
    alert, card_fields, escaped, expiry, go_to, message, money, page, whole as whole_page,
};
use crate::ProcessorSimulator;
use crate::cards::CARDS;
use crate::fields::{flag, list, text, whole};
use crate::form::FormParams;
use crate::object_store::ObjectStore;
use crate::portal::{self, PortalAction};
use crate::{payment_methods, subscriptions};

/// Renders the page, with an error if there is one.
pub(super) fn show(
    processor: &ProcessorSimulator,
    secret: &str,
    refusal: Option<&str>,
) -> WireReply {
    let content = processor.with_store(|store| {
        let session = portal::session(store, secret)?.clone();
        Some(content(store, &session, refusal))
    });
    let Some(content) = content else {
        return message(
            StatusCode::GONE,
            "This link has expired",
            "Go back to where you came from and open it again.",
        );
    };
    let status = if refusal.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    page(status, whole_page("Your billing", &content), false)
}

fn content(store: &ObjectStore, session: &Value, refusal: Option<&str>) -> String {
    let customer_id = text(session, "customer");
    let customer = store.get(customer_id).cloned().unwrap_or_default();
    let back = text(session, "return_url");
    let back = if back.is_empty() {
        String::new()
    } else {
        format!("<p><a id=\"return\" href=\"{}\">Return</a></p>", escaped(back))
    };
    let subscriptions: String = subscriptions::live_of(store, customer_id)
        .iter()
        .filter_map(|id| store.get(id))
        .map(|it| subscription(store, it))
        .collect();
    let subscriptions = if subscriptions.is_empty() {
        "<p class=\"soft\">There is no subscription.</p>".to_owned()
    } else {
        subscriptions
    };
    let main_card = text(&customer, "invoice_settings.default_payment_method");
    let cards: String = payment_methods::of_customer(store, customer_id)
        .iter()
        .filter_map(|id| store.get(id))
        .map(|method| card(method, main_card))
        .collect();
    let known: Vec<(&str, &str)> = CARDS
        .iter()
        .filter(|card| card.brand != "bank")
        .map(|card| (card.number, card.says))
        .collect();
    format!(
        "<section class=\"card\"><h1>Your billing</h1><p class=\"soft\">{email}</p>{back}{alert}</section>\
         <section class=\"card\"><h2>Subscription</h2>{subscriptions}</section>\
         <section class=\"card\"><h2>Cards</h2>{cards}<form method=\"post\"><h2>Add a card</h2>{fields}\
         <button class=\"main\" id=\"add-card\" name=\"do\" value=\"add\">Save card and pay with it from now on</button></form></section>",
        email = escaped(text(&customer, "email")),
        alert = alert(refusal),
        fields = card_fields(&known),
    )
}

fn subscription(store: &ObjectStore, subscription: &Value) -> String {
    let id = text(subscription, "id");
    let currency = text(subscription, "currency");
    let rows: Vec<String> = list(subscription, "items.data")
        .iter()
        .filter(|item| whole(item, "quantity") > 0)
        .map(|item| {
            let name =
                store.get(text(item, "price.product")).map_or("", |product| text(product, "name"));
            let amount = whole(item, "price.unit_amount").saturating_mul(whole(item, "quantity"));
            format!(
                "<tr><td>{} × {}</td><td>{} / {}</td></tr>",
                whole(item, "quantity"),
                escaped(name),
                money(amount, currency),
                escaped(text(item, "price.recurring.interval"))
            )
        })
        .collect();
    let rows = rows.concat();
    let end = calendar::shown(whole(subscription, "items.data.0.current_period_end"));
    let ends = flag(subscription, "cancel_at_period_end");
    let (note, button) = if ends {
        (format!("It ends on {end}."), form("resume", id, "Keep it", "resume"))
    } else {
        (
            format!("It renews on {end}."),
            form("cancel", id, "Cancel it at the end of the period", "cancel"),
        )
    };
    format!(
        "<p><span class=\"badge good\">{}</span></p><table><tbody>{rows}</tbody></table><p class=\"soft\">{note}</p>\
         <div class=\"actions\">{button}{}</div>",
        escaped(text(subscription, "status")),
        plans(store, subscription),
    )
}

/// Buttons for other plans. A subscription with several items has none: the merchant manages its
/// quantities and plans.
fn plans(store: &ObjectStore, subscription: &Value) -> String {
    let button = |price: &Value| {
        let name = store.get(text(price, "product")).map_or("", |product| text(product, "name"));
        let says = format!(
            "Change to {name} for {}",
            money(whole(price, "unit_amount"), text(price, "currency"))
        );
        format!(
            "<form method=\"post\"><input type=\"hidden\" name=\"price\" value=\"{}\"><input type=\"hidden\" name=\"id\" value=\"{}\">\
             <button name=\"do\" value=\"plan\">{}</button></form>",
            escaped(text(price, "id")),
            escaped(text(subscription, "id")),
            escaped(&says)
        )
    };
    portal::plans(store, subscription).iter().map(button).collect()
}

fn form(action: &str, id: &str, says: &str, name: &str) -> String {
    // Buttons that end something look different from those that keep it.
    let class = if action == "cancel" { " class=\"bad\"" } else { "" };
    format!(
        "<form method=\"post\"><input type=\"hidden\" name=\"id\" value=\"{}\">\
         <button id=\"{name}\"{class} name=\"do\" value=\"{action}\">{}</button></form>",
        escaped(id),
        escaped(says)
    )
}

fn card(method: &Value, main_card: &str) -> String {
    let id = text(method, "id");
    let badge = if id == main_card { "<span class=\"badge good\">pays</span>" } else { "" };
    let form = |action: &str, says: &str| {
        format!(
            "<form method=\"post\"><input type=\"hidden\" name=\"id\" value=\"{}\"><button name=\"do\" value=\"{action}\">{says}</button></form>",
            escaped(id)
        )
    };
    let use_it = if id == main_card { String::new() } else { form("use", "Pay with it") };
    format!(
        "<div class=\"row\"><span>{} •••• {} <span class=\"soft\">{:02}/{}</span> {badge}</span><span class=\"actions\">{use_it}{}</span></div>",
        escaped(text(method, "card.brand")),
        escaped(text(method, "card.last4")),
        whole(method, "card.exp_month"),
        whole(method, "card.exp_year"),
        form("remove", "Remove"),
    )
}

/// Handles one of its buttons.
pub(super) fn act(processor: &ProcessorSimulator, secret: &str, form: &FormParams) -> WireReply {
    let given = |name: &str| form.text(name).unwrap_or_default();
    let (month, year) = expiry(given("expires"));
    let id = given("id");
    let action = match given("do") {
        "add" => PortalAction::AddCard { number: given("number"), month, year },
        "use" => PortalAction::UseCard(id),
        "remove" => PortalAction::RemoveCard(id),
        "cancel" => PortalAction::Cancel(id),
        "resume" => PortalAction::Resume(id),
        "plan" => PortalAction::ChangePlan { subscription: id, price: given("price") },
        _ => return show(processor, secret, Some("Nothing was chosen.")),
    };
    let done = processor.with_store(|store| {
        let customer =
            portal::session(store, secret).map(|session| text(session, "customer").to_owned())?;
        let mark = store.mark();
        let done = portal::act(store, &customer, &action);
        if done.is_err() {
            store.undo_to(mark);
        }
        Some(done)
    });
    match done {
        Some(Ok(())) | None => go_to(&format!("/processor/portal/{secret}")),
        Some(Err(problem)) => show(processor, secret, Some(&problem.message)),
    }
}
