//! Lists of users.

use http::Method;
use serde_json::{Value, json};

use super::shapes::{fan_index, fan_param, id, id_text, index, page_of, user};
use crate::platform::answer::{Answer, Outcome, Refusal};
use crate::platform::call::{Call, object};
use crate::platform::routes::Routes;
use crate::shelf::Shelf;
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

fn lists(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let collection = (LISTS, call.world.fan_lists());
    page_of(call, shelf, collection, |list| list_json(call, shelf, list))
}

/// The members of a list: the table of what was written, and the generated ones.
fn member_collection(call: &Call<'_>, list: u64) -> (String, Series) {
    let generated = if list < CREATED { call.world.fan_list(list).members } else { Series::all(0) };
    (format!("list/{list}"), generated)
}

fn pinned_table(list: u64) -> String {
    format!("list-pins/{list}")
}

fn list_json(call: &Call<'_>, shelf: &Shelf, list: u64) -> Value {
    let (table, series) = member_collection(call, list);
    let name = if list < CREATED { call.world.fan_list(list).name } else { "List" };
    let mut shown = object(shelf.over(LISTS, list, json!({"name": name})));
    let id = id(call, Kind::List, list);
    let rest = json!({
        "id": id,
        "type": "custom",
        "usersCount": shelf.count(&table, series),
        "canUpdate": true,
        "canDelete": true,
        "canManageUsers": true,
    });
    shown.extend(object(rest));
    Value::Object(shown)
}

fn create(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let name = call.text("name")?.to_owned();
    let list = shelf.create(LISTS, object(json!({"name": name})));
    Ok(Answer::created(list_json(call, shelf, list)))
}

fn known(call: &Call<'_>, shelf: &Shelf, list: Option<u64>) -> Result<u64, Refusal> {
    list.filter(|list| shelf.holds(LISTS, call.world.fan_lists(), *list))
        .ok_or_else(|| Refusal::not_found("List"))
}

fn list_param(call: &Call<'_>, shelf: &Shelf) -> Result<u64, Refusal> {
    let list = index(call, Kind::List, "list_id", "List")?;
    known(call, shelf, Some(list))
}

fn members(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let (table, series) = member_collection(call, list_param(call, shelf)?);
    page_of(call, shelf, (&table, series), |fan| user(call, shelf, fan))
}

fn pinned_members(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let table = pinned_table(list_param(call, shelf)?);
    page_of(call, shelf, (&table, Series::all(0)), |fan| user(call, shelf, fan))
}

/// `id` is the list, `users` the ids of those to add; one unknown id refuses them all.
fn add_members(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let wanted = ids::index_of_digits(Kind::List, call.world.creator, &id_text(call.field("id")));
    let list = known(call, shelf, wanted)?;
    let users = call.field("users").as_array().filter(|users| !users.is_empty());
    let users = users.ok_or_else(|| Refusal::bad_request("users is required"))?;
    let fans: Option<Vec<u64>> = users.iter().map(|user| fan_index(call, &id_text(user))).collect();
    let fans = fans.ok_or_else(|| Refusal::bad_request("users has an unknown id"))?;
    let (table, series) = member_collection(call, list);
    let mut added = 0;
    for fan in fans {
        if !shelf.holds(&table, series, fan) {
            shelf.put(&table, fan);
            added += 1;
        }
    }
    let mut answer = object(list_json(call, shelf, list));
    answer.insert("added".to_owned(), json!(added));
    Ok(Answer::ok(Value::Object(answer)))
}

fn member_param(call: &Call<'_>, shelf: &Shelf) -> Result<(u64, u64), Refusal> {
    let list = list_param(call, shelf)?;
    let fan = fan_param(call, "user_id")?;
    let (table, series) = member_collection(call, list);
    let is_member = shelf.holds(&table, series, fan);
    if is_member { Ok((list, fan)) } else { Err(Refusal::not_found("User in the list")) }
}

fn pin_member(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let (list, fan) = member_param(call, shelf)?;
    shelf.put(&pinned_table(list), fan);
    Ok(Answer::ok(json!({"success": true, "id": id(call, Kind::Fan, fan), "isPinned": true})))
}

fn remove_member(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let (list, fan) = member_param(call, shelf)?;
    shelf.take(&member_collection(call, list).0, fan);
    shelf.take(&pinned_table(list), fan);
    Ok(Answer::ok(list_json(call, shelf, list)))
}
