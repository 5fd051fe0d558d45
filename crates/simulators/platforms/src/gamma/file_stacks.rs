//! File stacks, as this platform calls posts.

use http::Method;
use serde_json::{Map, Value, json};

use super::shapes::{CURRENCY, id, index, medium, own, rows_of};
use super::uploads::words;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::time::{parse_ms, rfc3339};

/// The posts of the creator.
pub(super) const FILE_STACKS: &str = "file-stacks";
const ONE: &str = "file-stack/{stack_id}";

const FIELDS: &[&str] =
    &["description", "price", "tag", "categories", "private", "is_subscription_item"];
const TAGS: [&str; 3] = ["studio", "travel", "live"];

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("user/{id}/file-stack", file_stacks)
        .get(ONE, file_stack)
        .write(Method::PUT, ONE, edit)
        .write(Method::DELETE, ONE, delete)
}

/// Filters: `categories` and `tag` (comma-separated, one must match), `contentType` (`image` or
/// `video`), `is_subscription_item`.
fn file_stacks(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own(call)?;
    let all = overlay.page(FILE_STACKS, call.world.posts(), 0, u64::MAX).indexes.into_iter();
    let shown = all.map(|index| file_stack_json(call, overlay, index));
    rows_of(call, shown.filter(|stack| is_wanted(call, stack)))
}

fn is_wanted(call: &PlatformCall<'_>, stack: &Value) -> bool {
    let has_one = |query: &str, field: &str| {
        call.query(query).filter(|it| !it.is_empty()).is_none_or(|wanted| {
            let has = stack[field].as_array().into_iter().flatten().filter_map(Value::as_str);
            has.into_iter().any(|word| wanted.split(',').any(|wanted| wanted.trim() == word))
        })
    };
    let of_subscription = call
        .query("is_subscription_item")
        .is_none_or(|wanted| stack["is_subscription_item"] == json!(wanted == "true"));
    has_one("categories", "categories")
        && has_one("contentType", "categories")
        && has_one("tag", "tag")
        && of_subscription
}

/// A file stack, generated or created.
pub(super) fn file_stack_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let base = if index < CREATED { generated(call, index) } else { json!({}) };
    let mut shown = object(overlay.over(FILE_STACKS, index, base));
    let comments = super::comments::generated(call, index);
    let comment_count = overlay.count(&super::comments::table(index), comments);
    shown.insert("_id".to_owned(), json!(id(call, Kind::Post, index)));
    shown.insert("user_id".to_owned(), json!(id(call, Kind::Creator, 0)));
    shown.insert("comment_count".to_owned(), json!(comment_count));
    let posted_at_ms = shown.remove("posted_at_ms").and_then(|at_ms| at_ms.as_i64());
    let posted_at_ms = posted_at_ms.unwrap_or_else(|| call.world.post(index).posted_at_ms);
    let status = if posted_at_ms <= call.now_ms { "published" } else { "scheduled" };
    shown.insert("posted_at".to_owned(), json!(rfc3339(posted_at_ms)));
    shown.insert("status".to_owned(), json!(status));
    Value::Object(shown)
}

fn generated(call: &PlatformCall<'_>, index: u64) -> Value {
    let post = call.world.post(index);
    let files: Vec<Value> = post.media.iter().map(|media| medium(call, *media)).collect();
    let is_video = post.media.iter().any(|media| call.world.medium(*media).is_video);
    let mut categories = vec!["media", if is_video { "video" } else { "image" }];
    if index.is_multiple_of(5) {
        categories.push("moment");
    }
    let tag = usize::try_from(index % 3).ok().and_then(|at| TAGS.get(at));
    let of_subscription = !index.is_multiple_of(4);
    json!({
        "description": post.text,
        "categories": categories,
        "tag": tag.into_iter().collect::<Vec<_>>(),
        "price": if of_subscription { 0 } else { post.price_cents },
        "currency": CURRENCY,
        "is_subscription_item": of_subscription,
        "private": false,
        "like_count": post.likes,
        "files": files,
        "created_at": rfc3339(post.posted_at_ms),
        "updated_at": rfc3339(post.posted_at_ms),
    })
}

/// The file stack of the path; 404 if there is none.
pub(super) fn stack_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    let stack = index(call, Kind::Post, "stack_id", "File stack")?;
    let exists = overlay.holds(FILE_STACKS, call.world.posts(), stack);
    if exists { Ok(stack) } else { Err(Refusal::not_found("File stack")) }
}

fn file_stack(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let stack = stack_param(call, overlay)?;
    Ok(Answer::ok(file_stack_json(call, overlay, stack)))
}

/// The fields of an upload can be changed; `to_be_posted_at` moves a post that is not published
/// yet.
fn edit(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let stack = stack_param(call, overlay)?;
    let mut fields = call.fields(FIELDS);
    check_edit(&fields)?;
    for name in ["tag", "categories"] {
        if let Some(Value::String(list)) = fields.get(name) {
            let list = json!(words(list));
            fields.insert(name.to_owned(), list);
        }
    }
    if !call.field("to_be_posted_at").is_null() {
        fields.insert("posted_at_ms".to_owned(), json!(new_time(call, overlay, stack)?));
    }
    if fields.is_empty() {
        return Err(Refusal::bad_request("Nothing to change"));
    }
    fields.insert("updated_at".to_owned(), json!(rfc3339(call.now_ms)));
    overlay.set(FILE_STACKS, stack, fields);
    Ok(Answer::ok(file_stack_json(call, overlay, stack)))
}

fn check_edit(fields: &Map<String, Value>) -> Result<(), Refusal> {
    let fits = |(name, value): (&String, &Value)| match name.as_str() {
        "price" => value.as_i64().is_some_and(|price| price == 0 || price >= 300),
        "private" | "is_subscription_item" => value.is_boolean(),
        "tag" | "categories" => {
            let all_text = |list: &Vec<Value>| list.iter().all(Value::is_string);
            value.is_string() || value.as_array().is_some_and(all_text)
        }
        _ => value.is_string(),
    };
    match fields.iter().find(|field| !fits(*field)) {
        None => Ok(()),
        Some((name, _)) if name == "price" => {
            Err(Refusal::bad_request("price is 0 or at least 300"))
        }
        Some((name, _)) => Err(Refusal::bad_request(format!("{name} has a wrong value"))),
    }
}

/// The time in `to_be_posted_at`, a past one means now; 409 if the post is already published.
fn new_time(call: &PlatformCall<'_>, overlay: &Overlay, stack: u64) -> Result<i64, Refusal> {
    let posted_at_ms = overlay.field(FILE_STACKS, stack, "posted_at_ms").and_then(Value::as_i64);
    if posted_at_ms.is_none_or(|posted_at_ms| posted_at_ms <= call.now_ms) {
        return Err(Refusal::conflict("The file stack is published"));
    }
    let sent = call.field("to_be_posted_at").as_str().and_then(parse_ms);
    let sent = sent.ok_or_else(|| Refusal::bad_request("to_be_posted_at is not a time"))?;
    Ok(sent.max(call.now_ms))
}

fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let stack = stack_param(call, overlay)?;
    overlay.take(FILE_STACKS, stack);
    Ok(Answer::empty())
}
