//! Accounts as others see them.

use serde_json::{Value, json};

use super::follows::{FOLLOWERS, FOLLOWING};
use super::ignore;
use super::shapes::{AccountRef, account_id};
use crate::call::PlatformCall;
use crate::overlay::Overlay;

/// An account as others see it.
pub(super) fn account(call: &PlatformCall<'_>, overlay: &Overlay, who: AccountRef) -> Value {
    let world = call.world;
    let own_id = account_id(call, who);
    let (name, username, role) = match who {
        AccountRef::Creator => return super::account::own(call, overlay),
        AccountRef::Fan(fan) => {
            let person = world.fan(fan);
            (person.name, person.username, "fan")
        }
        AccountRef::Peer(peer) => {
            let person = world.peer(peer);
            (person.name, person.username, "creator")
        }
    };
    let mut shown = json!({
        "id": own_id,
        "username": username,
        "displayName": name,
        "role": role,
        "avatar": format!("https://cdn.beta.test/avatars/{own_id}.jpg"),
    });
    let more = match who {
        AccountRef::Fan(fan) => fan_fields(call, overlay, fan),
        AccountRef::Peer(peer) => json!({
            "following": overlay.holds(FOLLOWING, world.following(), peer),
            "subscribed": overlay.holds(
                super::subscriptions::OWN,
                super::subscriptions::own_series(call),
                peer,
            ),
            "ignoreFlags": ignore::flags_of_peer(overlay, peer),
        }),
        AccountRef::Creator => json!({}),
    };
    if let (Value::Object(shown), Value::Object(more)) = (&mut shown, more) {
        shown.extend(more);
    }
    shown
}

fn fan_fields(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let person = call.world.fan(fan);
    json!({
        "location": person.country,
        "createdAt": person.subscribed_at_ms,
        "lastSeenAt": person.last_seen_at_ms,
        "statusId": if person.online { 2 } else { 1 },
        "followsYou": overlay.holds(FOLLOWERS, call.world.followers(), fan),
        "subscribesToYou": person.active,
        "ignoreFlags": ignore::flags(call, overlay, fan),
    })
}
