//! Envelopes that the configuration describes: where their data is, and what says success or error.
//!
//! The data is passed on as the exact bytes it came in. Only what the pointers (RFC 6901) lead
//! through is looked at.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use outbound::SettingsProblem;
use serde::Deserializer as _;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::envelope::{BorrowedName, EnvelopeContent};
use super::settings::EnvelopeSettings;

/// The most steps of a pointer.
const STEPS_MAX: usize = 16;

/// Checked pointers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct EnvelopePointers {
    data: JsonPointer,
    error: Option<JsonPointer>,
    success: Option<JsonPointer>,
}

/// The decoded steps of a pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
struct JsonPointer(Vec<String>);

impl EnvelopePointers {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(
        settings: &EnvelopeSettings,
        problems: &mut Vec<SettingsProblem>,
    ) -> Option<Self> {
        let mut read = |key: &str, text: &str| {
            let pointer = JsonPointer::parse(text);
            if pointer.is_none() {
                let message = "must be a JSON pointer below the top, such as /result";
                problems.push(SettingsProblem::new(format!("envelope.{key}"), message));
            }
            pointer
        };
        let data = read("data", &settings.data);
        let mut optional = |key: &str, text: &str| match text {
            "" => Some(None),
            text => read(key, text).map(Some),
        };
        let (error, success) =
            (optional("error", &settings.error), optional("success", &settings.success));
        let pointers = Self { data: data?, error: error?, success: success? };
        let found = pointers.contradictions(settings);
        let is_usable = found.is_empty();
        problems.extend(found);
        is_usable.then_some(pointers)
    }

    /// Pointers of which one stands at or above another, so that no answer can ever be taken out of
    /// its envelope: what holds something says an error, and `true` holds nothing.
    fn contradictions(&self, settings: &EnvelopeSettings) -> Vec<SettingsProblem> {
        let mut found = Vec::new();
        if let Some(error) = &self.error {
            let others = [("data", Some(&self.data)), ("success", self.success.as_ref())];
            let met = others.iter().find(|(_, other)| other.is_some_and(|it| error.covers(it)));
            if let Some((other, _)) = met {
                let text = &settings.error;
                let message = format!(
                    "must not be or contain what {other} points to, as {text} does: every answer \
                     would be taken for an error; point to what only errors have"
                );
                found.push(SettingsProblem::new("envelope.error", message));
            }
        }
        if self.success.as_ref().is_some_and(|success| success.covers(&self.data)) {
            let text = &settings.success;
            let message = format!(
                "must not be or contain what data points to, as {text} does: it must be true, so \
                 no answer would have data; point to what is true in each success"
            );
            found.push(SettingsProblem::new("envelope.success", message));
        }
        found
    }

    /// Takes the envelope off a JSON answer. One that says an error, or no success, and one that
    /// cannot be read without doubt, is kept whole.
    pub(super) fn unwrap(&self, body: &[u8]) -> EnvelopeContent {
        match self.data_of(body) {
            Some(data) => EnvelopeContent::Inner(Bytes::copy_from_slice(data.as_bytes())),
            None => EnvelopeContent::Kept,
        }
    }

    fn data_of<'b>(&self, body: &'b [u8]) -> Option<&'b str> {
        let whole: &RawValue = serde_json::from_slice(body).ok()?;
        let whole = whole.get();
        if let Some(success) = &self.success
            && success.find(whole).ok()? != Some("true")
        {
            return None;
        }
        if let Some(error) = &self.error
            && error.find(whole).ok()?.is_some_and(is_error)
        {
            return None;
        }
        self.data.find(whole).ok()?
    }
}

/// Whether the value of an error says that there is one.
fn is_error(value: &str) -> bool {
    let bare: String = value.split_ascii_whitespace().collect();
    !matches!(bare.as_str(), "null" | "false" | "0" | "\"\"" | "[]" | "{}")
}

