//! Rendering pages, and reading their forms.

use askama::Template;
use axum::extract::{FromRequest, Request};
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY};
use axum::response::{Html, IntoResponse, Response};
use failures::Failure;
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;
use web::auth::csrf;
use web::error::ApiError;

use crate::ConsoleState;

/// Whose pages they are.
#[derive(Debug, Clone, Default)]
pub(super) struct PageBrand {
    /// The name of the service.
    pub(super) name: String,
    /// The address of the logo; none without one.
    pub(super) logo: Option<&'static str>,
    /// Where customers get help; none without an address.
    pub(super) support: Option<String>,
}

impl PageBrand {
    /// As configured.
    pub(super) fn of(console: &ConsoleState) -> Self {
        let brand = &console.config.brand;
        Self {
            name: brand.name.clone(),
            logo: brand.logo_path(),
            support: brand.support().map(str::to_owned),
        }
    }
}

/// Pages load only our style and logo, forms post only to us, and no site may embed our pages.
const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
    base-uri 'none'; frame-ancestors 'none'";
/// Forms must say which page they come from; other sites never see our addresses.
const REFERRER: &str = "same-origin";

/// Renders a page as a response.
pub(super) fn show<T: Template>(status: StatusCode, page: &T) -> Response {
    show_with(status, page, POLICY)
}

/// The same with a different policy, for a page that needs more than our style.
pub(super) fn show_with<T: Template>(status: StatusCode, page: &T, policy: &str) -> Response {
    match page.render() {
        Ok(text) => {
            let headers = [(CONTENT_SECURITY_POLICY, policy), (REFERRER_POLICY, REFERRER)];
            (status, headers, Html(text)).into_response()
        }
        Err(error) => ApiError::Failure(Failure::Internal(error.to_string())).into_response(),
    }
}

/// A form of one of our pages.
pub(super) struct PageForm<T>(pub(super) T);

impl<T: DeserializeOwned> FromRequest<ConsoleState> for PageForm<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, console: &ConsoleState) -> Result<Self, ApiError> {
        let (parts, incoming) = request.into_parts();
        let own = csrf::OwnPages {
            public_base_url: &console.config.http.public_base_url,
            allowed_hosts: &console.config.http.allowed_hosts,
        };
        own.check(&parts.headers)?;
        if !is_form(&parts.headers) {
            return Err(ApiError::UnsupportedMediaType);
        }
        let bytes_max = console.config.http.limits.json_body_bytes_max;
        let bytes = console.web.read_body(&parts.extensions, incoming, bytes_max).await?;
        serde_urlencoded::from_bytes(&bytes)
            .map(Self)
            .map_err(|_| ApiError::Failure(Failure::NotFound("this is not a form of the console")))
    }
}

fn is_form(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = value.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/x-www-form-urlencoded")
}
