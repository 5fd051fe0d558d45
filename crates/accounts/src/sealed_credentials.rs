//! Credentials and cookies of connected accounts, sealed for their own row.

use catalog::AuthValues;
use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use platform_client::{AccountCredentials, CookieSet};
use runtime::{SealedValue, Vault, VaultError};
use store::account_cookies::StoredCookies;

/// Seals an account's credentials for its own row.
pub async fn seal(
    vault: &Vault,
    (customer, platform, creator): (CustomerId, Platform, &CreatorId),
    auth: &AuthValues,
) -> Result<store::accounts::SealedCredentials, VaultError> {
    let place = place(customer, platform, creator);
    let SealedValue { data_key, sealed } =
        vault.seal(customer, &place, &credentials(auth).to_json()).await?;
    let expires_at = auth.get("expires_at").and_then(|text| text.parse::<i64>().ok());
    let scopes = auth.get("scopes");
    Ok(store::accounts::SealedCredentials {
        sealed,
        data_key,
        scopes: scopes.map(|text| text.split_whitespace().map(str::to_owned).collect()),
        token_expires_at: expires_at.map(|s| Timestamp::from_unix_micros(0).plus_seconds(s)),
    })
}

/// Checked `auth` fields, in the form that the platform's client takes.
pub fn credentials(auth: &AuthValues) -> AccountCredentials {
    let mut credentials = AccountCredentials::default();
    for (field, value) in auth {
        credentials.set(field, value.clone());
    }
    credentials
}

/// The text that binds sealed cookies to their account and jar.
pub fn cookie_place(
    customer: CustomerId,
    platform: Platform,
    creator: &CreatorId,
    jar: i64,
) -> String {
    format!("v1|{customer}|{platform}|{}|cookies|{jar}", creator.as_str())
}

/// Opens the stored cookies of an account.
pub async fn open_cookies(
    vault: &Vault,
    (customer, platform, creator): (CustomerId, Platform, &CreatorId),
    stored: &StoredCookies,
) -> Result<CookieSet, VaultError> {
    let key = vault.find(stored.data_key).await?;
    let place = cookie_place(customer, platform, creator, stored.jar.id);
    let plain = key.open(&stored.sealed, &place).map_err(|_| VaultError::Sealing)?;
    CookieSet::from_json(&plain).map_err(|_| VaultError::Sealing)
}

/// Identifies an account while it is connected, whatever its credentials are.
pub fn label(customer: CustomerId, creator: &CreatorId) -> String {
    format!("{customer}|{}", creator.as_str())
}

/// The text that binds sealed credentials to their account.
pub fn place(customer: CustomerId, platform: Platform, creator: &CreatorId) -> String {
    format!("v1|{customer}|{platform}|{}|credentials", creator.as_str())
}
