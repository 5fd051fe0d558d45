//! The messages of a chat.

use http::Method;
use serde_json::{Value, json};

use super::chats::{CHATS, UNREAD, chat_param};
use super::file_stacks::FILE_STACKS;
use super::shapes::{CURRENCY, id, index_of, own, rows};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::talk::{fan_and_place, message_index};
use crate::world::time::rfc3339;

const MESSAGES: &str = "user/{id}/chat/{chat_id}/message";

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get(MESSAGES, messages).post(MESSAGES, send).write(
        Method::PUT,
        "user/{id}/chat/{chat_id}/message/{message_id}",
        edit,
    )
}

/// The table of the messages of a chat: generated ones by position, sent ones by number.
pub(super) fn chat_table(fan: u64) -> String {
    format!("messages/{fan}")
}

/// The generated messages of the chat with this fan.
pub(super) fn generated_messages(call: &PlatformCall<'_>, fan: u64) -> Series {
    match call.world.chats().place_of(fan) {
        Some(_) => call.world.messages(fan),
        None => Series::all(0),
    }
}

/// The newest message of a chat; null if there is none.
pub(super) fn last_message(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let page = overlay.page(&chat_table(fan), generated_messages(call, fan), 0, 1);
    page.indexes.first().map_or(Value::Null, |row| message_json(call, overlay, fan, *row))
}

fn messages(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    rows(call, overlay, &chat_table(fan), generated_messages(call, fan), |row| {
        message_json(call, overlay, fan, row)
    })
}

fn message_json(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64, row: u64) -> Value {
    let creator_id = id(call, Kind::Creator, 0);
    let (index, base) = if row > CREATED {
        (row, json!({"user_id": creator_id}))
    } else {
        let message = call.world.message(fan, row);
        let sender = if message.from_fan { id(call, Kind::Fan, fan) } else { creator_id };
        let stack = message
            .media
            .map(|media| id(call, Kind::Post, call.world.post_before(message.sent_at_ms, media)));
        let base = json!({
            "user_id": sender,
            "message": message.text,
            "message_price": message.price_cents,
            "currency": CURRENCY,
            "is_paid": message.paid,
            "file_stack_id": stack,
            "tip_amount": message.tip_cents,
            "created_at": rfc3339(message.sent_at_ms),
            "updated_at": rfc3339(message.sent_at_ms),
        });
        (message_index(fan, row), base)
    };
    let mut shown = object(overlay.over(&chat_table(fan), row, base));
    shown.insert("_id".to_owned(), json!(id(call, Kind::Message, index)));
    shown.insert("chat_id".to_owned(), json!(id(call, Kind::Chat, fan)));
    Value::Object(shown)
}

/// Checks `message`, `file_stack_id` and `message_price`, and returns the fields to keep. Mass
/// messages have the same body.
pub(super) fn checked_body(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Value, Refusal> {
    check_fields(call, overlay)?;
    let text = call.field("message").as_str().unwrap_or_default();
    let stack = call.field("file_stack_id").as_str();
    if text.trim().is_empty() && stack.is_none() {
        return Err(Refusal::bad_request("message or file_stack_id is required"));
    }
    Ok(json!({
        "message": text,
        "file_stack_id": stack,
        "message_price": price_of(call),
        "currency": CURRENCY,
        "created_at": rfc3339(call.now_ms),
        "updated_at": rfc3339(call.now_ms),
    }))
}

/// The sent price, or 0.
fn price_of(call: &PlatformCall<'_>) -> Value {
    let price = call.field("message_price");
    if price.is_number() { price.clone() } else { json!(0) }
}

/// 400 unless each of `message`, `file_stack_id` and `message_price` is absent or valid.
pub(super) fn check_fields(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<(), Refusal> {
    let text = call.field("message");
    if !text.is_null() && !text.is_string() {
        return Err(Refusal::bad_request("message is text"));
    }
    let stack = call.field("file_stack_id");
    let known = |id: &str| {
        index_of(call, Kind::Post, id)
            .is_some_and(|index| overlay.holds(FILE_STACKS, call.world.posts(), index))
    };
    if !stack.is_null() && !stack.as_str().is_some_and(known) {
        return Err(Refusal::bad_request("file_stack_id is not known"));
    }
    let price = call.field("message_price");
    if !price.is_null() && price.as_f64().is_none_or(|price| price < 0.0) {
        return Err(Refusal::bad_request("message_price is a number of minor units"));
    }
    Ok(())
}

/// Sending to a chat marks it as read. A deleted chat comes back with the message.
fn send(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    own(call)?;
    let fan = index_of(call, Kind::Chat, call.param("chat_id"))
        .filter(|fan| *fan < call.world.fans)
        .ok_or_else(|| Refusal::not_found("Chat"))?;
    let mut fields = object(checked_body(call, overlay)?);
    fields.insert("local_id".to_owned(), call.field("local_id").clone());
    fields.insert("is_paid".to_owned(), json!(false));
    fields.insert("tip_amount".to_owned(), json!(0));
    let row = overlay.create(&chat_table(fan), fields);
    overlay.put(CHATS, fan);
    overlay.take(UNREAD, fan);
    Ok(Answer::created(message_json(call, overlay, fan, row)))
}

/// Only the creator's own messages can be edited.
fn edit(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    let text = call.text("text")?.to_owned();
    let row = index_of(call, Kind::Message, call.param("message_id")).and_then(|index| {
        if index > CREATED {
            return Some(index);
        }
        let (of, place) = fan_and_place(index);
        (of == fan).then_some(place)
    });
    let row = row
        .filter(|row| overlay.holds(&chat_table(fan), generated_messages(call, fan), *row))
        .ok_or_else(|| Refusal::not_found("Message"))?;
    if row < CREATED && call.world.message(fan, row).from_fan {
        return Err(Refusal::forbidden("This is not your message"));
    }
    let fields = json!({"message": text, "updated_at": rfc3339(call.now_ms)});
    overlay.set(&chat_table(fan), row, object(fields));
    Ok(Answer::ok(message_json(call, overlay, fan, row)))
}
