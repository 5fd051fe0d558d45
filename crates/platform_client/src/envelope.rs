//! The envelope of `platform_beta`: `{"success": true, "response": …}`.
//!
//! Only the outermost object is looked at. The inner value is passed on as the exact bytes it came
//! in; numbers, order, spaces and duplicate names inside it stay as they are.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::Read;

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use outbound::ClientError;
use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// What was inside an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvelopeContent {
    /// The exact bytes of the value of `response`.
    Inner(Bytes),
    /// No envelope, one that says anything but success, or none that can be read without doubt: the
    /// answer is passed on whole.
    Kept,
}

/// A decoded answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DecodedBody {
    /// All decoded bytes.
    Decoded(Bytes),
    /// More than were asked for; the answer is passed on encoded.
    TooLarge,
}

/// Takes the envelope off a JSON answer.
///
/// Takes time and memory in proportion to the bytes, however deep they are nested.
pub fn unwrap(body: &[u8]) -> EnvelopeContent {
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read =
        reader.deserialize_map(OutermostVisitor).and_then(|inner| reader.end().map(|()| inner));
    match read {
        Ok(Some(inner)) => EnvelopeContent::Inner(Bytes::copy_from_slice(inner.get().as_bytes())),
        Ok(None) | Err(_) => EnvelopeContent::Kept,
    }
}

/// Decodes a gzip body of which at most `bytes_max` decoded bytes are wanted.
///
/// A body that is cut or broken is a bad answer of the platform. No body at all has nothing to
/// decode.
pub fn decode_gzip(body: &[u8], bytes_max: usize) -> Result<DecodedBody, ClientError> {
    if body.is_empty() {
        return Ok(DecodedBody::Decoded(Bytes::new()));
    }
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let mut decoded = Vec::new();
    let read = MultiGzDecoder::new(body).take(limit).read_to_end(&mut decoded);
    read.map_err(|error| ClientError::bad_response("its gzip coding is broken").because(error))?;
    Ok(if decoded.len() > bytes_max {
        DecodedBody::TooLarge
    } else {
        DecodedBody::Decoded(decoded.into())
    })
}

/// Reads the outermost object; the inner value of a success, or nothing.
struct OutermostVisitor;

impl<'de> Visitor<'de> for OutermostVisitor {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names: BTreeSet<Cow<'de, str>> = BTreeSet::new();
        let mut is_success = false;
        let mut response = None;
        while let Some(BorrowedName(name)) = map.next_key()? {
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
pub(super) struct BorrowedName<'de>(pub(super) Cow<'de, str>);

impl<'de> serde::Deserialize<'de> for BorrowedName<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = BorrowedName<'de>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a name")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<BorrowedName<'de>, E> {
                Ok(BorrowedName(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<BorrowedName<'de>, E> {
                Ok(BorrowedName(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(NameVisitor)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use proptest::prelude::*;

    use super::*;
    use outbound::CallErrorKind;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn the_inner_value_keeps_its_very_bytes() {
        let inner = "{ \"b\":1.50, \"a\" : [1e2,\n\"\\u00e9\u{e9}\"], \"b\":2 }";
        for body in [
            format!("{{\"success\":true,\"response\":{inner}}}"),
            format!(" {{ \"response\" : {inner} , \"success\" :true ,\"x\":[{{}}]}} \n"),
            format!("{{\"succ\\u0065ss\":true,\"response\":{inner}}}"),
        ] {
            assert_eq!(
                unwrap(body.as_bytes()),
                EnvelopeContent::Inner(inner.to_owned().into()),
                "{body}"
            );
        }
        for value in ["null", "[]", "\"text\"", "17"] {
            let body = format!("{{\"success\":true,\"response\":{value}}}");
            assert_eq!(unwrap(body.as_bytes()), EnvelopeContent::Inner(value.to_owned().into()));
        }
    }

    #[test]
    fn what_is_not_plainly_a_success_is_kept_whole() {
        for body in [
            "",
            "null",
            "[]",
            "{}",
            "{\"success\":true}",
            "{\"response\":{}}",
            "{\"success\":false,\"response\":{}}",
            "{\"success\":\"true\",\"response\":{}}",
            "{\"success\":1,\"response\":{}}",
            "{\"success\":true,\"response\":{}",
            "{\"success\":true,\"response\":{}} x",
            "{\"success\":true,\"response\":{},}",
            "{\"success\":true,\"response\":nul}",
            "{\"success\":true,\"response\":{},\"response\":{}}",
            "{\"success\":true,\"success\":true,\"response\":{}}",
            "{\"success\":true,\"r\\u0065sponse\":{},\"response\":{}}",
            "{\"success\":true,\"response\":{},\"x\":1,\"x\":2}",
        ] {
            assert_eq!(unwrap(body.as_bytes()), EnvelopeContent::Kept, "{body}");
        }
        assert_eq!(unwrap(b"{\"success\":true,\"response\":\"\xff\"}"), EnvelopeContent::Kept);
    }

    #[test]
    fn deep_nesting_takes_no_stack() {
        let inner = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));

        let body = format!("{{\"x\":{inner},\"success\":true,\"response\":{inner}}}");

        assert_eq!(unwrap(body.as_bytes()), EnvelopeContent::Inner(inner.into()));
        assert_eq!(unwrap("{\"a\":".repeat(100_000).as_bytes()), EnvelopeContent::Kept);
    }

    #[test]
    fn gzip_is_decoded_up_to_a_limit() {
        let plain = vec![b'a'; 1_000];

        assert_eq!(
            decode_gzip(&gzip(&plain), 1_000).unwrap(),
            DecodedBody::Decoded(plain.clone().into())
        );
        assert_eq!(decode_gzip(&gzip(&plain), 999).unwrap(), DecodedBody::TooLarge);
        let bomb = gzip(&vec![0; 50_000_000]);
        assert_eq!(decode_gzip(&bomb, 8_388_608).unwrap(), DecodedBody::TooLarge);
    }

    #[test]
    fn gzip_that_is_cut_or_broken_is_a_bad_answer() {
        let whole = gzip(b"some text that is long enough to be cut");
        let (cut, _) = whole.split_at(whole.len() - 3);
        for body in [cut, b"no gzip"] {
            let error = decode_gzip(body, 1_000).unwrap_err();
            assert!(matches!(error.kind, CallErrorKind::BadResponse(_)), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_value_comes_out_of_an_envelope_as_it_went_in(
            text in "\\PC{0,40}", number in any::<f64>(), spaces in "[ \n\t]{0,3}"
        ) {
            let text = serde_json::to_string(&text).unwrap();
            let number = serde_json::to_string(&number).unwrap();
            let inner = format!("{{{text}:{spaces}{number},{spaces}\"k\":[{text}]}}");
            let body = format!("{{\"success\":{spaces}true,\"response\":{spaces}{inner}{spaces}}}");
            prop_assert_eq!(unwrap(body.as_bytes()), EnvelopeContent::Inner(inner.into()));
        }

        #[test]
        fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..60)) {
            drop(unwrap(&body));
            drop(decode_gzip(&body, 100));
        }
    }
}
