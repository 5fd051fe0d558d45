//! Chats: the list, unread messages, pins, prices, deletion.

use http::Method;
use serde_json::{Map, Value, json};

use super::messages::{chat_table, generated_messages, last_message};
use super::shapes::{
    CURRENCY, fan_of, id, index_of, own, rows, rows_with_limit, user_ref, without_empty_list,
};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::content::template;
use crate::world::ids::Kind;
use crate::world::time::rfc3339;

/// The chats by fan, with the newest message first.
pub(super) const CHATS: &str = "chats";
/// The chats with messages that the creator has not read.
pub(super) const UNREAD: &str = "unread";
const CONFIGURATION: &str = "chat-configuration";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("user/{id}/chatsByList", chats)
        .get("user/{id}/chat/unread-messages", unread_messages)
        .get("user/{id}/chat/configuration", configuration)
        .post("user/{id}/chat/configuration", configure)
        .get("user/{id}/chat/configured_message", templates)
        .get("user/{id}/chat/{chat_id}", chat)
        .post("user/{id}/chat/{chat_id}/pin", pin)
        .post("user/{id}/chat/{chat_id}/mark-as-unread", mark_as_unread)
        .write(
            Method::PUT,
            "user/{id}/chat/{chat_id}/delete-all-chat-messages-for-user",
            delete_messages,
        )
        .write(Method::PUT, "user/{id}/chat/{chat_id}/delete-chat-for-user-by-user-id", delete_chat)
}

fn chats(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows_with_limit(call, overlay, CHATS, call.world.chats(), |fan| chat_json(call, overlay, fan))
        .map(without_empty_list)
}

fn chat_json(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let chat_id = id(call, Kind::Chat, fan);
    let last = last_message(call, overlay, fan);
    let began_at = json!(rfc3339(began_at_ms(call, fan)));
    let changed_at = last.get("created_at").unwrap_or(&began_at).clone();
    let generated = json!({
        "_id": chat_id,
        "user": user_ref(call, fan),
        "participants": [id(call, Kind::Creator, 0), id(call, Kind::Fan, fan)],
        "is_pinned": false,
        "is_muted": call.world.muted_fans().place_of(fan).is_some(),
        "unread_count": unread_count(call, overlay, fan),
        "message_count": overlay.count(&chat_table(fan), generated_messages(call, fan)),
        "created_at": began_at,
        "updated_at": changed_at,
        "last_message": last,
    });
    overlay.over(CHATS, fan, generated)
}

/// The time of the first message; a chat that did not exist before starts with the subscription.
fn began_at_ms(call: &PlatformCall<'_>, fan: u64) -> i64 {
    match generated_messages(call, fan).count().checked_sub(1) {
        Some(oldest) => call.world.message(fan, oldest).sent_at_ms,
        None => call.world.fan(fan).subscribed_at_ms,
    }
}

/// The fan of the chat in the path; 404 if there is no such chat.
pub(super) fn chat_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    own(call)?;
    let fan = index_of(call, Kind::Chat, call.param("chat_id"));
    fan.filter(|fan| overlay.holds(CHATS, call.world.chats(), *fan))
        .ok_or_else(|| Refusal::not_found("Chat"))
}

fn unread_count(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> u64 {
    if !overlay.holds(UNREAD, call.world.unread_chats(), fan) {
        return 0;
    }
    let said = overlay.field(UNREAD, fan, "count").and_then(Value::as_u64);
    said.unwrap_or_else(|| call.world.chat(fan).unread)
}

/// An object by chat id.
fn unread_messages(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    let unread = overlay.page(UNREAD, call.world.unread_chats(), 0, u64::MAX).indexes;
    let there = unread.into_iter().filter(|fan| overlay.holds(CHATS, call.world.chats(), *fan));
    let counts: Map<String, Value> = there
        .map(|fan| (id(call, Kind::Chat, fan), json!(unread_count(call, overlay, fan))))
        .collect();
    Ok(Answer::ok(Value::Object(counts)))
}

fn configuration(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    Ok(Answer::ok(configuration_json(overlay)))
}

fn configuration_json(overlay: &Overlay) -> Value {
    let generated = json!({"unlock_price": 500, "message_price": 0, "currency": CURRENCY});
    overlay.over(CONFIGURATION, 0, generated)
}

/// Sets prices; those not sent are unchanged.
fn configure(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    own(call)?;
    let fields = call.fields(&["unlock_price", "message_price"]);
    if fields.values().any(|price| price.as_f64().is_none_or(|price| price < 0.0)) {
        return Err(Refusal::bad_request("A price is a number of minor units"));
    }
    overlay.set(CONFIGURATION, 0, fields);
    Ok(Answer::ok(configuration_json(overlay)))
}

fn templates(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows(call, overlay, "templates", call.world.templates(), |index| {
        json!({
            "_id": id(call, Kind::Template, index),
            "message": template(index),
            "trigger": if index == 0 { "subscribed" } else { "manual" },
            "is_active": true,
        })
    })
}

fn chat(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    Ok(Answer::ok(chat_json(call, overlay, fan)))
}

fn pin(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    let pinned = call.field("is_pinned").as_bool();
    let pinned = pinned.ok_or_else(|| Refusal::bad_request("is_pinned is required"))?;
    overlay.set(CHATS, fan, object(json!({"is_pinned": pinned})));
    Ok(Answer::ok(chat_json(call, overlay, fan)))
}

/// 409 if the chat already has unread messages.
fn mark_as_unread(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    if unread_count(call, overlay, fan) > 0 {
        return Err(Refusal::conflict("The chat has unread messages"));
    }
    overlay.set(UNREAD, fan, object(json!({"count": 1})));
    overlay.put(UNREAD, fan);
    Ok(Answer::ok(chat_json(call, overlay, fan)))
}

fn take_messages(call: &PlatformCall<'_>, overlay: &mut Overlay, fan: u64) {
    let table = chat_table(fan);
    for row in overlay.page(&table, generated_messages(call, fan), 0, u64::MAX).indexes {
        overlay.take(&table, row);
    }
    overlay.take(UNREAD, fan);
}

fn delete_messages(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    take_messages(call, overlay, fan);
    Ok(Answer::ok(chat_json(call, overlay, fan)))
}

/// The chat may be named by its own id or by its fan's. It comes back with the next message.
fn delete_chat(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    own(call)?;
    let by_fan = fan_of(call, call.param("chat_id"))
        .filter(|fan| overlay.holds(CHATS, call.world.chats(), *fan));
    let fan = by_fan.map_or_else(|| chat_param(call, overlay), Ok)?;
    take_messages(call, overlay, fan);
    overlay.take(CHATS, fan);
    Ok(Answer::ok(json!({"_id": id(call, Kind::Chat, fan), "deleted": true})))
}
