//! Saved message texts.

use serde_json::{Value, json};

use super::shapes::{Collection, id};
use crate::platform::answer::{Answer, Outcome};
use crate::platform::call::Call;
use crate::platform::routes::Routes;
use crate::shelf::Shelf;
use crate::world::content;
use crate::world::ids::Kind;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:chat"])
        .get("chats/templates", templates)
        .get("chats/templates/{templateUuid}", template)
}

fn collection(call: &Call<'_>) -> Collection<'static> {
    Collection { table: "templates", series: call.world.templates(), kind: Kind::Template }
}

fn shown(call: &Call<'_>, index: u64) -> Value {
    json!({
        "uuid": id(call, Kind::Template, index),
        "text": content::template(index),
        "price": 0,
        "mediaUuids": [],
    })
}

fn templates(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    collection(call).page(call, shelf, |index| shown(call, index))
}

fn template(call: &Call<'_>, shelf: &Shelf) -> Outcome {
    let index = collection(call).find(call, shelf, call.param("templateUuid"), "Template")?;
    Ok(Answer::ok(shown(call, index)))
}
