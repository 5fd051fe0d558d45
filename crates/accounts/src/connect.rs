//! Connecting an account: the platform confirms the credentials, then they are sealed and stored.

use std::sync::Arc;

use catalog::AuthValues;
use domain::account::CreatorId;
use domain::field_error::FieldErrorKind;
use domain::id::CustomerId;
use domain::platform::Platform;
use failures::AccountProblem;
use failures::Failure;
use failures::FieldProblem;
use platform_client::{
    CallErrorKind, ClientError, CookieJar, CredentialVerdict, PresentedAccount, SigningInput,
    verify,
};
use runtime::audit::{self, AuditRecord};
use serde_json::{Map, Value, json};
use store::account_cookies::NewCookies;
use store::accounts::{Account, ConnectionOutcome, NewAccount};
use store::authority::ChangeAuthority;
use store::connections::{self, ConnectionRefusal, ConnectionRequest};

use crate::AccountsState;
use crate::connected_cookies::{self, ConfirmedAccount};
use crate::platform_health;
use crate::sealed_credentials;

/// An account to be connected.
pub struct AccountImport {
    /// The customer who will own it.
    pub customer: CustomerId,
    /// The key or session that asks for it.
    pub authority: ChangeAuthority,
    /// The same, as the actor in the audit list.
    pub actor: String,
    /// The id that the customer chose.
    pub creator: CreatorId,
    /// The platform of the account.
    pub platform: Platform,
    /// The platform's `auth` fields, unchecked.
    pub auth: Map<String, Value>,
    /// Whether it may replace another account of the platform that is connected under this id.
    pub replaces_identity: bool,
}

/// A connected account, and whether it is new.
pub struct ConnectedAccount {
    /// The account.
    pub account: Account,
    /// Whether it was not connected before.
    pub is_new: bool,
}

/// Verifies the account at its platform and stores it, or replaces its credentials. Whether the
/// caller may connect this id is checked before the platform is called, and again in the
/// transaction that stores the account.
pub async fn connect(
    accounts: &AccountsState,
    import: AccountImport,
) -> Result<ConnectedAccount, Failure> {
    let now = accounts.clock.now();
    let request = ConnectionRequest {
        customer: import.customer,
        authority: import.authority,
        creator_id: &import.creator,
        platform: import.platform,
        at: now,
    };
    if let Some(refusal) = connections::refusal(&accounts.store, &request).await? {
        return Err(refused(&import, None, refusal));
    }
    let catalog = accounts.catalog.platform(import.platform);
    let auth = catalog.check_auth(&import.auth).map_err(|problems| {
        Failure::Invalid(problems.into_iter().map(FieldProblem::from).collect())
    })?;
    let confirmed = confirm(accounts, &import, &auth).await?;
    let (is_new, joined_list) = store(accounts, &import, &auth, &confirmed).await?;
    if joined_list {
        accounts.cached.forget_keys_of(import.customer);
    }
    accounts.cached.forget_account(import.customer, &import.creator);
    let stored = store::accounts::find(&accounts.store, import.customer, &import.creator).await?;
    Ok(ConnectedAccount { account: stored.ok_or(Failure::AccountNotFound)?, is_new })
}

/// How often the account is stored anew because its cookies were changed meanwhile.
const TRIES_MAX: u32 = 5;

/// Stores the account; returns whether it is new, and whether it joined the list of its key.
async fn store(
    accounts: &AccountsState,
    import: &AccountImport,
    auth: &AuthValues,
    confirmed: &ConfirmedIdentity,
) -> Result<(bool, bool), Failure> {
    for _ in 0..TRIES_MAX {
        let new = verified(accounts, import, auth, confirmed).await?;
        match store::accounts::connect(&accounts.store, &new).await? {
            ConnectionOutcome::Connected { created, joined_list, .. } => {
                return Ok((created, joined_list));
            }
            ConnectionOutcome::Refused(refusal) => {
                return Err(refused(import, Some(&new.platform_account_id), refusal));
            }
            ConnectionOutcome::CookiesChanged => {}
        }
    }
    Err(Failure::Overloaded)
}

/// The row of an account that the platform has confirmed.
async fn verified(
    accounts: &AccountsState,
    import: &AccountImport,
    auth: &AuthValues,
    confirmed: &ConfirmedIdentity,
) -> Result<NewAccount, Failure> {
    let AccountImport { customer, platform, creator, .. } = import;
    let credentials =
        sealed_credentials::seal(&accounts.vault, (*customer, *platform, creator), auth).await?;
    let platform_account_id = confirmed.platform_account_id.clone().unwrap_or_default();
    let cookies = cookies(accounts, import, auth, &platform_account_id, confirmed).await?;
    let record = AuditRecord {
        customer: *customer,
        actor: import.actor.clone(),
        action: audit::ACCOUNT_CONNECTED,
        details: json!({"creator_id": creator, "platform": platform}),
    };
    Ok(NewAccount {
        customer: *customer,
        authority: import.authority,
        creator_id: creator.clone(),
        platform: *platform,
        platform_account_id,
        replaces_identity: import.replaces_identity,
        credentials,
        cookies,
        at: accounts.clock.now(),
        allowances: Arc::clone(&accounts.allowances),
        entry: record.now(&accounts.clock, &accounts.random),
    })
}

