//! Credentials and cookies of connected accounts, sealed for their own row.
//!
//! What is sealed is bound to the stored name of its platform, so it still opens when the
//! configuration gives the platform another name. Earlier versions sealed with the wire name, which
//! opens too as long as the platform has that name.

use catalog::AuthValues;
use domain::account::CreatorId;
use domain::id::CustomerId;
use domain::platform::Platform;
use domain::time::Timestamp;
use platform_client::{AccountCredentials, CookieSet};
use runtime::sealing::DataKey;
use runtime::{SealedValue, Vault, VaultError};
use store::account_cookies::StoredCookies;

/// The account that something is sealed for: its customer, its platform and its id.
pub type SealOwner<'a> = (CustomerId, Platform, &'a CreatorId);

/// What was sealed, opened.
pub struct OpenedSeal<T> {
    /// The value.
    pub value: T,
    /// Whether an earlier version sealed it with the wire name of a renamed platform. It cannot be
    /// opened any more once that name changes, so it must be sealed again.
    pub is_under_wire_name: bool,
}

/// Seals an account's credentials for its own row.
pub async fn seal(
    vault: &Vault,
    owner: SealOwner<'_>,
    auth: &AuthValues,
) -> Result<store::accounts::SealedCredentials, VaultError> {
    let SealedValue { data_key, sealed } =
        vault.seal(owner.0, &place(owner), &credentials(auth).to_json()).await?;
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
pub fn cookie_place((customer, platform, creator): SealOwner<'_>, jar: i64) -> String {
    cookie_place_under(platform.stored_name(), customer, creator, jar)
}

/// Opens the stored cookies of an account.
pub async fn open_cookies(
    vault: &Vault,
    (customer, platform, creator): SealOwner<'_>,
    stored: &StoredCookies,
) -> Result<OpenedSeal<CookieSet>, VaultError> {
    let key = vault.find(stored.data_key).await?;
    let open = |name: &str| {
        let place = cookie_place_under(name, customer, creator, stored.jar.id);
        CookieSet::from_json(&key.open(&stored.sealed, &place).ok()?).ok()
    };
    open_under_names(platform, open).ok_or(VaultError::Sealing)
}

/// Opens the stored credentials of an account; `None` if they do not belong to it and to this key.
pub fn open(
    key: &DataKey,
    (customer, platform, creator): SealOwner<'_>,
    sealed: &[u8],
) -> Option<OpenedSeal<AccountCredentials>> {
    open_under_names(platform, |name| {
        let place = place_under(name, customer, creator);
        AccountCredentials::from_json(&key.open(sealed, &place).ok()?).ok()
    })
}

/// Tries the stored name, and then the wire name if it is another one.
fn open_under_names<T>(
    platform: Platform,
    open: impl Fn(&str) -> Option<T>,
) -> Option<OpenedSeal<T>> {
    if let Some(value) = open(platform.stored_name()) {
        return Some(OpenedSeal { value, is_under_wire_name: false });
    }
    if !is_renamed(platform) {
        return None;
    }
    open(platform.as_str()).map(|value| OpenedSeal { value, is_under_wire_name: true })
}

/// Whether the configuration gives the platform another name than the stored one.
pub fn is_renamed(platform: Platform) -> bool {
    platform.as_str() != platform.stored_name()
}

/// Identifies an account while it is connected, whatever its credentials are.
pub fn label(customer: CustomerId, creator: &CreatorId) -> String {
    format!("{customer}|{}", creator.as_str())
}

/// The text that binds sealed credentials to their account.
pub fn place((customer, platform, creator): SealOwner<'_>) -> String {
    place_under(platform.stored_name(), customer, creator)
}

fn place_under(name: &str, customer: CustomerId, creator: &CreatorId) -> String {
    format!("v1|{customer}|{name}|{}|credentials", creator.as_str())
}

fn cookie_place_under(name: &str, customer: CustomerId, creator: &CreatorId, jar: i64) -> String {
    format!("v1|{customer}|{name}|{}|cookies|{jar}", creator.as_str())
}
