//! Proof of an account's credentials: one request that the platform answers with the account's
//! identity.

use std::sync::Arc;

use bytes::Bytes;
use domain::method::Method;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use outbound::{ClientError, PlatformResponse, ReadLimits, ReadUpTo, SettingsProblem};
use serde::de::IgnoredAny;
use serde_json::Value;

use super::client::PlatformClient;
use super::cookies::CookieJar;
use super::credentials::AccountCredentials;
use super::envelope::{self, DecodedBody, EnvelopeContent};
use super::path;
use super::settings::VerifySettings;
use super::signing::SigningInput;
use super::target::{NativeCall, PlatformTarget};
use super::template::TextTemplate;

/// The longest answer that is read, in bytes.
pub const ANSWER_BYTES_MAX: usize = 262_144;

/// What a platform says to an account's credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CredentialVerdict {
    /// They are valid.
    Confirmed {
        /// The platform's own id of the account, where its answer told one.
        platform_account_id: Option<String>,
    },
    /// The platform did not take them.
    Refused {
        /// The status of its answer.
        status: u16,
    },
    /// They belong to another account than they say, or the answer names none.
    Mismatch,
}

/// The checked request that proves credentials.
#[derive(Debug, Clone)]
pub(super) struct IdentityCheck {
    path: TextTemplate,
    method: Method,
    body: Bytes,
    id_pointer: Option<String>,
    equals_field: Option<String>,
    accepted_statuses: Vec<u16>,
}

/// The account that is to be proved.
#[derive(Debug, Clone, Copy)]
pub struct PresentedAccount<'a> {
    /// What its customer gave.
    pub credentials: &'a AccountCredentials,
    /// The cookies that its platform set, if they are kept.
    pub cookies: Option<&'a Arc<CookieJar>>,
}

impl<'a> PresentedAccount<'a> {
    /// One without cookies.
    pub const fn of(credentials: &'a AccountCredentials) -> Self {
        Self { credentials, cookies: None }
    }
}

/// Proves credentials with the platform's identity check.
///
/// Refusals and other accounts are answers. Fails when the platform cannot be reached or answers
/// unusably, and with [`Build`](outbound::CallErrorKind::Build) when the credentials lack a
/// field that the check needs or hold one that cannot be sent.
pub async fn verify(
    upstream: &PlatformClient,
    target: &PlatformTarget,
    presented: PresentedAccount<'_>,
    signing: SigningInput,
) -> Result<CredentialVerdict, ClientError> {
    let PresentedAccount { credentials, cookies } = presented;
    let check = target.identity();
    let filled = check.path.fill_path(credentials, "verify");
    let path =
        filled.ok_or_else(|| ClientError::build("a credential of the identity check is absent"))?;
    let mut account = target.headers_of(credentials)?;
    if let Some(jar) = cookies {
        account = account.with_cookies(Arc::clone(jar));
    }
    let request = target.request(&NativeCall {
        call_id: &"verify",
        method: check.method,
        path: &path,
        query: "",
        caller_headers: &check.headers(),
        body: check.body.clone(),
        account: &account,
        signing,
    })?;
    let answer = upstream.send(target, request).await?;
    check.judge(target, credentials, answer).await
}

/// Whether a text is a pointer below the top (RFC 6901, section 3).
fn is_pointer(text: &str) -> bool {
    text.starts_with('/') && text.split('~').skip(1).all(|after| after.starts_with(['0', '1']))
}

impl IdentityCheck {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(
        settings: &VerifySettings,
        problems: &mut Vec<SettingsProblem>,
    ) -> Option<Self> {
        if settings.id_pointer.as_ref().is_some_and(|pointer| !is_pointer(pointer)) {
            let message =
                "must be a JSON pointer, which begins with a slash and has ~ only as ~0 and ~1";
            problems.push(SettingsProblem::new("verify_route.id_pointer", message));
        }
        if settings.equals_field.is_some() && settings.id_pointer.is_none() {
            let message = "needs id_pointer, which says what must equal it";
            problems.push(SettingsProblem::new("verify_route.equals_field", message));
        }
        if settings.accepted_statuses.iter().any(|status| !(200..=599).contains(status)) {
            let message = "holds a number that is no status from 200 to 599";
            problems.push(SettingsProblem::new("verify_route.accepted_statuses", message));
        }
        let method = method(settings, problems);
        match readable_path(&settings.path) {
            Ok(path) => Some(Self {
                path,
                method: method?,
                body: Bytes::from(settings.body.clone()),
                id_pointer: settings.id_pointer.clone(),
                equals_field: settings.equals_field.clone(),
                accepted_statuses: settings.accepted_statuses.clone(),
            }),
            Err(message) => {
                problems.push(SettingsProblem::new("verify_route.path", message));
                None
            }
        }
    }

