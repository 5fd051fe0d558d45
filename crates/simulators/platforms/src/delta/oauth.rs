//! Tokens. The demo accounts have an access token that does not expire and a first refresh token;
//! the token endpoint (RFC 6749 section 6) returns a new pair for a refresh token, which works
//! once.

use hmac::{Hmac, KeyInit, Mac};
use http::{Method, StatusCode};
use serde_json::{Value, json};
use sha2::Sha256;
use simulator_kit::pairs::parse_pairs;

use crate::answer::{Answer, Outcome, Refusal};
use crate::call::{PlatformCall, object};
use crate::overlay::Overlay;
use crate::platform::{IncomingRequest, PlatformState};
use crate::routes::Routes;
use crate::world::SECOND_MS;
use crate::world::ids::CREATED;

/// The error codes of the token endpoint.
pub(super) const ERRORS: [&str; 5] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "invalid_scope",
    "unsupported_grant_type",
];

/// By number of the token: creator, scopes, expiry.
const ACCESS_TOKENS: &str = "access-tokens";
/// By number of the token: creator, and when it was used. The first tokens have their creators'
/// numbers.
const REFRESH_TOKENS: &str = "refresh-tokens";

const ALL_SCOPES: &[&str] = &[
    "read:agency",
    "write:agency",
    "read:chat",
    "write:chat",
    "read:creator",
    "write:creator",
    "read:experience",
    "write:experience",
    "read:fan",
    "read:insights",
    "read:media",
    "write:media",
    "read:post",
    "write:post",
    "read:self",
    "read:tracking_links",
];

/// The scopes of a creator who grants only reading, without its own name.
const LOOKING_SCOPES: &[&str] = &["read:chat", "read:fan", "read:insights", "read:media"];

/// A creator and the credentials with which a gateway connects it.
pub(super) struct Creator {
    /// The name to connect it under.
    pub(super) name: &'static str,
    pub(super) access_token: &'static str,
    pub(super) refresh_token: &'static str,
    pub(super) scopes: &'static [&'static str],
}

/// The creators, by number.
pub(super) const CREATORS: [Creator; crate::platform::CREATORS] = [
    Creator {
        name: "demo_delta",
        access_token: "delta-access-demo-3b8e12c7",
        refresh_token: "delta-refresh-demo-90f4a6d1",
        scopes: ALL_SCOPES,
    },
    Creator {
        name: "nova_delta",
        access_token: "delta-access-nova-c15d7f80",
        refresh_token: "delta-refresh-nova-6e2b43a9",
        scopes: ALL_SCOPES,
    },
    Creator {
        name: "ruby_delta",
        access_token: "delta-access-ruby-7d9046be",
        refresh_token: "delta-refresh-ruby-1fc85e30",
        scopes: LOOKING_SCOPES,
    },
    Creator {
        name: "fresh_delta",
        access_token: "delta-access-fresh-a260e9f4",
        refresh_token: "delta-refresh-fresh-d87b1c55",
        scopes: ALL_SCOPES,
    },
];

/// The permissions of an access token.
pub(super) struct TokenGrant {
    pub(super) creator: usize,
    pub(super) scopes: Vec<String>,
}

pub(super) fn routes(routes: Routes) -> Routes {
    routes.open(Method::POST, "oauth/token", refresh)
}

/// The permissions of a request's token; 401 if it is missing, unknown or expired.
pub(super) fn grant(
    request: &IncomingRequest<'_>,
    state: &PlatformState,
) -> Result<TokenGrant, Refusal> {
    let sent = request.header("authorization").and_then(|value| value.strip_prefix("Bearer "));
    let token = sent.ok_or_else(|| Refusal::unauthorized("An access token is required"))?;
    if let Some(creator) = CREATORS.iter().position(|known| known.access_token == token) {
        let scopes = CREATORS.get(creator).map_or(&[][..], |known| known.scopes);
        return Ok(TokenGrant {
            creator,
            scopes: scopes.iter().map(ToString::to_string).collect(),
        });
    }
    let index = number_of("access", token);
    let fields = index.and_then(|index| state.shared.fields(ACCESS_TOKENS, index));
    let fields = fields.ok_or_else(|| Refusal::unauthorized("The access token is not valid"))?;
    let field = |name: &str| fields.get(name).unwrap_or(&Value::Null);
    if field("expiresAt").as_i64().is_none_or(|expires_ms| expires_ms <= request.now_ms) {
        return Err(Refusal::unauthorized("The access token has expired"));
    }
    let creator = field("creator").as_u64().and_then(|creator| usize::try_from(creator).ok());
    let scopes = field("scope").as_str().unwrap_or_default().split(' ').map(str::to_owned);
    Ok(TokenGrant { creator: creator.unwrap_or(usize::MAX), scopes: scopes.collect() })
}

