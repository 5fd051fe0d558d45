//! Folders of a creator's vault. A folder is identified by its name.

use http::Method;
use serde_json::{Value, json};

use super::media;
use super::shapes::{Collection, body_uuids, own_creator, text_fields};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::folder_media::FolderMedia;
use crate::overlay::Overlay;
use crate::routes::Routes;
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

fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: FOLDERS, series: call.world.folders(), kind: Kind::Folder }
}

fn name(overlay: &Overlay, folder: u64) -> String {
    let set = overlay.field(FOLDERS, folder, "name").and_then(Value::as_str);
    set.unwrap_or_else(|| folder_name(folder)).to_owned()
}

fn by_name(call: &PlatformCall<'_>, overlay: &Overlay, wanted: &str) -> Option<u64> {
    let mut all = collection(call).all(overlay).into_iter();
    all.find(|folder| name(overlay, *folder) == wanted)
}

fn folder_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    own_creator(call)?;
    let found = by_name(call, overlay, call.param("folderName"));
    found.ok_or_else(|| Refusal::not_found("Folder"))
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, folder: u64) -> Value {
    let generated = json!({
        "name": folder_name(folder),
        "createdAt": rfc3339(call.world.end_ms - 60 * DAY_MS),
        "mediaCount": FolderMedia::of(call.world, folder).count(overlay),
    });
    overlay.over(FOLDERS, folder, generated)
}

fn folders(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    own_creator(call)?;
    collection(call).page(call, overlay, |folder| shown(call, overlay, folder))
}

fn folder(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(shown(call, overlay, folder_param(call, overlay)?)))
}

fn folder_media(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let folder = folder_param(call, overlay)?;
    let FolderMedia { table, series } = FolderMedia::of(call.world, folder);
    let media = Collection { table: &table, series, kind: Kind::Media };
    media.page(call, overlay, |index| media::shown(call, overlay, index))
}

/// The name in the body, if no folder has it.
fn free_name(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<String, Refusal> {
    let sent = text_fields(call, &["name"])?;
    let name = sent.get("name").and_then(Value::as_str).unwrap_or_default();
    if name.chars().count() > NAME_CHARS_MAX {
        return Err(Refusal::bad_request("name is too long"));
    }
    if by_name(call, overlay, name).is_some() {
        return Err(Refusal::conflict("There is a folder with this name"));
    }
    Ok(name.to_owned())
}

fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    own_creator(call)?;
    let name = free_name(call, overlay)?;
    if overlay.count(FOLDERS, call.world.folders()) >= FOLDERS_MAX {
        return Err(Refusal::bad_request("There are too many folders"));
    }
    let fields = json!({"name": name, "createdAt": rfc3339(call.now_ms)});
    let folder = overlay.create(FOLDERS, object(fields));
    Ok(Answer::created(shown(call, overlay, folder)))
}

fn rename(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let folder = folder_param(call, overlay)?;
    if call.field("name").as_str() == Some(call.param("folderName")) {
        return Ok(Answer::ok(shown(call, overlay, folder)));
    }
    let name = free_name(call, overlay)?;
    overlay.set(FOLDERS, folder, object(json!({"name": name})));
    Ok(Answer::ok(shown(call, overlay, folder)))
}

/// The media stay in the vault.
fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let folder = folder_param(call, overlay)?;
    overlay.take(FOLDERS, folder);
    Ok(Answer::empty())
}

/// `mediaUuids`; media that are already in the folder keep their positions.
fn attach(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let folder = folder_param(call, overlay)?;
    let uuids = body_uuids(call, "mediaUuids")?;
    let find = |uuid: &String| media::collection(call).find(call, overlay, uuid, "Media");
    let indexes: Vec<u64> = uuids.iter().map(find).collect::<Result<_, _>>()?;
    FolderMedia::of(call.world, folder).add(overlay, indexes);
    Ok(Answer::ok(shown(call, overlay, folder)))
}

fn detach(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let folder = folder_param(call, overlay)?;
    let FolderMedia { table, series } = FolderMedia::of(call.world, folder);
    let media = Collection { table: &table, series, kind: Kind::Media };
    let index = media.find(call, overlay, call.param("mediaUuid"), "Media in the folder")?;
    overlay.take(&table, index);
    Ok(Answer::empty())
}
