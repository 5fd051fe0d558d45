//! From a recipe's settings to a recipe that can be carried out. All problems are found, each named
//! by its key.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use outbound::SettingsProblem;
use zeroize::Zeroizing;

use super::account::AccountSource;
use super::digest::DigestAlgorithm;
use super::encoding::PartEncoding;
use super::recipe::{
    AccountReading, BodyDigest, DigestFunction, HeaderPiece, JoinedDigest, PartSource,
    RecipeHeader, SigningRecipe,
};
use super::settings::{PartSettings, SigningSettings};
use crate::checks;
use crate::signing::used_keys;

/// The most parts of a recipe.
const PARTS_MAX: usize = 64;
/// The most bytes of a random part.
const RANDOM_BYTES_MAX: usize = 256;
/// The bytes of a request's own randomness.
const NONCE_BYTES: usize = 16;

/// What is known while parts are compiled one after the other.
struct RecipeCompiler<'a> {
    settings: &'a SigningSettings,
    problems: &'a mut Vec<SettingsProblem>,
    /// Names of the parts so far.
    places: BTreeMap<&'a str, usize>,
    /// Of each part so far: whether it is a secret, and whether it is bytes rather than text.
    traits: Vec<PartTraits>,
    of_account: Vec<AccountReading>,
    value_names: &'a mut Vec<String>,
}

#[derive(Debug, Clone, Copy, Default)]
struct PartTraits {
    is_secret: bool,
    is_raw: bool,
}

/// Compiles the recipe; problems are added with their keys. The names of signing values that it
/// needs are added to `value_names`.
pub(super) fn compile(
    settings: &SigningSettings,
    value_names: &mut Vec<String>,
    problems: &mut Vec<SettingsProblem>,
) -> Option<SigningRecipe> {
    let before = problems.len();
    check_size(settings, problems);
    let mut compiler = RecipeCompiler {
        settings,
        problems,
        places: BTreeMap::new(),
        traits: Vec::new(),
        of_account: Vec::new(),
        value_names,
    };
    let mut parts = Vec::new();
    for (index, part) in settings.parts.iter().enumerate().take(PARTS_MAX) {
        parts.push(compiler.part(index, part).unwrap_or(PartSource::Method));
    }
    let headers = compiler.headers();
    let of_account = compiler.of_account;
    let random = parts.iter().filter_map(|part| match part {
        PartSource::Random { bytes, .. } => Some(*bytes),
        _ => None,
    });
    let takes_nonce = random.clone().count() == 1 && random.sum::<usize>() <= NONCE_BYTES;
    let recipe = SigningRecipe { parts, headers, of_account, takes_nonce };
    (problems.len() == before).then_some(recipe)
}

fn check_size(settings: &SigningSettings, problems: &mut Vec<SettingsProblem>) {
    if settings.parts.len() > PARTS_MAX {
        let message = format!("has more than {PARTS_MAX} parts");
        problems.push(SettingsProblem::new("signing.parts", message));
    }
    if settings.headers.is_empty() {
        let message = "is required: it says which headers carry the signature";
        problems.push(SettingsProblem::new("signing.headers", message));
    }
}

impl<'a> RecipeCompiler<'a> {
    /// One part, which later ones can name then, whether it could be compiled or not.
    fn part(&mut self, index: usize, part: &'a PartSettings) -> Option<PartSource> {
        let key = |name: &str| format!("signing.parts[{index}].{name}");
        let is_name = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_');
        if part.name.is_empty() || !part.name.bytes().all(is_name) {
            self.refuse(key("name"), "is required, of a-z, 0-9 and _");
        } else if self.places.contains_key(part.name.as_str()) {
            self.refuse(key("name"), "is the name of an earlier part");
        }
        let source = self.source(&key, part);
        used_keys::check(&key, part, self.problems);
        let is_secret = match &source {
            Some(PartSource::Fixed(_)) => part.from == "secret",
            Some(PartSource::OfAccount(_) | PartSource::Value(_)) => true,
            _ => false,
        };
        let is_digest = matches!(part.from.as_str(), "body" | "random" | "hash" | "hmac");
        let is_raw = is_digest && part.encoding == "raw";
        self.traits.push(PartTraits { is_secret, is_raw });
        self.places.entry(&part.name).or_insert(index);
        source
    }

