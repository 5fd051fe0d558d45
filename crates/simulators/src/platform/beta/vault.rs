//! Albums of the vault.

use serde_json::{Value, json};

use super::media;
use super::shapes::{Collection, body_id, body_ids, id, query_id, text_fields};
use crate::platform::answer::{Answer, Outcome, Refusal};
use crate::platform::call::{Call, object};
use crate::platform::folder_media::FolderMedia;
use crate::platform::routes::Routes;
use crate::shelf::Shelf;
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

fn collection(call: &Call<'_>) -> Collection<'static> {
    Collection { table: ALBUMS, series: call.world.folders(), kind: Kind::Folder }
}

/// The ids of the albums that a medium lies in.
pub(super) fn albums_of(call: &Call<'_>, shelf: &Shelf, medium: u64) -> Vec<String> {
    let albums = collection(call).all(shelf).into_iter();
    let holding = albums.filter(|album| FolderMedia::of(call.world, *album).holds(shelf, medium));
    holding.map(|album| id(call, Kind::Folder, album)).collect()
}

fn shown(call: &Call<'_>, shelf: &Shelf, album: u64) -> Value {
    let generated = json!({
        "id": id(call, Kind::Folder, album),
        "title": folder_name(album),
        "description": "",
        "createdAt": call.world.end_ms - signed(album % 10 + 1) * 60 * DAY_MS,
    });
    let mut shown = object(shelf.over(ALBUMS, album, generated));
    let count = FolderMedia::of(call.world, album).count(shelf);
    shown.insert("itemCount".to_owned(), json!(count));
    Value::Object(shown)
}

fn albums(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    collection(call).list(call, shelf, "albums", |album| shown(call, shelf, album))
}

fn content(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let album = collection(call).find(call, shelf, query_id(call, "albumId")?, "Album")?;
    let FolderMedia { table, series } = FolderMedia::of(call.world, album);
    let content = Collection { table: &table, series, kind: Kind::Media };
    content.list(call, shelf, "media", |index| media::medium(call, shelf, index))
}

/// `title`, and if wanted `description`.
fn create(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    call.text("title")?;
    let mut fields = text_fields(call, &["title", "description"])?;
    fields.insert("createdAt".to_owned(), json!(call.now_ms));
    let album = shelf.create(ALBUMS, fields);
    Ok(Answer::ok(shown(call, shelf, album)))
}

fn named(call: &Call<'_>, shelf: &Shelf) -> Result<u64, Refusal> {
    collection(call).find(call, shelf, &body_id(call, "albumId")?, "Album")
}

fn edit(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let album = named(call, shelf)?;
    let fields = text_fields(call, &["title", "description"])?;
    shelf.set(ALBUMS, album, fields);
    Ok(Answer::ok(shown(call, shelf, album)))
}

/// The media stay in the vault.
fn delete(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let album = named(call, shelf)?;
    shelf.take(ALBUMS, album);
    let album_id = id(call, Kind::Folder, album);
    Ok(Answer::ok(json!({"albumId": album_id, "deletedAt": call.now_ms})))
}

fn sent_media(call: &Call<'_>, shelf: &Shelf) -> Result<Vec<u64>, Refusal> {
    let ids = body_ids(call, "mediaIds")?;
    ids.iter().map(|id| media::collection(call).find(call, shelf, id, "Media")).collect()
}

fn add_content(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let (album, media) = (named(call, shelf)?, sent_media(call, shelf)?);
    FolderMedia::of(call.world, album).add(shelf, media);
    Ok(Answer::ok(shown(call, shelf, album)))
}

fn remove_content(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let (album, media) = (named(call, shelf)?, sent_media(call, shelf)?);
    FolderMedia::of(call.world, album).remove(shelf, media);
    Ok(Answer::ok(shown(call, shelf, album)))
}
