//! What a call from the explorer returned: its body as text, its headers, its receipt.

use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use web::error::PendingFailure;
use web::error::render::render;

use console_kit::format;

/// The most of a body that the page shows.
const SHOWN_BYTES_MAX: usize = 256 * 1024;
/// How much of a body is read, to tell its size, and for how long. Then the call ends, as if its
/// caller had left.
const READ_BYTES_MAX: usize = 8 * 1024 * 1024;
const READ_TIME_MAX: Duration = Duration::from_secs(30);

/// How the reading of a body ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyEnd {
    Whole,
    Broken,
    /// It is longer than what is read.
    TooLong,
    /// It took longer.
    TooSlow,
}

/// A body, as far as it was read.
struct ReadBody {
    /// Its beginning.
    kept: Vec<u8>,
    /// The bytes read.
    size: usize,
    end: BodyEnd,
}

impl ReadBody {
    async fn read(mut body: Body) -> Self {
        let mut read = Self { kept: Vec::new(), size: 0, end: BodyEnd::TooSlow };
        if let Ok(end) = tokio::time::timeout(READ_TIME_MAX, read.fill(&mut body)).await {
            read.end = end;
        }
        read
    }

    async fn fill(&mut self, body: &mut Body) -> BodyEnd {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else { return BodyEnd::Broken };
            let Some(data) = frame.data_ref() else { continue };
            self.size = self.size.saturating_add(data.len());
            let room = SHOWN_BYTES_MAX.saturating_sub(self.kept.len());
            self.kept.extend(data.iter().take(room));
            if self.size > READ_BYTES_MAX {
                return BodyEnd::TooLong;
            }
        }
        BodyEnd::Whole
    }

    /// Its size in bytes, as the page shows it.
    fn shown_size(&self) -> String {
        let size = format::number(i64::try_from(self.size).unwrap_or(i64::MAX));
        if self.end == BodyEnd::Whole { size } else { format!("at least {size}") }
    }
}

/// The response to a call, as the page shows it.
pub(super) struct CallReply {
    pub(super) status: StatusCode,
    /// The type of its body; empty if it has none.
    pub(super) media_type: String,
    /// Its size in bytes.
    pub(super) size: String,
    /// The body, or its beginning; empty if it is no text.
    pub(super) text: String,
    /// What is to be known about the body; empty if it is whole.
    pub(super) note: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) receipt: ShownReceipt,
}

/// What the call cost, and how it went.
#[derive(Default)]
pub(super) struct ShownReceipt {
    /// `1 credit`, or `Not charged`.
    pub(super) charged: String,
    pub(super) balance: String,
    /// Further lines: word and value.
    pub(super) lines: Vec<(&'static str, String)>,
    pub(super) request_id: String,
    /// Whether the failure is the platform's.
    pub(super) is_platforms: bool,
}

impl CallReply {
    /// Reads a response to its end, or as far as is read, and keeps what the page shows.
    pub(super) async fn read(response: Response, request_id: &str, is_safe: bool) -> Self {
        let response = rendered(response, request_id, is_safe);
        let (parts, body) = response.into_parts();
        let read = ReadBody::read(body).await;
        let media_type = header(&parts.headers, "content-type").to_owned();
        let (text, note) = shown(&read, &media_type);
        Self {
            status: parts.status,
            media_type,
            size: read.shown_size(),
            text,
            note,
            headers: listed(&parts.headers),
            receipt: ShownReceipt::of(&parts.headers, request_id),
        }
    }

    /// The class of its status.
    pub(super) fn class(&self) -> &'static str {
        match self.status.as_u16() {
            ..300 => "ok",
            300..500 => "warn",
            _ => "bad",
        }
    }
}

/// A refusal of ours gets its body from the outermost layer; here it is written for the page.
fn rendered(mut response: Response, request_id: &str, is_safe: bool) -> Response {
    let Some(PendingFailure(failure)) = response.extensions_mut().remove::<PendingFailure>() else {
        return response;
    };
    let mut written = render(&failure, request_id, is_safe);
    for (name, value) in response.headers() {
        if !written.headers().contains_key(name) && name != http::header::CONTENT_LENGTH {
            written.headers_mut().insert(name.clone(), value.clone());
        }
    }
    written
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

fn listed(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect()
}

/// The text of a body, and what is to be known about it.
fn shown(read: &ReadBody, media_type: &str) -> (String, String) {
    let kept = read.kept.as_slice();
    let is_cut = read.size > kept.len();
    let text = match std::str::from_utf8(kept) {
        Ok(text) => text,
        // The cut may be within a character.
        Err(error) if is_cut && kept.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(kept.get(..error.valid_up_to()).unwrap_or_default())
                .unwrap_or_default()
        }
        Err(_) => {
            let note = "The body isn't text. Get it with the code below.".to_owned();
            return (String::new(), note);
        }
    };
    match read.end {
        BodyEnd::Broken => return (text.to_owned(), "The response broke off.".to_owned()),
        BodyEnd::TooSlow => {
            let note = "The response hadn't ended after 30 seconds, so the call was ended. This is what had come.";
            return (text.to_owned(), note.to_owned());
        }
        BodyEnd::Whole | BodyEnd::TooLong => {}
    }
    if is_cut {
        let note = "Only the first 256 KiB are shown. Get the rest with the code below.";
        return (text.to_owned(), note.to_owned());
    }
    let is_json =
        media_type.contains("json") && serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    (if is_json { indented(text) } else { text.to_owned() }, String::new())
}

