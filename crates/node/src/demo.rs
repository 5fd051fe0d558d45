//! A demo customer for the sandbox: a full key, a read-only key and one connected account for each
//! platform.
//!
//! It is created by the same functions that the API uses, so that the sandbox shows what a customer
//! gets.

use std::net::Ipv4Addr;

use accounts::connect::{self, AccountImport};
use domain::account::CreatorId;
use domain::credits::Credits;
use domain::customer::{Email, TrialState};
use domain::id::{CustomerId, EntryId, KeyId};
use domain::key::{KeyScope, KeySecret};
use domain::lots::LotSource;
use domain::platform::Platform;
use failures::Failure;
use identity::passwords::{self, HashRequester};
use runtime::audit::{self, AuditRecord};
use serde_json::{Map, Value, json};
use store::authority::ChangeAuthority;
use store::customers::{CustomerCreation, NewCustomer};
use store::keys::{KeyCreation, NewKey, NewSecret};
use store::ledger::CreditGrant;

use crate::start::RunningService;
use crate::state::NodeState;

/// The demo customer to create.
#[derive(Debug, Clone)]
pub struct WantedDemo {
    /// The email address.
    pub email: Email,
    /// The password.
    pub password: String,
    /// The credits to start with.
    pub credits: i64,
    /// The accounts to connect.
    pub accounts: Vec<WantedAccount>,
}

/// An account to connect.
#[derive(Debug, Clone)]
pub struct WantedAccount {
    /// Its platform.
    pub platform: Platform,
    /// The id that the customer gives it.
    pub creator_id: CreatorId,
    /// The platform's `auth` fields.
    pub auth: Map<String, Value>,
}

/// The secrets of the demo customer, to be displayed.
#[derive(Debug, Clone)]
pub struct DemoSecrets {
    /// A key of full scope.
    pub api_key: String,
    /// A key that may only read.
    pub read_only_key: String,
}

/// Why the demo customer could not be created.
#[derive(Debug, thiserror::Error)]
#[error("the demo customer could not be made: {0}")]
pub struct DemoError(String);

impl From<Failure> for DemoError {
    fn from(error: Failure) -> Self {
        let error = web::ApiError::from(error);
        Self(format!("{}: {error}", error.row().code))
    }
}

impl From<store::StoreError> for DemoError {
    fn from(error: store::StoreError) -> Self {
        Self::from(Failure::from(error))
    }
}

/// Creates the demo customer, or new keys for an existing one, and connects its accounts.
pub async fn make(running: &RunningService, wanted: WantedDemo) -> Result<DemoSecrets, DemoError> {
    let state = running.state();
    let (customer, api_key) = customer(state, &wanted).await?;
    let read_only = KeySecret::generate(|bound| state.random.below(bound));
    let new = new_key(state, "read-only key", &read_only, KeyScope::ReadOnly);
    add_key(state, customer, &new).await?;
    for account in wanted.accounts {
        let WantedAccount { platform, creator_id, auth } = account;
        connect::connect(
            &state.accounts,
            AccountImport {
                customer,
                authority: ChangeAuthority::Operator,
                actor: audit::OPERATOR.to_owned(),
                creator: creator_id,
                platform,
                auth,
                // In the sandbox the configuration decides which account has this name.
                replaces_identity: true,
            },
        )
        .await?;
    }
    Ok(DemoSecrets {
        api_key: api_key.expose().to_owned(),
        read_only_key: read_only.expose().to_owned(),
    })
}

/// Returns a new key for the customer with this address if `old` is no longer valid, otherwise
/// `None`.
pub async fn replace_dead_key(
    running: &RunningService,
    email: &Email,
    old: &str,
    scope: KeyScope,
) -> Result<Option<String>, DemoError> {
    let state = running.state();
    if let Ok(secret) = KeySecret::parse(old)
        && let Some(found) = store::keys::find_by_hash(&state.store, &secret.hash()).await?
        && found.is_usable(state.clock.now())
    {
        return Ok(None);
    }
    let known = store::customers::find_by_email(&state.store, email).await?;
    let known = known.ok_or_else(|| {
        let advice = "remove sandbox.json from the data folder to create the demo customer again";
        DemoError(format!("its key was revoked, and no customer has the address {email}; {advice}"))
    })?;
    let secret = KeySecret::generate(|bound| state.random.below(bound));
    let name = if scope == KeyScope::Full { "full key" } else { "read-only key" };
    add_key(state, known.id, &new_key(state, name, &secret, scope)).await?;
    Ok(Some(secret.expose().to_owned()))
}

async fn customer(
    state: &NodeState,
    wanted: &WantedDemo,
) -> Result<(CustomerId, KeySecret), DemoError> {
    let now = state.clock.now();
    let secret = KeySecret::generate(|bound| state.random.below(bound));
    let first_key = new_key(state, "full key", &secret, KeyScope::Full);
    if let Some(known) = store::customers::find_by_email(&state.store, &wanted.email).await? {
        add_key(state, known.id, &first_key).await?;
        return Ok((known.id, secret));
    }
    let requester = HashRequester::Stranger(Ipv4Addr::LOCALHOST.into());
    let new = NewCustomer {
        id: CustomerId::new(now, state.random.bytes()),
        email: wanted.email.clone(),
        name: "Demo".to_owned(),
        password_hash: passwords::hash(&state.identity, requester, wanted.password.clone()).await?,
        email_verified_at: Some(now),
        trial: TrialState::None,
        created_at: now,
        first_key,
    };
    if store::customers::create(&state.store, &new).await? == CustomerCreation::EmailTaken {
        return Err(Failure::EmailTaken.into());
    }
    let grant = CreditGrant {
        entry: EntryId::new(now, state.random.bytes()),
        customer: new.id,
        amount: Credits::from_whole(wanted.credits),
        kind: "adjustment",
        source: "adjustment",
        source_id: &format!("{}:demo", new.id),
        reference: Some("credits to try the sandbox with"),
        lot: LotSource::Gift,
        expires_at: None,
        at: now,
    };
    store::ledger::grant(&state.store, &grant).await?;
    Ok((new.id, secret))
}

/// Each start of a sandbox adds new keys; there is no limit.
async fn add_key(state: &NodeState, customer: CustomerId, new: &NewKey) -> Result<(), DemoError> {
    let record = AuditRecord {
        customer,
        actor: audit::OPERATOR.to_owned(),
        action: audit::KEY_CREATED,
        details: json!({"key_id": new.id, "name": new.name, "scope": new.scope}),
    };
    let entry = record.now(&state.clock, &state.random);
    match store::keys::create(&state.store, customer, new, i64::MAX, &entry).await? {
        KeyCreation::Created => Ok(()),
        KeyCreation::TooMany | KeyCreation::NoAccount(_) => {
            Err(DemoError("the demo customer can have no further key".to_owned()))
        }
    }
}

fn new_key(state: &NodeState, name: &str, secret: &KeySecret, scope: KeyScope) -> NewKey {
    NewKey {
        id: KeyId::new(state.clock.now(), state.random.bytes()),
        name: name.to_owned(),
        secret: NewSecret::of(secret),
        scope,
        accounts: Vec::new(),
        monthly_budget: None,
        expires_at: None,
    }
}
