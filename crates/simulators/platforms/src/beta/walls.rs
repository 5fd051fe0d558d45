//! Walls: groups of posts on the creator's page.

use serde_json::{Value, json};

use super::posts;
use super::shapes::{AccountRef, Collection, NOTHING, account_id, body_id, body_ids, id};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::series::Series;

const WALLS: &str = "walls";
const WALLS_MAX: u64 = 50;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("wall", wall)
        .post("wall/create", create)
        .post("wall/delete", delete)
        .post("wall/editorder", order)
}

pub(super) fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    let walls = if call.world.is_empty() { 0 } else { 2 };
    Collection { table: WALLS, series: Series::all(walls), kind: Kind::Wall }
}

fn table(wall: u64) -> String {
    format!("wall/{wall}")
}

/// The generated walls contain every second and every fifth post.
fn post_series(call: &PlatformCall<'_>, wall: u64) -> Series {
    let posts = call.world.posts().count();
    match wall {
        0 => Series::of(posts, 2, &[0]),
        1 => Series::of(posts, 5, &[1]),
        _ => NOTHING,
    }
}

pub(super) fn put_post(overlay: &mut Overlay, wall: u64, post: u64) {
    overlay.put(&table(wall), post);
}

pub(super) fn take_post(overlay: &mut Overlay, wall: u64, post: u64) {
    overlay.take(&table(wall), post);
}

/// The ids of the walls that a post is on.
pub(super) fn ids_of(call: &PlatformCall<'_>, overlay: &Overlay, post: u64) -> Vec<String> {
    let walls = collection(call).all(overlay).into_iter();
    let holding = walls.filter(|wall| overlay.holds(&table(*wall), post_series(call, *wall), post));
    holding.map(|wall| id(call, Kind::Wall, wall)).collect()
}

/// All walls, in their order.
pub(super) fn all(call: &PlatformCall<'_>, overlay: &Overlay) -> Vec<Value> {
    let walls = collection(call).all(overlay).into_iter().enumerate();
    walls.map(|(position, wall)| shown(call, overlay, wall, position)).collect()
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, wall: u64, position: usize) -> Value {
    let (name, private) = if wall == 0 { ("Open", 0) } else { ("Behind the scenes", 1) };
    let generated = json!({
        "id": id(call, Kind::Wall, wall),
        "accountId": account_id(call, AccountRef::Creator),
        "name": name,
        "description": "",
        "metadata": "",
        "private": private,
    });
    let mut shown = object(overlay.over(WALLS, wall, generated));
    shown.insert("pos".to_owned(), json!(position));
    let posts = overlay.count(&table(wall), post_series(call, wall));
    shown.insert("postCount".to_owned(), json!(posts));
    Value::Object(shown)
}

/// The posts of the wall `wallId`; by default the walls themselves.
fn wall(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let Some(wall_id) = call.query("wallId").filter(|wall_id| !wall_id.is_empty()) else {
        return super::shapes::list_of(call, "walls", all(call, overlay), |row| row);
    };
    let wall = collection(call).find(call, overlay, wall_id, "Wall")?;
    let table = table(wall);
    let series = post_series(call, wall);
    let posts = Collection { table: &table, series, kind: Kind::Post };
    posts.list(call, overlay, "posts", |post| posts::shown(call, overlay, post))
}

/// `name`, and optionally `description`, `metadata`, `private` (1 makes a locked wall).
fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    if overlay.count(WALLS, collection(call).series) >= WALLS_MAX {
        return Err(Refusal::bad_request("There are too many walls"));
    }
    let private = match call.field("private") {
        Value::Null => 0,
        sent => sent
            .as_u64()
            .filter(|private| *private <= 1)
            .ok_or_else(|| Refusal::bad_request("private is not 0 or 1"))?,
    };
    let fields = json!({
        "name": call.text("name")?,
        "description": call.field("description").as_str().unwrap_or_default(),
        "metadata": call.field("metadata"),
        "private": private,
        "createdAt": call.now_ms,
    });
    let wall = overlay.create(WALLS, object(fields));
    Ok(Answer::ok(shown(call, overlay, wall, 0)))
}

fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let wall_id = body_id(call, "wallId")?;
    let wall = collection(call).find(call, overlay, &wall_id, "Wall")?;
    overlay.take(WALLS, wall);
    Ok(Answer::ok(json!({"wallId": wall_id, "deletedAt": call.now_ms})))
}

/// `wallIds` come first, in this order.
fn order(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let ids = body_ids(call, "wallIds")?;
    collection(call).reorder(call, overlay, &ids, "Wall")?;
    Ok(Answer::ok(json!({"walls": all(call, overlay)})))
}