    fn source(
        &mut self,
        key: &impl Fn(&str) -> String,
        part: &'a PartSettings,
    ) -> Option<PartSource> {
        match part.from.as_str() {
            "method" => Some(PartSource::Method),
            "target" => Some(PartSource::Target),
            "path" => Some(PartSource::Path),
            "time_s" => Some(PartSource::TimeSeconds),
            "time_ms" => Some(PartSource::TimeMillis),
            "text" => Some(PartSource::Fixed(Zeroizing::new(part.text.clone()))),
            "secret" => {
                if part.secret.is_empty() {
                    self.refuse(key("secret"), "is required: the text that stays secret");
                }
                Some(PartSource::Fixed(part.secret.clone()))
            }
            "field" => {
                let field = named(&part.field, &part.name);
                Some(self.of_account(key, AccountSource::Field(field)))
            }
            "device_id" => Some(self.device_id(key, part)),
            "value" => Some(self.value(key, part)),
            "random" => self.random(key, part),
            "body" => self.body(key, part),
            "hash" | "hmac" => self.digest(key, part),
            _ => {
                self.refuse(key("from"), &format!("is unknown; there are {}", used_keys::SOURCES));
                None
            }
        }
    }

    fn of_account(&mut self, key: &impl Fn(&str) -> String, source: AccountSource) -> PartSource {
        self.of_account.push(AccountReading { key: key("field"), source });
        PartSource::OfAccount(self.of_account.len() - 1)
    }

    fn device_id(&mut self, key: &impl Fn(&str) -> String, part: &PartSettings) -> PartSource {
        if part.secret.is_empty() {
            let message =
                "is required: ids of devices are derived with it, and change when it does";
            self.refuse(key("secret"), message);
        }
        let field = (!part.field.is_empty()).then(|| part.field.clone());
        self.of_account(key, AccountSource::DeviceId { field, key: part.secret.clone() })
    }

    fn value(&mut self, key: &impl Fn(&str) -> String, part: &PartSettings) -> PartSource {
        if self.settings.values.is_none() {
            self.refuse(key("from"), "needs signing.values, which says where values are read");
        }
        PartSource::Value(checks::place_of(self.value_names, named(&part.value, &part.name)))
    }

    fn random(&mut self, key: &impl Fn(&str) -> String, part: &PartSettings) -> Option<PartSource> {
        let encoding = self.encoding(key, part)?;
        let bytes = usize::try_from(part.bytes).unwrap_or(usize::MAX);
        let bytes = if encoding == PartEncoding::Uuid && bytes == 0 { NONCE_BYTES } else { bytes };
        if bytes == 0 || bytes > RANDOM_BYTES_MAX {
            self.refuse(key("bytes"), &format!("must be from 1 to {RANDOM_BYTES_MAX}"));
        } else if encoding == PartEncoding::Uuid && bytes != NONCE_BYTES {
            self.refuse(key("bytes"), "must be 16 for a UUID, or left out");
        }
        Some(PartSource::Random { bytes, encoding })
    }

    fn body(&mut self, key: &impl Fn(&str) -> String, part: &PartSettings) -> Option<PartSource> {
        let (algorithm, encoding) = (self.algorithm(key, part), self.digest_encoding(key, part));
        if !matches!(part.empty.as_str(), "" | "hash" | "text") {
            let message = "must be \"hash\" (of nothing) or \"text\" (an empty one)";
            self.refuse(key("empty"), message);
        }
        let spooled = (!part.spooled.is_empty()).then(|| part.spooled.clone());
        Some(PartSource::Body(BodyDigest {
            algorithm: algorithm?,
            encoding: encoding?,
            is_empty_text: part.empty == "text",
            spooled,
        }))
    }

