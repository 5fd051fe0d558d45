//! Parameters that a platform wants in the query of each call, such as a key: static text or
//! credentials.
//!
//! They stand behind the query of the caller, who cannot give them too. Nothing but the request
//! shows them: what a platform repeats of them is taken out of references, and secrets are hidden
//! in all headers of its responses.

use std::cmp::Reverse;
use std::fmt;

use http::header::{CONTENT_LOCATION, Entry, LINK, LOCATION};
use http::{HeaderMap, HeaderValue};
use outbound::{ClientError, SettingsProblem};
use zeroize::Zeroizing;

use super::credentials::AccountCredentials;
use super::path;
use super::response_headers::PLATFORM_LOCATION;
use super::template::{TextTemplate, percent_encoded};

/// The checked parameters of a platform.
#[derive(Debug, Clone, Default)]
pub(super) struct QueryFields(Vec<QueryField>);

#[derive(Debug, Clone)]
struct QueryField {
    name: String,
    value: TextTemplate,
}

/// The parameters of one account, ready to stand behind a query.
#[derive(Clone, Default)]
pub(super) struct AccountQuery {
    text: Zeroizing<String>,
    /// The secrets among their values, in each of the ways in which a platform may write them.
    secrets: Vec<Zeroizing<String>>,
}

/// The shortest credential that is hidden wherever it stands: a shorter one is part of too much.
const CREDENTIAL_BYTES_MIN: usize = 4;
/// The same for text of the operator: a shorter one is a version or a format rather than a key.
const OPERATORS_TEXT_BYTES_MIN: usize = 12;
/// What stands in place of a secret.
const HIDDEN: &[u8] = b"***";

impl QueryField {
    /// The credentials in it; its whole text if it names none.
    fn collect_secrets(
        &self,
        credentials: &AccountCredentials,
        secrets: &mut Vec<Zeroizing<String>>,
    ) {
        let of_account = self.value.fields().filter_map(|field| credentials.get(field));
        let of_account = of_account.filter(|secret| secret.len() >= CREDENTIAL_BYTES_MIN);
        let text = self.value.only_text().filter(|text| text.len() >= OPERATORS_TEXT_BYTES_MIN);
        for secret in of_account.chain(text) {
            for written in spellings(secret) {
                if !secrets.contains(&written) {
                    secrets.push(written);
                }
            }
        }
    }
}

/// A secret as it is, encoded for a query in capital and in small letters, and encoded again inside
/// another address.
fn spellings(secret: &str) -> Vec<Zeroizing<String>> {
    let small = Zeroizing::new(percent_encoded(secret));
    let capital = Zeroizing::new(with_capital_escapes(&small));
    let form = Zeroizing::new(encoded(secret));
    let [small_twice, capital_twice] =
        [&small, &capital].map(|once| Zeroizing::new(percent_encoded(once)));
    vec![Zeroizing::new(secret.to_owned()), small, capital, form, small_twice, capital_twice]
}

impl QueryFields {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(settings: &[(String, String)], problems: &mut Vec<SettingsProblem>) -> Self {
        let mut fields: Vec<QueryField> = Vec::new();
        for (index, (name, value)) in settings.iter().enumerate() {
            let key = |what: &str| format!("query[{index}].{what}");
            if name.is_empty() || name.chars().any(char::is_control) {
                problems.push(SettingsProblem::new(
                    key("name"),
                    "is required, without control characters",
                ));
            } else if fields.iter().any(|other| other.name == *name) {
                problems.push(SettingsProblem::new(key("name"), "is given twice"));
            }
            match TextTemplate::parse(value) {
                Ok(value) if value.names_call() => {
                    let message = "must be text and credentials: a query names neither call_id nor signing values";
                    problems.push(SettingsProblem::new(key("value"), message));
                }
                Ok(value) => fields.push(QueryField { name: name.clone(), value }),
                Err(message) => problems.push(SettingsProblem::new(key("value"), message)),
            }
        }
        Self(fields)
    }

