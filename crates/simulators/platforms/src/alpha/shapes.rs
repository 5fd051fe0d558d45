//! JSON shapes that several groups of routes share.

use serde_json::{Value, json};

use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PageSizes, PlatformCall};
use crate::overlay::{Overlay, OverlayPage};
use crate::world::ids::{self, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339_offset;

/// The default and the maximum number of rows of a page.
pub(super) const PAGE: PageSizes = PageSizes { default: 10, max: 100 };

/// Tables that several groups use.
pub(super) const BLOCKED: &str = "blocked";
pub(super) const RESTRICTED: &str = "restricted";
pub(super) const MUTED: &str = "muted";

/// `{"list": […], "hasMore": …}`.
pub(super) fn list(rows: &[Value], has_more: bool) -> Answer {
    Answer::ok(json!({"list": rows, "hasMore": has_more}))
}

/// The page of a collection as a list response.
pub(super) fn page_of(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    table: &str,
    series: Series,
    row: impl Fn(u64) -> Value,
) -> Outcome {
    let OverlayPage { indexes, has_more, .. } = call.page(overlay, table, series, PAGE)?;
    let rows: Vec<Value> = indexes.into_iter().map(row).collect();
    Ok(list(&rows, has_more))
}

/// Cents as dollars with decimals.
pub(super) fn dollars(cents: i64) -> Value {
    let cents = i32::try_from(cents).map_or(f64::from(i32::MAX), f64::from);
    json!(cents / 100.0)
}

/// A digit id of this creator.
pub(super) fn id(call: &PlatformCall<'_>, kind: Kind, index: u64) -> u64 {
    ids::number(kind, call.world.creator, index)
}

/// The index of the digit id in the path parameter `name`; 404 if the id belongs to something else.
pub(super) fn index(
    call: &PlatformCall<'_>,
    kind: Kind,
    name: &str,
    what: &str,
) -> Result<u64, Refusal> {
    let index = ids::index_of_digits(kind, call.world.creator, call.param(name));
    index.ok_or_else(|| Refusal::not_found(what))
}

/// The index of the fan with this id, if there is one.
pub(super) fn fan_index(call: &PlatformCall<'_>, id: &str) -> Option<u64> {
    let index = ids::index_of_digits(Kind::Fan, call.world.creator, id)?;
    (index < call.world.fans).then_some(index)
}

/// The fan in the path parameter `name`; 404 if there is none.
pub(super) fn fan_param(call: &PlatformCall<'_>, name: &str) -> Result<u64, Refusal> {
    fan_index(call, call.param(name)).ok_or_else(|| Refusal::not_found("User"))
}

/// An id in a JSON body: digits as a number or as text.
pub(super) fn id_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// The short form of a user inside other objects.
pub(super) fn user_ref(call: &PlatformCall<'_>, fan: u64) -> Value {
    let person = call.world.fan(fan);
    let id = id(call, Kind::Fan, fan);
    json!({
        "id": id,
        "name": person.name,
        "username": person.username,
        "avatar": format!("https://cdn.alpha.test/avatars/{id}.jpg"),
        "isVerified": false,
    })
}

/// A fan with everything that the creator may see.
pub(super) fn user(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> Value {
    let world = call.world;
    let (person, spent) = (world.fan(fan), world.spent(fan));
    let id = id(call, Kind::Fan, fan);
    json!({
        "id": id,
        "name": person.name,
        "username": person.username,
        "avatar": format!("https://cdn.alpha.test/avatars/{id}.jpg"),
        "isVerified": false,
        "isPerformer": false,
        "isOnline": person.online,
        "lastSeen": rfc3339_offset(person.last_seen_at_ms),
        "isBlocked": overlay.holds(BLOCKED, world.blocked_fans(), fan),
        "isRestricted": overlay.holds(RESTRICTED, world.restricted_fans(), fan),
        "isMuted": overlay.holds(MUTED, world.muted_fans(), fan),
        "canReceiveChatMessage": true,
        "subscribedOn": person.active,
        "subscribedOnExpiredNow": !person.active,
        "subscribedOnData": {
            "price": dollars(person.price_cents),
            "regularPrice": dollars(person.price_cents),
            "subscribeAt": rfc3339_offset(person.subscribed_at_ms),
            "expiredAt": rfc3339_offset(person.expires_at_ms),
            "renewedAt": person.renews.then(|| rfc3339_offset(person.expires_at_ms)),
            "status": if person.active { "active" } else { "expired" },
            "totalSumm": dollars(spent.cents()),
            "subscribesSumm": dollars(spent.subscriptions_cents),
            "tipsSumm": dollars(spent.tips_cents),
            "messagesSumm": dollars(spent.messages_cents),
            "postsSumm": dollars(spent.posts_cents),
        },
    })
}

/// A picture or a video.
pub(super) fn medium(call: &PlatformCall<'_>, medium_index: u64) -> Value {
    let medium = call.world.medium(medium_index);
    let id = id(call, Kind::Media, medium_index);
    let kind = if medium.is_video { "video" } else { "photo" };
    json!({
        "id": id,
        "type": kind,
        "canView": true,
        "duration": medium.seconds,
        "createdAt": rfc3339_offset(medium.created_at_ms),
        "files": {"full": {
            "url": format!("https://cdn.alpha.test/{kind}/{id}"),
            "width": medium.width,
            "height": medium.height,
            "size": medium.bytes,
        }},
    })
}
