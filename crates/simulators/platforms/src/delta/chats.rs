//! Chats: the list, one chat, and its state. A chat is identified by its user.

use http::Method;
use serde_json::{Map, Value, json};

use super::messages::{last_message, message_count};
use super::shapes::{AskedPage, Collection, body_fans, fan_of, fan_param, own_id, user};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::series::Series;
use crate::world::time::rfc3339;

pub(super) const CHATS: &str = "chats";
/// The chats with unread messages.
const UNREAD: &str = "unread";
const MUTED: &str = "muted";
/// By fan: the nickname set by the creator.
const CHAT_FIELDS: &str = "chat-fields";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:chat"])
        .get("chats", chats)
        .get("chats/unread", unread_chats)
        .get("chats/{userUuid}", chat)
        .read(Method::POST, "chats/statuses", statuses)
        .scopes(&["write:chat"])
        .post("chats", open)
        .write(Method::PATCH, "chats/{userUuid}", change)
}

pub(super) fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: CHATS, series: call.world.chats(), kind: Kind::Fan }
}

fn unread_series(call: &PlatformCall<'_>) -> Series {
    call.world.unread_chats()
}

/// The fan of the path, if there is a chat with them.
pub(super) fn chat_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    let fan = fan_param(call).map_err(|_| Refusal::not_found("Chat"))?;
    let exists = overlay.holds(CHATS, call.world.chats(), fan);
    if exists { Ok(fan) } else { Err(Refusal::not_found("Chat")) }
}

fn unread_count(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> u64 {
    if overlay.holds(UNREAD, unread_series(call), fan) {
        call.world.chat(fan).unread.max(1)
    } else {
        0
    }
}

pub(super) fn shown(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let last = last_message(call, overlay, fan);
    let generated = json!({
        "uuid": super::shapes::id(call, Kind::Chat, fan),
        "user": user(call, fan),
        "creatorUuid": own_id(call),
        "nickname": null,
        "isMuted": overlay.holds(MUTED, call.world.muted_fans(), fan),
        "isRead": unread_count(call, overlay, fan) == 0,
        "unreadMessagesCount": unread_count(call, overlay, fan),
        "messagesCount": message_count(call, overlay, fan),
        "lastMessageAt": last.get("sentAt").cloned(),
        "lastMessage": last,
    });
    overlay.over(CHAT_FIELDS, fan, generated)
}

fn chats(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).page(call, overlay, |fan| shown(call, overlay, fan))
}

fn chat(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(shown(call, overlay, chat_param(call, overlay)?)))
}

/// The unread chats in pages, and their number.
fn unread_chats(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let asked = AskedPage::of(call)?;
    let page = overlay.page(UNREAD, unread_series(call), asked.offset(), asked.size);
    let rows: Vec<Value> = page.indexes.into_iter().map(|fan| shown(call, overlay, fan)).collect();
    let mut answer = asked.answer(&rows, page.has_more);
    if let Some(Value::Object(body)) = &mut answer.body {
        body.insert("unreadChatsCount".to_owned(), json!(page.total));
    }
    Ok(answer)
}

/// The online status and the unread messages of `userUuids`.
fn statuses(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let row = |fan: u64| {
        let person = call.world.fan(fan);
        json!({
            "userUuid": super::shapes::id(call, Kind::Fan, fan),
            "isOnline": super::shapes::online_fans(call).place_of(fan).is_some(),
            "lastSeenAt": rfc3339(person.last_seen_at_ms),
            "hasChat": overlay.holds(CHATS, call.world.chats(), fan),
            "unreadMessagesCount": unread_count(call, overlay, fan),
        })
    };
    let rows: Vec<Value> = body_fans(call)?.into_iter().map(row).collect();
    Ok(Answer::ok(json!({"data": rows})))
}

/// Opens a chat with `userUuid`; 409 if there is one.
fn open(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = fan_of(call, call.text("userUuid")?)?;
    if overlay.holds(CHATS, call.world.chats(), fan) {
        return Err(Refusal::conflict("There is a chat with this user"));
    }
    overlay.put(CHATS, fan);
    Ok(Answer::created(shown(call, overlay, fan)))
}

/// Changes those of `isRead`, `isMuted`, `nickname` that are sent.
fn change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    let flag = |name: &str| match call.field(name) {
        Value::Null => Ok(None),
        sent => sent
            .as_bool()
            .map(Some)
            .ok_or_else(|| Refusal::bad_request(format!("{name} is not true or false"))),
    };
    let (is_read, is_muted) = (flag("isRead")?, flag("isMuted")?);
    let nickname: Map<String, Value> = call.fields(&["nickname"]);
    if nickname.values().any(|name| !name.is_string() && !name.is_null()) {
        return Err(Refusal::bad_request("nickname is not a text"));
    }
    if is_read.is_none() && is_muted.is_none() && nickname.is_empty() {
        return Err(Refusal::bad_request("isRead, isMuted or nickname is required"));
    }
    set_membership(overlay, UNREAD, fan, is_read.map(|is_read| !is_read));
    set_membership(overlay, MUTED, fan, is_muted);
    if !nickname.is_empty() {
        overlay.set(CHAT_FIELDS, fan, object(Value::Object(nickname)));
    }
    Ok(Answer::ok(shown(call, overlay, fan)))
}

fn set_membership(overlay: &mut Overlay, table: &str, fan: u64, belongs: Option<bool>) {
    match belongs {
        Some(true) => overlay.put(table, fan),
        Some(false) => overlay.take(table, fan),
        None => {}
    }
}
