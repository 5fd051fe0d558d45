//! Reads an email: headers, parts, and the encodings that text travels in (RFC 5322, 2045, 2046).

/// The most parts of one email that are read.
const PARTS_MAX: usize = 20;
/// Parts within parts are read to this depth.
const DEPTH_MAX: usize = 8;

/// An email, or a part of one.
#[derive(Debug)]
pub(crate) struct MailMessage<'a> {
    /// Names as written and values, unfolded.
    pub(crate) headers: Vec<(String, String)>,
    body: &'a str,
}

impl<'a> MailMessage<'a> {
    /// Splits off the head. Malformed header lines are skipped.
    pub(crate) fn read(raw: &'a str) -> Self {
        let without_head = raw.strip_prefix("\r\n").or_else(|| raw.strip_prefix('\n'));
        let (head, body) = without_head.map_or_else(
            || raw.split_once("\r\n\r\n").or_else(|| raw.split_once("\n\n")).unwrap_or((raw, "")),
            |body| ("", body),
        );
        let mut headers: Vec<(String, String)> = Vec::new();
        for line in head.lines() {
            if line.starts_with([' ', '\t']) {
                if let Some((_, value)) = headers.last_mut() {
                    value.push(' ');
                    value.push_str(line.trim());
                }
            } else if let Some((name, value)) = line.split_once(':') {
                headers.push((name.to_owned(), value.trim().to_owned()));
            }
        }
        Self { headers, body }
    }

    /// The first header of this name, in any letter case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let named = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        named.map(|(_, value)| value.as_str())
    }

    /// The first part of this type, decoded; the message itself is a part too.
    pub(crate) fn part(&self, wanted: &str) -> Option<String> {
        self.part_within(wanted, DEPTH_MAX)
    }

    fn part_within(&self, wanted: &str, depth: usize) -> Option<String> {
        let kind = self.header("content-type").unwrap_or("text/plain");
        if let Some(boundary) = boundary(kind) {
            let separator = format!("--{boundary}");
            let parts = self.body.split(separator.as_str()).skip(1).take(PARTS_MAX);
            let parts = parts.filter(|part| !part.starts_with("--"));
            let after_break =
                |part: &'a str| part.split_once('\n').map_or(part, |(_, behind)| behind);
            let deeper = depth.checked_sub(1)?;
            let mut read = parts.map(|part| MailMessage::read(after_break(part)));
            return read.find_map(|part| part.part_within(wanted, deeper));
        }
        let essence = kind.split(';').next().unwrap_or_default().trim();
        essence.eq_ignore_ascii_case(wanted).then(|| self.decoded())
    }

    fn decoded(&self) -> String {
        let encoding = self.header("content-transfer-encoding").unwrap_or_default();
        let bytes = match encoding.to_ascii_lowercase().as_str() {
            "quoted-printable" => quoted_printable(self.body.as_bytes()),
            "base64" => base64(self.body.as_bytes()),
            _ => self.body.as_bytes().to_vec(),
        };
        String::from_utf8_lossy(&bytes).replace("\r\n", "\n")
    }
}

/// The web addresses in a text.
pub(crate) fn links(text: &str) -> Vec<&str> {
    let is_link = |word: &&str| word.starts_with("http://") || word.starts_with("https://");
    text.split_whitespace().filter(is_link).collect()
}

fn boundary(kind: &str) -> Option<&str> {
    if !kind.trim_start().to_ascii_lowercase().starts_with("multipart/") {
        return None;
    }
    let parameter = kind.split(';').map(str::trim).find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.eq_ignore_ascii_case("boundary").then_some(value)
    });
    parameter.map(|value| value.trim_matches('"')).filter(|value| !value.is_empty())
}

fn quoted_printable(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let unbroken = after.strip_prefix(b"\r\n").or_else(|| after.strip_prefix(b"\n"));
        let escaped = after.split_at_checked(2).and_then(|(digits, behind)| {
            let value = hex::decode(digits).ok()?;
            Some((*value.first()?, behind))
        });
        rest = match (byte, unbroken, escaped) {
            (b'=', Some(next_line), _) => next_line,
            (b'=', None, Some((value, behind))) => {
                bytes.push(value);
                behind
            }
            _ => {
                bytes.push(*byte);
                after
            }
        };
    }
    bytes
}