    fn digest(
        &mut self,
        key: &impl Fn(&str) -> String,
        part: &'a PartSettings,
    ) -> Option<PartSource> {
        let (algorithm, encoding) = (self.algorithm(key, part), self.digest_encoding(key, part));
        if part.of.is_empty() {
            self.refuse(key("of"), "is required: the names of the parts that are joined");
        }
        let of: Vec<_> = part.of.iter().map(|name| self.place(key("of"), name)).collect();
        let function = match (part.from.as_str(), part.key.as_str()) {
            ("hash", _) => algorithm.map(DigestFunction::Plain),
            (_, "") => {
                if self.settings.key.is_empty() {
                    let message = "is required: the recipe has an HMAC that names no other key";
                    self.refuse("signing.key".to_owned(), message);
                }
                let keyed = algorithm.and_then(|one| one.keyed(self.settings.key.as_bytes()));
                keyed.map(|keyed| DigestFunction::Keyed(Box::new(keyed)))
            }
            (_, name) => {
                let place = self.place(key("key"), name);
                algorithm.zip(place).map(|(one, place)| DigestFunction::KeyedBy(one, place))
            }
        };
        Some(PartSource::Digest(JoinedDigest {
            of: of.into_iter().collect::<Option<_>>()?,
            separator: part.separator.clone(),
            function: function?,
            encoding: encoding?,
        }))
    }

    fn algorithm(
        &mut self,
        key: &impl Fn(&str) -> String,
        part: &PartSettings,
    ) -> Option<DigestAlgorithm> {
        let algorithm = DigestAlgorithm::named(&part.algorithm);
        if algorithm.is_none() {
            self.refuse(key("algorithm"), &format!("must be one of {}", DigestAlgorithm::NAMES));
        }
        algorithm
    }

    /// Hexadecimal where nothing is said.
    fn encoding(
        &mut self,
        key: &impl Fn(&str) -> String,
        part: &PartSettings,
    ) -> Option<PartEncoding> {
        if part.encoding.is_empty() {
            return Some(PartEncoding::HexLower);
        }
        let encoding = PartEncoding::named(&part.encoding);
        if encoding.is_none() {
            self.refuse(key("encoding"), &format!("must be one of {}", PartEncoding::names()));
        }
        encoding
    }

    fn digest_encoding(
        &mut self,
        key: &impl Fn(&str) -> String,
        part: &PartSettings,
    ) -> Option<PartEncoding> {
        let encoding = self.encoding(key, part)?;
        if encoding == PartEncoding::Uuid {
            self.refuse(key("encoding"), "can be uuid for random parts only");
        }
        Some(encoding)
    }

    /// The place of an earlier part.
    fn place(&mut self, key: String, name: &str) -> Option<usize> {
        let place = self.places.get(name).copied();
        if place.is_none() {
            let message = format!("names {name:?}, which is no earlier part; {}", self.known());
            self.refuse(key, &message);
        }
        place
    }

    fn known(&self) -> String {
        let names: Vec<&str> = self.places.keys().copied().collect();
        format!("there are {}", if names.is_empty() { "none".to_owned() } else { names.join(", ") })
    }

    fn headers(&mut self) -> Vec<RecipeHeader> {
        let mut headers: Vec<RecipeHeader> = Vec::new();
        let settings = self.settings;
        for (index, (name, value)) in settings.headers.iter().enumerate() {
            let key = |what: &str| format!("signing.headers[{index}].{what}");
            let name = checks::header_name(&key("name"), name, self.problems);
            let pieces = self.pieces(&key("value"), value);
            let (Some(name), Some(pieces)) = (name, pieces) else { continue };
            if headers.iter().any(|other| other.name == name) {
                self.refuse(key("name"), "is given twice");
            }
            headers.extend(self.header(key("value"), name, pieces));
        }
        headers
    }

