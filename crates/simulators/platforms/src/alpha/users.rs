//! Users: fans, and those that the creator has blocked or restricted.

use serde_json::{Map, Value, json};

use super::shapes::{BLOCKED, PAGE, RESTRICTED, fan_index, fan_param, id, list, page_of, user};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("users/blocked", blocked)
        .get("users/restrict", restricted)
        .get("users/list", by_ids)
        .post("users/{user_id}/restrict", restrict)
        .get("subscriptions/subscribers", subscribers)
}

fn blocked(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, BLOCKED, call.world.blocked_fans(), |fan| user(call, overlay, fan))
}

fn restricted(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, RESTRICTED, call.world.restricted_fans(), |fan| user(call, overlay, fan))
}

/// The users with the given `ids`, `ids[]` or `a[]`, as an object by id; unknown ids are omitted.
fn by_ids(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let asked = call.query_all("ids").chain(call.query_all("a"));
    let ids: Vec<&str> = asked.flat_map(|ids| ids.split(',')).filter(|id| !id.is_empty()).collect();
    if ids.is_empty() {
        return Err(Refusal::bad_request("User ids are required"));
    }
    let mut users = Map::new();
    for wanted in ids.into_iter().take(100) {
        if let Some(fan) = fan_index(call, wanted) {
            users.insert(wanted.to_owned(), user(call, overlay, fan));
        }
    }
    Ok(Answer::ok(Value::Object(users)))
}

fn restrict(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fan = fan_param(call, "user_id")?;
    overlay.put(RESTRICTED, fan);
    Ok(Answer::ok(json!({"success": true, "id": id(call, Kind::Fan, fan), "isRestricted": true})))
}

/// `type` is `active`, `expired` or `all`; `query` is a part of the name or username.
fn subscribers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let world = call.world;
    let fans = match call.query("type") {
        None | Some("all" | "") => world.all_fans(),
        Some("active") => world.active_fans(),
        Some("expired") => world.expired_fans(),
        Some(_) => return Err(Refusal::bad_request("type is active, expired or all")),
    };
    let Some(wanted) = call.query("query").map(str::to_lowercase).filter(|it| !it.is_empty())
    else {
        return page_of(call, overlay, "fans", fans, |fan| user(call, overlay, fan));
    };
    let limit = call.query_number("limit")?.unwrap_or(PAGE.default).clamp(1, PAGE.max);
    let offset = call.query_number("offset")?.unwrap_or(0);
    let ahead = usize::try_from(offset).unwrap_or(usize::MAX);
    let wanted_rows = usize::try_from(limit).unwrap_or(0);
    let matches = |fan: &u64| {
        let person = world.fan(*fan);
        person.username.contains(&wanted) || person.name.to_lowercase().contains(&wanted)
    };
    let all = (0..fans.count()).filter_map(|place| fans.at(place));
    let mut found: Vec<u64> = all.filter(matches).skip(ahead).take(wanted_rows + 1).collect();
    let has_more = found.len() > wanted_rows;
    found.truncate(wanted_rows);
    let rows: Vec<Value> = found.into_iter().map(|fan| user(call, overlay, fan)).collect();
    Ok(list(&rows, has_more))
}
