//! The platform itself: checks each request against what was drawn, and computes signatures on its
//! own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose as base64_kinds;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

use super::drawn::{EnvelopeQuirk, KeyQuirk, PartQuirk, Quirks, SigningQuirk};
use super::written::Addresses;
use test_service::platform::{RawPlatform, Script, Seen, answer};

/// The credentials of the account.
pub(super) const TOKEN: &str = "tok0";
pub(super) const USER: &str = "user-77";
pub(super) const REFRESH_TOKEN: &str = "ref0";
/// What a refresh gives.
const FRESH_TOKEN: &str = "tok1";
/// The time of all requests, in seconds.
pub(super) const NOW_S: i64 = 1_795_262_400;
/// The pages of the list.
pub(super) const PAGES: u32 = 3;

/// A platform with two hosts.
pub(super) struct Stub {
    pub(super) first: RawPlatform,
    pub(super) second: RawPlatform,
    shared: Arc<SharedStub>,
}

struct SharedStub {
    quirks: Quirks,
    addresses: OnceLock<Addresses>,
    state: Mutex<StubState>,
}

#[derive(Default)]
struct StubState {
    problems: Vec<String>,
    cookies: BTreeMap<String, String>,
    has_refreshed: bool,
    requests: usize,
}

impl Stub {
    pub(super) async fn start(quirks: &Quirks) -> Self {
        let shared = Arc::new(SharedStub {
            quirks: quirks.clone(),
            addresses: OnceLock::new(),
            state: Mutex::default(),
        });
        let host = async |is_first: bool| {
            let shared = Arc::clone(&shared);
            RawPlatform::deciding(move |request, _| shared.respond(request, is_first)).await
        };
        Self { first: host(true).await, second: host(false).await, shared }
    }

    /// Tells the stub where it is.
    pub(super) fn is_at(&self, addresses: &Addresses) {
        assert!(self.shared.addresses.set(addresses.clone()).is_ok());
    }

    /// What was wrong with requests so far.
    pub(super) fn problems(&self) -> Vec<String> {
        self.shared.state.lock().unwrap().problems.clone()
    }

    /// How many connections were made to it.
    pub(super) fn connections(&self) -> usize {
        let of = |host: &RawPlatform| {
            host.seen_requests().iter().map(|seen| seen.connection + 1).max().unwrap_or(0)
        };
        of(&self.first) + of(&self.second)
    }
}

impl SharedStub {
    fn respond(&self, request: &Seen, is_first: bool) -> Script {
        let mut state = self.state.lock().unwrap();
        state.requests += 1;
        match self.checked(request, is_first, &mut state) {
            Ok(script) => script,
            Err(problem) => {
                state.problems.push(format!("{problem} in {}", request.head));
                Script::json(400, json!({"problem": problem}).to_string())
            }
        }
    }

    fn checked(
        &self,
        request: &Seen,
        is_first: bool,
        state: &mut StubState,
    ) -> Result<Script, String> {
        let quirks = &self.quirks;
        let addresses = self.addresses.get().ok_or("it is not there yet")?;
        let host = if is_first { &addresses.first } else { &addresses.second };
        expect("host", request.header("host"), Some(host))?;
        if is_first && request.target() == "/grant" {
            check_cookies(request, state)?;
            return self.grant(request, state);
        }
        let base = self.base(is_first);
        let target = request.target();
        let native = target.strip_prefix(&base).ok_or(format!("{target} is not below {base}"))?;
        let (path, query) = native.split_once('?').unwrap_or((native, ""));
        let is_of_second = quirks
            .second_host
            .as_ref()
            .is_some_and(|(own, _)| path.starts_with(&format!("{own}/")));
        expect("the host", Some(is_first), Some(!is_of_second))?;
        let is_verification = path.starts_with(&quirks.verify.path);
        if is_verification {
            state.cookies.clear();
        }
        let token = if state.has_refreshed { FRESH_TOKEN } else { TOKEN };
        if quirks.oauth.is_some() && !is_verification {
            expect("a refresh", Some(state.has_refreshed), Some(true))?;
        }
        self.check_headers(request, token)?;
        let query = self.without_credential(query, token)?;
        if let Some(signing) = &quirks.signing {
            check_signature(signing, request, token)?;
        }
        check_cookies(request, state)?;
        let response = if is_verification {
            self.verify(request, path)?
        } else {
            self.route(request, path, query, (host, &base), token)?
        };
        Ok(self.with_cookies(response, state))
    }

