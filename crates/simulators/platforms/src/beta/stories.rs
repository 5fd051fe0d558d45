//! Media stories, which are visible for a day, and stories, which keep several of them.

use serde_json::{Value, json};

use super::account_media;
use super::follows;
use super::people::account;
use super::shapes::{
    AccountRef, Collection, NOTHING, account_id, body_id, body_ids, id, index_of, query_id,
};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::{CREATED, Kind};
use crate::world::people::PEERS;
use crate::world::series::Series;
use crate::world::{DAY_MS, MINUTE_MS, signed};

const MEDIA_STORIES: &str = "media-stories";
const STORIES: &str = "stories";
/// The stories that the creator has viewed.
const SEEN: &str = "seen-stories";
/// The first number of peers' media stories, which are numbered by the day since 1970 and the peer.
const PEER_INDEXES: u64 = 8_000_000_000;
const PEERS_MAX: u64 = 100;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("mediastories", running)
        .get("mediastories/following", of_followed)
        .get("mediastoriesnew", all_media_stories)
        .get("mediastory/views", views)
        .get("stories", stories)
        .post("mediastories", create_media_story)
        .post("mediastory/delete", delete_media_story)
        .post("mediastory/view", view)
        .post("stories", create_story)
        .post("stories/order", order)
}

fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    Collection { table: MEDIA_STORIES, series: call.world.stories(), kind: Kind::Story }
}

fn story_collection(call: &PlatformCall<'_>) -> Collection<'static> {
    let stories = if call.world.is_empty() { 0 } else { 3 };
    Collection { table: STORIES, series: Series::all(stories), kind: Kind::Highlight }
}

fn viewers(call: &PlatformCall<'_>, media_story: u64) -> Series {
    if media_story < CREATED { call.world.story(media_story).viewers } else { NOTHING }
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, media_story: u64) -> Value {
    let generated = if media_story < CREATED {
        let story = call.world.story(media_story);
        json!({
            "contentId": id(call, Kind::AccountMedia, story.medium),
            "createdAt": story.created_at_ms,
            "expiresAt": story.expires_at_ms,
        })
    } else {
        json!({})
    };
    let mut shown = object(overlay.over(MEDIA_STORIES, media_story, generated));
    shown.insert("id".to_owned(), json!(id(call, Kind::Story, media_story)));
    shown.insert("accountId".to_owned(), json!(account_id(call, AccountRef::Creator)));
    shown.insert("views".to_owned(), json!(viewers(call, media_story).count()));
    shown.insert("viewed".to_owned(), json!(overlay.holds(SEEN, NOTHING, media_story)));
    Value::Object(shown)
}

/// The media stories of the last day.
fn running(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let is_running = |media_story: &u64| {
        let expires = shown(call, overlay, *media_story).get("expiresAt").and_then(Value::as_i64);
        expires.is_some_and(|expires_ms| expires_ms > call.now_ms)
    };
    let running = collection(call).all(overlay).into_iter().filter(is_running).collect();
    super::shapes::list_of(call, "mediaStories", running, |it| shown(call, overlay, it))
}

/// All media stories, including expired ones.
fn all_media_stories(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).list(call, overlay, "mediaStories", |it| shown(call, overlay, it))
}

/// The number of the media story that a peer shows on the day that starts at `day_ms`.
fn peer_index(day_ms: i64, peer: u64) -> u64 {
    PEER_INDEXES + (day_ms / DAY_MS).unsigned_abs() * PEERS_MAX + peer
}

/// The visible media stories of followed creators: each shows a new one shortly before midnight.
fn of_followed(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let day_ms = call.now_ms - call.now_ms.rem_euclid(DAY_MS);
    let created_at_ms = |peer: u64| day_ms - signed(peer + 1) * MINUTE_MS;
    let runs = |peer: &u64| created_at_ms(*peer) + DAY_MS > call.now_ms;
    let row = |peer: u64| {
        let index = peer_index(day_ms, peer);
        json!({
            "id": id(call, Kind::Story, index),
            "accountId": account_id(call, AccountRef::Peer(peer)),
            "account": account(call, overlay, AccountRef::Peer(peer)),
            "createdAt": created_at_ms(peer),
            "expiresAt": created_at_ms(peer) + DAY_MS,
            "viewed": overlay.holds(SEEN, NOTHING, index),
        })
    };
    let running = follows::following_collection(call).all(overlay).into_iter().filter(runs);
    super::shapes::list_of(call, "mediaStories", running.collect(), row)
}