/// JSON with one member a line. Numbers and the order of members stay as the platform wrote them.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut is_escaped = false;
    let mut letters = json.chars().peekable();
    while let Some(letter) = letters.next() {
        if in_string {
            out.push(letter);
            in_string = is_escaped || letter != '"';
            is_escaped = !is_escaped && letter == '\\';
            continue;
        }
        match letter {
            ' ' | '\n' | '\r' | '\t' => {}
            '{' | '[' => {
                out.push(letter);
                while letters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(end) = letters.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    new_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                new_line(&mut out, depth);
                out.push(letter);
            }
            ',' => {
                out.push(',');
                new_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            '"' => {
                in_string = true;
                out.push('"');
            }
            other => out.push(other),
        }
    }
    out
}

/// Deep structures are not moved further right than this.
const INDENT_MAX: usize = 40;

fn new_line(out: &mut String, depth: usize) {
    out.push('\n');
    for _ in 0..depth.min(INDENT_MAX) {
        out.push_str("  ");
    }
}

impl ShownReceipt {
    fn of(headers: &HeaderMap, request_id: &str) -> Self {
        let cost = header(headers, "x-credits-cost").parse::<i64>().unwrap_or(0);
        let balance = header(headers, "x-credits-balance").parse::<i64>();
        let timing = header(headers, "server-timing");
        let mut lines = Vec::new();
        for (word, name) in [("Platform", "upstream"), ("Gateway", "gateway")] {
            if let Some(ms) = timed(timing, name) {
                lines.push((word, format!("{ms} ms")));
            }
        }
        let route = header(headers, "x-route");
        if !route.is_empty() {
            lines.push(("Route", route.to_owned()));
        }
        let (left, quota) = (
            item(header(headers, "ratelimit"), "r"),
            item(header(headers, "ratelimit-policy"), "q"),
        );
        if let (Some(left), Some(quota)) = (left, quota) {
            lines.push((
                "Rate limit",
                format!("{} of {} left", format::number(left), format::number(quota)),
            ));
        }
        Self {
            charged: if cost == 0 { "Not charged".to_owned() } else { format::credits(cost) },
            balance: balance.map(format::number).unwrap_or_default(),
            lines,
            request_id: request_id.to_owned(),
            is_platforms: header(headers, "x-error-source") == "platform",
        }
    }
}

/// The milliseconds of a part in `Server-Timing`.
fn timed<'a>(timing: &'a str, part: &str) -> Option<&'a str> {
    let mut parts = timing.split(',').map(str::trim);
    parts.find_map(|one| one.strip_prefix(part)?.strip_prefix(";dur="))
}

