//! The messages of chats. They page with `before_id`: the newest come first, and the id of the last
//! row requests those before it.

use serde_json::{Value, json};

use super::chats::{CHATS, chat_param};
use super::shapes::{dollars, fan_index, fan_param, id, index, list, medium, page_of, user_ref};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::content::template;
use crate::world::ids::{self, CREATED, Kind};
use crate::world::series::Series;
use crate::world::talk::{fan_and_place, message_index};
use crate::world::time::rfc3339_offset;

/// By message index: state of messages beyond their text, such as that they are pinned.
const MARKS: &str = "message-marks";
/// By medium: the people in it whose forms are attached.
pub(super) const RELEASE_FORMS: &str = "release-forms";
const MESSAGES_PAGE_MAX: u64 = 100;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("chats/{chat_id}/messages", messages)
        .post("chats/{chat_id}/messages", send)
        .get("chats/{chat_id}/messages/search", search)
        .post("messages/{message_id}/pin", pin)
        .get("messages/templates", templates)
        .post("release-forms/attach", attach_release_form)
}

/// The table of the messages of a chat: generated ones by position, sent ones by number.
pub(super) fn chat_table(fan: u64) -> String {
    format!("messages/{fan}")
}

fn generated(call: &PlatformCall<'_>, fan: u64) -> Series {
    match call.world.chats().place_of(fan) {
        Some(_) => call.world.messages(fan),
        None => Series::all(0),
    }
}

fn messages(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    let (table, series) = (chat_table(fan), generated(call, fan));
    let limit = call.query_number("limit")?.unwrap_or(10).clamp(1, MESSAGES_PAGE_MAX);
    let offset = match call.query("before_id") {
        None | Some("") => call.query_number("offset")?.unwrap_or(0),
        Some(before) => {
            let row = row_of(call, fan, before);
            let place = row.and_then(|row| overlay.place_of(&table, series, row));
            place.ok_or_else(|| Refusal::not_found("Message"))? + 1
        }
    };
    let page = overlay.page(&table, series, offset, limit);
    let rows = page.indexes.into_iter().map(|row| message_json(call, overlay, fan, row));
    Ok(list(&rows.collect::<Vec<_>>(), page.has_more))
}

/// The row of the chat's table with this message id.
fn row_of(call: &PlatformCall<'_>, fan: u64, id: &str) -> Option<u64> {
    let index = ids::index_of_digits(Kind::Message, call.world.creator, id)?;
    if index > CREATED {
        return Some(index);
    }
    let (of, place) = fan_and_place(index);
    (of == fan).then_some(place)
}

fn index_of_row(fan: u64, row: u64) -> u64 {
    if row > CREATED { row } else { message_index(fan, row) }
}

/// The newest message of a chat; null if there is none.
pub(super) fn last_message(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let page = overlay.page(&chat_table(fan), generated(call, fan), 0, 1);
    page.indexes.first().map_or(Value::Null, |row| message_json(call, overlay, fan, *row))
}

fn message_json(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64, row: u64) -> Value {
    let index = index_of_row(fan, row);
    let pinned = overlay.field(MARKS, index, "isPinned") == Some(&Value::Bool(true));
    let base = if row > CREATED {
        json!({"fromUser": creator_ref(call)})
    } else {
        let message = call.world.message(fan, row);
        let from = if message.from_fan { user_ref(call, fan) } else { creator_ref(call) };
        let media: Vec<Value> = message.media.iter().map(|it| medium(call, *it)).collect();
        json!({
            "text": message.text,
            "price": dollars(message.price_cents),
            "isFree": message.price_cents == 0,
            "isOpened": message.price_cents == 0 || message.paid,
            "isTip": message.tip_cents > 0,
            "tipAmount": dollars(message.tip_cents),
            "media": media,
            "mediaCount": message.media.iter().len(),
            "createdAt": rfc3339_offset(message.sent_at_ms),
            "changedAt": rfc3339_offset(message.sent_at_ms),
            "fromUser": from,
        })
    };
    let mut shown = object(overlay.over(&chat_table(fan), row, base));
    shown.insert("id".to_owned(), json!(id(call, Kind::Message, index)));
    shown.insert("responseType".to_owned(), json!("message"));
    shown.insert("isPinned".to_owned(), json!(pinned));
    Value::Object(shown)
}

fn creator_ref(call: &PlatformCall<'_>) -> Value {
    json!({
        "id": id(call, Kind::Creator, 0),
        "name": call.world.creator_name(),
        "username": call.world.creator_username(),
        "isVerified": true,
    })
}

