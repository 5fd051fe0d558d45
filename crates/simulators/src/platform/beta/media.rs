//! The media of the vault: files, their covers, bundles of files, and the watermark.

use serde_json::{Map, Value, json};

use super::account_media::{BUNDLES, bundle};
use super::shapes::{Collection, Who, account_id, body_id, body_ids, id, merged, price, query_ids};
use super::uploads;
use super::vault;
use crate::platform::answer::{Answer, Outcome, Refusal};
use crate::platform::call::{Call, object};
use crate::platform::routes::Routes;
use crate::shelf::Shelf;
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

pub(super) fn collection(call: &Call<'_>) -> Collection<'static> {
    Collection { table: MEDIA, series: call.world.media(), kind: Kind::Media }
}

pub(super) fn created_at_ms(call: &Call<'_>, shelf: &Shelf, index: u64) -> i64 {
    let written = shelf.field(MEDIA, index, "createdAt").and_then(Value::as_i64);
    written.unwrap_or_else(|| call.world.medium(index).created_at_ms)
}

/// A medium.
pub(super) fn medium(call: &Call<'_>, shelf: &Shelf, index: u64) -> Value {
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
    let mut shown = object(shelf.over(MEDIA, index, generated));
    shown.insert("location".to_owned(), json!(format!("https://cdn.beta.test/media/{own_id}")));
    shown.insert("id".to_owned(), json!(own_id));
    shown.insert("accountId".to_owned(), json!(account_id(call, Who::Creator)));
    Value::Object(shown)
}

/// By `ids`; unknown ones are left out.
fn by_ids(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let ids = query_ids(call, "ids")?;
    let found = ids.iter().filter_map(|id| collection(call).find(call, shelf, id, "Media").ok());
    Ok(Answer::ok(found.map(|index| medium(call, shelf, index)).collect()))
}

fn vault_list(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    collection(call).list(call, shelf, "media", |index| medium(call, shelf, index))
}

/// The vault with the albums that each medium lies in, and the uploads that are under way.
fn vault_list_new(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let mut answer = collection(call).list(call, shelf, "media", |index| {
        let mut shown = object(medium(call, shelf, index));
        shown.insert("albumIds".to_owned(), json!(vault::albums_of(call, shelf, index)));
        Value::Object(shown)
    })?;
    answer.add("uploads", Value::Array(uploads::open(call, shelf)));
    Ok(answer)
}

/// The last step after an upload: `uploadId` of an upload that was verified.
fn add(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let upload = uploads::verified(call, shelf)?;
    let mimetype = upload.get("contentType").cloned().unwrap_or_default();
    let is_video = mimetype.as_str().is_some_and(|mimetype| mimetype.starts_with("video/"));
    let fields = json!({
        "type": if is_video { 2 } else { 1 },
        "mimetype": mimetype,
        "filename": upload.get("filename"),
        "size": upload.get("size"),
        "createdAt": call.now_ms,
    });
    uploads::use_up(call, shelf)?;
    let index = shelf.create(MEDIA, object(fields));
    Ok(Answer::ok(medium(call, shelf, index)))
}

/// `mediaIds`, and if wanted `price` in mills: a bundle of files that are not offered one by one.
fn create_bundle(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let media_ids = body_ids(call, "mediaIds")?;
    for media_id in &media_ids {
        collection(call).find(call, shelf, media_id, "Media")?;
    }
    let fields = json!({
        "mediaIds": media_ids,
        "price": price(call)?,
        "permissionFlags": [],
        "createdAt": call.now_ms,
    });
    let index = shelf.create(BUNDLES.table, object(fields));
    Ok(Answer::ok(bundle(call, shelf, index)))
}

/// `coverId` is a picture that stands for the video `mediaId`.
fn set_cover(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let index = collection(call).find(call, shelf, &body_id(call, "mediaId")?, "Media")?;
    let cover_id = body_id(call, "coverId")?;
    collection(call).find(call, shelf, &cover_id, "Cover")?;
    shelf.set(MEDIA, index, object(json!({"coverId": cover_id})));
    Ok(Answer::ok(medium(call, shelf, index)))
}

fn watermark_of(call: &Call<'_>, shelf: &Shelf) -> Map<String, Value> {
    let text = format!("beta.test/{}", call.world.creator_username());
    let generated =
        json!({"enabled": true, "text": text, "position": "bottom-right", "opacity": 60});
    object(shelf.over(WATERMARK, 0, generated))
}

fn watermark(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    Ok(Answer::ok(Value::Object(watermark_of(call, shelf))))
}

fn set_watermark(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let sent = merged(&watermark_of(call, shelf), &call.body)?;
    if sent.get("opacity").is_some_and(|opacity| opacity.as_u64().is_none_or(|it| it > 100)) {
        return Err(Refusal::bad_request("opacity is not from 0 to 100"));
    }
    shelf.set(WATERMARK, 0, sent);
    Ok(Answer::ok(Value::Object(watermark_of(call, shelf))))
}
