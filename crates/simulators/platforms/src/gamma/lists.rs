//! Lists of fans. Only those who follow the creator can be on one.

use http::Method;
use serde_json::{Value, json};

use super::follows::FOLLOWERS;
use super::shapes::{fan, fan_of, id, index, own, rows_with_limit};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339;

const LISTS: &str = "lists";
const PATH: &str = "user/{id}/user-lists";
const ONE: &str = "user/{id}/user-lists/{list_id}";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get(PATH, lists)
        .post(PATH, create)
        .write(Method::PUT, ONE, rename)
        .write(Method::DELETE, ONE, delete)
        .get("user/{id}/user-lists/{list_id}/users", members)
        .post("user/{id}/user-lists/{list_id}/add-users", add)
        .post("user/{id}/user-lists/{list_id}/remove-users", remove)
        .get("user/{id}/user-lists/contains-user/{fan_id}", lists_of_fan)
}

fn lists(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    rows_with_limit(call, overlay, LISTS, call.world.fan_lists(), |list| {
        list_json(call, overlay, list)
    })
}

/// The members of a list: the table of those written, and the generated ones.
fn member_collection(call: &PlatformCall<'_>, list: u64) -> (String, Series) {
    let generated = if list < CREATED { call.world.fan_list(list).members } else { Series::all(0) };
    (format!("list/{list}"), generated)
}

fn list_json(call: &PlatformCall<'_>, overlay: &Overlay, list: u64) -> Value {
    let (table, series) = member_collection(call, list);
    let base = if list < CREATED {
        let generated = call.world.fan_list(list);
        json!({"name": generated.name, "created_at": rfc3339(generated.created_at_ms)})
    } else {
        json!({})
    };
    let mut shown = object(overlay.over(LISTS, list, base));
    shown.insert("_id".to_owned(), json!(id(call, Kind::List, list)));
    shown.insert("user_count".to_owned(), json!(overlay.count(&table, series)));
    Value::Object(shown)
}

fn list_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    own(call)?;
    let list = index(call, Kind::List, "list_id", "List")?;
    let exists = overlay.holds(LISTS, call.world.fan_lists(), list);
    if exists { Ok(list) } else { Err(Refusal::not_found("List")) }
}

fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    own(call)?;
    let name = call.text("name")?.to_owned();
    let fields = json!({"name": name, "created_at": rfc3339(call.now_ms)});
    let list = overlay.create(LISTS, object(fields));
    Ok(Answer::created(list_json(call, overlay, list)))
}

fn rename(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = list_param(call, overlay)?;
    let name = call.text("name")?.to_owned();
    overlay.set(LISTS, list, object(json!({"name": name})));
    Ok(Answer::ok(list_json(call, overlay, list)))
}

fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = list_param(call, overlay)?;
    overlay.take(LISTS, list);
    Ok(Answer::empty())
}

fn members(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let (table, series) = member_collection(call, list_param(call, overlay)?);
    rows_with_limit(call, overlay, &table, series, |member| fan(call, member))
}

/// The fans in `user_ids`; an unknown one refuses the whole request.
fn sent_fans(call: &PlatformCall<'_>) -> Result<Vec<u64>, Refusal> {
    let sent = call.field("user_ids").as_array().filter(|sent| !sent.is_empty());
    let sent = sent.ok_or_else(|| Refusal::bad_request("user_ids is required"))?;
    let fans: Option<Vec<u64>> =
        sent.iter().map(|user_id| fan_of(call, user_id.as_str()?)).collect();
    fans.ok_or_else(|| Refusal::bad_request("user_ids has an unknown id"))
}

fn add(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = list_param(call, overlay)?;
    let fans = sent_fans(call)?;
    let follows = |fan: &u64| overlay.holds(FOLLOWERS, call.world.followers(), *fan);
    if !fans.iter().all(follows) {
        let message = "Only users who follow you can be added";
        return Err(Refusal::new(http::StatusCode::BAD_REQUEST, "not_following", message));
    }
    let (table, series) = member_collection(call, list);
    for fan in fans {
        overlay.put_new(&table, series, fan);
    }
    Ok(Answer::ok(list_json(call, overlay, list)))
}

fn remove(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = list_param(call, overlay)?;
    let table = member_collection(call, list).0;
    for fan in sent_fans(call)? {
        overlay.take(&table, fan);
    }
    Ok(Answer::ok(list_json(call, overlay, list)))
}

fn lists_of_fan(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    let fan = fan_of(call, call.param("fan_id")).ok_or_else(|| Refusal::not_found("User"))?;
    let lists = overlay.page(LISTS, call.world.fan_lists(), 0, u64::MAX).indexes.into_iter();
    let with_fan = lists.filter(|list| {
        let (table, series) = member_collection(call, *list);
        overlay.holds(&table, series, fan)
    });
    Ok(Answer::ok(with_fan.map(|list| list_json(call, overlay, list)).collect()))
}
