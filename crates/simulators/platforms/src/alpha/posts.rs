//! Posts: their comments, their earnings, pins, and scheduled posts.

use http::Method;
use serde_json::{Value, json};

use super::shapes::{dollars, id, index, page_of, user_ref};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::content::post_and_place;
use crate::world::content::{folder_name, template};
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339_offset;
use crate::world::{DAY_MS, signed};

pub(super) const POSTS: &str = "posts";
const COMMENTS: &str = "comments";
/// Posts that are not published yet.
const SCHEDULES: &str = "schedules";
const SCHEDULED: u64 = 4;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("posts", posts)
        .get("posts/{post_id}/comments", comments)
        .get("posts/{post_id}/stats", stats)
        .get("posts/bookmarks/categories", bookmark_categories)
        .post("posts/{post_id}/pin", pin_post)
        .post("comments/{comment_id}/pin", pin_comment)
        .get("schedules", schedules)
        .write(Method::PUT, "schedules/{schedule_id}/publish", publish)
}

fn posts(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, POSTS, call.world.posts(), |post| post_json(call, overlay, post))
}

fn post_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    if index >= CREATED {
        let fresh = json!({
            "id": id(call, Kind::Post, index),
            "responseType": "post",
            "price": 0,
            "favoritesCount": 0,
            "commentsCount": 0,
            "tipsAmount": 0,
            "isPinned": false,
            "media": [],
        });
        return overlay.over(POSTS, index, fresh);
    }
    let post = call.world.post(index);
    let media: Vec<Value> = post.media.iter().map(|it| super::shapes::medium(call, *it)).collect();
    let generated = json!({
        "id": id(call, Kind::Post, index),
        "responseType": "post",
        "text": post.text,
        "postedAt": rfc3339_offset(post.posted_at_ms),
        "price": dollars(post.price_cents),
        "favoritesCount": post.likes,
        "commentsCount": post.comments,
        "tipsAmount": dollars(post.tips_cents),
        "isPinned": false,
        "media": media,
    });
    overlay.over(POSTS, index, generated)
}

fn post_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    let post = index(call, Kind::Post, "post_id", "Post")?;
    let exists = overlay.holds(POSTS, call.world.posts(), post);
    if exists { Ok(post) } else { Err(Refusal::not_found("Post")) }
}

fn comments(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let post = post_param(call, overlay)?;
    let written = if post < CREATED { call.world.comments(post) } else { Series::all(0) };
    page_of(call, overlay, &format!("comments/{post}"), written, |place| {
        comment_json(call, overlay, post, place)
    })
}

fn comment_json(call: &PlatformCall<'_>, overlay: &Overlay, post: u64, place: u64) -> Value {
    let comment = call.world.comment(post, place);
    let generated = json!({
        "id": id(call, Kind::Comment, comment.index),
        "postId": id(call, Kind::Post, post),
        "text": comment.text,
        "postedAt": rfc3339_offset(comment.written_at_ms),
        "likesCount": comment.likes,
        "isPinned": false,
        "author": user_ref(call, comment.fan),
    });
    overlay.over(COMMENTS, comment.index, generated)
}

/// Posts published while running have not been viewed yet.
fn stats(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let index = post_param(call, overlay)?;
    if index >= CREATED {
        return Ok(Answer::ok(json!({
            "id": id(call, Kind::Post, index),
            "views": 0,
            "uniqueViews": 0,
            "likes": 0,
            "comments": 0,
            "tips": 0,
            "purchased": 0,
            "purchasedSumm": 0,
        })));
    }
    let post = call.world.post(index);
    let bought = if post.price_cents > 0 { post.likes / 8 } else { 0 };
    Ok(Answer::ok(json!({
        "id": id(call, Kind::Post, index),
        "views": post.likes * 6 + 40,
        "uniqueViews": post.likes * 4 + 30,
        "likes": post.likes,
        "comments": post.comments,
        "tips": dollars(post.tips_cents),
        "purchased": bought,
        "purchasedSumm": dollars(signed(bought) * post.price_cents),
    })))
}

fn bookmark_categories(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, "bookmark-categories", call.world.folders(), |index| {
        json!({
            "id": id(call, Kind::Folder, index),
            "name": folder_name(index),
            "count": call.world.posts().count() / (index + 2),
        })
    })
}

/// `{"isPinned": false}` unpins; without a body the post is pinned.
fn pin_post(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let post = post_param(call, overlay)?;
    overlay.set(POSTS, post, object(json!({"isPinned": wants_pin(call)})));
    Ok(Answer::ok(post_json(call, overlay, post)))
}

fn pin_comment(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let comment = index(call, Kind::Comment, "comment_id", "Comment")?;
    let (post, place) = post_and_place(comment);
    let exists = call.world.posts().place_of(post).is_some()
        && call.world.comments(post).place_of(place).is_some();
    if !exists {
        return Err(Refusal::not_found("Comment"));
    }
    overlay.set(COMMENTS, comment, object(json!({"isPinned": wants_pin(call)})));
    Ok(Answer::ok(comment_json(call, overlay, post, place)))
}

fn wants_pin(call: &PlatformCall<'_>) -> bool {
    call.field("isPinned").as_bool() != Some(false)
}

fn scheduled(call: &PlatformCall<'_>) -> Series {
    Series::all(if call.world.is_empty() { 0 } else { SCHEDULED })
}

fn schedules(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, SCHEDULES, scheduled(call), |schedule| {
        schedule_json(call, overlay, schedule)
    })
}

fn schedule_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let generated = json!({
        "id": id(call, Kind::Event, index),
        "type": "post",
        "text": template(index),
        "scheduledAt": rfc3339_offset(call.world.end_ms + (signed(index) + 1) * DAY_MS),
        "publishedAt": null,
    });
    overlay.over(SCHEDULES, index, generated)
}

/// Publishes a scheduled post immediately, as a new post; 409 if it is already published.
fn publish(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let schedule = index(call, Kind::Event, "schedule_id", "Schedule")?;
    if !overlay.holds(SCHEDULES, scheduled(call), schedule) {
        return Err(Refusal::not_found("Schedule"));
    }
    if overlay.field(SCHEDULES, schedule, "publishedAt").is_some() {
        return Err(Refusal::conflict("It is published already"));
    }
    let published_at = rfc3339_offset(call.now_ms);
    let post = json!({"text": template(schedule), "postedAt": published_at});
    overlay.create(POSTS, object(post));
    overlay.set(SCHEDULES, schedule, object(json!({"publishedAt": published_at})));
    Ok(Answer::ok(schedule_json(call, overlay, schedule)))
}