    /// Whether its method only reads.
    pub(super) const fn is_read(&self) -> bool {
        self.method.is_read()
    }

    /// What is said of a body.
    fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !self.body.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers
    }

    /// The names of the credentials that it needs, with the keys that name them.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let in_path = self.path.fields().map(|field| ("verify_route.path", field));
        in_path.chain(self.equals_field.iter().map(|field| ("verify_route.equals_field", &**field)))
    }

    async fn judge(
        &self,
        target: &PlatformTarget,
        credentials: &AccountCredentials,
        answer: PlatformResponse,
    ) -> Result<CredentialVerdict, ClientError> {
        let status = answer.status.as_u16();
        if self.accepted_statuses.contains(&status) {
            return Ok(CredentialVerdict::Confirmed { platform_account_id: None });
        }
        if !answer.status.is_success() {
            return Ok(CredentialVerdict::Refused { status });
        }
        let Some(pointer) = &self.id_pointer else {
            return Ok(CredentialVerdict::Confirmed { platform_account_id: None });
        };
        let body = whole(answer).await?;
        let body = if target.has_envelope() {
            match target.unwrap(&body) {
                EnvelopeContent::Inner(inner) => inner,
                // An envelope that does not say success is a refusal, whatever the status is.
                EnvelopeContent::Kept => return Ok(CredentialVerdict::Refused { status }),
            }
        } else {
            body
        };
        let told: Value = serde_json::from_slice(&body)
            .map_err(|error| ClientError::bad_response("it is not JSON").because(error))?;
        Ok(self.compare(told.pointer(pointer), credentials))
    }

    fn compare(&self, id: Option<&Value>, credentials: &AccountCredentials) -> CredentialVerdict {
        let id = match id {
            Some(Value::String(id)) => id.clone(),
            Some(Value::Number(id)) => id.to_string(),
            Some(_) | None => return CredentialVerdict::Mismatch,
        };
        match &self.equals_field {
            Some(field) if credentials.get(field) != Some(&id) => CredentialVerdict::Mismatch,
            Some(_) | None => CredentialVerdict::Confirmed { platform_account_id: Some(id) },
        }
    }
}

fn method(settings: &VerifySettings, problems: &mut Vec<SettingsProblem>) -> Option<Method> {
    let name = if settings.method.is_empty() { "GET" } else { settings.method.as_str() };
    let Ok(method) = name.parse::<Method>() else {
        let message = "must be GET, POST, PUT, PATCH or DELETE";
        problems.push(SettingsProblem::new("verify_route.method", message));
        return None;
    };
    let is_json = serde_json::from_str::<IgnoredAny>(&settings.body).is_ok();
    if !settings.body.is_empty() && (method.is_read() || !is_json) {
        let message = "must be JSON, and empty for a GET";
        problems.push(SettingsProblem::new("verify_route.body", message));
    }
    Some(method)
}

fn readable_path(text: &str) -> Result<TextTemplate, String> {
    let template = TextTemplate::parse(text).map_err(str::to_owned)?;
    path::check_path(&template.filled_with("x")).map_err(|problem| problem.to_string())?;
    Ok(template)
}

/// The whole answer, decoded; the request asked for no coding, but a platform may not listen.
async fn whole(mut answer: PlatformResponse) -> Result<Bytes, ClientError> {
    let too_long = || ClientError::bad_response("it is too long for an identity");
    let ReadUpTo::Whole(body) = answer.body.read_up_to(ReadLimits::bytes(ANSWER_BYTES_MAX)).await?
    else {
        return Err(too_long());
    };
    let coding = answer.headers.get(CONTENT_ENCODING);
    if !coding.is_some_and(|coding| coding.as_bytes().eq_ignore_ascii_case(b"gzip")) {
        return Ok(body);
    }
    match envelope::decode_gzip(&body, ANSWER_BYTES_MAX)? {
        DecodedBody::Decoded(plain) => Ok(plain),
        DecodedBody::TooLarge => Err(too_long()),
    }
}
