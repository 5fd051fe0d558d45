//! Creates a file stack from a file in a multipart form.

use serde_json::{Map, Value, json};

use super::file_stacks::{FILE_STACKS, file_stack_json};
use super::shapes::{CURRENCY, id};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::multipart::is_form;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::time::{parse_ms, rfc3339};

/// The media of the creator.
pub(super) const VAULT: &str = "vault";

pub(super) fn routes(routes: Routes) -> Routes {
    routes.post("media/upload", upload)
}

/// Publishes immediately, or at `to_be_posted_at`. Only `file` is required.
fn upload(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    if !call.content_type.is_some_and(is_form) {
        return Err(Refusal::bad_request("A multipart form is required"));
    }
    let medium = medium_fields(call)?;
    let mut stack = stack_fields(call, &medium)?;
    let index = overlay.create(VAULT, medium);
    stack.insert("files".to_owned(), json!([medium_json(call, overlay, index)]));
    let stack = overlay.create(FILE_STACKS, stack);
    Ok(Answer::created(file_stack_json(call, overlay, stack)))
}

/// Width, height and length would require decoding the file, which never happens here.
fn medium_fields(call: &PlatformCall<'_>) -> Result<Map<String, Value>, Refusal> {
    let file = call.field("file");
    let size = file.get("size").and_then(Value::as_u64).filter(|size| *size > 0);
    let size = size.ok_or_else(|| Refusal::bad_request("file is required"))?;
    let content_type = file.get("content_type").and_then(Value::as_str).unwrap_or_default();
    let known = ["image/", "video/", "application/octet-stream"];
    if !known.iter().any(|start| content_type.starts_with(start)) {
        return Err(Refusal::bad_request("file is neither a picture nor a video"));
    }
    Ok(object(json!({
        "filename": file.get("filename"),
        "content_type": content_type,
        "width": null,
        "height": null,
        "size": size,
        "sha256": file.get("sha256"),
        "duration": null,
        "created_at": rfc3339(call.now_ms),
    })))
}

/// An uploaded medium.
pub(super) fn medium_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let id = id(call, Kind::Media, index);
    overlay.over(
        VAULT,
        index,
        json!({"url": format!("https://cdn.gamma.test/file/{id}"), "_id": id}),
    )
}

fn stack_fields(
    call: &PlatformCall<'_>,
    medium: &Map<String, Value>,
) -> Result<Map<String, Value>, Refusal> {
    let of_subscription = flag(call, "is_subscription_item")?;
    let price = match text(call, "price") {
        None => 0,
        Some(price) => price
            .parse::<i64>()
            .ok()
            .filter(|price| *price == 0 || *price >= 300)
            .ok_or_else(|| Refusal::bad_request("price is 0 or at least 300"))?,
    };
    let posted_at_ms = match text(call, "to_be_posted_at") {
        None => call.now_ms,
        Some(date) => parse_ms(date)
            .ok_or_else(|| Refusal::bad_request("to_be_posted_at is not a time"))?
            .max(call.now_ms),
    };
    let content_type = medium.get("content_type").and_then(Value::as_str).unwrap_or_default();
    let kind = if content_type.starts_with("video/") { "media,video" } else { "media,image" };
    Ok(object(json!({
        "description": text(call, "description").unwrap_or_default(),
        "categories": words(text(call, "categories").unwrap_or(kind)),
        "tag": words(text(call, "tag").unwrap_or_default()),
        "price": if of_subscription { 0 } else { price },
        "currency": CURRENCY,
        "is_subscription_item": of_subscription,
        "private": flag(call, "private")?,
        "like_count": 0,
        "posted_at_ms": posted_at_ms,
        "created_at": rfc3339(call.now_ms),
        "updated_at": rfc3339(call.now_ms),
    })))
}

/// A field of the form; an empty one counts as absent.
fn text<'a>(call: &'a PlatformCall<'_>, name: &str) -> Option<&'a str> {
    call.field(name).as_str().map(str::trim).filter(|text| !text.is_empty())
}

fn flag(call: &PlatformCall<'_>, name: &str) -> Result<bool, Refusal> {
    match text(call, name) {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(_) => Err(Refusal::bad_request(format!("{name} is true or false"))),
    }
}

/// The words of a comma-separated list.
pub(super) fn words(list: &str) -> Vec<&str> {
    list.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}