/// The cookies to be stored with the account, where its platform sets some.
async fn cookies(
    accounts: &AccountsState,
    import: &AccountImport,
    auth: &AuthValues,
    platform_account_id: &str,
    confirmed: &ConfirmedIdentity,
) -> Result<Option<NewCookies>, Failure> {
    let Some(received) = &confirmed.cookies else { return Ok(None) };
    let target = accounts.target(import.platform)?;
    let headers = target
        .headers_of(&sealed_credentials::credentials(auth))
        .map_err(|error| Failure::Internal(error.to_string()))?;
    let account = ConfirmedAccount {
        customer: import.customer,
        platform: import.platform,
        creator: &import.creator,
        platform_account_id,
        headers: &headers,
    };
    connected_cookies::of(accounts, account, &received.all()).await.map(Some)
}

/// What the platform said of the account.
struct ConfirmedIdentity {
    platform_account_id: Option<String>,
    /// The cookies of its response, where they are kept.
    cookies: Option<Arc<CookieJar>>,
}

/// The failure for a refused connection. `presented` is the platform's id of the account that the
/// credentials belong to.
fn refused(import: &AccountImport, presented: Option<&str>, refusal: ConnectionRefusal) -> Failure {
    match (refusal, import.authority) {
        (ConnectionRefusal::NoAuthority, ChangeAuthority::Session(_)) => Failure::InvalidSession,
        (ConnectionRefusal::NoAuthority, ChangeAuthority::Key(_) | ChangeAuthority::Operator) => {
            Failure::InvalidKey
        }
        (ConnectionRefusal::NotAllowed, _) => Failure::AccountNotFound,
        (ConnectionRefusal::OtherPlatform(other), _) => AccountProblem::CreatorExists(other).into(),
        (ConnectionRefusal::OtherIdentity { connected }, _) => Failure::OtherIdentity {
            creator: import.creator.clone(),
            connected,
            presented: presented.unwrap_or_default().to_owned(),
        },
    }
}

/// Asks the platform which account the credentials belong to.
async fn confirm(
    accounts: &AccountsState,
    import: &AccountImport,
    auth: &AuthValues,
) -> Result<ConfirmedIdentity, Failure> {
    let platform = import.platform;
    let target = accounts.target(platform)?;
    let signing = SigningInput { now: accounts.clock.now(), nonce: accounts.random.bytes() };
    if let Some(pace) = accounts.paces.of(platform, import.customer, &import.creator)
        && let Some(class) = pace.rule().class_of(target.verifies_by_read(), false)
    {
        pace.charge(class, accounts.clock.now());
    }
    let label = sealed_credentials::label(import.customer, &import.creator);
    let credentials = sealed_credentials::credentials(auth).of_account(label);
    // It starts without cookies: those of another account would say who it is.
    let cookies = target.keeps_cookies().then(|| Arc::new(CookieJar::detached()));
    let presented = PresentedAccount { credentials: &credentials, cookies: cookies.as_ref() };
    match verify::verify(&accounts.upstream, target, presented, signing).await {
        Ok(CredentialVerdict::Confirmed { platform_account_id }) => {
            platform_health::note_success(accounts, platform, accounts.clock.now());
            Ok(ConfirmedIdentity { platform_account_id, cookies })
        }
        Ok(CredentialVerdict::Refused { status: 401 })
            if accounts.platform_health.refusing_since(platform).is_some() =>
        {
            Err(Failure::PlatformRefusing(platform))
        }
        Ok(CredentialVerdict::Refused { status }) => {
            Err(Failure::VerificationFailed { status: Some(status) })
        }
        Ok(CredentialVerdict::Mismatch) => Err(Failure::VerificationFailed { status: None }),
        // Nothing was sent: what the customer gave cannot be sent, or not by this way.
        Err(ClientError { kind: CallErrorKind::Build, source: Some(reason), .. }) => {
            let message = format!("these credentials cannot be used: {reason}");
            let kind = FieldErrorKind::NotAllowed;
            Err(FieldProblem::new("body", "auth", kind, message).into())
        }
        Err(error) => {
            tracing::warn!(%error, %platform, "a platform could not be reached to verify an account");
            Err(Failure::of_harmless(&error))
        }
    }
}
