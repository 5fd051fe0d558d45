//! `[platforms.*] envelope`: what a platform's answers come in.

use std::fmt;

use platform_client::EnvelopeSettings;
use serde::de::{MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// No envelope, the one that is built in, or one that is described.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EnvelopeSection {
    /// `false`.
    None,
    /// `true`: `{"success": true, "response": …}`.
    Response,
    /// `{ data = "/result", error = "/error", success = "/ok" }`.
    Pointers(PointersSection),
}

/// JSON pointers into an answer.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PointersSection {
    /// To what is passed on.
    pub data: String,
    /// To what is there if the answer is an error; empty: nothing.
    #[serde(default)]
    pub error: String,
    /// To what is `true` if the answer is a success; empty: nothing.
    #[serde(default)]
    pub success: String,
}

impl EnvelopeSection {
    pub(super) fn pointers(&self) -> Option<EnvelopeSettings> {
        match self {
            Self::None | Self::Response => None,
            Self::Pointers(pointers) => Some(EnvelopeSettings {
                data: pointers.data.clone(),
                error: pointers.error.clone(),
                success: pointers.success.clone(),
            }),
        }
    }
}

impl From<bool> for EnvelopeSection {
    fn from(has_envelope: bool) -> Self {
        if has_envelope { Self::Response } else { Self::None }
    }
}

impl Serialize for EnvelopeSection {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => to.serialize_bool(false),
            Self::Response => to.serialize_bool(true),
            Self::Pointers(pointers) => pointers.serialize(to),
        }
    }
}

impl<'de> Deserialize<'de> for EnvelopeSection {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(EnvelopeVisitor)
    }
}

struct EnvelopeVisitor;

impl<'de> Visitor<'de> for EnvelopeVisitor {
    type Value = EnvelopeSection;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("true, false or a table")
    }

    fn visit_bool<E: serde::de::Error>(self, has_envelope: bool) -> Result<Self::Value, E> {
        Ok(has_envelope.into())
    }

    /// From the environment, where everything is text.
    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        match text {
            "true" => Ok(EnvelopeSection::Response),
            "false" => Ok(EnvelopeSection::None),
            _ => Err(E::custom("must be true, false or { data = \"/pointer\", … }")),
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        PointersSection::deserialize(MapAccessDeserializer::new(map)).map(EnvelopeSection::Pointers)
    }
}

#[cfg(test)]
mod tests {
    use domain::platform::Platform;

    use super::*;
    use crate::Config;

    fn config(envelope: &str) -> Config {
        let section = "[platforms.platform_beta]\nbase_url = \"http://127.0.0.1:1\"";
        let key = "[platforms.platform_beta.signing]\nkey = \"k\"\nclient_id = \"i\"\nclient_version = \"1\"";
        Config::from_toml(&format!("{section}\nenvelope = {envelope}\n{key}")).unwrap()
    }

    #[test]
    fn an_envelope_is_there_or_not_or_described() {
        let described = "{ data = \"/result\", success = \"/ok\" }";
        for (text, has_pointers) in [("true", false), ("false", false), (described, true)] {
            let config = config(text);
            let envelope = &config.platforms.get(Platform::BETA).unwrap().envelope;
            assert_eq!(envelope.pointers().is_some(), has_pointers, "{text}");
            let again = Config::from_toml(&config.to_toml().unwrap()).unwrap();
            assert_eq!(&again.platforms.get(Platform::BETA).unwrap().envelope, envelope, "{text}");
        }
        let variable = "CREATOR_GATEWAY__PLATFORMS__PLATFORM_ALPHA__ENVELOPE".to_owned();
        let config = Config::load_with(None, [(variable, "true".to_owned())]).unwrap();
        assert_eq!(
            config.platforms.get(Platform::ALPHA).unwrap().envelope,
            EnvelopeSection::Response
        );
    }

    #[test]
    fn a_pointer_that_cannot_be_read_is_a_problem_of_its_key() {
        let problems = config("{ data = \"result\" }").all_problems();

        let found: Vec<String> = problems.iter().map(ToString::to_string).collect();
        let [problem] = &found[..] else { panic!("{found:?}") };
        assert!(
            problem.starts_with("platforms.platform_beta.envelope.data: must be a JSON pointer")
        );
    }
}
