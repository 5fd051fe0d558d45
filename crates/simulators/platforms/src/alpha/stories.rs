//! Stories, and the highlights that keep them. The newest stories are still visible; the others are
//! archived.

use http::Method;
use serde_json::{Value, json};

use super::shapes::{fan_index, id, index, medium, page_of, user_ref};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::DAY_MS;
use crate::world::ids::{self, CREATED, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339_offset;

const STORIES: &str = "stories";
const HIGHLIGHTS: &str = "highlights";
const HIGHLIGHTS_GENERATED: u64 = 3;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("users/me/stories", running)
        .get("stories/archive", archive)
        .get("stories/{story_id}", story)
        .get("stories/{story_id}/viewers", viewers)
        .get("users/{user_id}/stories/highlights", highlights)
        .get("stories/highlights/{highlight_id}", highlight)
        .post("stories", create_story)
        .post("stories/highlights", create_highlight)
        .write(Method::PUT, "stories/{story_id}/watched", watched)
        .write(
            Method::DELETE,
            "stories/highlights/{highlight_id}/{highlight_id2}",
            remove_from_highlight,
        )
}

/// The number of generated stories that had not expired at the end of the generated time.
fn running_count(call: &PlatformCall<'_>) -> u64 {
    let all = call.world.stories();
    let still = |index: &u64| call.world.story(*index).expires_at_ms > call.world.end_ms;
    (0..all.count()).take_while(still).count() as u64
}

/// A story is visible for a day, measured from the present or the end of the generated time.
fn running(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let all = overlay.page(STORIES, Series::all(running_count(call)), 0, u64::MAX);
    let rows: Vec<Value> = all
        .indexes
        .into_iter()
        .filter(|index| *index < CREATED || expires_ms(overlay, *index) > call.now_ms)
        .map(|index| story_json(call, overlay, index))
        .collect();
    Ok(Answer::ok(json!({"list": rows, "hasMore": false})))
}

fn archive(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    page_of(call, overlay, STORIES, call.world.stories(), |index| story_json(call, overlay, index))
}

fn expires_ms(overlay: &Overlay, index: u64) -> i64 {
    overlay.field(STORIES, index, "expiresMs").and_then(Value::as_i64).unwrap_or(0)
}

fn story_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let base = if index < CREATED {
        let story = call.world.story(index);
        json!({
            "createdAt": rfc3339_offset(story.created_at_ms),
            "expiresAt": rfc3339_offset(story.expires_at_ms),
            "isWatched": false,
            "viewersCount": story.viewers.count(),
            "media": [medium(call, story.medium)],
        })
    } else {
        json!({"isWatched": false, "viewersCount": 0})
    };
    let mut shown = object(overlay.over(STORIES, index, base));
    shown.remove("expiresMs");
    shown.insert("id".to_owned(), json!(id(call, Kind::Story, index)));
    shown.insert("userId".to_owned(), json!(id(call, Kind::Creator, 0)));
    Value::Object(shown)
}

fn story_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    let story = index(call, Kind::Story, "story_id", "Story")?;
    let exists = overlay.holds(STORIES, call.world.stories(), story);
    if exists { Ok(story) } else { Err(Refusal::not_found("Story")) }
}

fn story(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(story_json(call, overlay, story_param(call, overlay)?)))
}

fn viewers(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let story = story_param(call, overlay)?;
    let viewers = if story < CREATED { call.world.story(story).viewers } else { Series::all(0) };
    page_of(call, overlay, "viewers", viewers, |fan| user_ref(call, fan))
}

/// `mediaId` is one of the creator's media.
fn create_story(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let number = call.field("mediaId").as_u64().unwrap_or_default();
    let media = ids::index_of_number(Kind::Media, call.world.creator, number)
        .filter(|index| call.world.media().place_of(*index).is_some())
        .ok_or_else(|| Refusal::bad_request("mediaId is not one of your media"))?;
    let expires_ms = call.now_ms + DAY_MS;
    let fields = json!({
        "createdAt": rfc3339_offset(call.now_ms),
        "expiresAt": rfc3339_offset(expires_ms),
        "expiresMs": expires_ms,
        "media": [medium(call, media)],
    });
    let index = overlay.create(STORIES, object(fields));
    Ok(Answer::created(story_json(call, overlay, index)))
}