    /// The parameters of an account. One whose credential the account does not have is left out.
    pub(super) fn of_account(
        &self,
        credentials: &AccountCredentials,
    ) -> Result<AccountQuery, ClientError> {
        let (mut parameters, mut secrets) = (Vec::new(), Vec::new());
        for field in &self.0 {
            field.collect_secrets(credentials, &mut secrets);
            if let Some(value) = field.value.fill_encoded(credentials) {
                parameters.push((encoded(&field.name), value));
            }
        }
        let bytes = parameters.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        let mut query = Zeroizing::new(String::with_capacity(bytes));
        for (index, (name, value)) in parameters.iter().enumerate() {
            query.push_str(if index == 0 { "" } else { "&" });
            query.push_str(name);
            query.push('=');
            query.push_str(value);
        }
        path::check_query(&query).map_err(ClientError::build)?;
        // Otherwise the end of a secret that begins with another one would stay.
        secrets.sort_by_key(|secret| Reverse(secret.len()));
        Ok(AccountQuery { text: query, secrets })
    }

    /// The parameter of a caller's query that is not the caller's to give.
    pub(super) fn given_in(&self, query: &str) -> Option<&str> {
        if self.0.is_empty() {
            return None;
        }
        let names = form_urlencoded::parse(query.as_bytes()).map(|(name, _)| name);
        let mut given = names.filter_map(|name| self.0.iter().find(|field| field.name == name));
        given.next().map(|field| field.name.as_str())
    }

    /// The credentials that they name, with the places of the parameters.
    pub(super) fn fields(&self) -> impl Iterator<Item = (String, &str)> {
        self.0.iter().enumerate().flat_map(|(index, field)| {
            field.value.fields().map(move |name| (format!("query[{index}].value"), name))
        })
    }

    /// A reference of the platform without them.
    pub(super) fn taken_out_of(&self, reference: &str) -> Option<String> {
        let (address, query) = reference.split_once('?').filter(|_| !self.0.is_empty())?;
        let (query, fragment) = match query.split_once('#') {
            Some((query, fragment)) => (query, Some(fragment)),
            None => (query, None),
        };
        let is_callers = |parameter: &&str| self.given_in(parameter).is_none();
        let kept: Vec<&str> = query.split('&').filter(is_callers).collect();
        if kept.len() == query.split('&').count() {
            return None;
        }
        let mut text = address.to_owned();
        if !kept.is_empty() {
            text = format!("{text}?{}", kept.join("&"));
        }
        if let Some(fragment) = fragment {
            text = format!("{text}#{fragment}");
        }
        Some(text)
    }

    /// The headers of a response, whose references have none of the parameters.
    pub(super) fn taken_out_of_references(&self, mut headers: HeaderMap) -> HeaderMap {
        if self.0.is_empty() {
            return headers;
        }
        for name in [LOCATION, CONTENT_LOCATION, PLATFORM_LOCATION, LINK] {
            if let Entry::Occupied(mut entry) = headers.entry(&name) {
                for value in entry.iter_mut() {
                    let text = value.to_str().ok();
                    let rewritten = text.and_then(|text| match name {
                        LINK => self.taken_out_of_targets(text),
                        _ => self.taken_out_of(text),
                    });
                    if let Some(Ok(rewritten)) = rewritten.map(HeaderValue::try_from) {
                        *value = rewritten;
                    }
                }
            }
        }
        headers
    }

