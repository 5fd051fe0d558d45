//! A multipart form (RFC 7578), as written by a client and as read by a platform.

use super::client::{Client, Reply};
use super::platform::Seen;

/// A form to send.
#[derive(Clone)]
pub struct Form {
    boundary: String,
    body: Vec<u8>,
}

/// A part of a received form: its headers and its content.
#[derive(Debug, PartialEq, Eq)]
pub struct Part {
    /// The headers, without the empty line.
    pub headers: String,
    /// The content.
    pub content: Vec<u8>,
}

impl Form {
    /// An empty form.
    pub fn new() -> Self {
        Self::with_boundary("----a-boundary")
    }

    /// An empty form whose parts are separated by this boundary.
    pub fn with_boundary(boundary: &str) -> Self {
        Self { boundary: boundary.to_owned(), body: Vec::new() }
    }

    /// A small picture.
    pub fn with_picture(self) -> Self {
        self.file("sea.jpg", "image/jpeg", b"\xff\xd8\xff\x00")
    }

    /// The same form with a text field.
    pub fn text(self, name: &str, value: &str) -> Self {
        self.part(&format!("Content-Disposition: form-data; name=\"{name}\""), value.as_bytes())
    }

    /// The same form with these text fields: (name, value).
    pub fn texts(self, fields: &[(&str, &str)]) -> Self {
        fields.iter().fold(self, |form, (name, value)| form.text(name, value))
    }

    /// The same form with a file.
    pub fn file(self, name: &str, content_type: &str, content: &[u8]) -> Self {
        let head = format!(
            "Content-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\nContent-Type: {content_type}"
        );
        self.part(&head, content)
    }

    /// A part with exactly these headers.
    pub fn part(mut self, headers: &str, content: &[u8]) -> Self {
        let head = format!("--{}\r\n{headers}\r\n\r\n", self.boundary);
        self.body.extend_from_slice(head.as_bytes());
        self.body.extend_from_slice(content);
        self.body.extend_from_slice(b"\r\n");
        self
    }

    /// The `Content-Type` of a request with this form.
    pub fn content_type(&self) -> String {
        format!("multipart/form-data; boundary=\"{}\"", self.boundary)
    }

    /// The whole body, with its last boundary.
    pub fn body(&self) -> Vec<u8> {
        let end = format!("--{}--\r\n", self.boundary);
        [&self.body[..], end.as_bytes()].concat()
    }

    /// Sends it to the account's upload route.
    pub async fn upload(&self, client: &Client, account: &str) -> Reply {
        let client = client.with("content-type", &self.content_type());
        client.send("POST", &format!("/v1/{account}/media/upload"), Some(self.body())).await
    }
}

/// Parses the form that a platform received; panics if it is not one.
pub fn parts(seen: &Seen) -> Vec<Part> {
    let content_type = seen.header("content-type").unwrap();
    let boundary = content_type.strip_prefix("multipart/form-data; boundary=").unwrap();
    let length: usize = seen.header("content-length").unwrap().parse().unwrap();
    assert_eq!(seen.body.len(), length);
    let (start, end) = (format!("--{boundary}\r\n"), format!("\r\n--{boundary}--\r\n"));
    let inner = seen.body.strip_prefix(start.as_bytes()).expect("no first boundary");
    let mut rest = inner.strip_suffix(end.as_bytes()).expect("no last boundary");
    let between = format!("\r\n--{boundary}\r\n");
    let mut parts = Vec::new();
    loop {
        let at = find(rest, between.as_bytes());
        let part = &rest[..at.unwrap_or(rest.len())];
        let head = find(part, b"\r\n\r\n").expect("a part without headers");
        parts.push(Part {
            headers: String::from_utf8(part[..head].to_vec()).unwrap(),
            content: part[head + 4..].to_vec(),
        });
        match at {
            Some(at) => rest = &rest[at + between.len()..],
            None => return parts,
        }
    }
}

/// The text fields of the form that a platform received, in order.
pub fn fields(seen: &Seen) -> Vec<(String, String)> {
    let texts = parts(seen).into_iter().filter_map(|part| {
        let name = part.headers.strip_prefix("Content-Disposition: form-data; name=\"")?;
        let name = name.strip_suffix('"').filter(|name| !name.contains('"'))?.to_owned();
        Some((name, String::from_utf8(part.content).unwrap()))
    });
    texts.collect()
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
