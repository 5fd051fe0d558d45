//! The operator's logo: a PNG, or an SVG that neither runs nor loads anything.

use std::path::Path;

/// The largest logo, in bytes.
const BYTES_MAX: u64 = 32 * 1024;
/// How every PNG begins (ISO/IEC 15948, 5.2).
const PNG_SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// What an SVG of ours must not contain, in small letters: scripts, pages within it, styles and
/// entities from elsewhere.
const REFUSED: [&str; 8] = [
    "<script",
    "javascript:",
    "<foreignobject",
    "<iframe",
    "<!entity",
    "<?xml-stylesheet",
    "@import",
    "<animate",
];

/// A logo, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrandLogo {
    /// The media type.
    pub media_type: &'static str,
    /// The file.
    pub bytes: Vec<u8>,
}

impl BrandLogo {
    /// Reads a file. The error says what is wrong with it.
    pub(super) fn read(file: &Path) -> Result<Self, String> {
        let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
        let about = std::fs::metadata(file).map_err(unreadable)?;
        if !about.is_file() || about.len() > BYTES_MAX {
            return Err("must be a file of at most 32 KiB".to_owned());
        }
        let bytes = std::fs::read(file).map_err(unreadable)?;
        if bytes.starts_with(PNG_SIGNATURE) {
            return Ok(Self { media_type: "image/png", bytes });
        }
        let text = std::str::from_utf8(&bytes).unwrap_or_default().to_ascii_lowercase();
        if !text.contains("<svg") {
            return Err("must be a PNG or an SVG file".to_owned());
        }
        match refused_part(&text) {
            Some(part) => Err(format!(
                "must not run or load anything, but it contains {part}; export it as a plain SVG or a PNG"
            )),
            None => Ok(Self { media_type: "image/svg+xml; charset=utf-8", bytes }),
        }
    }
}

/// The first part of an SVG, in small letters, that could run or load something.
fn refused_part(text: &str) -> Option<String> {
    let known = REFUSED.iter().find(|part| text.contains(**part)).map(|part| (*part).to_owned());
    known.or_else(|| handler(text)).or_else(|| outside_reference(text))
}

/// An attribute such as `onload=`.
fn handler(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some(at) = rest.find("on") {
        let is_start =
            rest[..at].ends_with(|before: char| before.is_whitespace() || "\"'/".contains(before));
        let name: String = rest[at..].chars().take_while(char::is_ascii_alphabetic).collect();
        let after = rest.get(at + name.len()..).unwrap_or_default();
        if is_start && name.len() > 2 && after.trim_start().starts_with('=') {
            return Some(name);
        }
        rest = after;
    }
    None
}

/// A reference to something that is not in the file: neither `#name` nor an image in the text.
fn outside_reference(text: &str) -> Option<String> {
    for start in ["href=", "src=", "url("] {
        for (at, _) in text.match_indices(start) {
            let value = text.get(at + start.len()..).unwrap_or_default();
            let value =
                value.trim_start_matches(|one: char| one.is_whitespace() || "\"'".contains(one));
            if !value.starts_with('#') && !value.starts_with("data:image/") {
                let shown: String = value.chars().take(40).collect();
                return Some(format!("{start}{shown}"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPEN: &str =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" xmlns:xlink=\"http://www.w3.org/1999/xlink\">";

    fn read(content: &[u8]) -> Result<BrandLogo, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("logo");
        std::fs::write(&path, content).unwrap();
        BrandLogo::read(&path)
    }

    #[test]
    fn drawings_and_images_are_known_by_their_content() {
        let drawing = format!(
            "{OPEN}<defs><linearGradient id='one'/></defs><use xlink:href='#one'/><path fill=\"url(#one)\" d='M0 0'/>\
             <image href=\"data:image/png;base64,AA==\"/><text>only one</text></svg>"
        );
        assert_eq!(read(drawing.as_bytes()).unwrap().media_type, "image/svg+xml; charset=utf-8");
        assert_eq!(read(b"\x89PNG\r\n\x1a\nrest").unwrap().media_type, "image/png");
        assert_eq!(read(b"GIF89a").unwrap_err(), "must be a PNG or an SVG file");
        assert!(read(&vec![b' '; 32_769]).unwrap_err().contains("32 KiB"));
    }

    #[test]
    fn a_drawing_that_runs_or_loads_something_is_refused() {
        for (part, named) in [
            ("<script>alert(1)</script>", "<script"),
            ("<a href=\"javascript:alert(1)\"/>", "javascript:"),
            ("<path onload=\"alert(1)\"/>", "onload"),
            ("<path\nONCLICK = 'x'/>", "onclick"),
            ("<foreignObject/>", "<foreignobject"),
            ("<image href=\"https://example.com/a.png\"/>", "href=https://example.com/a.png"),
            ("<image xlink:href='//example.com/a'/>", "href=//example.com/a"),
            ("<path fill=\"url(https://example.com/#a)\"/>", "url(https://example.com/"),
            ("<style>@import 'a.css';</style>", "@import"),
        ] {
            let message = read(format!("{OPEN}{part}</svg>").as_bytes()).unwrap_err();
            assert!(message.contains(named), "{part}: {message}");
        }
    }
}
