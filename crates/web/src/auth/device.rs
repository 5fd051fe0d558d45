//! The device that receives a session: what we record about it, and whether its connection may
//! carry a session at all.

use std::net::IpAddr;

use axum::extract::FromRef;
use axum::extract::FromRequestParts;
use domain::token::TokenHash;
use http::header::USER_AGENT;
use http::request::Parts;

use super::presented;
use crate::WebState;
use crate::error::ApiError;
use crate::middleware::real_ip::ClientAddress;

/// Characters of the `User-Agent` that are stored.
const USER_AGENT_CHARS_MAX: usize = 200;

/// A caller: its address, and the device cookie by which a browser is recognized.
#[derive(Clone)]
pub struct CallingDevice {
    /// Its address.
    pub ip: IpAddr,
    /// Whether its connection may carry cookies.
    pub can_keep_cookies: bool,
    /// The value of its device cookie, valid or not.
    pub cookie: Option<String>,
}

impl<S> FromRequestParts<S> for CallingDevice
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let web = &WebState::from_ref(state);
        let client =
            parts.extensions.get::<ClientAddress>().copied().ok_or(ApiError::HttpsRequired)?;
        let can_keep_cookies = web.cookies.check(client).is_ok();
        let cookie = presented::presented_cookie(&parts.headers, web.cookies.device_cookie());
        let cookie = cookie.and_then(Result::ok).filter(|_| can_keep_cookies).map(str::to_owned);
        Ok(Self { ip: client.ip, can_keep_cookies, cookie })
    }
}

/// A device whose connection may carry a session.
#[derive(Clone)]
pub struct SessionDevice {
    /// Its address and its device cookie.
    pub calling: CallingDevice,
    /// Its `User-Agent`, shortened.
    pub user_agent: String,
    /// The session token that it already sends, valid or not.
    pub held: Option<TokenHash>,
}

impl SessionDevice {
    /// The network that it is in, such as `192.0.2.0/24`.
    pub fn network(&self) -> String {
        transport::neighbourhood_text(self.calling.ip)
    }
}

impl<S> FromRequestParts<S> for SessionDevice
where
    WebState: FromRef<S>,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let calling = CallingDevice::from_request_parts(parts, state).await?;
        if !calling.can_keep_cookies {
            return Err(ApiError::HttpsRequired);
        }
        let web = &WebState::from_ref(state);
        let held = presented::presented_token(&parts.headers, web.cookies.cookie());
        let user_agent = parts.headers.get(USER_AGENT).map(http::HeaderValue::as_bytes);
        Ok(Self {
            calling,
            user_agent: shortened(&String::from_utf8_lossy(user_agent.unwrap_or_default())),
            held: held.and_then(Result::ok).map(|token| token.hash()),
        })
    }
}

fn shortened(user_agent: &str) -> String {
    user_agent.chars().filter(|char| !char.is_control()).take(USER_AGENT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_agent_is_stored_short_and_without_control_characters() {
        assert_eq!(shortened("Browser/1.0\t(X)\u{7f}"), "Browser/1.0(X)");
        assert_eq!(shortened(&"é".repeat(500)).chars().count(), USER_AGENT_CHARS_MAX);
    }
}