fn watched(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let story = story_param(call, overlay)?;
    overlay.set(STORIES, story, object(json!({"isWatched": true})));
    Ok(Answer::ok(story_json(call, overlay, story)))
}

fn generated_highlights(call: &PlatformCall<'_>) -> Series {
    Series::all(if call.world.is_empty() { 0 } else { HIGHLIGHTS_GENERATED })
}

/// The creator has highlights; fans have none.
fn highlights(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let own = call.param("user_id") == id(call, Kind::Creator, 0).to_string();
    if !own && fan_index(call, call.param("user_id")).is_none() {
        return Err(Refusal::not_found("User"));
    }
    let series = if own { generated_highlights(call) } else { Series::all(0) };
    let table = if own { HIGHLIGHTS } else { "highlights-of-fans" };
    page_of(call, overlay, table, series, |index| highlight_json(call, overlay, index))
}

/// The stories that a highlight keeps: every third of the generated ones, and those added later.
fn kept_stories(call: &PlatformCall<'_>, highlight: u64) -> (String, Series) {
    let keep: &'static [u64] = match highlight {
        0 => &[0],
        1 => &[1],
        2 => &[2],
        _ => &[],
    };
    let total = if highlight < CREATED { call.world.stories().count() } else { 0 };
    let series = if keep.is_empty() { Series::all(0) } else { Series::of(total, 3, keep) };
    (format!("highlight/{highlight}"), series)
}

fn highlight_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let (table, series) = kept_stories(call, index);
    let stories = overlay.page(&table, series, 0, u64::MAX).indexes;
    let names = ["Travel", "Studio", "Questions"];
    let name = usize::try_from(index).ok().and_then(|at| names.get(at)).copied();
    let base = json!({
        "title": name.unwrap_or("Highlight"),
        "createdAt": rfc3339_offset(call.world.end_ms - 100 * DAY_MS),
    });
    let mut shown = object(overlay.over(HIGHLIGHTS, index, base));
    shown.insert("id".to_owned(), json!(id(call, Kind::Highlight, index)));
    shown.insert("storiesCount".to_owned(), json!(stories.len()));
    let rows: Value = stories.into_iter().map(|story| story_json(call, overlay, story)).collect();
    shown.insert("stories".to_owned(), rows);
    Value::Object(shown)
}

fn highlight_param(call: &PlatformCall<'_>, overlay: &Overlay) -> Result<u64, Refusal> {
    let highlight = index(call, Kind::Highlight, "highlight_id", "Highlight")?;
    let exists = overlay.holds(HIGHLIGHTS, generated_highlights(call), highlight);
    if exists { Ok(highlight) } else { Err(Refusal::not_found("Highlight")) }
}

fn highlight(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let highlight = highlight_param(call, overlay)?;
    Ok(Answer::ok(highlight_json(call, overlay, highlight)))
}

/// `title` and `storyIds`.
fn create_highlight(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let title = call.text("title")?.to_owned();
    let mut stories = Vec::new();
    for wanted in call.field("storyIds").as_array().into_iter().flatten() {
        let number = wanted.as_u64().unwrap_or_default();
        let story = ids::index_of_number(Kind::Story, call.world.creator, number)
            .filter(|story| overlay.holds(STORIES, call.world.stories(), *story))
            .ok_or_else(|| Refusal::bad_request("storyIds has an unknown id"))?;
        stories.push(story);
    }
    let fields = json!({"title": title, "createdAt": rfc3339_offset(call.now_ms)});
    let index = overlay.create(HIGHLIGHTS, object(fields));
    for story in stories.into_iter().rev() {
        overlay.put(&kept_stories(call, index).0, story);
    }
    Ok(Answer::created(highlight_json(call, overlay, index)))
}

/// Removes a story from a highlight; the second id is the story's. If it is the highlight's own,
/// the highlight is deleted.
fn remove_from_highlight(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let highlight = highlight_param(call, overlay)?;
    let second = call.param("highlight_id2");
    if second == call.param("highlight_id") {
        overlay.take(HIGHLIGHTS, highlight);
        return Ok(Answer::ok(json!({"success": true})));
    }
    let (table, series) = kept_stories(call, highlight);
    let story = ids::index_of_digits(Kind::Story, call.world.creator, second)
        .filter(|story| overlay.holds(&table, series, *story))
        .ok_or_else(|| Refusal::not_found("Story"))?;
    overlay.take(&table, story);
    Ok(Answer::ok(json!({"success": true})))
}