    fn base(&self, is_first: bool) -> String {
        let path = match &self.quirks.second_host {
            Some((_, base)) if !is_first => base,
            _ => &self.quirks.prefix,
        };
        if path.is_empty() { "/".to_owned() } else { format!("/{path}/") }
    }

    fn check_headers(&self, request: &Seen, token: &str) -> Result<(), String> {
        for header in &self.quirks.headers {
            let credential = if header.is_token { token } else { USER };
            let wanted = format!("{}{credential}{}", header.before, header.after);
            expect(&header.name, request.header(&header.name), Some(wanted.as_str()))?;
        }
        if let Some((name, value)) = &self.quirks.version_header {
            expect(name, request.header(name), Some(value.as_str()))?;
        }
        if let Some(signing) = &self.quirks.signing
            && let Some(name) = &signing.value_header
        {
            let wanted = format!("r{}", signing.value.1);
            expect(name, request.header(name), Some(wanted.as_str()))?;
        }
        Ok(())
    }

    /// The query without the parameter that proves the caller, which stands at its end.
    fn without_credential<'q>(&self, query: &'q str, token: &str) -> Result<&'q str, String> {
        let Some(name) = &self.quirks.query else { return Ok(query) };
        let proof = format!("{name}={token}");
        let rest =
            query.strip_suffix(&proof).ok_or(format!("{query} does not end with {proof}"))?;
        Ok(rest.strip_suffix('&').unwrap_or(rest))
    }

    fn verify(&self, request: &Seen, path: &str) -> Result<(u16, String, Value), String> {
        let verify = &self.quirks.verify;
        let wanted =
            if verify.names_user { format!("{}/{USER}", verify.path) } else { verify.path.clone() };
        expect("the path", Some(path), Some(wanted.as_str()))?;
        expect(
            "the method",
            Some(request.method()),
            Some(if verify.is_post { "POST" } else { "GET" }),
        )?;
        expect("the body", std::str::from_utf8(&request.body).ok(), Some(verify.body.as_str()))?;
        let identity = verify
            .id_members
            .iter()
            .rev()
            .fold(json!(USER), |inner, member| json!({member.as_str(): inner, "beside": 1}));
        Ok((200, String::new(), self.wrapped(&identity)))
    }

    #[expect(clippy::too_many_arguments, reason = "each part of a request is checked apart")]
    fn route(
        &self,
        request: &Seen,
        path: &str,
        query: &str,
        (host, base): (&str, &str),
        token: &str,
    ) -> Result<(u16, String, Value), String> {
        let plain = |value: Value| Ok((200, String::new(), self.wrapped(&value)));
        match (request.method(), path) {
            ("GET", "things/7") => plain(json!({"thing": 7, "query": query})),
            ("POST", "things") => {
                let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
                plain(json!({"made": body}))
            }
            ("GET", "list") => {
                let page: u32 = query.strip_prefix("page=").unwrap_or("1").parse().unwrap_or(0);
                let proof = self
                    .quirks
                    .query
                    .as_ref()
                    .map(|name| format!("&{name}={token}"))
                    .unwrap_or_default();
                let link = if page < PAGES {
                    format!(
                        "link: <http://{host}{base}list?page={}{proof}>; rel=\"next\"\r\n",
                        page + 1
                    )
                } else {
                    String::new()
                };
                Ok((200, link, self.wrapped(&json!([{"row": page}]))))
            }
            ("GET", "broken") => Ok(self.error()),
            ("GET", _) if path.ends_with("/far") => plain(json!({"far": true})),
            (method, _) => Err(format!("there is no {method} {path}")),
        }
    }

    fn wrapped(&self, data: &Value) -> Value {
        match &self.quirks.envelope {
            EnvelopeQuirk::None => data.clone(),
            EnvelopeQuirk::Response => json!({"success": true, "response": data}),
            EnvelopeQuirk::Pointers { data: name, error, success } => {
                let mut whole = json!({"filler": [1, 2], name: data, error: Value::Null});
                if let Some(success) = success {
                    whole[success] = json!(true);
                }
                whole
            }
        }
    }

    /// An error: in the envelope with status 200, or with a status.
    pub(super) fn error(&self) -> (u16, String, Value) {
        match &self.quirks.envelope {
            EnvelopeQuirk::None => (422, String::new(), json!({"error": "drawn"})),
            EnvelopeQuirk::Response => {
                (200, String::new(), json!({"success": false, "error": "drawn"}))
            }
            EnvelopeQuirk::Pointers { data, error, success } => {
                let mut whole = json!({data: {}, error: "drawn"});
                if let Some(success) = success {
                    whole[success] = json!(false);
                }
                (200, String::new(), whole)
            }
        }
    }

    fn with_cookies(&self, response: (u16, String, Value), state: &mut StubState) -> Script {
        let (status, mut headers, body) = response;
        headers += &["content-type: ", self.quirks.content_type, "\r\n"].concat();
        if self.quirks.cookies {
            let (name, value) =
                (format!("c{}", state.requests % 3), format!("v{}", state.requests));
            headers += &["set-cookie: ", &name, "=", &value, "; Path=/; HttpOnly\r\n"].concat();
            state.cookies.insert(name, value);
        }
        Script::Answer(answer(status, &headers, body.to_string()))
    }

    /// The token endpoint.
    fn grant(&self, request: &Seen, state: &mut StubState) -> Result<Script, String> {
        let in_header = self.quirks.oauth.ok_or("nobody may refresh")?;
        let form = String::from_utf8_lossy(&request.body).into_owned();
        let grant = format!("grant_type=refresh_token&refresh_token={REFRESH_TOKEN}");
        if in_header {
            let pair = base64_kinds::STANDARD.encode("drawn-id:drawn+secret");
            let wanted = format!("Basic {pair}");
            expect("authorization", request.header("authorization"), Some(wanted.as_str()))?;
            expect("the form", Some(form), Some(grant))?;
        } else {
            expect("authorization", request.header("authorization"), None)?;
            let wanted = format!("{grant}&client_id=drawn-id&client_secret=drawn+secret");
            expect("the form", Some(form), Some(wanted))?;
        }
        expect("an earlier refresh", Some(state.has_refreshed), Some(false))?;
        state.has_refreshed = true;
        let tokens = json!({
            "access_token": FRESH_TOKEN, "refresh_token": "ref1", "token_type": "Bearer",
            "expires_in": 3600,
        });
        Ok(self.with_cookies((200, String::new(), tokens), state))
    }
}