/// A number among the parameters of a structured field, such as `r` in `"default";r=9;t=1`.
fn item(field: &str, name: &str) -> Option<i64> {
    let first = field.split(',').next()?;
    first.split(';').find_map(|one| one.trim().strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_indented_and_otherwise_unchanged() {
        let json = r#"{"b":1.50,"a":[ ],"text":"{\"x\": [1,2]}\\","list":[1,{"c":null}],"e":{}}"#;
        let text = indented(json);

        assert_eq!(
            text,
            "{\n  \"b\": 1.50,\n  \"a\": [],\n  \"text\": \"{\\\"x\\\": [1,2]}\\\\\",\n  \"list\": [\n    1,\n    {\n      \"c\": null\n    }\n  ],\n  \"e\": {}\n}"
        );
        assert_eq!(indented(&text), text);
    }

    #[test]
    fn a_long_body_is_cut_between_characters() {
        let read = |kept: &[u8], size| ReadBody { kept: kept.to_vec(), size, end: BodyEnd::Whole };
        let letters = "ä".repeat(10);
        let (text, note) = shown(&read(&letters.as_bytes()[..9], 20), "text/plain");

        assert_eq!(text, "ää".repeat(2));
        assert!(note.contains("256 KiB"), "{note}");
        let (binary, why) = shown(&read(&[0xff, 0xfe, 0x00, 0x80, 0x81], 5), "image/png");
        assert_eq!(binary, "");
        assert!(why.contains("isn't text"), "{why}");
    }

    fn response(status: u16, media_type: &'static str, body: impl Into<Body>) -> Response {
        let mut response = Response::new(body.into());
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        let media_type = http::HeaderValue::from_static(media_type);
        response.headers_mut().insert("content-type", media_type);
        response
    }

    #[tokio::test]
    async fn a_whole_response_is_shown_as_the_platform_wrote_it() {
        let json = CallReply::read(response(200, "application/json", "{\"a\":1}"), "r", true).await;
        let text = CallReply::read(response(404, "text/html", "<p>{\"a\":1}"), "r", true).await;
        let wrong = CallReply::read(response(500, "application/json", "{\"a\":"), "r", true).await;
        let none = CallReply::read(response(204, "text/plain", ""), "r", true).await;

        assert_eq!((json.text.as_str(), json.class()), ("{\n  \"a\": 1\n}", "ok"));
        assert_eq!((text.text.as_str(), text.class()), ("<p>{\"a\":1}", "warn"));
        assert_eq!((wrong.text.as_str(), wrong.class()), ("{\"a\":", "bad"), "broken JSON stays");
        assert_eq!((none.text.as_str(), none.size.as_str()), ("", "0"));
        assert!([json.note, text.note, wrong.note, none.note].iter().all(String::is_empty));
    }

    #[tokio::test]
    async fn of_a_large_body_the_beginning_is_shown_and_all_is_counted() {
        let body = "x".repeat(SHOWN_BYTES_MAX + 5);

        let reply = CallReply::read(response(200, "text/plain", body), "r", true).await;

        assert_eq!(reply.text.len(), SHOWN_BYTES_MAX);
        assert_eq!(reply.size, "262,149");
        assert!(reply.note.contains("256 KiB"), "{}", reply.note);
    }

    #[tokio::test(start_paused = true)]
    async fn a_response_without_an_end_is_read_for_half_a_minute_and_up_to_eight_mebibytes() {
        let endless = |pause: u64, part: String| {
            let parts = futures_util::stream::unfold(part, move |part| async move {
                tokio::time::sleep(Duration::from_secs(pause)).await;
                Some((Ok::<_, std::io::Error>(part.clone()), part))
            });
            response(200, "text/event-stream", Body::from_stream(parts))
        };

        let slow = CallReply::read(endless(7, "data: 1\n\n".to_owned()), "r", true).await;
        let long = CallReply::read(endless(0, "x".repeat(100_000)), "r", true).await;

        assert_eq!((slow.text.lines().count(), slow.size.as_str()), (8, "at least 36"));
        assert!(slow.note.contains("30 seconds"), "{}", slow.note);
        assert_eq!((long.text.len(), long.size.as_str()), (SHOWN_BYTES_MAX, "at least 8,400,000"));
    }

    #[tokio::test]
    async fn a_response_that_breaks_off_says_so_and_shows_what_came() {
        let parts = [Ok("half"), Err(std::io::Error::other("it broke"))];
        let body = Body::from_stream(futures_util::stream::iter(parts));

        let reply = CallReply::read(response(200, "application/json", body), "r", true).await;

        assert_eq!((reply.text.as_str(), reply.note.as_str()), ("half", "The response broke off."));
    }

    #[tokio::test]
    async fn a_refusal_of_ours_is_written_as_a_program_would_get_it() {
        use axum::response::IntoResponse as _;
        let refused = web::error::ApiError::Failure(failures::Failure::AccountNotFound);

        let reply = CallReply::read(refused.into_response(), "req_1", false).await;

        assert_eq!(reply.status, StatusCode::NOT_FOUND);
        assert!(reply.text.contains("account_not_found"), "{}", reply.text);
        assert!(reply.media_type.contains("json"), "{}", reply.media_type);
        assert!(!reply.receipt.is_platforms);
    }

    #[test]
    fn a_receipt_is_read_from_the_headers() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("x-credits-cost", "1"),
            ("x-credits-balance", "63350"),
            ("server-timing", "upstream;dur=58.0, gateway;dur=0.7"),
            ("x-route", "GET users/me"),
            ("ratelimit", "\"default\";r=943;t=1"),
            ("ratelimit-policy", "\"default\";q=1000;w=60"),
        ] {
            headers.insert(name, http::HeaderValue::from_static(value));
        }
        let receipt = ShownReceipt::of(&headers, "req_1");

        assert_eq!((receipt.charged.as_str(), receipt.balance.as_str()), ("1 credit", "63,350"));
        let lines: Vec<_> = receipt.lines.iter().map(|(_, value)| value.as_str()).collect();
        assert_eq!(lines, ["58.0 ms", "0.7 ms", "GET users/me", "943 of 1,000 left"]);
        assert_eq!(ShownReceipt::of(&HeaderMap::new(), "").charged, "Not charged");
    }
}
