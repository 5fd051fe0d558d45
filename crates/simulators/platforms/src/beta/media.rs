//! The media of the vault: files, their covers, bundles of files, and the watermark.

use serde_json::{Map, Value, json};

use super::account_media::{BUNDLES, bundle};
use super::shapes::{
    AccountRef, Collection, account_id, body_id, body_ids, id, merged, price, query_ids,
};
use super::uploads;
use super::vault;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};

pub(super) const MEDIA: &str = "media";
const WATERMARK: &str = "watermark";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("media", by_ids)
        .get("media/vault", vault_list)
        .get("media/vaultnew", vault_list_new)
        .get("media/watermark", watermark)
        .post("media", add)
        .post("media/bundle", create_bundle)
        .post("media/cover", set_cover)
        .post("media/watermark", set_watermark)
}

pub(super) fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: MEDIA, series: call.world.media(), kind: Kind::Media }
}

pub(super) fn created_at_ms(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> i64 {
    let written = overlay.field(MEDIA, index, "createdAt").and_then(Value::as_i64);
    written.unwrap_or_else(|| call.world.medium(index).created_at_ms)
}

/// A medium.
pub(super) fn medium(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let own_id = id(call, Kind::Media, index);
    let generated = if index < CREATED {
        let medium = call.world.medium(index);
        json!({
            "type": if medium.is_video { 2 } else { 1 },
            "mimetype": if medium.is_video { "video/mp4" } else { "image/jpeg" },
            "width": medium.width,
            "height": medium.height,
            "duration": medium.seconds,
            "size": medium.bytes,
            "coverId": null,
            "createdAt": medium.created_at_ms,
        })
    } else {
        json!({"coverId": null})
    };
    let mut shown = object(overlay.over(MEDIA, index, generated));
    shown.insert("location".to_owned(), json!(format!("https://cdn.beta.test/media/{own_id}")));
    shown.insert("id".to_owned(), json!(own_id));
    shown.insert("accountId".to_owned(), json!(account_id(call, AccountRef::Creator)));
    Value::Object(shown)
}

/// Media by `ids`; unknown ones are omitted.
fn by_ids(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let ids = query_ids(call, "ids")?;
    let found = ids.iter().filter_map(|id| collection(call).find(call, overlay, id, "Media").ok());
    Ok(Answer::ok(found.map(|index| medium(call, overlay, index)).collect()))
}

fn vault_list(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).list(call, overlay, "media", |index| medium(call, overlay, index))
}

/// The vault with the albums of each medium, and the unfinished uploads.
fn vault_list_new(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let mut answer = collection(call).list(call, overlay, "media", |index| {
        let mut shown = object(medium(call, overlay, index));
        shown.insert("albumIds".to_owned(), json!(vault::albums_of(call, overlay, index)));
        Value::Object(shown)
    })?;
    answer.add("uploads", Value::Array(uploads::open(call, overlay)));
    Ok(answer)
}

/// The last step of an upload: `uploadId` of a verified upload.
fn add(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let upload = uploads::verified(call, overlay)?;
    let mimetype = upload.get("contentType").cloned().unwrap_or_default();
    let is_video = mimetype.as_str().is_some_and(|mimetype| mimetype.starts_with("video/"));
    let fields = json!({
        "type": if is_video { 2 } else { 1 },
        "mimetype": mimetype,
        "filename": upload.get("filename"),
        "size": upload.get("size"),
        "createdAt": call.now_ms,
    });
    uploads::use_up(call, overlay)?;
    let index = overlay.create(MEDIA, object(fields));
    Ok(Answer::ok(medium(call, overlay, index)))
}

/// `mediaIds`, and optionally `price` in mills: a bundle of files that are not offered one by one.
fn create_bundle(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let media_ids = body_ids(call, "mediaIds")?;
    for media_id in &media_ids {
        collection(call).find(call, overlay, media_id, "Media")?;
    }
    let fields = json!({
        "mediaIds": media_ids,
        "price": price(call)?,
        "permissionFlags": [],
        "createdAt": call.now_ms,
    });
    let index = overlay.create(BUNDLES.table, object(fields));
    Ok(Answer::ok(bundle(call, overlay, index)))
}

/// Makes the picture `coverId` the cover of the video `mediaId`.
fn set_cover(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let index = collection(call).find(call, overlay, &body_id(call, "mediaId")?, "Media")?;
    let cover_id = body_id(call, "coverId")?;
    collection(call).find(call, overlay, &cover_id, "Cover")?;
    overlay.set(MEDIA, index, object(json!({"coverId": cover_id})));
    Ok(Answer::ok(medium(call, overlay, index)))
}

fn watermark_of(call: &PlatformCall<'_>, overlay: &Overlay) -> Map<String, Value> {
    let text = format!("beta.test/{}", call.world.creator_username());
    let generated =
        json!({"enabled": true, "text": text, "position": "bottom-right", "opacity": 60});
    object(overlay.over(WATERMARK, 0, generated))
}

fn watermark(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(Value::Object(watermark_of(call, overlay))))
}

fn set_watermark(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let sent = merged(&watermark_of(call, overlay), &call.body)?;
    if sent.get("opacity").is_some_and(|opacity| opacity.as_u64().is_none_or(|it| it > 100)) {
        return Err(Refusal::bad_request("opacity is not from 0 to 100"));
    }
    overlay.set(WATERMARK, 0, sent);
    Ok(Answer::ok(Value::Object(watermark_of(call, overlay))))
}
