//! A person on one of our pages: a session that may send forms, because each form carries a token
//! that only our pages can write.

use domain::token::SecretToken;
use hmac::{Hmac, KeyInit, Mac};
use http::request::Parts;
use sha2::Sha256;

use super::{SignedIn, holder_of, session_token};
use crate::WebState;
use crate::error::ApiError;

/// A person with a session, on a page of ours.
pub struct PageVisitor {
    /// Whose session it is.
    pub signed_in: SignedIn,
    /// What the tokens of the person's forms are made from.
    pub forms: FormSecret,
}

/// Makes and checks the tokens of forms, and seals what a page tells the next one. It is made from
/// the session's own secret, of which only a hash is stored, so nobody else can make a token, and
/// tokens end with their session.
#[derive(Clone)]
pub struct FormSecret(Hmac<Sha256>);

impl PageVisitor {
    /// Identifies the visitor by the session. A change must come from a page of ours.
    ///
    /// # Errors
    ///
    /// No session, one that has ended, or a request that another site may have caused.
    pub async fn find(web: &WebState, parts: &Parts) -> Result<Self, ApiError> {
        let token = session_token(web, parts)?;
        let signed_in = holder_of(web, parts, token.hash()).await?;
        Ok(Self { signed_in, forms: FormSecret::of(&token)? })
    }
}

impl FormSecret {
    /// The secret of a session.
    fn of(token: &SecretToken) -> Result<Self, ApiError> {
        let made = Hmac::new_from_slice(token.expose().as_bytes());
        made.map(Self).map_err(|error| {
            ApiError::Failure(failures::Failure::Internal(format!("a form's secret: {error}")))
        })
    }

    /// The token for `text`, in lower-case hex: for a form, the path that it is sent to.
    pub fn token(&self, text: &str) -> String {
        hex::encode(self.0.clone().chain_update(text.as_bytes()).finalize().into_bytes())
    }

    /// Whether this is the token for `text`. Takes the same time whatever differs.
    pub fn is_token(&self, text: &str, token: &str) -> bool {
        let Ok(bytes) = hex::decode(token) else { return false };
        self.0.clone().chain_update(text.as_bytes()).verify_slice(&bytes).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(seed: u8) -> FormSecret {
        FormSecret::of(&SecretToken::new([seed; 32])).unwrap()
    }

    #[test]
    fn a_token_is_good_for_its_form_and_its_session_alone() {
        let token = secret(1).token("/console/keys");

        assert!(secret(1).is_token("/console/keys", &token));
        assert!(!secret(1).is_token("/console/keys/x/revoke", &token));
        assert!(!secret(2).is_token("/console/keys", &token));
        assert!(!secret(1).is_token("/console/keys", ""));
        assert!(!secret(1).is_token("/console/keys", &token[..32]));
    }
}
