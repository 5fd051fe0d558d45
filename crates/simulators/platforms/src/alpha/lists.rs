//! Lists of users.

use http::Method;
use serde_json::{Value, json};

use super::shapes::{fan_index, fan_param, id, id_text, index, page_of, user};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{self, CREATED, Kind};
use crate::world::series::Series;

const LISTS: &str = "lists";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("lists", lists)
        .post("lists", create)
        .get("lists/{list_id}/users", members)
        .get("lists/{list_id}/users/pinned", pinned_members)
        .post("lists/users", add_members)
        .post("lists/{list_id}/users/{user_id}/pin", pin_member)
        .write(Method::DELETE, "lists/{list_id}/users/{user_id}", remove_member)
}

fn lists(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, LISTS, call.world.fan_lists(), |list| list_json(call, overlay, list))
}

/// The members of a list: the table of those written, and the generated ones.
fn member_collection(call: &PlatformCall<'_>, list: u64) -> (String, Series) {
    let generated = if list < CREATED { call.world.fan_list(list).members } else { Series::all(0) };
    (format!("list/{list}"), generated)
}

fn pinned_table(list: u64) -> String {
    format!("list-pins/{list}")
}

fn list_json(call: &PlatformCall<'_>, overlay: &Overlay, list: u64) -> Value {
    let (table, series) = member_collection(call, list);
    let name = if list < CREATED { call.world.fan_list(list).name } else { "List" };
    let mut shown = object(overlay.over(LISTS, list, json!({"name": name})));
    let id = id(call, Kind::List, list);
    let rest = json!({
        "id": id,
        "type": "custom",
        "usersCount": overlay.count(&table, series),
        "canUpdate": true,
        "canDelete": true,
        "canManageUsers": true,
    });
    shown.extend(object(rest));
    Value::Object(shown)
}

fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let name = call.text("name")?.to_owned();
    let list = overlay.create(LISTS, object(json!({"name": name})));
    Ok(Answer::created(list_json(call, overlay, list)))
}

fn known(call: &PlatformCall<'_>, overlay: &Overlay, list: Option<u64>) -> Result<u64, Refusal> {
    list.filter(|list| overlay.holds(LISTS, call.world.fan_lists(), *list))
        .ok_or_else(|| Refusal::not_found("List"))
}

fn list_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    let list = index(call, Kind::List, "list_id", "List")?;
    known(call, overlay, Some(list))
}

fn members(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let (table, series) = member_collection(call, list_param(call, overlay)?);
    page_of(call, overlay, &table, series, |fan| user(call, overlay, fan))
}

fn pinned_members(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let table = pinned_table(list_param(call, overlay)?);
    page_of(call, overlay, &table, Series::all(0), |fan| user(call, overlay, fan))
}

/// `id` is the list, `users` the ids of those to add; one unknown id refuses the whole request.
fn add_members(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let wanted = ids::index_of_digits(Kind::List, call.world.creator, &id_text(call.field("id")));
    let list = known(call, overlay, wanted)?;
    let users = call.field("users").as_array().filter(|users| !users.is_empty());
    let users = users.ok_or_else(|| Refusal::bad_request("users is required"))?;
    let fans: Option<Vec<u64>> = users.iter().map(|user| fan_index(call, &id_text(user))).collect();
    let fans = fans.ok_or_else(|| Refusal::bad_request("users has an unknown id"))?;
    let (table, series) = member_collection(call, list);
    let mut added = 0;
    for fan in fans {
        if !overlay.holds(&table, series, fan) {
            overlay.put(&table, fan);
            added += 1;
        }
    }
    let mut answer = object(list_json(call, overlay, list));
    answer.insert("added".to_owned(), json!(added));
    Ok(Answer::ok(Value::Object(answer)))
}

fn member_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<(u64, u64), Refusal> {
    let list = list_param(call, overlay)?;
    let fan = fan_param(call, "user_id")?;
    let (table, series) = member_collection(call, list);
    let is_member = overlay.holds(&table, series, fan);
    if is_member { Ok((list, fan)) } else { Err(Refusal::not_found("User in the list")) }
}

fn pin_member(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let (list, fan) = member_param(call, overlay)?;
    overlay.put(&pinned_table(list), fan);
    Ok(Answer::ok(json!({"success": true, "id": id(call, Kind::Fan, fan), "isPinned": true})))
}

fn remove_member(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let (list, fan) = member_param(call, overlay)?;
    overlay.take(&member_collection(call, list).0, fan);
    overlay.take(&pinned_table(list), fan);
    Ok(Answer::ok(list_json(call, overlay, list)))
}