    fn header(
        &mut self,
        key: String,
        name: HeaderName,
        pieces: Vec<HeaderPiece>,
    ) -> Option<RecipeHeader> {
        let places = pieces.iter().filter_map(|piece| match piece {
            HeaderPiece::Part(place) => Some(*place),
            HeaderPiece::Text(_) => None,
        });
        let is_sensitive = places
            .into_iter()
            .any(|place| self.traits.get(place).is_some_and(|traits| traits.is_secret));
        let fixed = self.fixed_text(&pieces).map(|text| HeaderValue::from_str(&text));
        match fixed.transpose() {
            Ok(fixed) => {
                let fixed = fixed.map(|mut value| {
                    value.set_sensitive(is_sensitive);
                    value
                });
                Some(RecipeHeader { name, pieces, is_sensitive, fixed })
            }
            Err(_) => {
                self.refuse(key, "must be visible ASCII");
                None
            }
        }
    }

    /// The text of a header that is the same for all requests.
    fn fixed_text(&self, pieces: &[HeaderPiece]) -> Option<Zeroizing<String>> {
        let mut text = Zeroizing::new(String::new());
        for piece in pieces {
            match piece {
                HeaderPiece::Text(fixed) => text.push_str(fixed),
                HeaderPiece::Part(place) => {
                    let part = self.settings.parts.get(*place)?;
                    match part.from.as_str() {
                        "text" => text.push_str(&part.text),
                        "secret" => text.push_str(&part.secret),
                        _ => return None,
                    }
                }
            }
        }
        Some(text)
    }

    /// The pieces of a header's template.
    fn pieces(&mut self, key: &str, template: &str) -> Option<Vec<HeaderPiece>> {
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}').filter(|_| !before.contains('}'))
            else {
                self.refuse(key.to_owned(), "has a brace without its pair; write {part}");
                return None;
            };
            if !before.is_empty() {
                pieces.push(HeaderPiece::Text(before.to_owned()));
            }
            let place = self.place(key.to_owned(), name)?;
            if self.traits.get(place).is_some_and(|traits| traits.is_raw) {
                let message = format!("names {name:?}, which is raw bytes; encode it");
                self.refuse(key.to_owned(), &message);
                return None;
            }
            pieces.push(HeaderPiece::Part(place));
            rest = after;
        }
        if rest.contains('}') {
            self.refuse(key.to_owned(), "has a brace without its pair; write {part}");
            return None;
        }
        if !rest.is_empty() {
            pieces.push(HeaderPiece::Text(rest.to_owned()));
        }
        if pieces.iter().any(|piece| matches!(piece, HeaderPiece::Text(text) if HeaderValue::from_str(text).is_err())) {
            self.refuse(key.to_owned(), "must be visible ASCII");
            return None;
        }
        Some(pieces)
    }

    fn refuse(&mut self, key: String, message: &str) {
        if self.problems.iter().all(|known| known.key != key || known.message != message) {
            self.problems.push(SettingsProblem::new(key, message));
        }
    }
}

