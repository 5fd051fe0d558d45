//! Lists of accounts that the creator keeps.

use serde_json::{Value, json};

use super::people::account;
use super::shapes::{
    AccountRef, Collection, NOTHING, body_id, body_ids, id, query_id, text_fields, who,
};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::time;

const LISTS: &str = "lists";

/// The most accounts that one request adds to a list.
const ADDED_MAX: u64 = 10_000;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("list/v1", list)
        .get("lists/account", lists)
        .post("lists", create)
        .post("lists/edit", edit)
        .post("lists/remove", remove)
        .post("lists/order", order)
        .post("lists/items/add", add_items)
        .post("lists/items/remove", remove_items)
        .post("lists/aggregate/add", add_other_list)
        .post("lists/commands", run_command)
}

fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: LISTS, series: call.world.fan_lists(), kind: Kind::List }
}

fn items_table(list: u64) -> String {
    format!("list/{list}")
}

/// The members of a list, which are fans. A cleared list has lost its generated members.
fn items<'a>(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    list: u64,
    table: &'a str,
) -> Collection<'a> {
    let emptied = overlay.field(LISTS, list, "emptiedAt").is_some();
    let series =
        if list < CREATED && !emptied { call.world.fan_list(list).members } else { NOTHING };
    Collection { table, series, kind: Kind::Fan }
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, list: u64) -> Value {
    let table = items_table(list);
    let generated = if list < CREATED {
        let list = call.world.fan_list(list);
        json!({"label": list.name, "createdAt": list.created_at_ms})
    } else {
        json!({})
    };
    let mut shown = object(overlay.over(LISTS, list, generated));
    shown.remove("emptiedAt");
    shown.insert("id".to_owned(), json!(id(call, Kind::List, list)));
    shown.insert("type".to_owned(), json!("accounts"));
    let count = overlay.count(&table, items(call, overlay, list, &table).series);
    shown.insert("itemCount".to_owned(), json!(count));
    Value::Object(shown)
}

/// All lists; with `accountId`, those that contain the account.
fn lists(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let Some(wanted) = call.query("accountId") else {
        return collection(call).list(call, overlay, "lists", |list| shown(call, overlay, list));
    };
    let Some(AccountRef::Fan(fan)) = who(call, wanted) else {
        return Err(Refusal::not_found("Account"));
    };
    let has_fan = |list: &u64| {
        let table = items_table(*list);
        overlay.holds(&table, items(call, overlay, *list, &table).series, fan)
    };
    let lists = collection(call).all(overlay).into_iter().filter(has_fan).collect();
    super::shapes::list_of(call, "lists", lists, |list| shown(call, overlay, list))
}

/// The list `listId` with a page of its items.
fn list(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let list = collection(call).find(call, overlay, query_id(call, "listId")?, "List")?;
    let table = items_table(list);
    let page = items(call, overlay, list, &table).page(call, overlay)?;
    let item = |fan| json!({"id": id(call, Kind::Fan, fan), "account": account(call, overlay, AccountRef::Fan(fan))});
    let rows: Vec<Value> = page.indexes.into_iter().map(item).collect();
    let list = shown(call, overlay, list);
    Ok(Answer::ok(json!({
        "list": list,
        "items": rows,
        "total": page.total,
        "hasMore": page.has_more,
    })))
}

fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let label = call.text("label")?;
    let fields = json!({"label": label, "createdAt": call.now_ms});
    let list = overlay.create(LISTS, object(fields));
    Ok(Answer::ok(shown(call, overlay, list)))
}

fn named(call: &PlatformCall<'_>, overlay: &Overlay, field: &str) -> Result<u64, Refusal> {
    collection(call).find(call, overlay, &body_id(call, field)?, "List")
}

fn edit(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay, "listId")?;
    call.text("label")?;
    let fields = text_fields(call, &["label", "description"])?;
    overlay.set(LISTS, list, fields);
    Ok(Answer::ok(shown(call, overlay, list)))
}

fn remove(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay, "listId")?;
    let removed = shown(call, overlay, list);
    overlay.take(LISTS, list);
    Ok(Answer::ok(removed))
}

/// `listIds` come first, in this order.
fn order(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let ids = body_ids(call, "listIds")?;
    collection(call).reorder(call, overlay, &ids, "List")?;
    let rows: Vec<Value> =
        collection(call).all(overlay).into_iter().map(|list| shown(call, overlay, list)).collect();
    Ok(Answer::ok(Value::Array(rows)))
}

fn sent_fans(call: &PlatformCall<'_>) -> Result<Vec<u64>, Refusal> {
    let ids = body_ids(call, "itemIds")?;
    let fan = |id: &String| match who(call, id) {
        Some(AccountRef::Fan(fan)) => Ok(fan),
        _ => Err(Refusal::not_found("Account")),
    };
    ids.iter().map(fan).collect()
}

fn add_items(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay, "listId")?;
    let fans = sent_fans(call)?;
    add(call, overlay, list, fans)
}

/// Accounts that are already on the list keep their positions.
fn add(call: &PlatformCall<'_>, overlay: &mut Overlay, list: u64, fans: Vec<u64>) -> Outcome {
    let table = items_table(list);
    let series = items(call, overlay, list, &table).series;
    for fan in fans {
        overlay.put_new(&table, series, fan);
    }
    Ok(Answer::ok(shown(call, overlay, list)))
}

fn remove_items(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay, "listId")?;
    let fans = sent_fans(call)?;
    for fan in fans {
        overlay.take(&items_table(list), fan);
    }
    Ok(Answer::ok(shown(call, overlay, list)))
}

/// Adds all accounts of the list `sourceListId` to the list `listId`.
fn add_other_list(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay, "listId")?;
    let source = named(call, overlay, "sourceListId")?;
    let table = items_table(source);
    let members = items(call, overlay, source, &table);
    if overlay.count(&table, members.series) > ADDED_MAX {
        return Err(Refusal::bad_request("The other list is too long"));
    }
    let fans = members.all(overlay);
    add(call, overlay, list, fans)
}

/// `command` is `clear` (removes all items) or `duplicate` (makes a copy) of the list `listId`.
fn run_command(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let list = named(call, overlay, "listId")?;
    match call.text("command")? {
        "clear" => {
            let emptied_at = time::rfc3339(call.now_ms);
            overlay.set(LISTS, list, object(json!({"emptiedAt": emptied_at})));
            let table = items_table(list);
            let put = Collection { table: &table, series: NOTHING, kind: Kind::Fan }.all(overlay);
            for fan in put {
                overlay.take(&table, fan);
            }
            Ok(Answer::ok(shown(call, overlay, list)))
        }
        "duplicate" => {
            let table = items_table(list);
            let members = items(call, overlay, list, &table);
            if overlay.count(&table, members.series) > ADDED_MAX {
                return Err(Refusal::bad_request("The list is too long"));
            }
            let mut fans = members.all(overlay);
            fans.reverse();
            let label = shown(call, overlay, list).get("label").cloned();
            let fields = json!({"label": label, "createdAt": call.now_ms});
            let copy = overlay.create(LISTS, object(fields));
            add(call, overlay, copy, fans)
        }
        _ => Err(Refusal::bad_request("command is not clear or duplicate")),
    }
}
