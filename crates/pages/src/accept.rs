//! Whether a visitor reads pages or a program reads JSON (`Accept`, RFC 9110 12.5.1).

use http::HeaderMap;
use http::header::ACCEPT;

/// Whether the caller names HTML, as browsers do. `*/*` alone, as programs send it, means JSON.
pub fn wants_html(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let mut ranges = lines.flat_map(|line| line.split(','));
    ranges.any(|range| {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let is_html = kind.eq_ignore_ascii_case("text/html")
            || kind.eq_ignore_ascii_case("application/xhtml+xml");
        is_html && !parts.any(is_refusal)
    })
}

/// `q=0` means that the range is not accepted.
fn is_refusal(parameter: &str) -> bool {
    let value = parameter.strip_prefix("q=").or_else(|| parameter.strip_prefix("Q="));
    value.is_some_and(|value| value.parse::<f32>().is_ok_and(|quality| quality <= 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn browsers_get_pages_and_programs_get_json() {
        for (accept, html) in [
            ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true),
            ("TEXT/HTML", true),
            ("application/json, text/html;q=0.2", true),
            ("*/*", false),
            ("application/json", false),
            ("text/html;q=0, application/json", false),
            ("text/htmlx", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(wants_html(&headers), html, "{accept:?}");
        }
        assert!(!wants_html(&HeaderMap::new()));
    }
}
