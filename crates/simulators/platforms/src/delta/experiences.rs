//! Experiences: external services that users enter with a one-time token.

use serde_json::{Value, json};

use super::notifications::tell;
use super::shapes::{id, index_of, own_id};
use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::routes::Routes;
use crate::world::MINUTE_MS;
use crate::world::ids::Kind;
use crate::world::time::rfc3339;

const TOKENS: &str = "experience-tokens";
const VALID_MS: i64 = 5 * MINUTE_MS;

pub(super) fn routes(routes: Routes) -> Routes {
    routes
        .scopes(&["write:experience"])
        .post("experiences/request-token", request)
        .scopes(&["read:experience"])
        .post("experiences/token/exchange", exchange)
}

/// `experience` is the one to enter.
fn request(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let expires_ms = call.now_ms + VALID_MS;
    let fields = json!({"experience": call.text("experience")?, "expiresMs": expires_ms});
    let index = overlay.create(TOKENS, object(fields));
    tell(call, overlay, "experience_token_requested", call.field("experience"));
    let token = format!("exp_{}", id(call, Kind::Other, index));
    Ok(Answer::created(json!({"token": token, "expiresAt": rfc3339(expires_ms)})))
}

/// The user of `token`; 409 if it was used or has expired.
fn exchange(call: &PlatformCall<'_>, overlay: &mut Overlay) -> Outcome {
    let sent = call.text("token")?.strip_prefix("exp_");
    let unknown = || Refusal::not_found("Token");
    let index = sent.and_then(|uuid| index_of(call, Kind::Other, uuid)).ok_or_else(unknown)?;
    let fields = overlay.fields(TOKENS, index).cloned().ok_or_else(unknown)?;
    let expires_ms = fields.get("expiresMs").and_then(Value::as_i64).unwrap_or_default();
    if fields.contains_key("usedAt") || expires_ms <= call.now_ms {
        return Err(Refusal::conflict("The token was used or has expired"));
    }
    overlay.set(TOKENS, index, object(json!({"usedAt": call.now_ms})));
    let experience = fields.get("experience").cloned().unwrap_or_default();
    tell(call, overlay, "experience_entered", &experience);
    Ok(Answer::ok(json!({
        "userUuid": own_id(call),
        "handle": call.world.creator_username(),
        "experience": fields.get("experience"),
    })))
}
