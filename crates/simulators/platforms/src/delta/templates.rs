//! Saved message texts.

use serde_json::{Value, json};

use super::shapes::{Collection, id};
use crate::answer::{Answer, Outcome};
use crate::call::PlatformCall;
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::content;
use crate::world::ids::Kind;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:chat"])
        .get("chats/templates", templates)
        .get("chats/templates/{templateUuid}", template)
}

fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: "templates", series: call.world.templates(), kind: Kind::Template }
}

fn shown(call: &PlatformCall<'_>, index: u64) -> Value {
    json!({
        "uuid": id(call, Kind::Template, index),
        "text": content::template(index),
        "price": 0,
        "mediaUuids": [],
    })
}

fn templates(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).page(call, overlay, |index| shown(call, index))
}

fn template(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let index = collection(call).find(call, overlay, call.param("templateUuid"), "Template")?;
    Ok(Answer::ok(shown(call, index)))
}
