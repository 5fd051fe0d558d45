//! Signatures of requests, behind the name of a scheme.
//!
//! A signature is made by a recipe, which the configuration writes down (`recipe`) or which is
//! built in (`hmac-sha256-v1`), or by a process on this machine (`external`), which is asked when
//! the request is sent.

mod account;
mod built_in;
mod compile;
mod digest;
mod encoding;
pub(super) mod external;
pub(super) mod kept_values;
mod recipe;
pub(super) mod settings;
pub(super) mod used_keys;
pub(super) mod values;

use domain::time::Timestamp;
use http::{HeaderMap, HeaderName, Request};
use outbound::{ClientError, RequestBody, SettingsProblem};
use zeroize::Zeroizing;

use self::external::ExternalSigner;
use self::recipe::{RequestParts, SigningRecipe};
use self::settings::SigningSettings;
use self::values::SigningValues;
use super::credentials::AccountCredentials;

/// The scheme of recipes that the configuration writes down.
const RECIPE: &str = "recipe";
/// The scheme of processes that sign.
const EXTERNAL: &str = "external";

/// What makes one signature different from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SigningInput {
    /// The time of the request.
    pub now: Timestamp,
    /// Random bytes that no other request has.
    pub nonce: [u8; 16],
}

/// A checked way to sign, and the values that change while it is used.
pub(super) struct RequestSigner {
    method: SigningMethod,
    values: Option<SigningValues>,
}

enum SigningMethod {
    /// Nothing is signed; there are values for headers.
    None,
    Recipe(SigningRecipe),
    External(ExternalSigner),
}

/// What a signature needs of an account, read once for all its requests.
#[derive(Clone, Default)]
pub(super) struct AccountParts(Vec<Zeroizing<String>>);

impl RequestSigner {
    /// Checks the settings; problems are added with the names of their keys. `value_names`: the
    /// signing values that are named elsewhere, which keep their places.
    pub(super) fn new(
        settings: &SigningSettings,
        platform: &str,
        mut value_names: Vec<String>,
        problems: &mut Vec<SettingsProblem>,
    ) -> Option<Self> {
        let method = match settings.scheme.as_str() {
            RECIPE => {
                compile::compile(settings, &mut value_names, problems).map(SigningMethod::Recipe)
            }
            EXTERNAL => {
                ExternalSigner::new(settings, platform, problems).map(SigningMethod::External)
            }
            "" | "none" => Some(SigningMethod::None),
            _ => built_in::recipe(settings, problems).map(SigningMethod::Recipe),
        };
        let values = settings.values.as_ref();
        let values = values.map(|values| SigningValues::new(values, value_names, problems));
        match values {
            Some(values) => Some(Self { method: method?, values: Some(values?) }),
            None => Some(Self { method: method?, values: None }),
        }
    }

    /// What it needs of an account. Fails where a credential is absent.
    pub(super) fn account_parts(
        &self,
        credentials: &AccountCredentials,
    ) -> Result<AccountParts, ClientError> {
        match &self.method {
            SigningMethod::None => Ok(AccountParts::default()),
            SigningMethod::Recipe(recipe) => {
                let read = recipe.of_account.iter().map(|reading| reading.source.read(credentials));
                read.collect::<Result<_, _>>().map(AccountParts)
            }
            SigningMethod::External(signer) => Ok(AccountParts(signer.account_parts(credentials))),
        }
    }

    /// Signs a request, whose target is as it is sent, or leaves with it what a process is asked
    /// before it is sent.
    pub(super) fn sign(
        &self,
        request: &mut Request<RequestBody>,
        account: &AccountParts,
        input: SigningInput,
    ) -> Result<(), ClientError> {
        match &self.method {
            SigningMethod::None => Ok(()),
            SigningMethod::Recipe(recipe) => {
                let mut headers = std::mem::take(request.headers_mut());
                let signed = self.sign_by(recipe, (request, account, input), &mut headers);
                *request.headers_mut() = headers;
                signed
            }
            SigningMethod::External(signer) => {
                let question = signer.question(request, &account.0, input);
                request.extensions_mut().insert(question);
                Ok(())
            }
        }
    }

    fn sign_by(
        &self,
        recipe: &SigningRecipe,
        (request, account, input): (&Request<RequestBody>, &AccountParts, SigningInput),
        headers: &mut HeaderMap,
    ) -> Result<(), ClientError> {
        let values = self.values.as_ref().and_then(SigningValues::kept);
        let target = request.uri().path_and_query();
        let parts = RequestParts {
            method: request.method().as_str(),
            target: target.map_or("/", http::uri::PathAndQuery::as_str),
            body: request.body().view(),
            account: &account.0,
            values: values.as_deref(),
            input,
        };
        recipe.sign(&parts, headers)
    }

