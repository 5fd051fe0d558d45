//! The headers that all requests for one account have, filled in once.

use std::fmt;
use std::sync::Arc;

use http::header::COOKIE;
use http::{HeaderMap, HeaderName};
use outbound::{ClientError, ProxyAddress};

use super::cookies::{self, CookieJar};
use super::credentials::AccountCredentials;
use super::query_fields::AccountQuery;
use super::signing::AccountParts;
use super::signing::kept_values::KeptValues;
use super::template::TextTemplate;

/// What the requests for one account carry beside what their callers may say: the platform's own
/// headers, with the account's credentials in their places. Made by
/// [`PlatformTarget::headers_of`](super::PlatformTarget::headers_of).
#[derive(Clone)]
pub struct AccountHeaders {
    same: HeaderMap,
    of_each_call: Vec<(HeaderName, TextTemplate)>,
    /// What its signatures are made of.
    pub(super) signing: AccountParts,
    /// What stands behind the queries of its calls.
    pub(super) query: AccountQuery,
    /// What its requests go through.
    pub(super) proxy: Option<Arc<ProxyAddress>>,
    /// The cookies that its platform sets.
    pub(super) cookies: Option<Arc<CookieJar>>,
}

impl AccountHeaders {
    /// Puts the templates beside what is the same for all accounts, and in place of what has the
    /// same name. One whose credential the account does not have is left out.
    ///
    /// Fails with [`Build`](outbound::CallErrorKind::Build) when a credential cannot stand in a
    /// header.
    pub(super) fn new(
        mut same: HeaderMap,
        templates: &[(HeaderName, TextTemplate)],
        credentials: &AccountCredentials,
        signing: AccountParts,
    ) -> Result<Self, ClientError> {
        let mut of_each_call = Vec::new();
        for (name, template) in templates {
            if template.names_call() {
                let of_account = template.of_account(credentials);
                of_each_call.extend(of_account.map(|filled| (name.clone(), filled)));
            } else if let Some(filled) = template.fill_header(credentials, "") {
                same.insert(name, filled.map_err(ClientError::build)?);
            }
        }
        let query = AccountQuery::default();
        Ok(Self { same, of_each_call, signing, query, proxy: None, cookies: None })
    }

    /// The same for an account whose requests go through a proxy, if there is one, and whose
    /// queries end so.
    pub(super) fn with(self, query: AccountQuery, proxy: Option<Arc<ProxyAddress>>) -> Self {
        Self { query, proxy, ..self }
    }

    /// The same for an account whose platform sets cookies: requests take them from this jar, and
    /// responses put them into it.
    #[must_use]
    pub fn with_cookies(self, jar: Arc<CookieJar>) -> Self {
        Self { cookies: Some(jar), ..self }
    }

    /// The names of the cookies that the account's own credentials bring.
    pub fn cookie_names(&self) -> Vec<Vec<u8>> {
        cookies::names(self.same.get(COOKIE))
    }

    /// Those of one call.
    pub(super) fn of_call(
        &self,
        call_id: &dyn fmt::Display,
        values: Option<&KeptValues>,
    ) -> Result<HeaderMap, ClientError> {
        let mut headers = self.same.clone();
        if self.of_each_call.is_empty() {
            return Ok(headers);
        }
        let (call_id, nothing) = (call_id.to_string(), AccountCredentials::default());
        for (name, template) in &self.of_each_call {
            // All credentials are in their places, so only a value can be absent.
            let filled = template.fill_header_with(&nothing, &call_id, values);
            let filled =
                filled.ok_or_else(|| ClientError::signing("a signing value is not there"))?;
            headers.insert(name, filled.map_err(ClientError::build)?);
        }
        Ok(headers)
    }
}

impl fmt::Debug for AccountHeaders {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AccountHeaders").finish_non_exhaustive()
    }
}
