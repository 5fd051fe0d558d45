//! The envelope of platform_beta: `{"success": true, "response": …}`.
//!
//! Only the outermost object is looked at. The inner value is passed on as the exact bytes it came in;
//! numbers, order, spaces and duplicate names inside it stay as they are.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::ClientError;

/// What was inside an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Envelope {
    /// The exact bytes of the value of `response`.
    Inner(Bytes),
    /// No envelope, one that says anything but success, or none that can be read without doubt: the
    /// answer is passed on whole.
    Kept,
}

/// A decoded answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gzip {
    /// All decoded bytes.
    Decoded(Bytes),
    /// More than were asked for; the answer is passed on encoded.
    TooLarge,
}

/// Takes the envelope off a JSON answer.
///
/// Takes time and memory in proportion to the bytes, however deep they are nested.
pub fn unwrap(body: &[u8]) -> Envelope {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = reader.deserialize_map(Outermost).and_then(|inner| reader.end().map(|()| inner));
    match read {
        Ok(Some(inner)) => Envelope::Inner(Bytes::copy_from_slice(inner.get().as_bytes())),
        Ok(None) | Err(_) => Envelope::Kept,
    }
}

/// Decodes a gzip body of which at most `bytes_max` decoded bytes are wanted.
///
/// A body that is cut or broken is a bad answer of the platform.
pub fn decode_gzip(body: &[u8], bytes_max: usize) -> Result<Gzip, ClientError> {
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut decoded = Vec::new();
    let read = MultiGzDecoder::new(body).take(limit).read_to_end(&mut decoded);
    read.map_err(|error| ClientError::bad_response("its gzip coding is broken").because(error))?;
    Ok(if decoded.len() > bytes_max { Gzip::TooLarge } else { Gzip::Decoded(decoded.into()) })
}

/// Reads the outermost object; the inner value of a success, or nothing.
struct Outermost;

impl<'de> Visitor<'de> for Outermost {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names: BTreeSet<Cow<'de, str>> = BTreeSet::new();
        let mut is_success = false;
        let mut response = None;
        while let Some(Name(name)) = map.next_key()? {
            match name.as_ref() {
                "success" => is_success = map.next_value::<&RawValue>()?.get() == "true",
                "response" => response = Some(map.next_value::<&RawValue>()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
            // Readers differ in which of two equal names they believe, so neither is chosen here.
            if !names.insert(name) {
                return Err(A::Error::custom("a name is given twice"));
            }
        }
        Ok(response.filter(|_| is_success))
    }
}

/// A name, borrowed where it holds no escapes.
struct Name<'de>(Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for Name<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Text;
        impl<'de> Visitor<'de> for Text {
            type Value = Name<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Name<'de>, E> {
                Ok(Name(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(Text)
    }
}
