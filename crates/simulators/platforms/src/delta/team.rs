//! The people of an agency: members, their results, invitations.

use http::Method;
use serde_json::{Value, json};

use super::notifications::tell;
use super::shapes::{Collection, NOTHING, id, page_of};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::DAY_MS;
use crate::world::ids::{CREATED, Kind};
use crate::world::series::Series;
use crate::world::time::rfc3339;

/// The members, and the people invited to become one.
const TEAM: &str = "team";
const ROLES: [&str; 3] = ["admin", "manager", "chatter"];
const INVITES: Collection<'static> =
    Collection { table: "invites", series: NOTHING, kind: Kind::Other };

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["read:agency"])
        .get("agencies/insights/chatter-leaderboard", leaderboard)
        .get("agencies/team-members", members)
        .scopes(&["write:agency"])
        .post("agencies/creator-invites", invite_creator)
        .post("agencies/invites", invite_member)
        .write(Method::PUT, "agencies/team-members/{userId}", change_member)
}

fn collection(call: &PlatformCall<'_>) -> Collection<'static> {
    let members = if call.world.is_empty() { 0 } else { 4 };
    Collection { table: TEAM, series: Series::all(members), kind: Kind::Peer }
}

fn shown(call: &PlatformCall<'_>, overlay: &Overlay, member: u64) -> Value {
    if member >= CREATED {
        return overlay.over(TEAM, member, json!({"userId": id(call, Kind::Peer, member)}));
    }
    let person = call.world.peer(member);
    let role = match member {
        0 => "admin",
        1 => "manager",
        _ => "chatter",
    };
    let generated = json!({
        "userId": id(call, Kind::Peer, member),
        "displayName": person.name,
        "handle": person.username,
        "role": role,
        "isActive": true,
        "joinedAt": rfc3339(person.followed_at_ms),
    });
    overlay.over(TEAM, member, generated)
}

fn members(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    collection(call).page(call, overlay, |member| shown(call, overlay, member))
}

/// The members, with the highest sales first.
fn leaderboard(call: &PlatformCall<'_>, overlay: &Overlay) -> Outcome {
    let messages = call.world.chats().count() * 8;
    let row = |member: u64| {
        let sent = messages / (member + 2);
        json!({
            "rank": member + 1,
            "userId": id(call, Kind::Peer, member),
            "displayName": call.world.peer(member).name,
            "messagesSent": sent,
            "messagesSold": sent / 9,
            "salesGross": sent / 9 * 700,
            "averageReplySeconds": 45 + member * 30,
        })
    };
    let members = collection(call).all(overlay).into_iter().filter(|member| *member < CREATED);
    page_of(call, &members.map(row).collect::<Vec<_>>())
}

/// Changes `role` or `isActive`.
fn change_member(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let member = collection(call).find(call, overlay, call.param("userId"), "Team member")?;
    let fields = call.fields(&["role", "isActive"]);
    let fits = |(name, value): (&String, &Value)| match name.as_str() {
        "role" => value.as_str().is_some_and(|role| ROLES.contains(&role)),
        _ => value.is_boolean(),
    };
    if fields.is_empty() || !fields.iter().all(fits) {
        return Err(Refusal::bad_request("role or isActive is required"));
    }
    overlay.set(TEAM, member, fields);
    Ok(Answer::ok(shown(call, overlay, member)))
}

fn invite(call: &PlatformCall<'_>, overlay: &mut Overlay, role: &str) -> Outcome {
    let email = call.text("email")?;
    if email.split_once('@').is_none_or(|(name, host)| name.is_empty() || !host.contains('.')) {
        return Err(Refusal::bad_request("email is not an address"));
    }
    let fields = json!({
        "email": email,
        "role": role,
        "status": "pending",
        "createdAt": rfc3339(call.now_ms),
        "expiresAt": rfc3339(call.now_ms + 7 * DAY_MS),
    });
    let index = overlay.create(INVITES.table, object(fields));
    tell(call, overlay, &format!("{role}_invited"), &json!(email));
    let invite = json!({"uuid": id(call, INVITES.kind, index)});
    Ok(Answer::created(overlay.over(INVITES.table, index, invite)))
}

fn invite_creator(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    invite(call, overlay, "creator")
}

/// `email` and `role` (by default `chatter`). An invited person is listed as a member, but not
/// active yet.
fn invite_member(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let role = call.field("role").as_str().unwrap_or("chatter");
    if !ROLES.contains(&role) {
        return Err(Refusal::bad_request("role is not admin, manager or chatter"));
    }
    let answer = invite(call, overlay, role)?;
    let member = json!({
        "displayName": call.field("email"),
        "handle": null,
        "role": role,
        "isActive": false,
        "joinedAt": null,
    });
    overlay.create(TEAM, object(member));
    Ok(answer)
}