/// The fans who have seen the media story `mediaStoryId`.
fn views(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let sent = query_id(call, "mediaStoryId")?;
    let media_story = collection(call).find(call, overlay, sent, "Media story")?;
    let table = format!("story-views/{media_story}");
    let series = viewers(call, media_story);
    let fans = Collection { table: &table, series, kind: Kind::Fan };
    fans.list(call, overlay, "views", |fan| {
        let account = account(call, overlay, AccountRef::Fan(fan));
        json!({"accountId": account_id(call, AccountRef::Fan(fan)), "account": account})
    })
}

/// `contentId` is one of the account media.
fn create_media_story(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let content_id = body_id(call, "contentId")?;
    account_media::collection(call).find(call, overlay, &content_id, "Account media")?;
    let fields = json!({
        "contentId": content_id,
        "createdAt": call.now_ms,
        "expiresAt": call.now_ms + DAY_MS,
    });
    let media_story = overlay.create(MEDIA_STORIES, object(fields));
    Ok(Answer::ok(shown(call, overlay, media_story)))
}

fn delete_media_story(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let sent = body_id(call, "mediaStoryId")?;
    let media_story = collection(call).find(call, overlay, &sent, "Media story")?;
    overlay.take(MEDIA_STORIES, media_story);
    Ok(Answer::ok(json!({"mediaStoryId": sent, "deletedAt": call.now_ms})))
}

/// Marks a story, of the creator or of a peer, as seen by the creator.
fn view(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let sent = body_id(call, "mediaStoryId")?;
    let newest = peer_index(call.now_ms, PEERS - 1);
    let of_peer = |index: &u64| {
        (PEER_INDEXES..=newest).contains(index) && (index - PEER_INDEXES) % PEERS_MAX < PEERS
    };
    let index = match index_of(call, Kind::Story, &sent).filter(of_peer) {
        Some(index) => index,
        None => collection(call).find(call, overlay, &sent, "Media story")?,
    };
    overlay.put(SEEN, index);
    Ok(Answer::ok(json!({"mediaStoryId": sent, "viewed": true, "viewedAt": call.now_ms})))
}

fn story(call: &PlatformCall<'_>, overlay: &Overlay, story: u64) -> Value {
    let generated = if story < CREATED {
        let kept = (0..3).map(|nth| id(call, Kind::Story, story * 3 + nth));
        json!({
            "title": format!("Story {}", story + 1),
            "mediaStoryIds": kept.collect::<Vec<_>>(),
            "createdAt": call.world.end_ms - signed(story + 1) * 30 * DAY_MS,
        })
    } else {
        json!({})
    };
    let mut shown = object(overlay.over(STORIES, story, generated));
    if let Some(Value::Array(kept)) = shown.get_mut("mediaStoryIds") {
        let exists = |sent: &str| collection(call).find(call, overlay, sent, "Media story").is_ok();
        kept.retain(|sent| sent.as_str().is_some_and(exists));
    }
    shown.insert("id".to_owned(), json!(id(call, Kind::Highlight, story)));
    shown.insert("accountId".to_owned(), json!(account_id(call, AccountRef::Creator)));
    Value::Object(shown)
}

fn stories(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    story_collection(call).list(call, overlay, "stories", |index| story(call, overlay, index))
}

/// `title` and `mediaStoryIds`; a media story that is deleted later is no longer part of it.
fn create_story(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let title = call.text("title")?;
    let kept = body_ids(call, "mediaStoryIds")?;
    for media_story_id in &kept {
        collection(call).find(call, overlay, media_story_id, "Media story")?;
    }
    let fields = json!({"title": title, "mediaStoryIds": kept, "createdAt": call.now_ms});
    let index = overlay.create(STORIES, object(fields));
    Ok(Answer::ok(story(call, overlay, index)))
}

/// `storyIds` come first, in this order.
fn order(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let ids = body_ids(call, "storyIds")?;
    if ids.iter().any(|it| index_of(call, Kind::Highlight, it).is_none()) {
        return Err(Refusal::not_found("Story"));
    }
    story_collection(call).reorder(call, overlay, &ids, "Story")?;
    let all = story_collection(call).all(overlay);
    let rows: Vec<Value> = all.into_iter().map(|index| story(call, overlay, index)).collect();
    Ok(Answer::ok(json!({"stories": rows})))
}
