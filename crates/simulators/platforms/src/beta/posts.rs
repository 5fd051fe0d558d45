//! The creator's posts. Every post is on the timeline and may be on walls.

use serde_json::{Value, json};

use super::account_media;
use super::shapes::{
    AccountRef, Collection, NOTHING, account_id, body_id, id, id_text, mills, price,
};
use super::walls;
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};

pub(super) const POSTS: &str = "posts";
/// The deleted posts.
pub(super) const DELETED: Collection<'static> =
    Collection { table: "deleted-posts", series: NOTHING, kind: Kind::Post };

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .post("wall/postcreate", create)
        .post("wall/postedit", edit)
        .post("wall/postdelete", delete)
}

pub(super) fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: POSTS, series: call.world.posts(), kind: Kind::Post }
}

pub(super) fn shown(call: &PlatformCall<'_>, overlay: &Overlay, post: u64) -> Value {
    let generated = if post < CREATED {
        let post = call.world.post(post);
        json!({
            "content": post.text,
            "price": mills(post.price_cents),
            "likeCount": post.likes,
            "replyCount": post.comments,
            "totalTipAmount": mills(post.tips_cents),
            "createdAt": post.posted_at_ms,
        })
    } else {
        json!({"likeCount": 0, "replyCount": 0, "totalTipAmount": 0})
    };
    let mut shown = object(overlay.over(POSTS, post, generated));
    shown.insert("id".to_owned(), json!(id(call, Kind::Post, post)));
    shown.insert("accountId".to_owned(), json!(account_id(call, AccountRef::Creator)));
    shown.insert("attachments".to_owned(), json!(attached(call, overlay, post)));
    shown.insert("wallIds".to_owned(), json!(walls::ids_of(call, overlay, post)));
    Value::Object(shown)
}

/// The ids of the account media attached to a post.
pub(super) fn attached(call: &PlatformCall<'_>, overlay: &Overlay, post: u64) -> Vec<String> {
    if post < CREATED {
        let media = call.world.post(post).media.into_iter();
        return media.map(|medium| id(call, Kind::AccountMedia, medium)).collect();
    }
    let written = overlay.field(POSTS, post, "attachments").and_then(Value::as_array);
    written.into_iter().flatten().map(id_text).collect()
}

/// The ids of account media in `accountMediaIds`; 404 if one is unknown.
fn attachments(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<Vec<String>, Refusal> {
    let sent = call.field("accountMediaIds").as_array().into_iter().flatten().map(id_text);
    let known = |media_id: String| {
        let all = account_media::collection(call);
        all.find(call, overlay, &media_id, "Account media").map(|_| media_id)
    };
    sent.map(known).collect()
}

/// `content` or `accountMediaIds`, and optionally `wallId` and `price` in mills.
fn create(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let attachments = attachments(call, overlay)?;
    let content = call.field("content").as_str().unwrap_or_default();
    if content.trim().is_empty() && attachments.is_empty() {
        return Err(Refusal::bad_request("content or accountMediaIds is required"));
    }
    let wall = match call.field("wallId") {
        Value::Null => None,
        sent => Some(walls::collection(call).find(call, overlay, &id_text(sent), "Wall")?),
    };
    let fields = json!({
        "content": content,
        "price": price(call)?,
        "attachments": attachments,
        "createdAt": call.now_ms,
    });
    let post = overlay.create(POSTS, object(fields));
    if let Some(wall) = wall {
        walls::put_post(overlay, wall, post);
    }
    Ok(Answer::ok(shown(call, overlay, post)))
}

fn named(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    collection(call).find(call, overlay, &body_id(call, "postId")?, "Post")
}

/// `postId` and the changed fields: `content`, `price`.
fn edit(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let post = named(call, overlay)?;
    let mut fields = call.fields(&["content", "price"]);
    price(call)?;
    if fields.is_empty() || fields.get("content").is_some_and(|content| !content.is_string()) {
        return Err(Refusal::bad_request("content or price is required"));
    }
    fields.insert("updatedAt".to_owned(), json!(call.now_ms));
    overlay.set(POSTS, post, fields);
    Ok(Answer::ok(shown(call, overlay, post)))
}

/// Removes the post from the wall `wallId`, or deletes it if no wall is named.
fn delete(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let post = named(call, overlay)?;
    if call.field("wallId").is_null() {
        for wall in walls::collection(call).all(overlay) {
            walls::take_post(overlay, wall, post);
        }
        overlay.take(POSTS, post);
        overlay.put(DELETED.table, post);
    } else {
        let wall_id = body_id(call, "wallId")?;
        let wall = walls::collection(call).find(call, overlay, &wall_id, "Wall")?;
        walls::take_post(overlay, wall, post);
    }
    Ok(Answer::ok(json!({"postId": id(call, Kind::Post, post), "deletedAt": call.now_ms})))
}