fn named(given: &str, part: &str) -> String {
    if given.is_empty() { part.to_owned() } else { given.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(name: &str, from: &str) -> PartSettings {
        PartSettings { name: name.to_owned(), from: from.to_owned(), ..PartSettings::default() }
    }

    fn digest(name: &str, from: &str, of: &[&str]) -> PartSettings {
        let of = of.iter().map(|part| (*part).to_owned()).collect();
        PartSettings { of, algorithm: "sha256".to_owned(), ..part(name, from) }
    }

    fn with(parts: Vec<PartSettings>, headers: &[(&str, &str)]) -> SigningSettings {
        let header = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers = headers.iter().map(header).collect();
        SigningSettings { parts, headers, ..SigningSettings::default() }
    }

    fn problems(settings: &SigningSettings) -> Vec<(String, String)> {
        let mut problems = Vec::new();
        let recipe = compile(settings, &mut Vec::new(), &mut problems);
        assert_eq!(recipe.is_some(), problems.is_empty());
        problems.into_iter().map(|problem| (problem.key, problem.message)).collect()
    }

    #[test]
    fn every_mistake_is_named_with_its_key() {
        let sound = [("X-Sign", "v1:{a}")];
        let with_key = |name: &str, change: &dyn Fn(&mut PartSettings)| {
            let mut changed = digest("a", name, &["m"]);
            change(&mut changed);
            with(vec![part("m", "method"), changed], &sound)
        };
        for (settings, key, message) in [
            (with(vec![part("a", "methods")], &sound), "signing.parts[0].from", "is unknown"),
            (with(vec![part("A", "method")], &[("X", "x")]), "signing.parts[0].name", "a-z"),
            (
                with(vec![part("a", "method"), part("a", "path")], &sound),
                "signing.parts[1].name",
                "earlier part",
            ),
            (with(vec![digest("a", "hash", &["b"])], &sound), "signing.parts[0].of", "\"b\""),
            (with(vec![digest("a", "hash", &["a"])], &sound), "signing.parts[0].of", "\"a\""),
            (with(vec![digest("a", "hash", &[])], &sound), "signing.parts[0].of", "is required"),
            (with_key("hmac", &|_| {}), "signing.key", "is required"),
            (with_key("hmac", &|part| part.key = "x".into()), "signing.parts[1].key", "\"x\""),
            (with_key("hash", &|part| part.key = "m".into()), "signing.parts[1].key", "no use"),
            (
                with_key("hash", &|part| part.algorithm = "md5".into()),
                "signing.parts[1].algorithm",
                "sha1, sha256, sha512",
            ),
            (
                with_key("hash", &|part| part.encoding = "HEX".into()),
                "signing.parts[1].encoding",
                "hex_upper",
            ),
            (
                with_key("hash", &|part| part.encoding = "uuid".into()),
                "signing.parts[1].encoding",
                "random",
            ),
            (
                with_key("hash", &|part| part.encoding = "raw".into()),
                "signing.headers[0].value",
                "raw bytes",
            ),
            (with(vec![part("a", "random")], &sound), "signing.parts[0].bytes", "from 1 to 256"),
            (with(vec![part("a", "secret")], &sound), "signing.parts[0].secret", "is required"),
            (with(vec![part("a", "device_id")], &sound), "signing.parts[0].secret", "change"),
            (with(vec![part("a", "value")], &sound), "signing.parts[0].from", "signing.values"),
            (with(vec![part("a", "method")], &[]), "signing.headers", "is required"),
            (with(vec![], &[("X", "{a}")]), "signing.headers[0].value", "there are none"),
            (with(vec![], &[("X", "{a")]), "signing.headers[0].value", "brace"),
            (with(vec![], &[("X", "a\nb")]), "signing.headers[0].value", "visible ASCII"),
            (with(vec![], &[("Host", "a")]), "signing.headers[0].name", "belongs to the"),
            (with(vec![], &[("X", "a"), ("x", "b")]), "signing.headers[1].name", "twice"),
        ] {
            let found = problems(&settings);
            let [(found_key, found_message)] = &found[..] else { panic!("{key}: {found:?}") };
            assert_eq!(found_key, key, "{found:?}");
            assert!(found_message.contains(message), "{key}: {found_message}");
        }
    }

    #[test]
    fn all_mistakes_are_found_at_once() {
        let parts = vec![part("a", "methods"), digest("b", "hash", &["c"]), part("d", "random")];

        let found = problems(&with(parts, &[("X", "{a}"), ("Y", "{z}")]));

        let keys: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "signing.parts[0].from",
                "signing.parts[1].of",
                "signing.parts[2].bytes",
                "signing.headers[1].value"
            ]
        );
    }

    #[test]
    fn no_secret_shows_in_debug_output() {
        let mut settings = with(vec![part("a", "secret")], &[("X", "{a}")]);
        settings.parts[0].secret = Zeroizing::new("hush".to_owned());
        settings.key = Zeroizing::new("hush".to_owned());

        assert!(!format!("{settings:?}").contains("hush"));
    }
}
