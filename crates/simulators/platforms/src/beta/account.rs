//! The creator's own account, its settings, its email address; accounts by id.

use serde_json::{Map, Value, json};

use super::people::account;
use super::shapes::{AccountRef, id, query_ids, text_fields, who};
use super::{posts, search, tiers, two_factor, walls};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::DAY_MS;
use crate::world::ids::Kind;

/// Row 0 is the account.
const ACCOUNT: &str = "account";
/// Row 0 is the settings.
const SETTINGS: &str = "settings";
const EMAIL_CHANGES: &str = "email-changes";

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .get("account", accounts)
        .post("account", change)
        .get("account/me", me)
        .post("account/disable", disable)
        .post("account/username", change_username)
        .post("account/emailchange/create", begin_email_change)
        .post("account/emailchange/verify", verify_email_change)
        .post("account/emailchange/finish", finish_email_change)
        .get("account/settings", settings)
        .post("account/settings", change_settings)
}

/// The creator's own account.
pub(super) fn own(call: &PlatformCall<'_>, overlay: &Overlay) -> Value {
    let world = call.world;
    let username = world.creator_username();
    let own_id = id(call, Kind::Creator, 0);
    let likes: u64 = (0..world.posts().count()).map(|post| world.post(post).likes).sum();
    let generated = json!({
        "id": own_id,
        "username": username,
        "displayName": world.creator_name(),
        "role": "creator",
        "about": "Pictures, videos and long answers.",
        "location": "Hamburg",
        "email": format!("{username}@creators.test"),
        "avatar": format!("https://cdn.beta.test/avatars/{own_id}.jpg"),
        "createdAt": world.creator_joined_at_ms(),
        "statusId": 1,
        "disabledAt": null,
        "twofa": two_factor::is_on(overlay),
        "emailChange": open_email_change(call, overlay),
        "followCount": overlay.count(super::follows::FOLLOWERS, world.followers()),
        "followingCount": overlay.count(super::follows::FOLLOWING, world.following()),
        "subscriberCount": world.active_fans().count(),
        "postLikes": likes,
        "timelineStats": {
            "accountId": own_id,
            "postCount": overlay.count(posts::POSTS, world.posts()),
            "mediaCount": overlay.count(super::media::MEDIA, world.media()),
        },
        "subscriptionTiers": tiers::all(call, overlay),
        "walls": walls::all(call, overlay),
    });
    overlay.over(ACCOUNT, 0, generated)
}

/// Sets fields of the creator's own account.
pub(super) fn set(overlay: &mut Overlay, fields: Value) {
    overlay.set(ACCOUNT, 0, object(fields));
}

fn me(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(json!({"account": own(call, overlay)})))
}

/// Accounts by `ids` or `usernames`; unknown ones are omitted.
fn accounts(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let found: Vec<AccountRef> = if call.query("usernames").is_some() {
        let names = query_ids(call, "usernames")?;
        names.iter().filter_map(|name| search::by_username(call, overlay, name)).collect()
    } else {
        query_ids(call, "ids")?.iter().filter_map(|id| who(call, id)).collect()
    };
    let rows = found.into_iter().map(|who| account(call, overlay, who)).collect();
    Ok(Answer::ok(Value::Array(rows)))
}

fn change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let fields = text_fields(call, &["displayName", "about", "location"])?;
    overlay.set(ACCOUNT, 0, fields);
    Ok(Answer::ok(json!({"account": own(call, overlay)})))
}

fn disable(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    set(overlay, json!({"disabledAt": call.now_ms}));
    Ok(Answer::ok(json!({"account": own(call, overlay)})))
}

/// 4 to 30 lower-case letters, digits, `_`, `.` or `-`; 409 if it is taken.
fn change_username(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let username = call.text("username")?.to_owned();
    let allowed = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'.' | b'-')
    };
    if !(4..=30).contains(&username.len()) || !username.bytes().all(allowed) {
        return Err(Refusal::bad_request("username is not allowed"));
    }
    if search::by_username(call, overlay, &username)
        .is_some_and(|owner| owner != AccountRef::Creator)
    {
        return Err(Refusal::conflict("username is taken"));
    }
    set(overlay, json!({"username": username}));
    Ok(Answer::ok(json!({"account": own(call, overlay)})))
}

