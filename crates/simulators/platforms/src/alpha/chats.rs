//! Chats: the list, what is read and unread, and muting. A chat is identified by its fan's id.

use http::Method;
use serde_json::{Value, json};

use super::messages::{chat_table, last_message};
use super::shapes::{MUTED, fan_param, id, page_of, user_ref};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;

/// The chats, with the newest message first.
pub(super) const CHATS: &str = "chats";
/// By fan: the number of unread messages that was last set, and when it was set.
const READ: &str = "read";
/// The row of [`READ`] that marks all chats.
const ALL: u64 = u64::MAX;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("chats", chats)
        .post("chats/mark-as-read", mark_all_as_read)
        .post("chats/{chat_id}/mark-as-read", mark_as_read)
        .write(Method::DELETE, "chats/{chat_id}/mark-as-read", mark_as_unread)
        .post("chats/{chat_id}/mute", mute)
}

fn chats(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, CHATS, call.world.chats(), |fan| chat_json(call, overlay, fan))
}

fn chat_json(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let unread = unread(call, overlay, fan);
    json!({
        "id": id(call, Kind::Fan, fan),
        "withUser": user_ref(call, fan),
        "lastMessage": last_message(call, overlay, fan),
        "unreadMessagesCount": unread,
        "hasUnread": unread > 0,
        "messagesCount": overlay.count(&chat_table(fan), call.world.messages(fan)),
        "isMutedNotifications": overlay.holds(MUTED, call.world.muted_fans(), fan),
        "canSendMessage": true,
    })
}

/// The chat of the path; 404 if there is no chat with this fan.
pub(super) fn chat_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    let fan = fan_param(call, "chat_id").map_err(|_| Refusal::not_found("Chat"))?;
    let exists = overlay.holds(CHATS, call.world.chats(), fan);
    if exists { Ok(fan) } else { Err(Refusal::not_found("Chat")) }
}

/// The number of unread messages of the chat: as generated, unless set since.
fn unread(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> u64 {
    let said = |row| {
        let when = overlay.field(READ, row, "when").and_then(Value::as_u64)?;
        Some((when, overlay.field(READ, row, "unread").and_then(Value::as_u64)?))
    };
    match [said(ALL), said(fan)].into_iter().flatten().max() {
        Some((_, unread)) => unread,
        None => call.world.chats().place_of(fan).map_or(0, |_| call.world.chat(fan).unread),
    }
}

fn say_unread(overlay: &mut Overlay, row: u64, unread: u64) {
    let when = overlay.next_index();
    overlay.set(READ, row, object(json!({"when": when, "unread": unread})));
}

fn mark_all_as_read(_: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    say_unread(overlay, ALL, 0);
    Ok(Answer::ok(json!({"success": true})))
}

fn mark_as_read(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    say_unread(overlay, fan, 0);
    Ok(Answer::ok(chat_json(call, overlay, fan)))
}

fn mark_as_unread(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    let unread = unread(call, overlay, fan).max(1);
    say_unread(overlay, fan, unread);
    Ok(Answer::ok(chat_json(call, overlay, fan)))
}

/// `{"mute": false}` unmutes; without a body the chat is muted.
fn mute(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = chat_param(call, overlay)?;
    if call.field("mute").as_bool() == Some(false) {
        overlay.take(MUTED, fan);
    } else {
        overlay.put(MUTED, fan);
    }
    Ok(Answer::ok(chat_json(call, overlay, fan)))
}
