//! Lists of recipients: smart ones, which the platform maintains, and the creator's own.

use http::Method;
use serde_json::{Value, json};

use super::shapes::{Collection, NOTHING, body_fans, fan_param, id, index_of, text_fields, user};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339;

const LISTS: &str = "lists";
const SMART_NAMES: [&str; 5] =
    ["Subscribers", "Followers", "Expired subscribers", "Online", "Everybody"];

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:chat", "read:fan"])
        .get("chats/lists/custom", custom_lists)
        .get("chats/lists/custom/{uuid}", custom_list)
        .get("chats/lists/smart", smart_lists)
        .get("chats/lists/smart/{uuid}", smart_list)
        .scopes(&["write:chat"])
        .post("chats/lists/custom", create)
        .write(Method::PATCH, "chats/lists/custom/{uuid}", rename)
        .write(Method::DELETE, "chats/lists/custom/{uuid}", delete)
        .post("chats/lists/custom/{uuid}/members", add_members)
        .write(Method::DELETE, "chats/lists/custom/{uuid}/members/{userUuid}", remove_member)
}

fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: LISTS, series: call.world.fan_lists(), kind: Kind::List }
}

/// The smart lists, which every creator has and which have ids of their own.
const SMART: Collection<'static> =
    Collection { table: "smart-lists", series: Series::all(5), kind: Kind::Bundle };

fn table(list: u64) -> String {
    format!("list/{list}")
}

fn members(call: &PlatformCall<'_>, list: u64) -> Series {
    if list < CREATED { call.world.fan_list(list).members } else { NOTHING }
}

fn smart_members(call: &PlatformCall<'_>, list: u64) -> Series {
    let world = call.world;
    match list {
        0 => world.active_fans(),
        1 => world.followers(),
        2 => world.expired_fans(),
        3 => super::shapes::online_fans(call),
        _ => world.all_fans(),
    }
}

/// The number of members of the list with this id, smart or own; 404 if there is none.
pub(super) fn members_count(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    uuid: &str,
) -> Result<u64, Refusal> {
    if let Some(list) = index_of(call, SMART.kind, uuid).filter(|list| *list < 5) {
        return Ok(smart_members(call, list).count());
    }
    let list = collection(call).find(call, overlay, uuid, "List")?;
    Ok(overlay.count(&table(list), members(call, list)))
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, list: u64) -> Value {
    let generated = if list < CREATED {
        let list = call.world.fan_list(list);
        json!({"name": list.name, "createdAt": rfc3339(list.created_at_ms)})
    } else {
        json!({})
    };
    let mut shown = object(overlay.over(LISTS, list, generated));
    shown.insert("uuid".to_owned(), json!(id(call, Kind::List, list)));
    let count = overlay.count(&table(list), members(call, list));
    shown.insert("membersCount".to_owned(), json!(count));
    Value::Object(shown)
}

fn smart_shown(call: &PlatformCall<'_>, list: u64) -> Value {
    let name = usize::try_from(list).ok().and_then(|at| SMART_NAMES.get(at));
    json!({
        "uuid": id(call, SMART.kind, list),
        "name": name,
        "membersCount": smart_members(call, list).count(),
    })
}

fn custom_lists(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).page(call, overlay, |list| shown(call, overlay, list))
}

fn smart_lists(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    SMART.page(call, overlay, |list| smart_shown(call, list))
}

/// A list with a page of its members.
fn with_members(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    list: Value,
    members: &Collection<'_>,
) -> Outcome {
    let page = members.page(call, overlay, |fan| user(call, fan))?;
    let mut shown = object(list);
    shown.insert("members".to_owned(), page.body.unwrap_or_default());
    Ok(Answer::ok(Value::Object(shown)))
}

fn named(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    collection(call).find(call, overlay, call.param("uuid"), "List")
}

fn custom_list(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let list = named(call, overlay)?;
    let table = table(list);
    let members = Collection { table: &table, series: members(call, list), kind: Kind::Fan };
    with_members(call, overlay, shown(call, overlay, list), &members)
}

fn smart_list(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let list = SMART.find(call, overlay, call.param("uuid"), "List")?;
    let series = smart_members(call, list);
    let members = Collection { table: "smart-members", series, kind: Kind::Fan };
    with_members(call, overlay, smart_shown(call, list), &members)
}

fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fields = json!({"name": call.text("name")?, "createdAt": rfc3339(call.now_ms)});
    let list = overlay.create(LISTS, object(fields));
    Ok(Answer::created(shown(call, overlay, list)))
}

fn rename(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay)?;
    let fields = text_fields(call, &["name"])?;
    overlay.set(LISTS, list, fields);
    Ok(Answer::ok(shown(call, overlay, list)))
}

fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay)?;
    overlay.take(LISTS, list);
    Ok(Answer::empty())
}

/// `userUuids`; members that are already on the list keep their positions.
fn add_members(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay)?;
    for fan in body_fans(call)? {
        if !overlay.holds(&table(list), members(call, list), fan) {
            overlay.put(&table(list), fan);
        }
    }
    Ok(Answer::ok(shown(call, overlay, list)))
}

fn remove_member(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let (list, fan) = (named(call, overlay)?, fan_param(call)?);
    if !overlay.holds(&table(list), members(call, list), fan) {
        return Err(Refusal::not_found("Member"));
    }
    overlay.take(&table(list), fan);
    Ok(Answer::empty())
}
