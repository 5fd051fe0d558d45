//! The messages of a chat, newest first, with a cursor that stays valid while new ones arrive.

use http::Method;
use serde_json::{Value, json};

use super::chats::{CHATS, chat_param};
use super::media;
use super::shapes::{
    bad_cursor, body_fans, body_uuids_if_any, cursor, cursor_size, fan_param, id, index_of, own_id,
    price, with_cursor,
};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::talk::{fan_and_place, message_index};
use crate::world::time::rfc3339;

const TEXT_BYTES_MAX: usize = 10_000;
/// The most messages of each chat in a batch.
const BATCH_MESSAGES_MAX: u64 = 20;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:chat"])
        .get("chats/{userUuid}/messages", messages)
        .get("chats/{userUuid}/media", chat_media)
        .read(Method::POST, "chats/messages/batch", batch)
        .scopes(&["write:chat"])
        .post("chats/{userUuid}/message", send)
}

/// The table of a chat's messages: generated ones by position, sent ones by number.
pub(super) fn table(fan: u64) -> String {
    format!("messages/{fan}")
}

fn generated(call: &PlatformCall<'_>, fan: u64) -> Series {
    match call.world.chats().place_of(fan) {
        Some(_) => call.world.messages(fan),
        None => Series::all(0),
    }
}

pub(super) fn message_count(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> u64 {
    overlay.count(&table(fan), generated(call, fan))
}

/// The newest message of a chat; null if there is none.
pub(super) fn last_message(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let page = overlay.page(&table(fan), generated(call, fan), 0, 1);
    page.indexes.first().map_or(Value::Null, |row| shown(call, overlay, fan, *row))
}

fn uuid_of(call: &PlatformCall<'_>, fan: u64, row: u64) -> String {
    let index = if row > CREATED { row } else { message_index(fan, row) };
    id(call, Kind::Message, index)
}

/// The position in the chat of the message with this id.
fn place_of(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64, uuid: &str) -> Option<u64> {
    let index = index_of(call, Kind::Message, uuid)?;
    let row = if index > CREATED {
        index
    } else {
        let (of, place) = fan_and_place(index);
        (of == fan).then_some(place)?
    };
    overlay.place_of(&table(fan), generated(call, fan), row)
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64, row: u64) -> Value {
    let fan_id = id(call, Kind::Fan, fan);
    let generated = if row > CREATED {
        json!({"senderUuid": own_id(call), "recipientUuid": fan_id})
    } else {
        let message = call.world.message(fan, row);
        let media = message.media.iter().map(|it| id(call, Kind::Media, *it));
        let (sender, recipient) =
            if message.from_fan { (fan_id, own_id(call)) } else { (own_id(call), fan_id) };
        json!({
            "senderUuid": sender,
            "recipientUuid": recipient,
            "text": message.text,
            "mediaUuids": media.collect::<Vec<_>>(),
            "price": message.price_cents,
            "isPurchased": message.paid,
            "tipAmount": message.tip_cents,
            "sentAt": rfc3339(message.sent_at_ms),
        })
    };
    let mut shown = object(overlay.over(&table(fan), row, generated));
    shown.insert("uuid".to_owned(), json!(uuid_of(call, fan, row)));
    Value::Object(shown)
}

fn messages(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    let start = match cursor(call) {
        None => 0,
        Some(cursor) => place_of(call, overlay, fan, cursor).ok_or_else(bad_cursor)? + 1,
    };
    let page = overlay.page(&table(fan), generated(call, fan), start, cursor_size(call)? as u64);
    let last = page.indexes.last().map(|row| uuid_of(call, fan, *row));
    let rows: Vec<Value> = page.indexes.iter().map(|row| shown(call, overlay, fan, *row)).collect();
    Ok(with_cursor(&rows, last.as_deref().filter(|_| page.has_more)))
}

/// The media of a chat, each with its message.
fn chat_media(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    let start = match cursor(call) {
        None => 0,
        Some(cursor) => place_of(call, overlay, fan, cursor).ok_or_else(bad_cursor)? + 1,
    };
    let size = cursor_size(call)?;
    let later = overlay.page(&table(fan), generated(call, fan), start, u64::MAX).indexes;
    let with_media = later.into_iter().filter_map(|row| {
        let message = shown(call, overlay, fan, row);
        let uuids = message.get("mediaUuids")?.as_array().filter(|uuids| !uuids.is_empty())?;
        let all: Vec<Value> = uuids
            .iter()
            .filter_map(|uuid| index_of(call, Kind::Media, uuid.as_str()?))
            .map(|index| media::shown(call, overlay, index))
            .collect();
        let entry = json!({
            "messageUuid": message.get("uuid"),
            "sentAt": message.get("sentAt"),
            "senderUuid": message.get("senderUuid"),
            "media": all,
        });
        Some((uuid_of(call, fan, row), entry))
    });
    let mut page: Vec<(String, Value)> = with_media.take(size + 1).collect();
    let has_more = page.len() > size;
    page.truncate(size);
    let last = page.last().map(|(uuid, _)| uuid.clone()).filter(|_| has_more);
    let rows: Vec<Value> = page.into_iter().map(|(_, entry)| entry).collect();
    Ok(with_cursor(&rows, last.as_deref()))
}

/// `userUuids`, and `limit` messages of each (by default 5, at most 20).
fn batch(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let limit = call.field("limit").as_u64().unwrap_or(5).clamp(1, BATCH_MESSAGES_MAX);
    let row = |fan: u64| {
        let page = overlay.page(&table(fan), generated(call, fan), 0, limit);
        let messages: Vec<Value> =
            page.indexes.into_iter().map(|row| shown(call, overlay, fan, row)).collect();
        json!({"userUuid": id(call, Kind::Fan, fan), "messages": messages})
    };
    let rows: Vec<Value> = body_fans(call)?.into_iter().map(row).collect();
    Ok(Answer::ok(json!({"data": rows})))
}

/// `text` or `mediaUuids`, and a `price` in cents if media are sent. Opens a chat if there is none.
fn send(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = fan_param(call)?;
    let media_uuids = body_uuids_if_any(call, "mediaUuids")?;
    media::known(call, overlay, &media_uuids)?;
    let text = call.field("text").as_str().unwrap_or_default();
    if text.len() > TEXT_BYTES_MAX || (text.trim().is_empty() && media_uuids.is_empty()) {
        return Err(Refusal::bad_request("text or mediaUuids is required"));
    }
    let price = price(call)?;
    if price > 0 && media_uuids.is_empty() {
        return Err(Refusal::bad_request("Only messages with media can have a price"));
    }
    let fields = json!({
        "text": text,
        "mediaUuids": media_uuids,
        "price": price,
        "isPurchased": false,
        "tipAmount": 0,
        "sentAt": rfc3339(call.now_ms),
    });
    let row = overlay.create(&table(fan), object(fields));
    overlay.put(CHATS, fan);
    Ok(Answer::created(shown(call, overlay, fan, row)))
}
