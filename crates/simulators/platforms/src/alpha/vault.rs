//! Vault lists: the folders of media.

use http::Method;
use serde_json::{Value, json};

use super::messages::RELEASE_FORMS;
use super::shapes::{id, index, medium, page_of};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::content::folder_name;
use crate::world::ids::{self, Kind};
use crate::world::series::Series;

const FOLDERS: &str = "vault-lists";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("vault/lists", folders)
        .get("vault/lists/{list_id}", folder)
        .write(Method::PATCH, "vault/lists/{list_id}", rename)
        .write(Method::DELETE, "vault/lists/{list_id}/media", remove_media)
}

fn folders(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, FOLDERS, call.world.folders(), |folder| {
        folder_json(call, overlay, folder)
    })
}

/// The media of a folder: every fourth of all.
fn media_of(call: &PlatformCall<'_>, folder: u64) -> (String, Series) {
    let keep: &'static [u64] = match folder {
        0 => &[0],
        1 => &[1],
        2 => &[2],
        _ => &[3],
    };
    (format!("vault-list/{folder}"), Series::of(call.world.media().count(), 4, keep))
}

fn folder_param(call: &PlatformCall<'_>) -> Result<u64, Refusal> {
    let folder = index(call, Kind::Folder, "list_id", "List")?;
    let exists = call.world.folders().place_of(folder).is_some();
    if exists { Ok(folder) } else { Err(Refusal::not_found("List")) }
}

fn folder_json(call: &PlatformCall<'_>, overlay: &Overlay, folder: u64) -> Value {
    let (table, series) = media_of(call, folder);
    let page = overlay.page(&table, series, 0, u64::MAX);
    let with_form = |it: u64| {
        let form = overlay.fields(RELEASE_FORMS, it).cloned().map(Value::Object);
        let mut shown = object(medium(call, it));
        shown.insert("releaseForm".to_owned(), form.unwrap_or_default());
        Value::Object(shown)
    };
    let media: Vec<Value> = page.indexes.into_iter().map(with_form).collect();
    let generated = json!({
        "id": id(call, Kind::Folder, folder),
        "name": folder_name(folder),
        "mediaCount": media.len(),
        "medias": media,
    });
    overlay.over(FOLDERS, folder, generated)
}

fn folder(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(folder_json(call, overlay, folder_param(call)?)))
}

fn rename(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let folder = folder_param(call)?;
    let name = call.text("name")?.to_owned();
    overlay.set(FOLDERS, folder, object(json!({"name": name})));
    Ok(Answer::ok(folder_json(call, overlay, folder)))
}

/// Removes the media in `mediaIds` (body or query) from the folder; the media stay in the vault.
fn remove_media(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let folder = folder_param(call)?;
    let in_body = call.field("mediaIds").as_array().into_iter().flatten();
    let mut wanted: Vec<String> = in_body.map(super::shapes::id_text).collect();
    wanted.extend(call.query_all("mediaIds").flat_map(|ids| ids.split(',')).map(str::to_owned));
    if wanted.is_empty() {
        return Err(Refusal::bad_request("mediaIds is required"));
    }
    let (table, series) = media_of(call, folder);
    let found: Option<Vec<u64>> = wanted
        .iter()
        .map(|wanted| ids::index_of_digits(Kind::Media, call.world.creator, wanted))
        .collect();
    let found = found.filter(|found| found.iter().all(|it| overlay.holds(&table, series, *it)));
    for media in found.ok_or_else(|| Refusal::not_found("Media in the list"))? {
        overlay.take(&table, media);
    }
    Ok(Answer::ok(folder_json(call, overlay, folder)))
}
