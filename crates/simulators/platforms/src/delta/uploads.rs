//! Uploads in parts: open a session, request the address of each part, send the parts there
//! (storage outside the API), close the session.

use http::Method;
use serde_json::{Value, json};

use super::media::{self, MEDIA};
use super::shapes::{Collection, NOTHING, id};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::HOUR_MS;
use crate::world::ids::Kind;
use crate::world::time::rfc3339;

const UPLOADS: Collection<'static> =
    Collection { table: "uploads", series: NOTHING, kind: Kind::Upload };
const PARTS_MAX: u64 = 10_000;
const TYPES: [&str; 4] = ["image", "video", "audio", "document"];

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["write:media"])
        .post("media/uploads", open)
        .get("media/uploads/{uploadId}/parts/{partNumber}/url", part_url)
        .write(Method::PATCH, "media/uploads/{uploadId}", complete)
}

/// `name`, `filename`, `mediaType`.
fn open(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let media_type = call.text("mediaType")?;
    if !TYPES.contains(&media_type) {
        return Err(Refusal::bad_request("mediaType is not image, video, audio or document"));
    }
    let filename = call.text("filename")?;
    let name = call.field("name").as_str().unwrap_or(filename);
    let medium = overlay.next_index();
    let fields = json!({
        "name": name,
        "filename": filename,
        "mediaType": media_type,
        "medium": medium,
        "status": "open",
    });
    let index = overlay.create(UPLOADS.table, object(fields));
    Ok(Answer::created(json!({
        "uploadId": id(call, UPLOADS.kind, index),
        "mediaUuid": id(call, Kind::Media, medium),
    })))
}

fn open_upload(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    let index = UPLOADS.find(call, overlay, call.param("uploadId"), "Upload")?;
    let status = overlay.field(UPLOADS.table, index, "status").and_then(Value::as_str);
    if status == Some("open") {
        Ok(index)
    } else {
        Err(Refusal::conflict("The upload is complete"))
    }
}

fn part_url(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let upload = open_upload(call, overlay)?;
    let sent = call.param("partNumber").parse::<u64>().ok();
    let part = sent.filter(|part| (1..=PARTS_MAX).contains(part));
    let part = part.ok_or_else(|| Refusal::bad_request("partNumber is not from 1 to 10000"))?;
    let upload_id = id(call, UPLOADS.kind, upload);
    Ok(Answer::ok(json!({
        "url": format!("https://uploads.delta.test/{upload_id}/{part}"),
        "expiresAt": rfc3339(call.now_ms + HOUR_MS),
    })))
}

/// `parts`: the `partNumber` and the storage's `etag` of each part, in order.
fn complete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let upload = open_upload(call, overlay)?;
    let parts = call.field("parts").as_array().filter(|parts| !parts.is_empty());
    let parts = parts.ok_or_else(|| Refusal::bad_request("parts is required"))?;
    let in_order = (1..).zip(parts).all(|(number, part): (u64, &Value)| {
        part.get("partNumber").and_then(Value::as_u64) == Some(number)
            && part.get("etag").and_then(Value::as_str).is_some_and(|etag| !etag.is_empty())
    });
    if !in_order {
        return Err(Refusal::bad_request("parts are not numbered from 1, each with its etag"));
    }
    let upload_fields = overlay.fields(UPLOADS.table, upload).cloned().unwrap_or_default();
    let field = |name: &str| upload_fields.get(name).cloned().unwrap_or_default();
    let medium = field("medium").as_u64().ok_or_else(|| Refusal::not_found("Upload"))?;
    let fields = json!({
        "name": field("name"),
        "mediaType": field("mediaType"),
        "status": "ready",
        "createdAt": rfc3339(call.now_ms),
    });
    overlay.set(UPLOADS.table, upload, object(json!({"status": "complete"})));
    overlay.set(MEDIA, medium, object(fields));
    overlay.put(MEDIA, medium);
    Ok(Answer::ok(media::shown(call, overlay, medium)))
}
