//! Credentials of connected accounts, sealed for the place where they are kept.

use catalog::AuthValues;
use clients::platform::AccountCredentials;
use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use runtime::{Vault, VaultError};

/// Seals an account's credentials for their place.
pub async fn seal(
    vault: &Vault,
    (customer, platform, creator): (CustomerId, Platform, &CreatorId),
    auth: &AuthValues,
) -> Result<store::accounts::SealedCredentials, VaultError> {
    let place = place(customer, platform, creator);
    let (data_key, sealed) = vault.seal(customer, &place, &credentials(auth).to_json()).await?;
    let expires_at = auth.get("expires_at").and_then(|text| text.parse::<i64>().ok());
    let scopes = auth.get("scopes");
    Ok(store::accounts::SealedCredentials {
        sealed,
        data_key,
        scopes: scopes.map(|text| text.split_whitespace().map(str::to_owned).collect()),
        token_expires_at: expires_at.map(|s| Timestamp::from_unix_micros(0).plus_seconds(s)),
    })
}

/// Checked `auth` fields as the platform's client takes them.
pub fn credentials(auth: &AuthValues) -> AccountCredentials {
    let mut credentials = AccountCredentials::default();
    for (field, value) in auth {
        credentials.set(field, value.clone());
    }
    credentials
}

/// What tells an account from every other one as long as it is connected, whatever its credentials are.
pub fn label(customer: CustomerId, creator: &CreatorId) -> String {
    format!("{customer}|{}", creator.as_str())
}

/// The place that an account's credentials are sealed for.
pub fn place(customer: CustomerId, platform: Platform, creator: &CreatorId) -> String {
    format!("v1|{customer}|{platform}|{}|credentials", creator.as_str())
}
