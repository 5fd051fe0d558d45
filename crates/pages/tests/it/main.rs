//! Pages as a browser gets them: written with the operator's brand and the visitor's theme.
#![expect(clippy::unwrap_used, reason = "a test that meets what it does not expect must fail")]

mod assets;
mod brand;
mod failure;

use axum::response::Response;
use http::HeaderMap;
use pages::{PageFrame, PagesState};
use settings::Config;

/// What pages are written with, under this configuration.
fn state(toml: &str) -> PagesState {
    PagesState::new(&Config::from_toml(toml).unwrap())
}

/// The frame for a visitor with this cookie.
fn frame(toml: &str, cookie: &str) -> PageFrame {
    let mut headers = HeaderMap::new();
    headers.insert(http::header::COOKIE, cookie.parse().unwrap());
    state(toml).frame(&headers)
}

/// The text of a response.
async fn text(response: Response) -> String {
    let bytes = axum::body::to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}
