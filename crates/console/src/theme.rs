//! `/console/theme`: light, dark, or as the system has it. It needs no session and changes nothing
//! but the visitor's own cookie.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use http::header::SET_COOKIE;
use pages::PageTheme;

use crate::login::local_path;
use console_kit::ConsoleState;
use console_kit::form::OpenForm;

pub(super) fn router() -> Router<ConsoleState> {
    Router::new().route("/console/theme", post(choose))
}

async fn choose(State(console): State<ConsoleState>, OpenForm(form): OpenForm) -> Response {
    let theme = PageTheme::parse(form.text("theme")).unwrap_or_default();
    let mut response = Redirect::to(local_path(form.raw("back"))).into_response();
    response.headers_mut().append(SET_COOKIE, theme.cookie(console.web.cookies.is_secure()));
    response
}