/// `text`, `price` in dollars, `mediaFiles` as ids. Every fan can be written to.
fn send(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = fan_param(call, "chat_id").map_err(|_| Refusal::not_found("Chat"))?;
    let media = sent_media(call)?;
    let text = call.field("text").as_str().unwrap_or_default();
    if text.trim().is_empty() && media.is_empty() {
        return Err(Refusal::bad_request("A text or media is required"));
    }
    let price = call.field("price").as_f64().unwrap_or(0.0);
    if price < 0.0 || (price > 0.0 && media.is_empty()) {
        return Err(Refusal::bad_request("Only messages with media can have a price"));
    }
    let fields = json!({
        "text": text,
        "price": price,
        "isFree": price == 0.0,
        "isOpened": price == 0.0,
        "isTip": false,
        "tipAmount": 0.0,
        "mediaCount": media.len(),
        "media": media,
        "createdAt": rfc3339_offset(call.now_ms),
        "changedAt": rfc3339_offset(call.now_ms),
    });
    let row = overlay.create(&chat_table(fan), object(fields));
    overlay.set(MARKS, row, object(json!({"fan": fan})));
    overlay.put(CHATS, fan);
    Ok(Answer::created(message_json(call, overlay, fan, row)))
}

fn sent_media(call: &PlatformCall<'_>) -> Result<Vec<Value>, Refusal> {
    let sent = call.field("mediaFiles").as_array().into_iter().flatten();
    sent.map(|media_id| {
        let number = media_id.as_u64().unwrap_or_default();
        let index = ids::index_of_number(Kind::Media, call.world.creator, number)
            .filter(|index| call.world.media().place_of(*index).is_some())
            .ok_or_else(|| Refusal::bad_request("mediaFiles has an unknown id"))?;
        Ok(medium(call, index))
    })
    .collect()
}

/// Messages of the chat whose text contains `query`.
fn search(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    let wanted = call.query("query").unwrap_or_default().to_lowercase();
    if wanted.is_empty() {
        return Err(Refusal::bad_request("query is required"));
    }
    let all = overlay.page(&chat_table(fan), generated(call, fan), 0, u64::MAX);
    let shown = all.indexes.into_iter().map(|row| message_json(call, overlay, fan, row));
    let found = shown.filter(|message| {
        message
            .get("text")
            .and_then(Value::as_str)
            .is_some_and(|it| it.to_lowercase().contains(&wanted))
    });
    let limit = call.query_number("limit")?.unwrap_or(10).clamp(1, MESSAGES_PAGE_MAX);
    let offset = usize::try_from(call.query_number("offset")?.unwrap_or(0)).unwrap_or(usize::MAX);
    let limit = usize::try_from(limit).unwrap_or(0);
    let mut rows: Vec<Value> = found.skip(offset).take(limit + 1).collect();
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    Ok(list(&rows, has_more))
}

fn pin(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let message = index(call, Kind::Message, "message_id", "Message")?;
    let (fan, row) = if message > CREATED {
        let fan = overlay.field(MARKS, message, "fan").and_then(Value::as_u64);
        (fan.ok_or_else(|| Refusal::not_found("Message"))?, message)
    } else {
        fan_and_place(message)
    };
    if !overlay.holds(&chat_table(fan), generated(call, fan), row) {
        return Err(Refusal::not_found("Message"));
    }
    overlay.set(MARKS, message, object(json!({"isPinned": true})));
    Ok(Answer::ok(message_json(call, overlay, fan, row)))
}

fn templates(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, "templates", call.world.templates(), |index| {
        json!({
            "id": id(call, Kind::Template, index),
            "text": template(index),
            "price": 0,
            "media": [],
        })
    })
}

/// Attaches release forms (of other people in the pictures) to media: `mediaId`, `userIds`.
fn attach_release_form(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let media_id = call.field("mediaId").as_u64().unwrap_or_default();
    let known = ids::index_of_number(Kind::Media, call.world.creator, media_id)
        .filter(|index| call.world.media().place_of(*index).is_some());
    let index = known.ok_or_else(|| Refusal::bad_request("mediaId is not one of your media"))?;
    let people = call.field("userIds").as_array().cloned().unwrap_or_default();
    if people.iter().any(|person| fan_index(call, &super::shapes::id_text(person)).is_none()) {
        return Err(Refusal::bad_request("userIds has an unknown id"));
    }
    let form =
        json!({"mediaId": media_id, "userIds": people, "attachedAt": rfc3339_offset(call.now_ms)});
    overlay.set(RELEASE_FORMS, index, object(form.clone()));
    Ok(Answer::ok(form))
}
