//! Messages to many fans.

use http::Method;
use serde_json::{Value, json};

use super::chat_lists;
use super::media;
use super::shapes::{Collection, body_uuids_if_any, future, id, price};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::time::{parse_ms, rfc3339};

const MASS_MESSAGES: &str = "mass-messages";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:chat"])
        .get("chats/mass-messages", mass_messages)
        .scopes(&["read:fan", "write:chat"])
        .post("chats/mass-messages", send)
        .scopes(&["write:chat"])
        .write(Method::PATCH, "chats/mass-messages/{messageUuid}", change)
        .write(Method::DELETE, "chats/mass-messages/{messageUuid}", delete)
}

fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    let series = call.world.mass_messages();
    Collection { table: MASS_MESSAGES, series, kind: Kind::MassMessage }
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let generated = if index < CREATED {
        let message = call.world.mass_message(index);
        json!({
            "text": message.text,
            "price": message.price_cents,
            "mediaUuids": [],
            "recipientsCount": message.sent,
            "viewsCount": message.viewed,
            "purchasesCount": message.buyers.count(),
            "sendsAt": rfc3339(message.sent_at_ms),
        })
    } else {
        json!({"viewsCount": 0, "purchasesCount": 0})
    };
    let mut shown = object(overlay.over(MASS_MESSAGES, index, generated));
    let sends_at = shown.get("sendsAt").and_then(Value::as_str).and_then(parse_ms);
    let waits = sends_at.is_some_and(|at_ms| at_ms > call.now_ms);
    shown.insert("status".to_owned(), json!(if waits { "scheduled" } else { "sent" }));
    shown.insert("uuid".to_owned(), json!(id(call, Kind::MassMessage, index)));
    Value::Object(shown)
}

fn mass_messages(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).page(call, overlay, |index| shown(call, overlay, index))
}

/// The media in the body, all of which must exist.
fn sent_media(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Vec<String>, Refusal> {
    let uuids = body_uuids_if_any(call, "mediaUuids")?;
    media::known(call, overlay, &uuids)?;
    Ok(uuids)
}

/// `text` or `mediaUuids`, `price` in cents, `includedLists` (uuids of lists; by default all
/// subscribers), `scheduledAt`.
fn send(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let media_uuids = sent_media(call, overlay)?;
    let text = call.field("text").as_str().unwrap_or_default();
    if text.trim().is_empty() && media_uuids.is_empty() {
        return Err(Refusal::bad_request("text or mediaUuids is required"));
    }
    let price = price(call)?;
    if price > 0 && media_uuids.is_empty() {
        return Err(Refusal::bad_request("Only messages with media can have a price"));
    }
    let lists = body_uuids_if_any(call, "includedLists")?;
    let mut recipients = 0;
    for uuid in &lists {
        recipients += chat_lists::members_count(call, overlay, uuid)?;
    }
    if lists.is_empty() {
        recipients = call.world.active_fans().count();
    }
    let fields = json!({
        "text": text,
        "mediaUuids": media_uuids,
        "price": price,
        "includedLists": lists,
        "recipientsCount": recipients.min(call.world.fans),
        "sendsAt": future(call, "scheduledAt")?.unwrap_or_else(|| rfc3339(call.now_ms)),
    });
    let index = overlay.create(MASS_MESSAGES, object(fields));
    Ok(Answer::created(shown(call, overlay, index)))
}

fn named(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    collection(call).find(call, overlay, call.param("messageUuid"), "Mass message")
}

/// Changes those of `text`, `price`, `mediaUuids` that are sent.
fn change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = named(call, overlay)?;
    let fields = call.fields(&["text", "price", "mediaUuids"]);
    price(call)?;
    sent_media(call, overlay)?;
    if fields.is_empty() || fields.get("text").is_some_and(|text| !text.is_string()) {
        return Err(Refusal::bad_request("text, price or mediaUuids is required"));
    }
    overlay.set(MASS_MESSAGES, index, fields);
    Ok(Answer::ok(shown(call, overlay, index)))
}

/// Removes the message from all its recipients.
fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = named(call, overlay)?;
    overlay.take(MASS_MESSAGES, index);
    Ok(Answer::empty())
}