impl JsonPointer {
    /// Below the top: the data of an envelope is not the envelope.
    fn parse(text: &str) -> Option<Self> {
        let steps = text.strip_prefix('/')?.split('/');
        let steps: Option<Vec<String>> = steps.map(unescaped).collect();
        steps.filter(|steps| steps.len() <= STEPS_MAX).map(Self)
    }

    /// Whether it leads to the same value as the other one, or to one around it.
    fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// The value that it leads to, as it is written. Fails where a name on the way is given twice,
    /// because readers differ in which of the two they believe.
    fn find<'b>(&self, json: &'b str) -> Result<Option<&'b str>, serde_json::Error> {
        let mut at = json;
        for step in &self.0 {
            let mut reader = serde_json::Deserializer::from_str(at);
            match reader.deserialize_any(StepVisitor(step))? {
                Some(next) => at = next.get(),
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }
}

/// `~1` is a slash and `~0` a tilde.
fn unescaped(step: &str) -> Option<String> {
    let mut text = String::with_capacity(step.len());
    let mut characters = step.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '~' => match characters.next()? {
                '0' => '~',
                '1' => '/',
                _ => return None,
            },
            other => other,
        });
    }
    Some(text)
}

/// Takes one step into an object or a list; anything else has nothing below it.
struct StepVisitor<'s>(&'s str);