#[expect(clippy::needless_pass_by_value, reason = "callers compare values that they just made")]
fn expect<T: PartialEq + std::fmt::Debug>(
    what: &str,
    given: Option<T>,
    wanted: Option<T>,
) -> Result<(), String> {
    if given == wanted {
        return Ok(());
    }
    Err(format!("{what} is {given:?} and not {wanted:?}"))
}

/// Exactly the cookies that were set so far are sent.
fn check_cookies(request: &Seen, state: &StubState) -> Result<(), String> {
    let mut given: Vec<String> =
        request.header("cookie").unwrap_or_default().split("; ").map(str::to_owned).collect();
    given.retain(|cookie| !cookie.is_empty());
    given.sort();
    let wanted: Vec<String> =
        state.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    expect("cookie", Some(given), Some(wanted))
}

/// The signature, computed here from what was drawn.
fn check_signature(signing: &SigningQuirk, request: &Seen, token: &str) -> Result<(), String> {
    let time = if signing.parts.contains(&PartQuirk::TimeMillis) { NOW_S * 1_000 } else { NOW_S };
    let time = time.to_string();
    expect("the time", request.header(&signing.time_header), Some(time.as_str()))?;
    let random = request.header(&signing.random_header).unwrap_or_default();
    if signing.parts.contains(&PartQuirk::Random) {
        expect("the random part", Some(random.len()), Some(signing.random_bytes * 2))?;
    }
    let texts: Vec<String> = signing
        .parts
        .iter()
        .map(|part| match part {
            PartQuirk::Method => request.method().to_owned(),
            PartQuirk::Target => request.target().to_owned(),
            PartQuirk::Path => request.target().split('?').next().unwrap_or_default().to_owned(),
            PartQuirk::Body if request.body.is_empty() && signing.empty_is_text => String::new(),
            PartQuirk::Body => {
                encoded(signing.body_encoding, &digest(signing.body_algorithm, &request.body))
            }
            PartQuirk::TimeSeconds | PartQuirk::TimeMillis => time.clone(),
            PartQuirk::Random => random.to_owned(),
            PartQuirk::Token => token.to_owned(),
            PartQuirk::Text => "plain text".to_owned(),
            PartQuirk::Secret => "hidden text".to_owned(),
            PartQuirk::Value => signing.value.1.clone(),
        })
        .collect();
    let joined = texts.join(&signing.separator);
    let bytes = match &signing.key {
        KeyQuirk::None => digest(signing.algorithm, joined.as_bytes()),
        KeyQuirk::Fixed(key) => keyed(signing.algorithm, key.as_bytes(), joined.as_bytes()),
        KeyQuirk::Derived(secret) => {
            let key = keyed("sha256", secret.as_bytes(), signing.value.1.as_bytes());
            keyed(signing.algorithm, &key, joined.as_bytes())
        }
    };
    let wanted = format!("v1 {}", encoded(signing.encoding, &bytes));
    expect("the signature", request.header(&signing.header), Some(wanted.as_str()))
}

