//! Text with places for an account's credentials, such as `Bearer {token}`.

use bytes::Bytes;
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use zeroize::Zeroizing;

use super::credentials::AccountCredentials;
use super::signing::kept_values::KeptValues;

/// Checked text with places.
#[derive(Debug, Clone)]
pub(super) struct TextTemplate(Vec<TemplatePiece>);

#[derive(Debug, Clone)]
enum TemplatePiece {
    Text(String),
    Field(String),
    CallId,
    /// One of the values that change while the service runs.
    Value(String),
    /// A credential in its place.
    Filled(Zeroizing<String>),
}

impl TextTemplate {
    /// Reads a template. Names in braces are made of lower-case letters, digits and `_`; a member
    /// of an object follows the object's name behind a dot, as in `{extra.device-id}`. A brace
    /// cannot stand for itself.
    pub(super) fn parse(text: &str) -> Result<Self, &'static str> {
        const BRACES: &str = "has a brace without its pair; write {field}";
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or(BRACES)?;
            if before.contains('}') {
                return Err(BRACES);
            }
            if !before.is_empty() {
                pieces.push(TemplatePiece::Text(before.to_owned()));
            }
            pieces.push(named(name)?);
            rest = after;
        }
        if rest.contains('}') {
            return Err(BRACES);
        }
        if !rest.is_empty() {
            pieces.push(TemplatePiece::Text(rest.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The names of the credentials in it.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePiece::Field(field) => Some(field.as_str()),
            TemplatePiece::Text(_)
            | TemplatePiece::CallId
            | TemplatePiece::Value(_)
            | TemplatePiece::Filled(_) => None,
        })
    }

    /// The names of the signing values in it.
    pub(super) fn values(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|piece| match piece {
            TemplatePiece::Value(name) => Some(name.as_str()),
            TemplatePiece::Text(_)
            | TemplatePiece::CallId
            | TemplatePiece::Field(_)
            | TemplatePiece::Filled(_) => None,
        })
    }

    /// The name of its credential, where it is nothing but that.
    pub(super) fn only_field(&self) -> Option<&str> {
        match self.0.as_slice() {
            [TemplatePiece::Field(field)] => Some(field),
            _ => None,
        }
    }

    /// Its text, where it is nothing but that.
    pub(super) fn only_text(&self) -> Option<&str> {
        match self.0.as_slice() {
            [TemplatePiece::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether a credential or a signing value is part of it.
    pub(super) fn holds_secrets(&self) -> bool {
        self.0.iter().any(|piece| !matches!(piece, TemplatePiece::Text(_) | TemplatePiece::CallId))
    }

    /// Whether it is another text for each call.
    pub(super) fn names_call(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, TemplatePiece::CallId | TemplatePiece::Value(_)))
    }

    /// The same with the credentials in their places, or nothing when one is absent.
    pub(super) fn of_account(&self, credentials: &AccountCredentials) -> Option<Self> {
        let filled = self.0.iter().map(|piece| match piece {
            TemplatePiece::Field(field) => {
                Some(TemplatePiece::Filled(Zeroizing::new(credentials.get(field)?.to_owned())))
            }
            other => Some(other.clone()),
        });
        filled.collect::<Option<_>>().map(Self)
    }

    /// Fills the places of a header's value in, or nothing when a credential is absent. Fails when
    /// what comes out cannot stand in a header.
    pub(super) fn fill_header(
        &self,
        credentials: &AccountCredentials,
        call_id: &str,
    ) -> Option<Result<HeaderValue, InvalidHeaderValue>> {
        self.fill_header_with(credentials, call_id, None)
    }

    /// The same with these signing values.
    pub(super) fn fill_header_with(
        &self,
        credentials: &AccountCredentials,
        call_id: &str,
        values: Option<&KeptValues>,
    ) -> Option<Result<HeaderValue, InvalidHeaderValue>> {
        let mut bytes = 0;
        for piece in &self.0 {
            bytes += piece.value(credentials, call_id, values)?.len();
        }
        // One piece of memory that the value keeps, and that is wiped with it: nothing is left
        // behind of what it holds.
        let mut written = Zeroizing::new(Vec::with_capacity(bytes));
        for piece in &self.0 {
            written.extend_from_slice(piece.value(credentials, call_id, values)?.as_bytes());
        }
        let value = HeaderValue::from_maybe_shared(Bytes::from_owner(written));
        Some(value.map(|mut value| {
            value.set_sensitive(self.holds_secrets());
            value
        }))
    }

    /// Fills the places of a path in: whatever is not unreserved (RFC 3986) in a value is
    /// percent-encoded, so that a value is never more than one segment.
    pub(super) fn fill_path(
        &self,
        credentials: &AccountCredentials,
        call_id: &str,
    ) -> Option<Zeroizing<String>> {
        let mut bytes = 0;
        for piece in &self.0 {
            bytes += 3 * piece.value(credentials, call_id, None)?.len();
        }
        // Sized for the longest form, because a buffer that grows leaves copies of secrets behind
        // it.
        let mut written = Zeroizing::new(String::with_capacity(bytes));
        for piece in &self.0 {
            let value = piece.value(credentials, call_id, None)?;
            match piece {
                TemplatePiece::Text(_) => written.push_str(value),
                TemplatePiece::Field(_)
                | TemplatePiece::Filled(_)
                | TemplatePiece::Value(_)
                | TemplatePiece::CallId => {
                    push_encoded(&mut written, value);
                }
            }
        }
        Some(written)
    }

    /// All of it percent-encoded, for the value of a parameter; nothing when a credential is
    /// absent.
    pub(super) fn fill_encoded(
        &self,
        credentials: &AccountCredentials,
    ) -> Option<Zeroizing<String>> {
        let mut bytes = 0;
        for piece in &self.0 {
            bytes += 3 * piece.value(credentials, "", None)?.len();
        }
        let mut written = Zeroizing::new(String::with_capacity(bytes));
        for piece in &self.0 {
            push_encoded(&mut written, piece.value(credentials, "", None)?);
        }
        Some(written)
    }

    /// The same with `text` in every place, to check what stands around them.
    pub(super) fn filled_with(&self, text: &str) -> String {
        self.0
            .iter()
            .map(|piece| match piece {
                TemplatePiece::Text(fixed) => fixed.as_str(),
                TemplatePiece::Field(_)
                | TemplatePiece::Filled(_)
                | TemplatePiece::Value(_)
                | TemplatePiece::CallId => text,
            })
            .collect()
    }
}