impl<'de> Visitor<'de> for StepVisitor<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names: BTreeMap<Cow<'de, str>, ()> = BTreeMap::new();
        let mut found = None;
        while let Some(BorrowedName(name)) = map.next_key()? {
            if name == self.0 {
                found = Some(map.next_value::<&RawValue>()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            if names.insert(name, ()).is_some() {
                return Err(A::Error::custom("a name is given twice"));
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let is_index = self.0 == "0" || !self.0.starts_with(['0', '+']);
        let index = self.0.parse::<usize>().ok().filter(|_| is_index);
        let mut found = None;
        let mut at = 0_usize;
        while let Some(value) = list.next_element_seed(RawElement)? {
            if Some(at) == index {
                found = Some(value);
            }
            at = at.saturating_add(1);
        }
        Ok(found)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// An element as it is written.
struct RawElement;

impl<'de> DeserializeSeed<'de> for RawElement {
    type Value = &'de RawValue;

    fn deserialize<D: serde::Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        serde::Deserialize::deserialize(from)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pointers(data: &str, error: &str, success: &str) -> EnvelopePointers {
        let settings = EnvelopeSettings {
            data: data.to_owned(),
            error: error.to_owned(),
            success: success.to_owned(),
        };
        EnvelopePointers::new(&settings, &mut Vec::new()).unwrap()
    }

    fn inner(text: &str) -> EnvelopeContent {
        EnvelopeContent::Inner(text.to_owned().into())
    }

    #[test]
    fn data_keeps_its_very_bytes_wherever_it_is() {
        let data = "{ \"b\":1.50, \"a\" : [1e2,\n\"\\u00e9\u{e9}\"], \"b\":2 }";
        for (pointer, body) in [
            ("/result", format!("{{\"ok\":true,\"result\":{data}}}")),
            ("/a~1b/~0", format!("{{\"ok\":true,\"a/b\":{{\"~\": {data} }}}}")),
            ("/list/1/x", format!("{{\"list\":[[],{{\"x\":{data}}}, 3],\"ok\":true}}")),
        ] {
            let pointers = pointers(pointer, "/error", "/ok");
            assert_eq!(pointers.unwrap(body.as_bytes()), inner(data), "{body}");
        }
        assert_eq!(pointers("/d", "", "").unwrap(b"{\"d\":null}"), inner("null"));
    }

    #[test]
    fn what_says_an_error_or_no_success_is_kept_whole() {
        let pointers = pointers("/data", "/meta/error", "/ok");
        let body = |ok: &str, error: &str| {
            format!("{{\"data\":1,\"ok\":{ok},\"meta\":{{\"error\":{error}}}}}")
        };
        for error in ["null", "false", "0", "\"\"", "[]", "[ ]", "{}"] {
            assert_eq!(pointers.unwrap(body("true", error).as_bytes()), inner("1"), "{error}");
        }
        for (ok, error) in [
            ("false", "null"),
            ("1", "null"),
            ("\"true\"", "null"),
            ("true", "true"),
            ("true", "1"),
            ("true", "\"no\""),
            ("true", "{\"code\":0}"),
        ] {
            let kept = pointers.unwrap(body(ok, error).as_bytes());
            assert_eq!(kept, EnvelopeContent::Kept, "{ok} {error}");
        }
        for unclear in [
            "",
            "1",
            "[]",
            "{\"ok\":true}",
            "{\"data\":1}",
            "{\"ok\":true,\"data\":1,\"data\":2}",
            "{\"ok\":true,\"ok\":true,\"data\":1}",
            "{\"ok\":true,\"data\":1} x",
            "{\"ok\":true,\"data\":1,\"meta\":{\"error\":null,\"error\":null}}",
        ] {
            assert_eq!(pointers.unwrap(unclear.as_bytes()), EnvelopeContent::Kept, "{unclear}");
        }
    }

    #[test]
    fn a_pointer_that_leads_nowhere_is_a_problem_of_its_key() {
        let settings = EnvelopeSettings {
            data: String::new(),
            error: "error".to_owned(),
            success: "/a~2".to_owned(),
        };
        let mut problems = Vec::new();

        assert!(EnvelopePointers::new(&settings, &mut problems).is_none());

        let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["envelope.data", "envelope.error", "envelope.success"]);
    }

    #[test]
    fn pointers_by_which_no_answer_can_be_told_apart_are_a_problem_of_their_key() {
        let keys = |data: &str, error: &str, success: &str| {
            let [data, error, success] = [data, error, success].map(str::to_owned);
            let settings = EnvelopeSettings { data, error, success };
            let mut problems = Vec::new();
            let pointers = EnvelopePointers::new(&settings, &mut problems);
            assert_eq!(pointers.is_none(), !problems.is_empty());
            problems.into_iter().map(|problem| problem.key).collect::<Vec<_>>()
        };

        for (data, error, success, expected) in [
            ("/result", "/result", "", &["envelope.error"][..]),
            ("/a~1b", "/a~1b", "", &["envelope.error"]),
            ("/error/details", "/error", "", &["envelope.error"]),
            ("/data", "/meta", "/meta/ok", &["envelope.error"]),
            ("/data", "/ok", "/ok", &["envelope.error"]),
            ("/data", "", "/data", &["envelope.success"]),
            ("/meta/data", "/meta", "/meta", &["envelope.error", "envelope.success"]),
            // These can be told apart.
            ("/result", "/result/error", "/result/ok", &[]),
            ("/result", "/results", "/ok", &[]),
            ("/meta/data", "/meta/error", "/meta/ok", &[]),
        ] {
            assert_eq!(keys(data, error, success), expected, "{data} {error} {success}");
        }
        let inside = pointers("/result", "/result/error", "");
        assert_eq!(inside.unwrap(b"{\"result\":{\"n\":1}}"), inner("{\"n\":1}"));
        let failed = b"{\"result\":{\"error\":\"no\"}}";
        assert_eq!(inside.unwrap(failed), EnvelopeContent::Kept);
    }

    #[test]
    fn deep_nesting_takes_no_stack() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let body = format!("{{\"x\":{deep},\"data\":{deep}}}");

        assert_eq!(pointers("/data", "", "").unwrap(body.as_bytes()), inner(&deep));
        let open = "{\"data\":".repeat(100_000);
        assert_eq!(pointers("/data", "", "").unwrap(open.as_bytes()), EnvelopeContent::Kept);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..60)) {
            drop(pointers("/a/0", "/b", "/c").unwrap(&body));
        }
    }
}
