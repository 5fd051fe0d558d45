//! The creator's own account and its settings.

use http::Method;
use serde_json::{Value, json};

use super::shapes::{dollars, id};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::ids::Kind;
use crate::world::series::Series;
use crate::world::time::{day, rfc3339_offset};

const ACCOUNT: &str = "account";
const BUTTONS: &str = "social-buttons";

/// The row of objects that exist only once.
const ME: u64 = 0;
const MESSAGES: u64 = 1;
const POSTS: u64 = 2;

const ME_FIELDS: &[&str] = &["name", "about", "location", "website", "wishlist", "subscribePrice"];
const POST_FIELDS: &[&str] = &["commentsEnabled", "showLikes", "showTips", "defaultPrice"];
const WELCOME_FIELDS: &[&str] = &["welcomeMessage", "isWelcomeMessageEnabled", "text", "enabled"];

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("users/me", me)
        .write(Method::PATCH, "users/me", edit_me)
        .get("users/me/start-date-model", start_date)
        .get("users/me/settings", settings)
        .write(Method::PATCH, "users/me/settings/messages", edit_message_settings)
        .get("users/settings/post", post_settings)
        .write(Method::PATCH, "users/settings/post", edit_post_settings)
        .get("users/social/buttons", social_buttons)
        .post("users/social/buttons", add_social_button)
        .write(Method::PUT, "users/social/buttons", order_social_buttons)
        .read(Method::POST, "users/exists", username_exists)
}

fn me(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(me_json(call, overlay)))
}

fn edit_me(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fields = call.fields(ME_FIELDS);
    if fields.is_empty() {
        return Err(Refusal::bad_request("Nothing to change"));
    }
    overlay.set(ACCOUNT, ME, fields);
    Ok(Answer::ok(me_json(call, overlay)))
}

fn me_json(call: &PlatformCall<'_>, overlay: &Overlay) -> Value {
    let world = call.world;
    let username = world.creator_username();
    let generated = json!({
        "id": id(call, Kind::Creator, 0),
        "name": world.creator_name(),
        "username": username,
        "email": format!("{username}@alpha.test"),
        "about": "Pictures, videos and long answers.",
        "location": "Hamburg",
        "website": format!("https://{username}.alpha.test"),
        "isPerformer": true,
        "isVerified": true,
        "isAuth": true,
        "joinDate": rfc3339_offset(world.creator_joined_at_ms()),
        "subscribersCount": world.active_fans().count(),
        "postsCount": overlay.count(super::posts::POSTS, world.posts()),
        "mediasCount": world.media().count(),
        "subscribePrice": dollars(world.tier(0).price_cents),
        "currency": "USD",
    });
    overlay.over(ACCOUNT, ME, generated)
}

fn start_date(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let joined_at_ms = call.world.creator_joined_at_ms();
    Ok(Answer::ok(json!({
        "startDateModel": day(joined_at_ms),
        "startDateModelAt": rfc3339_offset(joined_at_ms),
    })))
}

fn settings(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(json!({
        "blockedCountries": [],
        "blockedStates": [],
        "blockedIps": [],
        "drm": {"enabled": true, "status": "active", "appliesTo": ["video"]},
        "isDrmAvailable": true,
        "language": "en",
        "isPrivate": false,
        "watermarkText": format!("alpha.test/{}", call.world.creator_username()),
        "messages": message_settings(overlay),
        "notifications": {"email": true, "push": false},
    })))
}

fn message_settings(overlay: &Overlay) -> Value {
    let generated = json!({"isWelcomeMessageEnabled": false, "welcomeMessage": null});
    overlay.over(ACCOUNT, MESSAGES, generated)
}

fn edit_message_settings(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let mut fields = call.fields(WELCOME_FIELDS);
    if fields.is_empty() {
        return Err(Refusal::bad_request("A welcome message is required"));
    }
    for (short, long) in [("text", "welcomeMessage"), ("enabled", "isWelcomeMessageEnabled")] {
        if let Some(value) = fields.remove(short) {
            fields.insert(long.to_owned(), value);
        }
    }
    overlay.set(ACCOUNT, MESSAGES, fields);
    Ok(Answer::ok(message_settings(overlay)))
}

fn post_settings(_: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(post_settings_json(overlay)))
}

fn edit_post_settings(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fields = call.fields(POST_FIELDS);
    if fields.is_empty() {
        return Err(Refusal::bad_request("Nothing to change"));
    }
    overlay.set(ACCOUNT, POSTS, fields);
    Ok(Answer::ok(post_settings_json(overlay)))
}

fn post_settings_json(overlay: &Overlay) -> Value {
    let generated = json!({
        "commentsEnabled": true,
        "showLikes": true,
        "showTips": false,
        "defaultPrice": 0,
    });
    overlay.over(ACCOUNT, POSTS, generated)
}

fn social_buttons(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(buttons_json(call, overlay)))
}

fn add_social_button(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let label = call.text("label")?.to_owned();
    let url = call.text("url")?.to_owned();
    if !url.starts_with("https://") {
        return Err(Refusal::bad_request("url must start with https://"));
    }
    let index = overlay.create(BUTTONS, object(json!({"label": label, "url": url})));
    Ok(Answer::created(button_json(call, overlay, index)))
}

/// The body contains the ids of all buttons in the order in which they are to be shown.
fn order_social_buttons(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let ids: Vec<u64> =
        call.field("ids").as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
    let mut known = overlay.page(BUTTONS, generated_buttons(call), 0, u64::MAX).indexes;
    let mut wanted = Vec::new();
    for asked in &ids {
        // Removed, so that a repeated id is not found again.
        let place = known.iter().position(|it| id(call, Kind::Other, *it) == *asked);
        wanted.extend(place.map(|place| known.remove(place)));
    }
    if !known.is_empty() || wanted.len() != ids.len() {
        return Err(Refusal::bad_request("ids must name each button once"));
    }
    for index in wanted.into_iter().rev() {
        overlay.put(BUTTONS, index);
    }
    Ok(Answer::ok(buttons_json(call, overlay)))
}

fn generated_buttons(call: &PlatformCall<'_>) -> Series {
    Series::all(if call.world.is_empty() { 0 } else { 2 })
}

fn buttons_json(call: &PlatformCall<'_>, overlay: &Overlay) -> Value {
    let page = overlay.page(BUTTONS, generated_buttons(call), 0, u64::MAX);
    page.indexes.into_iter().map(|index| button_json(call, overlay, index)).collect()
}

fn button_json(call: &PlatformCall<'_>, overlay: &Overlay, index: u64) -> Value {
    let label = if index == 0 { "Podcast" } else { "Photo blog" };
    let generated = json!({
        "id": id(call, Kind::Other, index),
        "label": label,
        "url": format!("https://links.test/{}/{index}", call.world.creator_username()),
    });
    overlay.over(BUTTONS, index, generated)
}

fn username_exists(call: &PlatformCall<'_>, _: &Overlay) -> Outcome {
    let username = call.text("username")?;
    let taken = (0..super::CREATORS.len() as u64)
        .any(|creator| crate::world::World::new(0, creator, 0).creator_username() == username);
    Ok(Answer::ok(json!({"username": username, "exists": taken})))
}