impl TemplatePiece {
    /// What it stands for; nothing when a credential is absent.
    fn value<'a>(
        &'a self,
        credentials: &'a AccountCredentials,
        call_id: &'a str,
        values: Option<&'a KeptValues>,
    ) -> Option<&'a str> {
        match self {
            Self::Text(fixed) => Some(fixed),
            Self::Field(field) => credentials.get(field),
            Self::Filled(credential) => Some(credential),
            Self::CallId => Some(call_id),
            Self::Value(name) => values?.named(name),
        }
    }
}

/// What stands before the dot of a signing value.
const SIGNING_VALUES: &str = "signing";

fn named(name: &str) -> Result<TemplatePiece, &'static str> {
    let (field, member) = name.split_once('.').unzip();
    let field = field.unwrap_or(name);
    let is_name = !field.is_empty()
        && field.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_'));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let is_member = member.is_none_or(|member| !member.is_empty() && member.bytes().all(is_plain));
    match name {
        _ if field == SIGNING_VALUES && is_member => match member {
            Some(member) => Ok(TemplatePiece::Value(member.to_owned())),
            None => Err("names no signing value; write {signing.NAME}"),
        },
        "call_id" => Ok(TemplatePiece::CallId),
        name if is_name && is_member => Ok(TemplatePiece::Field(name.to_owned())),
        _ => Err(
            "names a field with other characters than a-z, 0-9 and _; write {field}, or {field.member} for \
                  a member of an object",
        ),
    }
}

/// The text as it stands in a path or a query.
pub(super) fn percent_encoded(text: &str) -> String {
    let mut written = String::with_capacity(text.len());
    push_encoded(&mut written, text);
    written
}

fn push_encoded(written: &mut String, value: &str) {
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            written.push(char::from(byte));
        } else {
            written.push('%');
            written.push_str(&hex::encode([byte]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials() -> AccountCredentials {
        AccountCredentials::from_json(br#"{"token":"t0","id":"a/../b\u00e9"}"#).unwrap()
    }

    #[test]
    fn places_are_filled_with_credentials_and_the_call() {
        let template = TextTemplate::parse("Bearer {token}; call={call_id}").unwrap();

        let filled = template.fill_header(&credentials(), "call_1").unwrap().unwrap();

        assert_eq!(filled, "Bearer t0; call=call_1");
        assert!(filled.is_sensitive());
        assert!(template.holds_secrets());
        assert!(!TextTemplate::parse("fixed {call_id}").unwrap().holds_secrets());
    }

    #[test]
    fn an_account_fills_its_places_once_and_each_call_its_own() {
        let template = TextTemplate::parse("Bearer {token}; call={call_id}").unwrap();

        let of_account = template.of_account(&credentials()).unwrap();
        let filled =
            of_account.fill_header(&AccountCredentials::default(), "call_2").unwrap().unwrap();

        assert!(of_account.names_call() && of_account.holds_secrets());
        assert_eq!(filled, "Bearer t0; call=call_2");
        assert!(filled.is_sensitive());
        assert!(template.of_account(&AccountCredentials::default()).is_none());
        assert!(!TextTemplate::parse("{token}").unwrap().names_call());
    }

    #[test]
    fn a_member_of_an_object_is_named_behind_a_dot() {
        let credentials = AccountCredentials::from_json(br#"{"extra.bc-Id":"b1"}"#).unwrap();
        let template = TextTemplate::parse("id={extra.bc-Id}; {call_id}").unwrap();

        let filled = template.fill_header(&credentials, "c").unwrap().unwrap();

        assert_eq!(filled, "id=b1; c");
        assert_eq!(template.fields().collect::<Vec<_>>(), ["extra.bc-Id"]);
    }

    #[test]
    fn nothing_is_written_when_a_credential_is_absent() {
        assert!(
            TextTemplate::parse("{user_agent}").unwrap().fill_header(&credentials(), "").is_none()
        );
    }

    #[test]
    fn a_credential_that_cannot_stand_in_a_header_is_told() {
        let credentials = AccountCredentials::from_json(br#"{"token":"a\nb"}"#).unwrap();
        let template = TextTemplate::parse("{token}").unwrap();

        assert!(template.fill_header(&credentials, "").unwrap().is_err());
    }

    #[test]
    fn a_value_in_a_path_stays_one_segment() {
        let template = TextTemplate::parse("user/{id}").unwrap();

        let filled = template.fill_path(&credentials(), "").unwrap();

        assert_eq!(*filled, "user/a%2f..%2fb%c3%a9");
    }

    #[test]
    fn a_template_that_cannot_be_read_is_refused() {
        for text in [
            "{token", "token}", "{}", "{Token}", "{a{b}}", "a}b{c}", "{to ken}", "{a.}", "{.a}",
            "{a.b.c}", "{a.b c}",
        ] {
            assert!(TextTemplate::parse(text).is_err(), "{text}");
        }
    }
}
