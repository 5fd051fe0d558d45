//! Multipart forms (RFC 7578), converted to JSON: a text field becomes a string, a file an object
//! with its name, type, size and SHA-256. So handlers see one kind of body, and the journal does
//! not contain the bytes of files, which are stored separately.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::files;

/// The form as a JSON object; `None` if the body is not a complete form.
pub(crate) fn to_json(content_type: &str, body: &[u8]) -> Option<Value> {
    let mut fields = Map::new();
    for (headers, content) in parts(content_type, body)? {
        let (name, value) = field(headers, content)?;
        fields.insert(name, value);
    }
    Some(Value::Object(fields))
}

/// The bytes of every file in a form.
pub(crate) fn files_of(content_type: &str, body: &Bytes) -> Vec<Bytes> {
    let parts = parts(content_type, body).unwrap_or_default().into_iter();
    let files = parts.filter(|(headers, _)| {
        disposition(headers).is_some_and(|of| parameter(of, "filename").is_some())
    });
    files.map(|(_, content)| body.slice_ref(content)).collect()
}

/// The headers and the content of every part; `None` if the body is not a complete form.
fn parts<'a>(content_type: &str, body: &'a [u8]) -> Option<Vec<(&'a str, &'a [u8])>> {
    let boundary = parameter(content_type, "boundary")?;
    let delimiter = format!("\r\n--{boundary}").into_bytes();
    let mut rest = body.strip_prefix(format!("--{boundary}").as_bytes())?;
    let mut parts = Vec::new();
    loop {
        if rest.starts_with(b"--") {
            return Some(parts);
        }
        let (headers, after) = split_at(rest.strip_prefix(b"\r\n")?, b"\r\n\r\n")?;
        let (content, next) = split_at(after, &delimiter)?;
        parts.push((std::str::from_utf8(headers).ok()?, content));
        rest = next;
    }
}

/// Whether a body of this type is a multipart form.
pub(crate) fn is_form(content_type: &str) -> bool {
    content_type.trim_start().to_ascii_lowercase().starts_with("multipart/form-data")
}

fn field(headers: &str, content: &[u8]) -> Option<(String, Value)> {
    let disposition = disposition(headers)?;
    let name = parameter(disposition, "name")?;
    let value = match parameter(disposition, "filename") {
        Some(filename) => json!({
            "filename": filename,
            "content_type": header(headers, "content-type").unwrap_or("application/octet-stream"),
            "size": content.len(),
            "sha256": files::name_of(content),
        }),
        None => json!(std::str::from_utf8(content).ok()?),
    };
    Some((name, value))
}

fn disposition(headers: &str) -> Option<&str> {
    header(headers, "content-disposition")
}

fn header<'a>(headers: &'a str, wanted: &str) -> Option<&'a str> {
    let mut lines = headers.split("\r\n").filter_map(|line| line.split_once(':'));
    lines.find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
}

/// The bytes before and after the first `separator`.
fn split_at<'a>(bytes: &'a [u8], separator: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let first = *separator.first()?;
    let mut from = 0;
    loop {
        let tail = bytes.get(from..)?;
        let at = from + tail.iter().position(|byte| *byte == first)?;
        let (before, found) = bytes.split_at_checked(at)?;
        if let Some(after) = found.strip_prefix(separator) {
            return Some((before, after));
        }
        from = at + 1;
    }
}

/// A parameter of a header such as `form-data; name="file"; filename="a;b.jpg"`.
fn parameter(header: &str, wanted: &str) -> Option<String> {
    let (_, mut rest) = header.split_once(';')?;
    loop {
        let (name, after) = rest.split_once('=')?;
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => unquote(quoted)?,
            None => {
                let (value, next) = after.split_once(';').unwrap_or((after, ""));
                (value.trim().to_owned(), next)
            }
        };
        if name.trim_matches([' ', ';']).eq_ignore_ascii_case(wanted) {
            return Some(value);
        }
        rest = next;
    }
}

/// The text up to the closing quote, and the rest.
fn unquote(quoted: &str) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '"' => return Some((text, quoted.get(at + 1..)?)),
            '\\' => text.push(chars.next()?.1),
            char => text.push(char),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const TYPE: &str = "multipart/form-data; boundary=\"x y\"";

    #[test]
    fn fields_and_files_of_any_bytes_are_read() {
        let body = b"--x y\r\ncontent-disposition: form-data; name=\"text\"\r\n\r\n\r\n--x\r\n\
            --x y\r\nContent-Type: image/png\r\n\
            Content-Disposition: form-data; name=file; filename=\"a;\\\"b.png\"\r\n\r\n\
            \xff\r\n\r\n--x \x00\r\n--x y--\r\n";

        let form = to_json(TYPE, body);
        let files = files_of(TYPE, &Bytes::from_static(body));

        let content = b"\xff\r\n\r\n--x \x00";
        let file = json!({
            "filename": "a;\"b.png", "content_type": "image/png", "size": 10,
            "sha256": files::name_of(content),
        });
        assert_eq!(form, Some(json!({"text": "\r\n--x", "file": file})));
        assert_eq!(files, [&content[..]]);
    }

    #[test]
    fn a_truncated_form_is_refused() {
        let body = b"--x y\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--x y--";
        assert!(to_json(TYPE, body).is_some());
        for end in 0..body.len() {
            assert_eq!(to_json(TYPE, &body[..end]), None, "cut at {end}");
        }
        assert_eq!(to_json("multipart/form-data", body), None);
    }
}