/// The code in the email that a change sends: the last six digits of its id.
fn code_of(change_id: &str) -> &str {
    change_id.len().checked_sub(6).and_then(|start| change_id.get(start..)).unwrap_or(change_id)
}

fn begin_email_change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let email = call.text("email")?.to_owned();
    let (name, host) = email.split_once('@').unwrap_or_default();
    if name.is_empty() || !host.contains('.') || email.len() > 254 {
        return Err(Refusal::bad_request("email is not an address"));
    }
    let expires_at_ms = call.now_ms + DAY_MS;
    let fields = json!({"email": email, "status": "created", "expiresAt": expires_at_ms});
    let change = overlay.create(EMAIL_CHANGES, object(fields));
    Ok(Answer::ok(email_change(call, overlay, change)))
}

fn email_change(call: &PlatformCall<'_>, overlay: &Overlay, change: u64) -> Value {
    overlay.over(EMAIL_CHANGES, change, json!({"id": id(call, Kind::Other, change)}))
}

/// The change that waits for its codes; null if there is none.
fn open_email_change(call: &PlatformCall<'_>, overlay: &Overlay) -> Value {
    let newest = overlay.page(EMAIL_CHANGES, super::shapes::NOTHING, 0, 1).indexes;
    let shown = newest.first().map(|change| email_change(call, overlay, *change));
    shown.filter(|change| change.get("status") != Some(&json!("finished"))).unwrap_or_default()
}

/// The newest change, if it is in this state, has not expired, and `code` is correct.
fn change_in_state(
    call: &PlatformCall<'_>,
    overlay: &Overlay,
    state: &str,
) -> Result<u64, Refusal> {
    let code = call.text("code")?;
    let newest = overlay.page(EMAIL_CHANGES, super::shapes::NOTHING, 0, 1).indexes;
    let change = newest.first().copied().ok_or_else(|| Refusal::not_found("Email change"))?;
    let field = |name: &str| overlay.field(EMAIL_CHANGES, change, name);
    let expired =
        field("expiresAt").and_then(Value::as_i64).is_none_or(|expires| expires < call.now_ms);
    if field("status").and_then(Value::as_str) != Some(state) || expired {
        return Err(Refusal::conflict("The email change is not in a state for this"));
    }
    if code != code_of(&id(call, Kind::Other, change)) {
        return Err(Refusal::bad_request("The code is wrong"));
    }
    Ok(change)
}

fn verify_email_change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let change = change_in_state(call, overlay, "created")?;
    overlay.set(EMAIL_CHANGES, change, object(json!({"status": "verified"})));
    Ok(Answer::ok(email_change(call, overlay, change)))
}

fn finish_email_change(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let change = change_in_state(call, overlay, "verified")?;
    let email = overlay.field(EMAIL_CHANGES, change, "email").cloned().unwrap_or_default();
    overlay.set(EMAIL_CHANGES, change, object(json!({"status": "finished"})));
    set(overlay, json!({"email": email}));
    Ok(Answer::ok(email_change(call, overlay, change)))
}

fn settings_of(overlay: &Overlay) -> Map<String, Value> {
    let generated = json!({
        "showOnlineStatus": true,
        "showSubscriberCount": true,
        "showInSuggestions": true,
        "allowTips": true,
        "allowMessagesFrom": "subscribers",
        "emailNotifications": true,
        "pushNotifications": false,
        "language": "en",
        "welcomeMessage": "",
    });
    object(overlay.over(SETTINGS, 0, generated))
}

fn settings(_: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    Ok(Answer::ok(Value::Object(settings_of(overlay))))
}

/// Any of the known settings, each with a value of its type.
fn change_settings(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let sent = super::shapes::merged(&settings_of(overlay), &call.body)?;
    overlay.set(SETTINGS, 0, sent);
    Ok(Answer::ok(Value::Object(settings_of(overlay))))
}
