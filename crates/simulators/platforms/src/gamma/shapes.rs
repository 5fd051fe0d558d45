//! JSON shapes and checks that several groups of routes share.

use serde_json::{Value, json};

use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::world::ids::{self, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339;

/// The currency of all amounts.
pub(super) const CURRENCY: &str = "USD";

/// The most rows of a page. A higher limit is refused instead of capped, because callers take a
/// page that is shorter than its limit for the last.
const LIMIT_MAX: u64 = 100;
const LIMIT_DEFAULT: u64 = 50;

/// An id of this creator.
pub(super) fn id(call: &PlatformCall<'_>, kind: Kind, index: u64) -> String {
    ids::hex24(kind, call.world.creator, index)
}

/// The index of an id of this creator.
pub(super) fn index_of(call: &PlatformCall<'_>, kind: Kind, id: &str) -> Option<u64> {
    ids::index_of_hex24(kind, call.world.creator, id)
}

/// The index of the id in the path parameter `name`; 404 if the id belongs to something else.
pub(super) fn index(
    call: &PlatformCall<'_>,
    kind: Kind,
    name: &str,
    what: &str,
) -> Result<u64, Refusal> {
    index_of(call, kind, call.param(name)).ok_or_else(|| Refusal::not_found(what))
}

/// The fan with this id, if there is one.
pub(super) fn fan_of(call: &PlatformCall<'_>, id: &str) -> Option<u64> {
    index_of(call, Kind::Fan, id).filter(|fan| *fan < call.world.fans)
}

/// 403 unless the `{id}` of `user/{id}/…` is the caller's own.
pub(super) fn own(call: &PlatformCall<'_>) -> Result<(), Refusal> {
    if call.param("id") == id(call, Kind::Creator, 0) {
        return Ok(());
    }
    Err(Refusal::forbidden("This belongs to another account"))
}

/// A page with an optional limit.
pub(super) fn rows(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    table: &str,
    series: Series,
    row: impl Fn(u64) -> Value,
) -> Outcome {
    let (limit, offset) = window(call)?;
    let page = overlay.page(table, series, offset, limit);
    Ok(Answer::ok(page.indexes.into_iter().map(row).collect()))
}

/// A page with a required limit.
pub(super) fn rows_with_limit(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    table: &str,
    series: Series,
    row: impl Fn(u64) -> Value,
) -> Outcome {
    if call.query("limit").is_none() {
        return Err(Refusal::bad_request("limit is required"));
    }
    rows(call, overlay, table, series, row)
}

/// The response; without a body for a page without rows: of an empty account, or past the end.
pub(super) fn without_empty_list(answer: Answer) -> Answer {
    let is_empty = answer.body.as_ref().and_then(Value::as_array).is_some_and(Vec::is_empty);
    if is_empty { Answer { body: None, ..answer } } else { answer }
}

/// `limit` and `offset` of the query.
pub(super) fn window(call: &PlatformCall<'_>) -> Result<(u64, u64), Refusal> {
    let limit = call.query_number("limit")?.unwrap_or(LIMIT_DEFAULT);
    if !(1..=LIMIT_MAX).contains(&limit) {
        return Err(Refusal::bad_request(format!("limit is 1 to {LIMIT_MAX}")));
    }
    Ok((limit, call.query_number("offset")?.unwrap_or(0)))
}

/// A page of rows that cannot be counted without reading them.
pub(super) fn rows_of(call: &PlatformCall<'_>, all: impl Iterator<Item = Value>) -> Outcome {
    let (limit, offset) = window(call)?;
    let ahead = usize::try_from(offset).unwrap_or(usize::MAX);
    let count = usize::try_from(limit).unwrap_or(0);
    Ok(Answer::ok(all.skip(ahead).take(count).collect()))
}

/// The short form of a user.
fn user(id: &str, username: &str, name: &str) -> Value {
    json!({
        "_id": id,
        "username": username,
        "display_name": name,
        "avatar_url": format!("https://cdn.gamma.test/avatar/{id}"),
    })
}

/// The short form of a fan inside other objects.
pub(super) fn user_ref(call: &PlatformCall<'_>, fan: u64) -> Value {
    let person = call.world.fan(fan);
    user(&id(call, Kind::Fan, fan), &person.username, &person.name)
}

/// The public view of a fan.
pub(super) fn fan(call: &PlatformCall<'_>, fan: u64) -> Value {
    let person = call.world.fan(fan);
    let mut shown = object(user(&id(call, Kind::Fan, fan), &person.username, &person.name));
    shown.extend(object(json!({
        "country": person.country,
        "is_creator": false,
        "is_verified": false,
        "is_online": person.online,
        "last_seen_at": rfc3339(person.last_seen_at_ms),
        "created_at": rfc3339(person.subscribed_at_ms - crate::world::DAY_MS),
    })));
    Value::Object(shown)
}

/// The public view of another creator.
pub(super) fn peer(call: &PlatformCall<'_>, peer: u64) -> Value {
    let other = call.world.peer(peer);
    let mut shown = object(user(&id(call, Kind::Peer, peer), &other.username, &other.name));
    shown.extend(object(json!({
        "is_creator": true,
        "is_verified": true,
        "subscription_price": other.price_cents,
        "currency": CURRENCY,
    })));
    Value::Object(shown)
}

/// A picture or a video.
pub(super) fn medium(call: &PlatformCall<'_>, index: u64) -> Value {
    let medium = call.world.medium(index);
    let id = id(call, Kind::Media, index);
    json!({
        "url": format!("https://cdn.gamma.test/file/{id}"),
        "_id": id,
        "content_type": if medium.is_video { "video/mp4" } else { "image/jpeg" },
        "width": medium.width,
        "height": medium.height,
        "size": medium.bytes,
        "duration": medium.seconds,
        "created_at": rfc3339(medium.created_at_ms),
    })
}
