//! How bytes of a recipe's parts become text.

use base64::Engine as _;
use base64::engine::GeneralPurpose;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};

/// A way to write bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PartEncoding {
    HexLower,
    HexUpper,
    Base64,
    Base64Unpadded,
    Base64Url,
    Base64UrlUnpadded,
    /// Sixteen bytes as a random UUID (RFC 9562, section 5.4).
    Uuid,
    /// The bytes themselves, as the key or the text of a further digest.
    Raw,
}

/// The names of the configuration.
const NAMES: [(&str, PartEncoding); 8] = [
    ("hex", PartEncoding::HexLower),
    ("hex_upper", PartEncoding::HexUpper),
    ("base64", PartEncoding::Base64),
    ("base64_unpadded", PartEncoding::Base64Unpadded),
    ("base64url", PartEncoding::Base64Url),
    ("base64url_unpadded", PartEncoding::Base64UrlUnpadded),
    ("uuid", PartEncoding::Uuid),
    ("raw", PartEncoding::Raw),
];

/// Where the hyphens of a UUID stand among its digits.
const UUID_HYPHENS: [usize; 4] = [8, 12, 16, 20];

impl PartEncoding {
    /// By its name.
    pub(super) fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, encoding)| *encoding)
    }

    /// All names, for messages.
    pub(super) fn names() -> String {
        NAMES.map(|(name, _)| name).join(", ")
    }

    /// How many bytes the text of this many bytes takes at most.
    pub(super) const fn written_bytes(self, bytes: usize) -> usize {
        match self {
            Self::HexLower | Self::HexUpper => bytes.saturating_mul(2),
            Self::Base64 | Self::Base64Unpadded | Self::Base64Url | Self::Base64UrlUnpadded => {
                bytes.div_ceil(3).saturating_mul(4)
            }
            Self::Uuid => 36,
            Self::Raw => bytes,
        }
    }

    /// Writes `bytes` behind what is there.
    pub(super) fn write(self, bytes: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::HexLower => write_hex(bytes, b"0123456789abcdef", to),
            Self::HexUpper => write_hex(bytes, b"0123456789ABCDEF", to),
            Self::Base64 => write_base64(&STANDARD, bytes, to),
            Self::Base64Unpadded => write_base64(&STANDARD_NO_PAD, bytes, to),
            Self::Base64Url => write_base64(&URL_SAFE, bytes, to),
            Self::Base64UrlUnpadded => write_base64(&URL_SAFE_NO_PAD, bytes, to),
            Self::Uuid => write_uuid(bytes, to),
            Self::Raw => to.extend_from_slice(bytes),
        }
    }
}

fn write_hex(bytes: &[u8], digits: &[u8; 16], to: &mut Vec<u8>) {
    let digit = |nibble: u8| digits.get(usize::from(nibble)).copied().unwrap_or(b'0');
    to.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0x0f)]));
}

fn write_base64(engine: &GeneralPurpose, bytes: &[u8], to: &mut Vec<u8>) {
    let begin = to.len();
    to.resize(begin + PartEncoding::Base64.written_bytes(bytes.len()), 0);
    let room = to.get_mut(begin..).unwrap_or_default();
    // The room is that of the longest form, so it always fits.
    let written = engine.encode_slice(bytes, room).unwrap_or(0);
    to.truncate(begin + written);
}

/// Marks the bytes as those of a random UUID, version 4.
fn write_uuid(bytes: &[u8], to: &mut Vec<u8>) {
    let mut marked: [u8; 16] =
        std::array::from_fn(|index| bytes.get(index).copied().unwrap_or_default());
    let [_, _, _, _, _, _, version, _, variant, ..] = &mut marked;
    *version = (*version & 0x0f) | 0x40;
    *variant = (*variant & 0x3f) | 0x80;
    let mut digits = Vec::with_capacity(32);
    write_hex(&marked, b"0123456789abcdef", &mut digits);
    for (index, digit) in digits.into_iter().enumerate() {
        if UUID_HYPHENS.contains(&index) {
            to.push(b'-');
        }
        to.push(digit);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(name: &str, bytes: &[u8]) -> String {
        let encoding = PartEncoding::named(name).unwrap();
        let mut text = b">".to_vec();
        encoding.write(bytes, &mut text);
        assert!(text.len() - 1 <= encoding.written_bytes(bytes.len()), "{name}");
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn bytes_are_written_as_their_name_says() {
        let bytes = [0xfb, 0xff, 0x0a, 0x41];
        for (name, expected) in [
            ("hex", ">fbff0a41"),
            ("hex_upper", ">FBFF0A41"),
            ("base64", ">+/8KQQ=="),
            ("base64_unpadded", ">+/8KQQ"),
            ("base64url", ">-_8KQQ=="),
            ("base64url_unpadded", ">-_8KQQ"),
        ] {
            assert_eq!(written(name, &bytes), expected, "{name}");
        }
        assert_eq!(written("raw", b"abc"), ">abc");
        assert_eq!(written("uuid", &[0xff; 16]), ">ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(PartEncoding::named("HEX"), None);
    }
}
