//! The creator's posts.

use serde_json::{Value, json};

use super::creators::is_pinned;
use super::media;
use super::shapes::{Collection, body_uuids_if_any, future, id, own_id, price};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::time::rfc3339;

pub(super) const POSTS: &str = "posts";
const AUDIENCES: [&str; 2] = ["subscribers", "followers-and-subscribers"];

pub(super) fn routes(routes: Routes) -> Routes {
    routes.scopes(&["write:post"]).post("posts", create).scopes(&["read:post"]).get("posts", posts)
}

pub(super) fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: POSTS, series: call.world.posts(), kind: Kind::Post }
}

pub(super) fn shown(call: &PlatformCall<'_>, overlay: &Overlay, post: u64) -> Value {
    let generated = if post < CREATED {
        let generated = call.world.post(post);
        let media = generated.media.iter().map(|it| id(call, Kind::Media, *it));
        json!({
            "text": generated.text,
            "mediaUuids": media.collect::<Vec<_>>(),
            "price": generated.price_cents,
            "audience": if post.is_multiple_of(2) { "subscribers" } else { "followers-and-subscribers" },
            "likesCount": generated.likes,
            "commentsCount": generated.comments,
            "tipsAmount": generated.tips_cents,
            "publishedAt": rfc3339(generated.posted_at_ms),
        })
    } else {
        json!({"likesCount": 0, "commentsCount": 0, "tipsAmount": 0})
    };
    let mut shown = object(overlay.over(POSTS, post, generated));
    shown.insert("uuid".to_owned(), json!(id(call, Kind::Post, post)));
    shown.insert("creatorUuid".to_owned(), json!(own_id(call)));
    shown.insert("isPinned".to_owned(), json!(is_pinned(call, overlay, post)));
    Value::Object(shown)
}

fn posts(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).page(call, overlay, |post| shown(call, overlay, post))
}

/// `text` or `mediaUuids`, and optionally `price` in cents, `audience`, `publishAt`.
pub(super) fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let media_uuids = body_uuids_if_any(call, "mediaUuids")?;
    media::known(call, overlay, &media_uuids)?;
    let text = call.field("text").as_str().unwrap_or_default();
    if text.trim().is_empty() && media_uuids.is_empty() {
        return Err(Refusal::bad_request("text or mediaUuids is required"));
    }
    let audience = call.field("audience").as_str().unwrap_or("subscribers");
    if !AUDIENCES.contains(&audience) {
        return Err(Refusal::bad_request("audience is not known"));
    }
    let fields = json!({
        "text": text,
        "mediaUuids": media_uuids,
        "price": price(call)?,
        "audience": audience,
        "publishedAt": future(call, "publishAt")?.unwrap_or_else(|| rfc3339(call.now_ms)),
    });
    let post = overlay.create(POSTS, object(fields));
    Ok(Answer::created(shown(call, overlay, post)))
}