    /// The process that is asked for signatures.
    pub(super) const fn external(&self) -> Option<&ExternalSigner> {
        match &self.method {
            SigningMethod::External(signer) => Some(signer),
            SigningMethod::None | SigningMethod::Recipe(_) => None,
        }
    }

    /// The values that change.
    pub(super) const fn values(&self) -> Option<&SigningValues> {
        self.values.as_ref()
    }

    /// Whether bodies are part of signatures and have to be in memory.
    pub(super) fn needs_body(&self) -> bool {
        match &self.method {
            SigningMethod::Recipe(recipe) => recipe.needs_body(),
            SigningMethod::None | SigningMethod::External(_) => false,
        }
    }

    /// The credentials that it names, with the keys that name them.
    pub(super) fn fields(&self) -> Vec<(String, &str)> {
        match &self.method {
            SigningMethod::None => Vec::new(),
            SigningMethod::Recipe(recipe) => {
                let readings = recipe.of_account.iter();
                readings
                    .filter_map(|reading| Some((reading.key.clone(), reading.source.field()?)))
                    .collect()
            }
            SigningMethod::External(signer) => {
                signer.fields().map(|field| ("signing.fields".to_owned(), field)).collect()
            }
        }
    }

    /// The headers that it puts on requests, as far as they are known before.
    pub(super) fn header_names(&self) -> Vec<&HeaderName> {
        match &self.method {
            SigningMethod::Recipe(recipe) => {
                recipe.headers.iter().map(|header| &header.name).collect()
            }
            SigningMethod::None | SigningMethod::External(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use zeroize::Zeroizing;

    use super::*;

    const SIGNATURE: HeaderName = HeaderName::from_static("x-client-signature");

    fn settings() -> SigningSettings {
        SigningSettings {
            scheme: "hmac-sha256-v1".to_owned(),
            key: Zeroizing::new("sandbox-signing-key".to_owned()),
            client_id: "gateway".to_owned(),
            client_version: "7.1".to_owned(),
            ..SigningSettings::default()
        }
    }

    fn signed(target: &str, nonce: u8) -> HeaderMap {
        let signer = RequestSigner::new(&settings(), "p", Vec::new(), &mut Vec::new()).unwrap();
        let input = SigningInput {
            now: Timestamp::from_unix_micros(1_795_234_422_123_999),
            nonce: std::array::from_fn(|index| u8::try_from(index).unwrap() ^ nonce),
        };
        let mut request = Request::new(RequestBody::empty());
        *request.method_mut() = http::Method::POST;
        *request.uri_mut() = target.parse().unwrap();
        signer.sign(&mut request, &AccountParts::default(), input).unwrap();
        std::mem::take(request.headers_mut())
    }

    /// The signature was computed with Python: `hmac.new(key, text, hashlib.sha256).hexdigest()`
    /// over the four lines.
    #[test]
    fn a_signature_equals_one_made_by_another_implementation() {
        let headers = signed("/api/v1/message/send?a=1&b=%20x", 0);

        let expected = [
            ("x-client-id", "gateway"),
            ("x-client-timestamp", "1795234422123"),
            ("x-client-nonce", "000102030405060708090a0b0c0d0e0f"),
            ("x-client-version", "7.1"),
            (
                "x-client-signature",
                "e73b957e371019a0ee54369e849915bf8df4629175e978494fd3f348d5582dcd",
            ),
        ];
        assert_eq!(headers.len(), expected.len());
        for (name, value) in expected {
            assert_eq!(headers.get(name).unwrap(), value, "{name}");
        }
    }

    #[test]
    fn another_query_or_nonce_gives_another_signature() {
        let signature = |target, nonce| signed(target, nonce).remove(SIGNATURE).unwrap();

        assert_eq!(signature("/a?b", 0), signature("/a?b", 0));
        assert_ne!(signature("/a?b", 0), signature("/a?c", 0));
        assert_ne!(signature("/a?b", 0), signature("/a?b", 1));
    }

    #[test]
    fn all_problems_of_the_settings_are_named() {
        let unusable = SigningSettings {
            scheme: "md5".to_owned(),
            key: Zeroizing::default(),
            client_id: String::new(),
            client_version: "a\nb".to_owned(),
            ..SigningSettings::default()
        };
        let mut problems = Vec::new();

        assert!(RequestSigner::new(&unusable, "p", Vec::new(), &mut problems).is_none());

        let keys: Vec<_> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(
            keys,
            ["signing.scheme", "signing.key", "signing.client_id", "signing.client_version"]
        );
    }

    #[test]
    fn the_key_does_not_show_in_debug_output() {
        assert!(!format!("{:?}", settings()).contains("sandbox-signing-key"));
    }
}
