//! Uploads in steps: request an address, send the file there (to another service of the platform),
//! confirm it, then add the medium.

use serde_json::{Map, Value, json};

use super::shapes::{Collection, NOTHING, body_id, id};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::HOUR_MS;
use crate::world::ids::Kind;

const UPLOADS: Collection<'static> =
    Collection { table: "uploads", series: NOTHING, kind: Kind::Upload };
/// How long the address of an upload is valid.
const VALID_MS: i64 = HOUR_MS;
const BYTES_MAX: u64 = 5 * 1024 * 1024 * 1024;

pub(super) fn routes(routes: Routes) -> Routes {
    routes.post("upload-url/v1", begin).post("upload-verify/v1", verify)
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let upload_id = id(call, UPLOADS.kind, index);
    let url = format!("https://upload.beta.test/{upload_id}");
    overlay.over(UPLOADS.table, index, json!({"uploadId": upload_id, "uploadUrl": url}))
}

/// `filename`, `contentType` (a picture or a video) and `size` in bytes.
fn begin(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let content_type = call.text("contentType")?;
    if !content_type.starts_with("image/") && !content_type.starts_with("video/") {
        return Err(Refusal::bad_request("contentType is not that of a picture or a video"));
    }
    let size = call.field("size").as_u64().filter(|size| (1..=BYTES_MAX).contains(size));
    let size = size.ok_or_else(|| Refusal::bad_request("size is not a number of bytes"))?;
    let fields = json!({
        "filename": call.text("filename")?,
        "contentType": content_type,
        "size": size,
        "status": "created",
        "expiresAt": call.now_ms + VALID_MS,
    });
    let index = overlay.create(UPLOADS.table, object(fields));
    Ok(Answer::ok(shown(call, overlay, index)))
}

/// The uploads that have not become a medium but still can.
pub(super) fn open(call: &PlatformCall<'_>, overlay: &Overlay) -> Vec<Value> {
    let is_open = |upload: &Value| {
        let expires_ms = upload.get("expiresAt").and_then(Value::as_i64).unwrap_or_default();
        expires_ms >= call.now_ms && upload.get("status") != Some(&json!("used"))
    };
    let all = UPLOADS.all(overlay).into_iter().map(|index| shown(call, overlay, index));
    all.filter(is_open).collect()
}

fn named(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    UPLOADS.find(call, overlay, &body_id(call, "uploadId")?, "Upload")
}

fn verify(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = named(call, overlay)?;
    let field = |name: &str| overlay.field(UPLOADS.table, index, name);
    if field("expiresAt").and_then(Value::as_i64).is_none_or(|at_ms| at_ms < call.now_ms) {
        return Err(Refusal::conflict("The upload has expired"));
    }
    if field("status").and_then(Value::as_str) == Some("used") {
        return Err(Refusal::conflict("The upload was used already"));
    }
    overlay.set(UPLOADS.table, index, object(json!({"status": "verified"})));
    Ok(Answer::ok(shown(call, overlay, index)))
}

/// The upload that the body names, if it is verified and unused.
pub(super) fn verified(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
) -> Result<Map<String, Value>, Refusal> {
    let index = named(call, overlay)?;
    let upload = overlay.fields(UPLOADS.table, index).cloned().unwrap_or_default();
    if upload.get("status").and_then(Value::as_str) != Some("verified") {
        return Err(Refusal::conflict("The upload is not verified, or was used already"));
    }
    Ok(upload)
}

/// Records that the upload has become a medium.
pub(super) fn use_up(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Result<(), Refusal> {
    let index = named(call, overlay)?;
    overlay.set(UPLOADS.table, index, object(json!({"status": "used"})));
    Ok(())
}
