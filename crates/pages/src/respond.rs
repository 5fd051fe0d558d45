//! Sending a page, with a policy that lets browsers load nothing from elsewhere.

use askama::Template;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY};
use axum::response::{Html, IntoResponse, Response};
use http::{HeaderValue, StatusCode};

/// Forms must say which page they come from; other sites never see our addresses.
const REFERRER: &str = "same-origin";

/// What a page may load besides the style and the script, and where its forms may lead: origins
/// such as `https://js.example`, or patterns of them.
#[derive(Debug, Clone, Default)]
pub struct PagePolicy {
    /// Scripts of the payment processor, on the page where a bank asks for the customer.
    pub script_origins: Vec<String>,
    /// What those scripts may call.
    pub connect_origins: Vec<String>,
    /// What they may show inside the page.
    pub frame_origins: Vec<String>,
    /// Where a form's response may lead, such as a checkout. Browsers apply `form-action` to
    /// redirects too.
    pub form_origins: Vec<String>,
}

impl PagePolicy {
    /// The value of `Content-Security-Policy`.
    fn header(&self) -> HeaderValue {
        let frames = sources(&self.frame_origins);
        let frames = if frames.is_empty() { frames } else { format!("; frame-src{frames}") };
        let text = format!(
            "default-src 'none'; style-src 'self'; script-src 'self'{}; img-src 'self'; \
             connect-src 'self'{}; form-action 'self'{}; object-src 'none'; base-uri 'none'; \
             frame-ancestors 'none'{frames}",
            sources(&self.script_origins),
            sources(&self.connect_origins),
            sources(&self.form_origins),
        );
        let strict = HeaderValue::from_static(
            "default-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'",
        );
        HeaderValue::try_from(text).unwrap_or(strict)
    }
}

/// The origins, each after a space. One that could end a directive is left out.
fn sources(origins: &[String]) -> String {
    let is_plain = |origin: &&String| {
        !origin.is_empty()
            && origin.bytes().all(|byte| byte.is_ascii_graphic() && !b";,".contains(&byte))
    };
    origins.iter().filter(is_plain).fold(String::new(), |text, origin| text + " " + origin)
}

/// Renders a page. Pages are made for one visitor, so no cache keeps them.
///
/// # Errors
///
/// If the template cannot be written.
pub fn page<T: Template>(
    status: StatusCode,
    page: &T,
    policy: &PagePolicy,
) -> Result<Response, askama::Error> {
    let text = page.render()?;
    let headers = [
        (CONTENT_SECURITY_POLICY, policy.header()),
        (REFERRER_POLICY, HeaderValue::from_static(REFERRER)),
        (CACHE_CONTROL, HeaderValue::from_static("private, no-store")),
    ];
    Ok((status, headers, Html(text)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_loads_nothing_from_elsewhere_unless_it_pays() {
        let usual = PagePolicy::default().header();
        let paying = PagePolicy {
            script_origins: vec!["https://js.example".to_owned()],
            connect_origins: vec!["https://api.example".to_owned()],
            frame_origins: vec!["https://js.example".to_owned(), "https://bank.example".to_owned()],
            form_origins: vec!["https://pay.example".to_owned(), "'none'; script-src *".to_owned()],
        };
        let paying = paying.header();

        assert_eq!(
            usual.to_str().unwrap(),
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; \
             connect-src 'self'; form-action 'self'; object-src 'none'; base-uri 'none'; \
             frame-ancestors 'none'"
        );
        let paying = paying.to_str().unwrap();
        assert!(paying.contains("script-src 'self' https://js.example;"), "{paying}");
        assert!(paying.contains("form-action 'self' https://pay.example;"), "{paying}");
        assert!(paying.contains("connect-src 'self' https://api.example;"), "{paying}");
        assert!(paying.ends_with("frame-src https://js.example https://bank.example"), "{paying}");
    }
}