    /// A `Link` header (RFC 8288): references between angle brackets, with parameters of their own
    /// that may be quoted.
    fn taken_out_of_targets(&self, text: &str) -> Option<String> {
        let (mut written, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(start) = next_target(rest) {
            let (before, after) = rest.split_at(start);
            let (target, after) = after.split_once('>')?;
            written.push_str(before);
            written.push_str(&self.taken_out_of(target).unwrap_or_else(|| target.to_owned()));
            written.push('>');
            rest = after;
        }
        written.push_str(rest);
        Some(written)
    }
}

/// Where the next reference of a `Link` header begins, behind its bracket.
fn next_target(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (place, letter) in text.char_indices() {
        match letter {
            _ if is_escaped => is_escaped = false,
            '\\' if is_quoted => is_escaped = true,
            '"' => is_quoted = !is_quoted,
            '<' if !is_quoted => return Some(place + 1),
            _ => {}
        }
    }
    None
}

impl AccountQuery {
    /// The query of a caller with the parameters behind it.
    pub(super) fn behind(&self, query: &str) -> Zeroizing<String> {
        let between = if query.is_empty() || self.text.is_empty() { "" } else { "&" };
        let mut whole = Zeroizing::new(String::with_capacity(query.len() + 1 + self.text.len()));
        whole.push_str(query);
        whole.push_str(between);
        whole.push_str(&self.text);
        whole
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The headers of a response with `***` in place of each secret.
    pub(super) fn hidden_in(&self, mut headers: HeaderMap) -> HeaderMap {
        if self.secrets.is_empty() {
            return headers;
        }
        for value in headers.values_mut() {
            let hidden = self.hidden_in_bytes(value.as_bytes());
            if let Some(Ok(hidden)) = hidden.as_deref().map(HeaderValue::from_bytes) {
                *value = hidden;
            }
        }
        headers
    }

    fn hidden_in_bytes(&self, value: &[u8]) -> Option<Vec<u8>> {
        let mut hidden = None::<Vec<u8>>;
        for secret in &self.secrets {
            let text = hidden.as_deref().unwrap_or(value);
            if find(text, secret.as_bytes()).is_some() {
                hidden = Some(replaced(text, secret.as_bytes()));
            }
        }
        hidden
    }
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn replaced(mut text: &[u8], secret: &[u8]) -> Vec<u8> {
    let mut written = Vec::with_capacity(text.len());
    while let Some(place) = find(text, secret) {
        let (before, after) = text.split_at(place);
        written.extend_from_slice(before);
        written.extend_from_slice(HIDDEN);
        text = after.get(secret.len()..).unwrap_or_default();
    }
    written.extend_from_slice(text);
    written
}

/// The digits of its escapes in capital letters.
fn with_capital_escapes(encoded: &str) -> String {
    let mut escaped = 0_usize;
    let capital = encoded.chars().map(|letter| {
        let is_digit = escaped > 0;
        escaped = if letter == '%' { 2 } else { escaped.saturating_sub(1) };
        if is_digit { letter.to_ascii_uppercase() } else { letter }
    });
    capital.collect()
}

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

impl fmt::Debug for AccountQuery {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AccountQuery")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(of: &[(&str, &str)]) -> QueryFields {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = of.iter().map(owned).collect();
        QueryFields::new(&settings, &mut Vec::new())
    }

    #[test]
    fn parameters_stand_encoded_behind_the_callers() {
        let fields = fields(&[("api key", "{token}"), ("v", "2"), ("device", "{absent}")]);
        let json = br#"{"token":"a&b=c \u00e9"}"#;
        let account = fields.of_account(&AccountCredentials::from_json(json).unwrap()).unwrap();

        assert_eq!(*account.behind("x=1"), "x=1&api+key=a%26b%3dc%20%c3%a9&v=2");
        assert_eq!(*account.behind(""), "api+key=a%26b%3dc%20%c3%a9&v=2");
        assert_eq!(*AccountQuery::default().behind("x=1"), "x=1");
    }

    #[test]
    fn a_caller_cannot_give_them_however_they_are_written() {
        let fields = fields(&[("key", "{token}")]);

        for query in ["key=1", "a=1&key", "k%65y=1", "a&key=1&key=2"] {
            assert_eq!(fields.given_in(query), Some("key"), "{query}");
        }
        for query in ["", "keys=1", "a=key", "KEY=1"] {
            assert_eq!(fields.given_in(query), None, "{query}");
        }
    }

    #[test]
    fn a_platform_that_repeats_them_does_not_tell_the_caller() {
        let fields = fields(&[("key", "{token}")]);
        let link = "<https://p/a?page=2&key=hush>; title=\"<b?key=1>\"; rel=next, </b?key=hush>";
        let shorter = "<https://p/a?page=2>; title=\"<b?key=1>\"; rel=next, </b>";
        for (name, told, passed) in [
            ("location", "/a?key=hush", "/a"),
            ("location", "/a?x=1&k%65y=hush&y=2#key=1", "/a?x=1&y=2#key=1"),
            ("link", link, shorter),
            ("link", "text without one", "text without one"),
            ("etag", "\"a?key=v1\"", "\"a?key=v1\""),
            (
                "content-disposition",
                "filename=\"r?key=1.csv\"; x=1",
                "filename=\"r?key=1.csv\"; x=1",
            ),
        ] {
            let headers = header(name, told);
            assert_eq!(fields.taken_out_of_references(headers).get(name).unwrap(), passed);
        }
    }

    fn header(name: &'static str, value: &'static str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_static(value));
        headers
    }

