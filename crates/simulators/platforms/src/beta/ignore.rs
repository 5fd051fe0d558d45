//! Users that the creator mutes, blocks or favours, and places where the account is hidden.

use serde_json::{Value, json};

use super::shapes::{AccountRef, Collection, NOTHING, body_id, id, somebody};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::series::Series;

/// The bits of `ignoreFlags`, each with the table of the fans that have the bit.
const BITS: [(u64, &str); 4] = [(1, "muted"), (2, "blocked"), (4, "vip"), (8, "suggestion-muted")];
/// Other creators have no generated flags; theirs are stored in a field.
const PEER_FLAGS: &str = "peer-flags";

const LOCATIONS: Collection<'static> =
    Collection { table: "ignored-locations", series: NOTHING, kind: Kind::Location };

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("account/ignore", ignore)
        .post("account/ignore/location", hide_from_location)
        .post("account/ignore/location/delete", show_to_location)
        .get("account/ignore/locations", locations)
}

fn generated(call: &PlatformCall<'_>, bit: u64) -> Series {
    match bit {
        1 => call.world.muted_fans(),
        2 => call.world.blocked_fans(),
        _ => NOTHING,
    }
}

/// The sum of a fan's bits.
pub(super) fn flags(call: &PlatformCall<'_>, overlay: &Overlay, fan: u64) -> u64 {
    let set = BITS.iter().filter(|(bit, table)| overlay.holds(table, generated(call, *bit), fan));
    set.map(|(bit, _)| bit).sum()
}

/// The sum of another creator's bits.
pub(super) fn flags_of_peer(overlay: &Overlay, peer: u64) -> u64 {
    overlay.field(PEER_FLAGS, peer, "ignoreFlags").and_then(Value::as_u64).unwrap_or(0)
}

/// The sent flags replace all earlier ones; omitted bits are cleared.
fn ignore(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let ignored_id = body_id(call, "ignoredId")?;
    let ignored = somebody(call, &ignored_id)?;
    let sent = call.field("ignoreFlags").as_u64().filter(|flags| *flags <= 15);
    let flags =
        sent.ok_or_else(|| Refusal::bad_request("ignoreFlags is not a sum of 1, 2, 4, 8"))?;
    match ignored {
        AccountRef::Creator => return Err(Refusal::bad_request("ignoredId is your own account")),
        AccountRef::Peer(peer) => {
            overlay.set(PEER_FLAGS, peer, object(json!({"ignoreFlags": flags})));
        }
        AccountRef::Fan(fan) => {
            for (bit, table) in BITS {
                if flags & bit == 0 {
                    overlay.take(table, fan);
                } else {
                    overlay.put(table, fan);
                }
            }
        }
    }
    Ok(Answer::ok(json!({
        "ignoredId": ignored_id,
        "ignoreFlags": flags,
        "updatedAt": call.now_ms,
    })))
}

fn location(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    overlay.over(LOCATIONS.table, index, json!({"id": id(call, Kind::Location, index)}))
}

/// `countryCode` (two letters) and optionally `regionCode`.
fn hide_from_location(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let country = call.text("countryCode")?.to_ascii_uppercase();
    if country.len() != 2 || !country.bytes().all(|byte| byte.is_ascii_uppercase()) {
        return Err(Refusal::bad_request("countryCode is not a code of two letters"));
    }
    let region = call.field("regionCode").as_str();
    let fields = json!({
        "countryCode": country,
        "regionCode": region,
        "createdAt": call.now_ms,
    });
    let index = overlay.create(LOCATIONS.table, object(fields));
    Ok(Answer::ok(location(call, overlay, index)))
}

fn show_to_location(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = LOCATIONS.find(call, overlay, &body_id(call, "id")?, "Location")?;
    let shown = location(call, overlay, index);
    overlay.take(LOCATIONS.table, index);
    Ok(Answer::ok(shown))
}

fn locations(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    LOCATIONS.list(call, overlay, "locations", |index| location(call, overlay, index))
}