fn refusal(code: &'static str, message: &str) -> Refusal {
    let status = match code {
        "invalid_client" => StatusCode::UNAUTHORIZED,
        _ => StatusCode::BAD_REQUEST,
    };
    Refusal::new(status, code, message)
}

/// `grant_type`, `refresh_token`, `client_id`, `client_secret`, each once, as a form; `scope` if
/// the new access token is to have fewer scopes. The refresh token keeps all granted scopes.
fn refresh(call: &PlatformCall<'_>, shared: &mut Overlay) -> Outcome {
    let form = form(call)?;
    let value = |name: &str| {
        let found = form.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let found = found.filter(|value| !value.is_empty());
        found.ok_or_else(|| refusal("invalid_request", &format!("{name} is required")))
    };
    let settings = call.settings;
    if value("grant_type")? != "refresh_token" {
        return Err(refusal("unsupported_grant_type", "grant_type is not refresh_token"));
    }
    let known_client = value("client_id")? == settings.delta_client_id
        && value("client_secret")? == settings.delta_client_secret;
    if !known_client {
        return Err(refusal("invalid_client", "The client is not known or its secret is wrong"));
    }
    let (index, creator) = unused(shared, value("refresh_token")?)?;
    let granted = CREATORS.get(creator).map_or(&[][..], |known| known.scopes);
    let scope = match value("scope") {
        Err(_) => granted.join(" "),
        Ok(wanted) if wanted.split(' ').all(|it| granted.contains(&it)) => wanted.to_owned(),
        Ok(_) => return Err(refusal("invalid_scope", "scope has more than was granted")),
    };
    shared.set(REFRESH_TOKENS, index, object(json!({"usedAt": call.now_ms})));
    let seconds = settings.delta_access_token_s;
    let expires_ms = call.now_ms + i64::from(seconds) * SECOND_MS;
    let fields = json!({"creator": creator, "scope": scope, "expiresAt": expires_ms});
    let access = shared.next_index();
    shared.set(ACCESS_TOKENS, access, object(fields));
    let next = shared.next_index();
    shared.set(REFRESH_TOKENS, next, object(json!({"creator": creator})));
    Ok(Answer::ok(json!({
        "access_token": token("access", access),
        "token_type": "Bearer",
        "expires_in": seconds,
        "refresh_token": token("refresh", next),
        "scope": scope,
    })))
}

fn form(call: &PlatformCall<'_>) -> Result<Vec<(String, String)>, Refusal> {
    let is_form =
        call.content_type.is_some_and(|it| it.starts_with("application/x-www-form-urlencoded"));
    let text = std::str::from_utf8(call.raw_body).unwrap_or_default();
    if !is_form || text.is_empty() {
        return Err(refusal("invalid_request", "The body is not a form"));
    }
    let form = parse_pairs(text);
    let twice = |(place, (name, _)): (usize, &(String, String))| {
        form.iter().skip(place + 1).any(|(other, _)| other == name)
    };
    if form.iter().enumerate().any(twice) {
        return Err(refusal("invalid_request", "A parameter is there twice"));
    }
    Ok(form)
}

/// The number and creator of an unused refresh token.
fn unused(shared: &Overlay, sent: &str) -> Result<(u64, usize), Refusal> {
    let refused = || refusal("invalid_grant", "The refresh token is not valid or was used before");
    let first = CREATORS.iter().position(|known| known.refresh_token == sent);
    let (index, creator) = match first {
        Some(creator) => (creator as u64, creator),
        None => {
            let index = number_of("refresh", sent).ok_or_else(refused)?;
            let creator = shared.field(REFRESH_TOKENS, index, "creator").and_then(Value::as_u64);
            let creator = creator.and_then(|creator| usize::try_from(creator).ok());
            (index, creator.ok_or_else(refused)?)
        }
    };
    if shared.field(REFRESH_TOKENS, index, "usedAt").is_some() {
        return Err(refused());
    }
    Ok((index, creator))
}

/// The text of an issued token: its purpose, its number, and a check value that cannot be derived
/// from another token.
fn token(purpose: &str, number: u64) -> String {
    let number = number - CREATED;
    let check = Hmac::<Sha256>::new_from_slice(b"platform_delta tokens").map_or_else(
        |_| String::new(),
        |mut mac| {
            mac.update(format!("{purpose} {number}").as_bytes());
            hex::encode(mac.finalize().into_bytes())
        },
    );
    format!("delta-{purpose}-{number}-{}", check.get(..32).unwrap_or_default())
}

/// The number of a token that [`token`] produced.
fn number_of(purpose: &str, text: &str) -> Option<u64> {
    let rest = text.strip_prefix("delta-")?.strip_prefix(purpose)?.strip_prefix('-')?;
    let (number, _) = rest.split_once('-')?;
    let number = number.parse::<u64>().ok()?.checked_add(CREATED)?;
    (token(purpose, number) == text).then_some(number)
}
