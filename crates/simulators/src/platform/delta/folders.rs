//! Folders of a creator's vault. A folder is known by its name.

use http::Method;
use serde_json::{Value, json};

use super::media;
use super::shapes::{Collection, body_uuids, own_creator, text_fields};
use crate::platform::answer::{Answer, Outcome, Refusal};
use crate::platform::call::{Call, object};
use crate::platform::folder_media::FolderMedia;
use crate::platform::routes::Routes;
use crate::shelf::Shelf;
use crate::world::DAY_MS;
use crate::world::content::folder_name;
use crate::world::ids::Kind;
use crate::world::time::rfc3339;

const FOLDERS: &str = "folders";
const NAME_CHARS_MAX: usize = 100;
const FOLDERS_MAX: u64 = 1000;

pub(super) fn routes(routes: Routes) -> Routes {
    const ALL: &str = "creators/{creatorUserUuid}/vault/folders";
    const ONE: &str = "creators/{creatorUserUuid}/vault/folders/{folderName}";
    const MEDIA: &str = "creators/{creatorUserUuid}/vault/folders/{folderName}/media";
    routes
        .scopes(&["read:creator", "read:media"])
        .get(ALL, folders)
        .get(ONE, folder)
        .get(MEDIA, folder_media)
        .scopes(&["write:creator", "write:media"])
        .post(ALL, create)
        .write(Method::PATCH, ONE, rename)
        .write(Method::DELETE, ONE, delete)
        .post(MEDIA, attach)
        .write(
            Method::DELETE,
            "creators/{creatorUserUuid}/vault/folders/{folderName}/media/{mediaUuid}",
            detach,
        )
}

fn collection(call: &Call<'_>) -> Collection<'static> {
    Collection { table: FOLDERS, series: call.world.folders(), kind: Kind::Folder }
}

fn name(shelf: &Shelf, folder: u64) -> String {
    let set = shelf.field(FOLDERS, folder, "name").and_then(Value::as_str);
    set.unwrap_or_else(|| folder_name(folder)).to_owned()
}

fn by_name(call: &Call<'_>, shelf: &Shelf, wanted: &str) -> Option<u64> {
    let mut all = collection(call).all(shelf).into_iter();
    all.find(|folder| name(shelf, *folder) == wanted)
}

fn folder_param(call: &Call<'_>, shelf: &Shelf) -> Result<u64, Refusal> {
    own_creator(call)?;
    let found = by_name(call, shelf, call.param("folderName"));
    found.ok_or_else(|| Refusal::not_found("Folder"))
}

fn shown(call: &Call<'_>, shelf: &Shelf, folder: u64) -> Value {
    let generated = json!({
        "name": folder_name(folder),
        "createdAt": rfc3339(call.world.end_ms - 60 * DAY_MS),
        "mediaCount": FolderMedia::of(call.world, folder).count(shelf),
    });
    shelf.over(FOLDERS, folder, generated)
}

fn folders(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    own_creator(call)?;
    collection(call).page(call, shelf, |folder| shown(call, shelf, folder))
}

fn folder(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    Ok(Answer::ok(shown(call, shelf, folder_param(call, shelf)?)))
}

fn folder_media(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let folder = folder_param(call, shelf)?;
    let FolderMedia { table, series } = FolderMedia::of(call.world, folder);
    let media = Collection { table: &table, series, kind: Kind::Media };
    media.page(call, shelf, |index| media::shown(call, shelf, index))
}

/// The name of the body, if no folder has it.
fn free_name(call: &Call<'_>, shelf: &Shelf) -> Result<String, Refusal> {
    let sent = text_fields(call, &["name"])?;
    let name = sent.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(Refusal::bad_request("name is too long"));
    }
    if by_name(call, shelf, name).is_some() {
        return Err(Refusal::conflict("There is a folder with this name"));
    }
    Ok(name.to_owned())
}

fn create(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    own_creator(call)?;
    let name = free_name(call, shelf)?;
    if shelf.count(FOLDERS, call.world.folders()) >= FOLDERS_MAX {
        return Err(Refusal::bad_request("There are too many folders"));
    }
    let fields = json!({"name": name, "createdAt": rfc3339(call.now_ms)});
    let folder = shelf.create(FOLDERS, object(fields));
    Ok(Answer::created(shown(call, shelf, folder)))
}

fn rename(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let folder = folder_param(call, shelf)?;
    if call.field("name").as_str() == Some(call.param("folderName")) {
        return Ok(Answer::ok(shown(call, shelf, folder)));
    }
    let name = free_name(call, shelf)?;
    shelf.set(FOLDERS, folder, object(json!({"name": name})));
    Ok(Answer::ok(shown(call, shelf, folder)))
}

/// The media stay in the vault.
fn delete(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let folder = folder_param(call, shelf)?;
    shelf.take(FOLDERS, folder);
    Ok(Answer::empty())
}

/// `mediaUuids`; those that lie in the folder already stay where they are.
fn attach(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let folder = folder_param(call, shelf)?;
    let uuids = body_uuids(call, "mediaUuids")?;
    let find = |uuid: &String| media::collection(call).find(call, shelf, uuid, "Media");
    let indexes: Vec<u64> = uuids.iter().map(find).collect::<Result<_, _>>()?;
    FolderMedia::of(call.world, folder).add(shelf, indexes);
    Ok(Answer::ok(shown(call, shelf, folder)))
}

fn detach(call: &Call<'_>, shelf: &mut Shelf) -> Outcome {
    let folder = folder_param(call, shelf)?;
    let FolderMedia { table, series } = FolderMedia::of(call.world, folder);
    let media = Collection { table: &table, series, kind: Kind::Media };
    let index = media.find(call, shelf, call.param("mediaUuid"), "Media in the folder")?;
    shelf.take(&table, index);
    Ok(Answer::empty())
}