    #[test]
    fn a_secret_is_hidden_wherever_a_platform_writes_it() {
        let fields = fields(&[("key", "k-{token}"), ("app", "long-operators-key"), ("v", "2026")]);
        let json = br#"{"token":"hu/sh=1","short":"abc"}"#;
        let account = fields.of_account(&AccountCredentials::from_json(json).unwrap()).unwrap();

        for (told, passed) in [
            ("/login?next=/me?key=k-hu/sh=1", "/login?next=/me?key=k-***"),
            (
                "/login?next=%2Fme%3Fkey%3Dk-hu%2Fsh%3D1%26a%3D1",
                "/login?next=%2Fme%3Fkey%3Dk-***%26a%3D1",
            ),
            (
                "/login?next=%252fme%253fkey%253dk-hu%252fsh%253d1",
                "/login?next=%252fme%253fkey%253dk-***",
            ),
            (
                "/login?next=%252Fme%253Fkey%253Dk-hu%252Fsh%253D1",
                "/login?next=%252Fme%253Fkey%253Dk-***",
            ),
            ("/x?a=1;key=k-hu%2fsh%3d1#key=hu/sh=1", "/x?a=1;key=k-***#key=***"),
            ("{\"next\":\"/l?page=2&app=long-operators-key\"}", "{\"next\":\"/l?page=2&app=***\"}"),
            ("Fri, 13 Nov 2026 00:00:00 GMT; abc", "Fri, 13 Nov 2026 00:00:00 GMT; abc"),
        ] {
            let hidden = account.hidden_in(header("x-any", told));
            assert_eq!(hidden.get("x-any").unwrap(), passed);
        }
    }

    #[test]
    fn of_a_secret_that_begins_with_another_one_nothing_stays() {
        let fields = fields(&[("user", "{user}"), ("key", "{key}")]);
        let json = br#"{"user":"ada1","key":"ada1-secret"}"#;
        let account = fields.of_account(&AccountCredentials::from_json(json).unwrap()).unwrap();

        let hidden = account.hidden_in(header("x-any", "user=ada1&key=ada1-secret"));

        assert_eq!(hidden.get("x-any").unwrap(), "user=***&key=***");
    }

    #[test]
    fn a_parameter_that_cannot_be_sent_is_a_problem_of_its_key() {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let settings =
            [("", "1"), ("a", "{b"), ("c", "{call_id}"), ("d", "1"), ("d", "2")].map(owned);
        let mut problems = Vec::new();
        drop(QueryFields::new(&settings, &mut problems));

        let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
        assert_eq!(keys, ["query[0].name", "query[1].value", "query[2].value", "query[4].name"]);
    }
}
