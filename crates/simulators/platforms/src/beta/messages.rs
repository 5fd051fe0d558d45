//! Messaging groups, one for each fan with a chat, and their messages.

use serde_json::{Value, json};

use super::media;
use super::shapes::{AccountRef, Collection, account_id, id, index_of, query_id, window};
use crate::answer::{Answer, Outcome};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::talk::{fan_and_place, message_index};

pub(super) fn routes(routes: Routes) -> Routes {
    routes.get("messaging/groups", groups).get("message", messages)
}

fn group_collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: "groups", series: call.world.chats(), kind: Kind::Chat }
}

/// The groups, with the newest message first.
fn groups(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    group_collection(call).list(call, overlay, "groups", |fan| group(call, overlay, fan))
}

fn group(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let chat = call.world.chat(fan);
    let (fan_id, own_id) =
        (account_id(call, AccountRef::Fan(fan)), account_id(call, AccountRef::Creator));
    let group_id = id(call, Kind::Chat, fan);
    json!({
        "id": group_id,
        "groupId": group_id,
        "type": 1,
        "accountId": own_id,
        "partnerAccountId": fan_id,
        "partnerUsername": call.world.fan(fan).username,
        "users": [{"groupId": group_id, "userId": own_id}, {"groupId": group_id, "userId": fan_id}],
        "unreadCount": chat.unread,
        "messageCount": chat.messages,
        "ignoreFlags": super::ignore::flags(call, overlay, fan),
        "lastMessage": message(call, overlay, fan, 0),
        "lastMessageAt": chat.last_message_at_ms,
    })
}

/// The messages of the group `groupId`, newest first; cursors are ids of messages.
fn messages(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let groups = group_collection(call);
    let fan = groups.find(call, overlay, query_id(call, "groupId")?, "Group")?;
    let count = call.world.messages(fan).count();
    let window = window(call, count, |sent| {
        let (of, place) = index_of(call, Kind::Message, sent).map(fan_and_place)?;
        (of == fan && place < count).then_some(place)
    })?;
    let places = window.start..window.end;
    let rows: Vec<Value> = places.map(|place| message(call, overlay, fan, place)).collect();
    Ok(Answer::ok(json!({"messages": rows, "total": count, "hasMore": window.has_more})))
}

fn message(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64, place: u64) -> Value {
    let message = call.world.message(fan, place);
    let sender = if message.from_fan { AccountRef::Fan(fan) } else { AccountRef::Creator };
    let recipient = if message.from_fan { AccountRef::Creator } else { AccountRef::Fan(fan) };
    let attachments: Vec<Value> =
        message.media.iter().map(|it| media::medium(call, overlay, *it)).collect();
    json!({
        "id": id(call, Kind::Message, message_index(fan, place)),
        "groupId": id(call, Kind::Chat, fan),
        "senderId": account_id(call, sender),
        "recipientId": account_id(call, recipient),
        "content": message.text,
        "price": super::shapes::mills(message.price_cents),
        "purchased": message.paid,
        "tipAmount": super::shapes::mills(message.tip_cents),
        "attachments": attachments,
        "createdAt": message.sent_at_ms,
    })
}
