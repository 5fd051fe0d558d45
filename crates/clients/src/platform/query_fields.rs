//! Parameters that a platform wants in the query of each call, such as a key: static text or
//! credentials.
//!
//! They stand behind the query of the caller, who cannot give them too; nothing but the request
//! shows them.

use std::fmt;

use http::HeaderMap;
use zeroize::Zeroizing;

use super::credentials::AccountCredentials;
use super::path;
use super::settings::SettingsProblem;
use super::template::TextTemplate;
use crate::error::ClientError;

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
pub(super) struct AccountQuery(Zeroizing<String>);

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
        let mut parameters = Vec::new();
        for field in &self.0 {
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
        Ok(AccountQuery(query))
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

    /// The headers of a response without what they repeat of the parameters.
    pub(super) fn hidden_in(&self, headers: HeaderMap) -> HeaderMap {
        if self.0.is_empty() {
            return headers;
        }
        let mut hidden = HeaderMap::with_capacity(headers.len());
        for (name, value) in &headers {
            let rewritten = value.to_str().ok().and_then(|text| self.hidden_in_text(text));
            let value = match rewritten.map(http::HeaderValue::try_from) {
                Some(Ok(rewritten)) => rewritten,
                Some(Err(_)) | None => value.clone(),
            };
            hidden.append(name, value);
        }
        hidden
    }

    /// A header may hold several references, between angle brackets.
    fn hidden_in_text(&self, text: &str) -> Option<String> {
        let is_changed = text.contains('?');
        let pieces: Vec<String> = text
            .split_inclusive(['<', '>'])
            .map(|piece| {
                let (reference, end) = match piece.strip_suffix('>') {
                    Some(reference) => (reference, ">"),
                    None => (piece, ""),
                };
                let rest = self.taken_out_of(reference).unwrap_or_else(|| reference.to_owned());
                format!("{rest}{end}")
            })
            .collect();
        is_changed.then(|| pieces.concat())
    }
}

impl AccountQuery {
    /// The query of a caller with the parameters behind it.
    pub(super) fn behind(&self, query: &str) -> Zeroizing<String> {
        let between = if query.is_empty() || self.0.is_empty() { "" } else { "&" };
        let mut whole = Zeroizing::new(String::with_capacity(query.len() + 1 + self.0.len()));
        whole.push_str(query);
        whole.push_str(between);
        whole.push_str(&self.0);
        whole
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
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
        for (told, passed) in [
            ("/a?key=hush", "/a"),
            ("/a?x=1&k%65y=hush&y=2#key=1", "/a?x=1&y=2#key=1"),
            (
                "<https://p/a?page=2&key=hush>; rel=\"next\", </b?key=hush>",
                "<https://p/a?page=2>; rel=\"next\", </b>",
            ),
            ("text without one", "text without one"),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert("link", http::HeaderValue::from_static(told));
            assert_eq!(fields.hidden_in(headers).get("link").unwrap(), passed);
        }
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
