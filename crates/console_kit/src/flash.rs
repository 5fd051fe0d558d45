//! What one page tells the next: a message that is shown once.
//!
//! It travels in a cookie that is sealed with the session's secret, so that nobody else can make a
//! page say something. Secrets never travel this way.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::header::COOKIE;
use http::{HeaderMap, HeaderValue};
use web::auth::FormSecret;

/// The cookie's name over https, where no other host can set it, and elsewhere.
const COOKIE_NAMES: [&str; 2] = ["__Host-flash", "flash"];
/// Seconds that a message waits for its page.
const KEPT_FOR_S: u32 = 60;
/// Messages are a few sentences.
const TEXT_BYTES_MAX: usize = 1_500;

/// A message for the next page.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FlashMessage {
    /// `ok`, `warn` or `bad`: its color and its role.
    pub kind: FlashKind,
    /// What happened, in a few words; may be empty.
    pub title: String,
    /// What it means.
    pub text: String,
}

/// How a message is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FlashKind {
    /// It worked.
    Ok,
    /// It worked, but something needs attention.
    Warn,
    /// It did not work.
    Bad,
}

impl FlashKind {
    /// The class of the style.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Bad => "bad",
        }
    }
}

impl FlashMessage {
    /// A message that something worked.
    pub fn ok(text: impl Into<String>) -> Self {
        Self { kind: FlashKind::Ok, title: String::new(), text: text.into() }
    }

    /// A message that something needs attention.
    pub fn warn(text: impl Into<String>) -> Self {
        Self { kind: FlashKind::Warn, title: String::new(), text: text.into() }
    }

    /// A message that something did not work.
    pub fn bad(text: impl Into<String>) -> Self {
        Self { kind: FlashKind::Bad, title: String::new(), text: text.into() }
    }

    /// The message in the cookie of these headers, if it was sealed with this secret.
    pub fn read(headers: &HeaderMap, secret: &FormSecret) -> Option<Self> {
        let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let pairs: Vec<_> = lines.flat_map(|line| line.split(';')).map(str::trim).collect();
        let value_of =
            |name| pairs.iter().find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='));
        let value = COOKIE_NAMES.into_iter().find_map(value_of)?;
        let (text, seal) = value.split_once('.')?;
        if !secret.is_token(&sealed(text), seal) {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// `Set-Cookie` that carries the message to the next page; `is_secure`: over https only.
    pub fn cookie(&self, secret: &FormSecret, is_secure: bool) -> HeaderValue {
        let mut short = self.clone();
        truncate(&mut short.title);
        truncate(&mut short.text);
        let text = URL_SAFE_NO_PAD.encode(serde_json::to_vec(&short).unwrap_or_default());
        let seal = secret.token(&sealed(&text));
        written(&format!("{text}.{seal}"), KEPT_FOR_S, is_secure)
    }

    /// `Set-Cookie` that removes it.
    pub fn removal(is_secure: bool) -> HeaderValue {
        written("", 0, is_secure)
    }
}

/// What the seal is made of: no form has this path.
fn sealed(text: &str) -> String {
    format!("flash {text}")
}

fn truncate(text: &mut String) {
    while text.len() > TEXT_BYTES_MAX {
        text.pop();
    }
}

fn written(value: &str, age_max_s: u32, is_secure: bool) -> HeaderValue {
    let [over_https, elsewhere] = COOKIE_NAMES;
    let (name, secure) = if is_secure { (over_https, "; Secure") } else { (elsewhere, "") };
    let text =
        format!("{name}={value}; Path=/; Max-Age={age_max_s}; HttpOnly; SameSite=Lax{secure}");
    HeaderValue::try_from(text).unwrap_or_else(|_| HeaderValue::from_static("flash="))
}
