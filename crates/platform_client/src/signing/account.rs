//! What a signature needs of an account, read once: credentials, and the id of the device that it
//! seems to be used on.

use outbound::ClientError;
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::digest::DigestAlgorithm;
use super::encoding::PartEncoding;
use crate::credentials::AccountCredentials;

/// Bytes of a UUID, and of the opaque id of an account.
const ID_BYTES: usize = 16;

/// What is read of an account.
#[derive(Clone)]
pub(super) enum AccountSource {
    /// A credential.
    Field(String),
    /// The credential, if the account has it; else an id derived from the account with this key.
    DeviceId { field: Option<String>, key: Zeroizing<String> },
}

impl AccountSource {
    /// Reads it. Fails where a credential is absent.
    pub(super) fn read(
        &self,
        credentials: &AccountCredentials,
    ) -> Result<Zeroizing<String>, ClientError> {
        match self {
            Self::Field(field) => {
                let value = credentials.get(field).ok_or_else(|| {
                    ClientError::build(format!("the signature needs the credential {field}"))
                })?;
                Ok(Zeroizing::new(value.to_owned()))
            }
            Self::DeviceId { field, key } => {
                let given = field.as_deref().and_then(|field| credentials.get(field));
                let id = given.map_or_else(|| device_id(key, credentials), str::to_owned);
                Ok(Zeroizing::new(id))
            }
        }
    }

    /// The credential that it reads.
    pub(super) fn field(&self) -> Option<&str> {
        match self {
            Self::Field(field) => Some(field),
            Self::DeviceId { field, .. } => field.as_deref(),
        }
    }
}

/// A UUID that is the same for an account as long as the key is.
fn device_id(key: &str, credentials: &AccountCredentials) -> String {
    let pieces = [b"device id\n", credentials.account().as_bytes()];
    let keyed = DigestAlgorithm::Sha256.keyed(key.as_bytes());
    let digest = keyed.map(|keyed| keyed.of(pieces.into_iter()));
    let bytes = digest.as_ref().map_or(&[][..], |digest| digest.as_bytes());
    let mut text = Vec::with_capacity(PartEncoding::Uuid.written_bytes(ID_BYTES));
    PartEncoding::Uuid.write(bytes, &mut text);
    // Digits and hyphens.
    String::from_utf8(text).unwrap_or_default()
}

/// What an account is called to others: always the same, and nothing about its customer can be told
/// from it.
pub(super) fn opaque_id(credentials: &AccountCredentials) -> String {
    let digest = Sha256::new().chain_update(b"account\n").chain_update(credentials.account());
    hex::encode(digest.finalize().get(..ID_BYTES).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(label: &str, json: &str) -> AccountCredentials {
        AccountCredentials::from_json(json.as_bytes()).unwrap().of_account(label)
    }

    fn device(key: &str, credentials: &AccountCredentials) -> String {
        let field = Some("device".to_owned());
        let source = AccountSource::DeviceId { field, key: Zeroizing::new(key.to_owned()) };
        source.read(credentials).unwrap().to_string()
    }

    #[test]
    fn a_device_id_is_a_uuid_of_its_account_and_key_alone() {
        let id = device("k", &account("c1/ada", r#"{"token":"a"}"#));

        assert_eq!(id, device("k", &account("c1/ada", r#"{"token":"b"}"#)));
        assert_ne!(id, device("k", &account("c2/ada", r#"{"token":"a"}"#)));
        assert_ne!(id, device("l", &account("c1/ada", r#"{"token":"a"}"#)));
        assert_eq!((id.len(), id.as_bytes()[14], id.matches('-').count()), (36, b'4', 4), "{id}");
    }

    #[test]
    fn an_account_may_bring_the_id_of_its_device() {
        assert_eq!(device("k", &account("c1/ada", r#"{"device":"mine"}"#)), "mine");
    }

    #[test]
    fn an_opaque_id_tells_accounts_apart_and_nothing_else() {
        let [one, other] = ["c1/ada", "c1/bob"].map(|label| opaque_id(&account(label, "{}")));

        assert_ne!(one, other);
        assert!(one.len() == 32 && !one.contains("ada"));
    }

    #[test]
    fn an_absent_credential_is_named_and_fails() {
        let failure = AccountSource::Field("user_id".to_owned()).read(&account("x", "{}"));

        let source = failure.unwrap_err().source.unwrap();
        assert_eq!(source.to_string(), "the signature needs the credential user_id");
    }
}