fn base64(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let (mut bits, mut count) = (0_u32, 0);
    for letter in text {
        let value = match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count & 0xFF).to_le_bytes()[0]);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const MULTIPART: &str = "From: a@b.cd\r\nSubject: Two\r\n lines\r\n\
        Content-Type: multipart/alternative;\r\n boundary=\"x\"\r\n\r\n\
        --x\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\
        Open https://x.example/?a=3Db and=\r\n more: =C3=A9\r\n\
        --x\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n\
        PHA+w6k8L3A+\r\n--x--\r\n";

    #[test]
    fn headers_are_unfolded_and_found_in_any_letter_case() {
        let message = MailMessage::read(MULTIPART);

        assert_eq!(message.header("SUBJECT"), Some("Two lines"));
        assert_eq!(message.header("cc"), None);
    }

    #[test]
    fn parts_are_found_by_type_and_decoded() {
        let message = MailMessage::read(MULTIPART);

        let text = message.part("text/plain").unwrap();

        assert_eq!(text, "Open https://x.example/?a=b and more: é\n");
        assert_eq!(message.part("text/html").unwrap(), "<p>é</p>");
        assert_eq!(message.part("text/csv"), None);
        assert_eq!(links(&text), ["https://x.example/?a=b"]);
    }

    #[test]
    fn a_plain_email_is_its_own_part() {
        let message = MailMessage::read("Subject: x\n\nhello");

        assert_eq!(message.part("text/plain").as_deref(), Some("hello"));
    }

    fn plain(raw: &str) -> Option<String> {
        MailMessage::read(raw).part("text/plain")
    }

    #[test]
    fn a_part_without_a_head_is_plain_text() {
        let of = |line: &str| {
            let multipart =
                "Content-Type: multipart/mixed; boundary=x\n\npreamble\n--x\n\nto: do\n--x--\n";
            plain(&multipart.replace('\n', line))
        };

        assert_eq!(of("\r\n").as_deref(), Some("to: do\n"));
        assert_eq!(of("\n").as_deref(), Some("to: do\n"));
    }

    #[test]
    fn a_message_without_a_body_or_without_a_head_is_read() {
        assert_eq!(plain("Subject: x").as_deref(), Some(""));
        assert_eq!(plain("").as_deref(), Some(""));
        assert_eq!(plain("\r\nhello").as_deref(), Some("hello"));
        let odd = MailMessage::read(" folded into nothing\nno colon\nA: 1\n\tand 2\na: 3\n\n");
        assert_eq!(odd.headers.len(), 2);
        assert_eq!(odd.header("a"), Some("1 and 2"));
    }

    /// A part of the boundary `1` in a part of the boundary `2`, and so on.
    fn nested(depth: usize) -> String {
        let head = |boundary| {
            format!("Content-Type: multipart/mixed; boundary=b{boundary}\n\n--b{boundary}\n")
        };
        let heads: String = (0..depth).map(head).collect();
        format!("{heads}Content-Type: text/plain\n\nhello\n")
    }

    #[test]
    fn parts_within_parts_are_read_to_a_depth_however_many_there_are() {
        assert_eq!(plain(&nested(DEPTH_MAX)).as_deref(), Some("hello\n"));
        assert_eq!(plain(&nested(DEPTH_MAX + 1)), None);
        assert_eq!(plain(&nested(5_000)), None);
    }

    #[test]
    fn the_first_part_of_a_type_counts_and_attachments_do_not_hide_it() {
        let email = "content-type: Multipart/Mixed; charset=x; BOUNDARY=\"a b\"\n\n\
            --a b\nContent-Type: application/pdf\n\n%PDF\n\
            --a b\nContent-Type: TEXT/PLAIN; charset=utf-8\n\nfirst\n\
            --a b\nContent-Type: text/plain\n\nsecond\n--a b--\nContent-Type: text/html\n\nepilogue\n";

        assert_eq!(plain(email).as_deref(), Some("first\n"));
        assert_eq!(MailMessage::read(email).part("text/html"), None, "the end is the end");
    }

    #[test]
    fn parts_beyond_the_twentieth_are_not_read() {
        let parts = |count: usize| {
            let other = "--x\nContent-Type: image/png\n\n.\n".repeat(count - 1);
            format!("Content-Type: multipart/mixed; boundary=x\n\n{other}--x\n\nhello\n--x--\n")
        };

        assert_eq!(plain(&parts(PARTS_MAX)).as_deref(), Some("hello\n"));
        assert_eq!(plain(&parts(PARTS_MAX + 1)), None);
    }

    #[test]
    fn broken_encodings_lose_nothing_else() {
        let encoded = |encoding: &str, body: &str| {
            plain(&format!("Content-Transfer-Encoding: {encoding}\n\n{body}")).unwrap()
        };

        for (body, expected) in [
            ("a=3Db", "a=b"),
            ("a=zz", "a=zz"),
            ("end=", "end="),
            ("end=3", "end=3"),
            ("soft=\r\nbreak=\nagain", "softbreakagain"),
            ("=C3=A9=FF", "é\u{fffd}"),
            ("=e2=82=ac", "€"),
        ] {
            assert_eq!(encoded("Quoted-Printable", body), expected, "{body}");
        }
        for (body, expected) in
            [("aGVsbG8=", "hello"), ("aGVs\r\nbG8", "hello"), ("a", ""), ("", ""), ("!!aGk", "hi")]
        {
            assert_eq!(encoded("BASE64", body), expected, "{body}");
        }
        assert_eq!(encoded("7bit", "a=3D\r\nb"), "a=3D\nb");
    }

    #[test]
    fn only_whole_words_that_are_addresses_are_links() {
        let text =
            "see http://a.example/x, https://b.example (http://c.example) ftp://d.example httpx";

        assert_eq!(links(text), ["http://a.example/x,", "https://b.example"]);
    }

    #[test]
    fn a_multipart_without_a_boundary_has_no_parts() {
        for kind in
            ["multipart/mixed", "multipart/mixed; boundary=", "multipart/mixed; boundary=\"\""]
        {
            assert_eq!(plain(&format!("Content-Type: {kind}\n\n--\n\nhello")), None, "{kind}");
        }
    }
}