fn digest(algorithm: &str, data: &[u8]) -> Vec<u8> {
    match algorithm {
        "sha1" => Sha1::digest(data).to_vec(),
        "sha256" => Sha256::digest(data).to_vec(),
        _ => Sha512::digest(data).to_vec(),
    }
}

fn keyed(algorithm: &str, key: &[u8], data: &[u8]) -> Vec<u8> {
    match algorithm {
        "sha1" => Hmac::<Sha1>::new_from_slice(key)
            .unwrap()
            .chain_update(data)
            .finalize()
            .into_bytes()
            .to_vec(),
        "sha256" => Hmac::<Sha256>::new_from_slice(key)
            .unwrap()
            .chain_update(data)
            .finalize()
            .into_bytes()
            .to_vec(),
        _ => Hmac::<Sha512>::new_from_slice(key)
            .unwrap()
            .chain_update(data)
            .finalize()
            .into_bytes()
            .to_vec(),
    }
}

fn encoded(encoding: &str, bytes: &[u8]) -> String {
    match encoding {
        "hex" => hex::encode(bytes),
        "hex_upper" => hex::encode_upper(bytes),
        "base64" => base64_kinds::STANDARD.encode(bytes),
        "base64_unpadded" => base64_kinds::STANDARD_NO_PAD.encode(bytes),
        "base64url" => base64_kinds::URL_SAFE.encode(bytes),
        _ => base64_kinds::URL_SAFE_NO_PAD.encode(bytes),
    }
}
