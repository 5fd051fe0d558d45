//! Media of the vault, and the permission to see them.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use super::shapes::{Collection, NOTHING, fan_of, id, index_of, own_id};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::time::rfc3339;

pub(super) const MEDIA: &str = "media";
const BULK_MAX: usize = 50;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:media"])
        .get("media", media)
        .get("media/bulk", bulk)
        .get("media/{uuid}", medium)
        .get("media/{uuid}/entitled", entitled)
        .scopes(&["write:media"])
        .write(Method::PATCH, "media/{uuid}", change)
        .write(Method::DELETE, "media/{uuid}", delete)
        .post("media/{uuid}/grant", grant)
}

pub(super) fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: MEDIA, series: call.world.media(), kind: Kind::Media }
}

/// Every third generated medium has a price.
fn generated_price(index: u64) -> i64 {
    if index.is_multiple_of(3) { 500 + i64::try_from(index % 7).unwrap_or(0) * 100 } else { 0 }
}

pub(super) fn shown(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let uuid = id(call, Kind::Media, index);
    let generated = if index < CREATED {
        let medium = call.world.medium(index);
        json!({
            "mediaType": if medium.is_video { "video" } else { "image" },
            "name": format!("{}-{}", if medium.is_video { "clip" } else { "photo" }, index + 1),
            "description": "",
            "width": medium.width,
            "height": medium.height,
            "lengthSeconds": medium.seconds,
            "size": medium.bytes,
            "price": generated_price(index),
            "status": "ready",
            "createdAt": rfc3339(medium.created_at_ms),
        })
    } else {
        json!({"description": "", "price": 0})
    };
    let mut shown = object(overlay.over(MEDIA, index, generated));
    shown.insert("url".to_owned(), json!(format!("https://cdn.delta.test/media/{uuid}")));
    shown.insert("uuid".to_owned(), json!(uuid));
    shown.insert("creatorUuid".to_owned(), json!(own_id(call)));
    Value::Object(shown)
}

fn media(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).page(call, overlay, |index| shown(call, overlay, index))
}

/// `uuids`, comma-separated or repeated, up to 50; unknown ones are omitted.
fn bulk(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let sent = call.query_all("uuids").flat_map(|text| text.split(','));
    let uuids: BTreeSet<&str> = sent.filter(|uuid| !uuid.is_empty()).collect();
    if !(1..=BULK_MAX).contains(&uuids.len()) {
        return Err(Refusal::bad_request(format!("uuids is not a list of 1 to {BULK_MAX} ids")));
    }
    let found = uuids.into_iter().filter_map(|uuid| {
        let index = collection(call).find(call, overlay, uuid, "Media").ok()?;
        Some(shown(call, overlay, index))
    });
    Ok(Answer::ok(json!({"data": found.collect::<Vec<_>>()})))
}

fn named(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    collection(call).find(call, overlay, call.param("uuid"), "Media")
}

fn medium(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(shown(call, overlay, named(call, overlay)?)))
}

fn grants_table(index: u64) -> String {
    format!("grants/{index}")
}

/// The media visible to the user `userUuid`, by default to the creator. A user may see what was
/// granted to them and, as a subscriber, what has no price.
fn entitled(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let index = named(call, overlay)?;
    let uuid = id(call, Kind::Media, index);
    let sent = call.query("userUuid").filter(|user| !user.is_empty() && *user != own_id(call));
    let (user_uuid, reason) = match sent {
        None => (own_id(call), Some("owner")),
        Some(user_uuid) => {
            let fan = fan_of(call, user_uuid)?;
            let price = shown(call, overlay, index).get("price").and_then(Value::as_i64);
            let reason = if overlay.holds(&grants_table(index), NOTHING, fan) {
                Some("granted")
            } else if price == Some(0) && call.world.fan(fan).active {
                Some("subscriber")
            } else {
                None
            };
            (user_uuid.to_owned(), reason)
        }
    };
    Ok(Answer::ok(json!({
        "uuid": uuid,
        "userUuid": user_uuid,
        "entitled": reason.is_some(),
        "reason": reason,
    })))
}

/// Changes those of `name`, `description`, `price` in cents that are sent.
fn change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = named(call, overlay)?;
    let fields = call.fields(&["name", "description", "price"]);
    let fits = |(name, value): (&String, &Value)| match name.as_str() {
        "price" => value.as_i64().is_some_and(|price| price >= 0),
        _ => value.is_string(),
    };
    if fields.is_empty() || !fields.iter().all(fits) {
        return Err(Refusal::bad_request("name, description or price is required"));
    }
    overlay.set(MEDIA, index, fields);
    Ok(Answer::ok(shown(call, overlay, index)))
}

fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = named(call, overlay)?;
    overlay.take(MEDIA, index);
    Ok(Answer::empty())
}

/// Lets `userUuid` see the medium from now on.
fn grant(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = named(call, overlay)?;
    let user_uuid = call.text("userUuid")?;
    let fan = fan_of(call, user_uuid)?;
    let granted_at = rfc3339(call.now_ms);
    overlay.put(&grants_table(index), fan);
    Ok(Answer::ok(json!({
        "uuid": id(call, Kind::Media, index),
        "userUuid": user_uuid,
        "grantedAt": granted_at,
    })))
}

/// 404 unless all of these are media of the vault.
pub(super) fn known(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    uuids: &[String],
) -> Result<(), Refusal> {
    let known = |uuid: &String| {
        index_of(call, Kind::Media, uuid)
            .is_some_and(|index| overlay.holds(MEDIA, call.world.media(), index))
    };
    if uuids.iter().all(known) { Ok(()) } else { Err(Refusal::not_found("Media")) }
}
