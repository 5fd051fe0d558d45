//! Albums of the vault.

use serde_json::{Value, json};

use super::media;
use super::shapes::{Collection, body_id, body_ids, id, query_id, text_fields};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::folder_media::FolderMedia;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::content::folder_name;
use crate::world::ids::Kind;
use crate::world::{DAY_MS, signed};

const ALBUMS: &str = "albums";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("uservault/albums", albums)
        .get("uservault/album/content", content)
        .post("uservault/albums", create)
        .post("uservault/album/edit", edit)
        .post("uservault/album/delete", delete)
        .post("uservault/album/content", add_content)
        .post("uservault/album/content/delete", remove_content)
}

fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: ALBUMS, series: call.world.folders(), kind: Kind::Folder }
}

/// The ids of the albums that contain a medium.
pub(super) fn albums_of(call: &PlatformCall<'_>, overlay: &Overlay, medium: u64) -> Vec<String> {
    let albums = collection(call).all(overlay).into_iter();
    let holding = albums.filter(|album| FolderMedia::of(call.world, *album).holds(overlay, medium));
    holding.map(|album| id(call, Kind::Folder, album)).collect()
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, album: u64) -> Value {
    let generated = json!({
        "id": id(call, Kind::Folder, album),
        "title": folder_name(album),
        "description": "",
        "createdAt": call.world.end_ms - signed(album % 10 + 1) * 60 * DAY_MS,
    });
    let mut shown = object(overlay.over(ALBUMS, album, generated));
    let count = FolderMedia::of(call.world, album).count(overlay);
    shown.insert("itemCount".to_owned(), json!(count));
    Value::Object(shown)
}

fn albums(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).list(call, overlay, "albums", |album| shown(call, overlay, album))
}

fn content(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let album = collection(call).find(call, overlay, query_id(call, "albumId")?, "Album")?;
    let FolderMedia { table, series } = FolderMedia::of(call.world, album);
    let content = Collection { table: &table, series, kind: Kind::Media };
    content.list(call, overlay, "media", |index| media::medium(call, overlay, index))
}

/// `title`, and optionally `description`.
fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    call.text("title")?;
    let mut fields = text_fields(call, &["title", "description"])?;
    fields.insert("createdAt".to_owned(), json!(call.now_ms));
    let album = overlay.create(ALBUMS, fields);
    Ok(Answer::ok(shown(call, overlay, album)))
}

fn named(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    collection(call).find(call, overlay, &body_id(call, "albumId")?, "Album")
}

fn edit(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let album = named(call, overlay)?;
    let fields = text_fields(call, &["title", "description"])?;
    overlay.set(ALBUMS, album, fields);
    Ok(Answer::ok(shown(call, overlay, album)))
}

/// The media stay in the vault.
fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let album = named(call, overlay)?;
    overlay.take(ALBUMS, album);
    let album_id = id(call, Kind::Folder, album);
    Ok(Answer::ok(json!({"albumId": album_id, "deletedAt": call.now_ms})))
}

fn sent_media(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Vec<u64>, Refusal> {
    let ids = body_ids(call, "mediaIds")?;
    ids.iter().map(|id| media::collection(call).find(call, overlay, id, "Media")).collect()
}

fn add_content(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let (album, media) = (named(call, overlay)?, sent_media(call, overlay)?);
    FolderMedia::of(call.world, album).add(overlay, media);
    Ok(Answer::ok(shown(call, overlay, album)))
}

fn remove_content(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let (album, media) = (named(call, overlay)?, sent_media(call, overlay)?);
    FolderMedia::of(call.world, album).remove(overlay, media);
    Ok(Answer::ok(shown(call, overlay, album)))
}
