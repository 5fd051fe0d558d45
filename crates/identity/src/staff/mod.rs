//! The operator's commands: create customers, grant credits, disable keys, rotate the master key.
//!
//! The same commands run on the opened database or, while a server uses it, in that server through
//! its admin listener, so that caches and balances in memory stay right.

use domain::customer::{CustomerRef, Email, TrialState};
use domain::id::{CustomerId, KeyId};
use domain::key::{KeyScope, KeySecret};
use domain::staff::Permission;
use domain::time::Timestamp;
use runtime::audit::{self, AuditRecord};
use runtime::clock::{Clock, Random};
use runtime::keyfile::{self, LockedKeyFile};
use runtime::vault::{Vault, VaultError};
use serde_json::{Value, json};
use store::audit::AuditEntry;
use store::customers::{CustomerCreation, NewCustomer, PasswordHash};
use store::keys::{NewKey, NewSecret};
use store::{Store, StoreError, permissions};

mod credits;

pub use credits::{CREDITS_MAX, DescribedCredits, GIFT_END_MAX};
/// A command, as it is sent to a running server.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum StaffCommand {
    /// Creates a customer with a confirmed address and a key of full scope, without a trial.
    CreateCustomer {
        /// The email address.
        email: Email,
        /// The name of the customer.
        name: String,
        /// The initial credits.
        credits: i64,
        /// What the customer may do as staff.
        #[serde(default)]
        permissions: Vec<Permission>,
    },
    /// Grants a customer a staff permission.
    GrantPermission {
        /// The customer.
        customer: CustomerRef,
        /// The permission.
        permission: Permission,
    },
    /// Revokes a staff permission.
    RevokePermission {
        /// The customer.
        customer: CustomerRef,
        /// The permission.
        permission: Permission,
    },
    /// Lists all staff permissions.
    ListPermissions,
    /// Grants credits to a customer (a negative amount takes them back).
    GrantCredits {
        /// The customer.
        customer: CustomerRef,
        /// The number of credits.
        credits: i64,
        /// The reason: a ticket number or a sentence. The same reference is applied once.
        reference: String,
        /// When the rest of a grant expires; `None` if it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        expires_at: Option<Timestamp>,
    },
    /// Disables a key permanently.
    DisableKey {
        /// The key.
        key: KeyId,
    },
    /// Wraps every data key under the newest master key.
    RotateMasterKey,
    /// Retries the jobs that were given up.
    RetryJobs,
}

/// A staff permission of a customer.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub struct StaffPermission {
    /// The customer.
    pub customer_id: CustomerId,
    /// The customer's email address.
    pub email: String,
    /// The permission.
    pub permission: Permission,
    /// When it was granted, RFC 3339.
    pub granted_at: String,
}

/// The result of a command.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
#[serde(tag = "done", rename_all = "snake_case")]
pub enum StaffOutcome {
    /// The customer was created.
    CustomerCreated {
        /// The customer.
        customer_id: CustomerId,
        /// The email address.
        email: String,
        /// The key.
        key_id: KeyId,
        /// Its secret, shown once.
        api_key: String,
        /// Credits granted.
        credits: i64,
        /// What the customer may do as staff.
        #[serde(default)]
        permissions: Vec<Permission>,
    },
    /// The customer has the permission.
    PermissionGranted {
        /// The customer.
        customer_id: CustomerId,
        /// The permission.
        permission: Permission,
        /// False if the customer already had it; then nothing changed.
        applied: bool,
    },
    /// The customer no longer has it.
    PermissionRevoked {
        /// The customer.
        customer_id: CustomerId,
        /// The permission.
        permission: Permission,
    },
    /// All staff permissions, by email address.
    Permissions {
        /// One entry for each customer and permission.
        staff: Vec<StaffPermission>,
    },
    /// The credits are recorded.
    CreditsGranted {
        /// The customer.
        customer_id: CustomerId,
        /// The number of credits.
        credits: i64,
        /// False if this reference had been applied before; then nothing changed.
        applied: bool,
        /// When the rest of them expires; `None` if it does not, or if they were taken.
        #[serde(default)]
        expires_at: Option<Timestamp>,
        /// The customer's balance now.
        balance: i64,
        /// The customer's debt now; the next credits pay it first.
        #[serde(default)]
        debt: i64,
    },
    /// The key is disabled.
    KeyDisabled {
        /// The key.
        key_id: KeyId,
    },
    /// Every data key is wrapped by the newest master key.
    MasterKeyRotated {
        /// The newest master key.
        master_key_id: String,
        /// The number of data keys that were wrapped again.
        rewrapped: u64,
        /// The file to back up now; `None` if the keys are in the configuration.
        #[serde(default)]
        key_file: Option<String>,
    },
    /// The jobs that were given up are due again.
    JobsRetried {
        /// The number of jobs.
        jobs: u64,
    },
}

/// Why a command was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum StaffError {
    /// Another customer has this address.
    #[error("a customer with this address already exists")]
    EmailTaken,
    /// There is no such customer.
    #[error("there is no customer {0}")]
    NoCustomer(CustomerId),
    /// The customer was erased: nothing can be granted to it any more.
    #[error("the customer {0} was erased")]
    Erased(CustomerId),
    /// No customer has this address.
    #[error("there is no customer with the address {}", .0.as_str())]
    NoEmail(Email),
    /// The customer does not have the permission.
    #[error("the customer {0} does not have the permission {1}")]
    NoPermission(CustomerId, Permission),
    /// There is no such key, or it is already disabled.
    #[error("there is no open key {0}")]
    NoKey(KeyId),
    /// An invalid amount, reference or expiry.
    #[error("{0}")]
    Amount(&'static str),
    /// The reference was used for something else.
    #[error(
        "--reference {reference:?} was already used for {booked}, not for {wanted}; nothing was changed; use another \
         reference for another grant"
    )]
    OtherAmount {
        /// The reference.
        reference: String,
        /// What it was used for.
        booked: DescribedCredits,
        /// What was requested now.
        wanted: DescribedCredits,
    },
    /// The reference looks like one that the ledger generated from an earlier one.
    #[error(
        "--reference {0:?} is used by an earlier entry; nothing was changed; use another reference"
    )]
    ReferenceTaken(String),
    /// More credits were requested to be taken than can be.
    #[error(
        "only {0} credits can be taken: those that are left, and those that were spent, which become debt"
    )]
    TooMany(i64),
    /// The database failed.
    #[error("the database failed")]
    Store(#[from] StoreError),
    /// The vault failed.
    #[error("the master key could not be rotated")]
    Vault(#[from] VaultError),
    /// The key file is refused, or could not be written.
    #[error(transparent)]
    KeyFile(#[from] keyfile::KeyFileError),
}

/// What the commands need.
pub struct StaffTools<'a> {
    /// Stores their results.
    pub store: &'a Store,
    /// Seals with the new master key.
    pub vault: &'a Vault,
    /// Tells the time.
    pub clock: &'a Clock,
    /// Generates ids and secrets.
    pub random: &'a Random,
    /// The file in which the embedded default keeps its master keys; `None` if they are configured.
    pub key_file: Option<&'a std::path::Path>,
    /// Days until gifts expire for which no expiry is named; 0: never.
    pub gift_days: i64,
    /// Who runs them, for audit lists.
    pub actor: &'a str,
}

/// Runs a command.
pub async fn run(desk: &StaffTools<'_>, command: StaffCommand) -> Result<StaffOutcome, StaffError> {
    match command {
        StaffCommand::CreateCustomer { email, name, credits, permissions } => {
            create_customer(desk, email, name, credits, permissions).await
        }
        StaffCommand::GrantPermission { customer, permission } => {
            let customer = find(desk, customer).await?;
            grant_permission(desk, customer, permission).await
        }
        StaffCommand::RevokePermission { customer, permission } => {
            let customer = find(desk, customer).await?;
            revoke_permission(desk, customer, permission).await
        }
        StaffCommand::ListPermissions => list_permissions(desk).await,
        StaffCommand::GrantCredits { customer, credits, reference, expires_at } => {
            let customer = find(desk, customer).await?;
            credits::grant(desk, customer, credits, &reference, expires_at).await
        }
        StaffCommand::DisableKey { key } => disable_key(desk, key).await,
        StaffCommand::RotateMasterKey => rotate_master_key(desk).await,
        StaffCommand::RetryJobs => {
            let jobs = store::jobs::retry_given_up(desk.store, desk.clock.now()).await?;
            Ok(StaffOutcome::JobsRetried { jobs })
        }
    }
}

async fn create_customer(
    desk: &StaffTools<'_>,
    email: Email,
    name: String,
    credits: i64,
    permissions: Vec<Permission>,
) -> Result<StaffOutcome, StaffError> {
    if !(0..=CREDITS_MAX).contains(&credits) {
        let problem = "--credits must be 0 or more and at most 1000000000000";
        return Err(StaffError::Amount(problem));
    }
    let now = desk.clock.now();
    let secret = KeySecret::generate(|bound| desk.random.below(bound));
    let new = NewCustomer {
        id: CustomerId::new(now, desk.random.bytes()),
        email,
        name,
        password_hash: PasswordHash::none(),
        email_verified_at: Some(now),
        trial: TrialState::None,
        created_at: now,
        first_key: NewKey {
            id: KeyId::new(now, desk.random.bytes()),
            name: "first key".to_owned(),
            secret: NewSecret::of(&secret),
            scope: KeyScope::Full,
            accounts: Vec::new(),
            monthly_budget: None,
            expires_at: None,
        },
    };
    if store::customers::create(desk.store, &new).await? == CustomerCreation::EmailTaken {
        return Err(StaffError::EmailTaken);
    }
    if credits > 0 {
        let reference = format!("created with {credits} credits");
        credits::grant(desk, new.id, credits, &reference, None).await?;
    }
    for permission in &permissions {
        grant_permission(desk, new.id, *permission).await?;
    }
    Ok(StaffOutcome::CustomerCreated {
        customer_id: new.id,
        email: new.email.as_str().to_owned(),
        key_id: new.first_key.id,
        api_key: secret.expose().to_owned(),
        credits,
        permissions,
    })
}

async fn find(desk: &StaffTools<'_>, whom: CustomerRef) -> Result<CustomerId, StaffError> {
    match whom {
        CustomerRef::Id(id) => Ok(id),
        CustomerRef::Email(email) => {
            let found = store::customers::find_by_email(desk.store, &email).await?;
            found.map(|customer| customer.id).ok_or(StaffError::NoEmail(email))
        }
    }
}

async fn grant_permission(
    desk: &StaffTools<'_>,
    customer: CustomerId,
    permission: Permission,
) -> Result<StaffOutcome, StaffError> {
    let told = entry(desk, customer, audit::PERMISSION_GRANTED, permitted(permission));
    let granting = permissions::grant(desk.store, customer, permission, &told).await?;
    let applied = match granting {
        permissions::PermissionGranting::Granted => true,
        permissions::PermissionGranting::Repeated => false,
        permissions::PermissionGranting::NoCustomer => {
            return Err(StaffError::NoCustomer(customer));
        }
    };
    Ok(StaffOutcome::PermissionGranted { customer_id: customer, permission, applied })
}

async fn revoke_permission(
    desk: &StaffTools<'_>,
    customer: CustomerId,
    permission: Permission,
) -> Result<StaffOutcome, StaffError> {
    let told = entry(desk, customer, audit::PERMISSION_REVOKED, permitted(permission));
    if !permissions::revoke(desk.store, customer, permission, &told).await? {
        return Err(StaffError::NoPermission(customer, permission));
    }
    Ok(StaffOutcome::PermissionRevoked { customer_id: customer, permission })
}

async fn list_permissions(desk: &StaffTools<'_>) -> Result<StaffOutcome, StaffError> {
    let granted = permissions::list(desk.store).await?.into_iter();
    let staff = granted.map(|granted| StaffPermission {
        customer_id: granted.customer,
        email: granted.email.as_str().to_owned(),
        permission: granted.permission,
        granted_at: granted.granted_at.to_rfc3339(),
    });
    Ok(StaffOutcome::Permissions { staff: staff.collect() })
}

async fn disable_key(desk: &StaffTools<'_>, key: KeyId) -> Result<StaffOutcome, StaffError> {
    let owner = store::keys::find_by_id(desk.store, key).await?.ok_or(StaffError::NoKey(key))?;
    let deleted =
        entry(desk, owner.customer, audit::KEY_DELETED, json!({"key_id": key, "name": owner.name}));
    if !store::keys::revoke(desk.store, owner.customer, key, &deleted).await? {
        return Err(StaffError::NoKey(key));
    }
    Ok(StaffOutcome::KeyDisabled { key_id: key })
}

/// With a key file, a new key is created and put first in the file. Configured keys are for the
/// operator to change.
async fn rotate_master_key(desk: &StaffTools<'_>) -> Result<StaffOutcome, StaffError> {
    if let Some(path) = desk.key_file {
        let file = LockedKeyFile::lock(path)?;
        let counts = store::data_keys::count_by_master_key(desk.store).await?;
        let needed: Vec<String> = counts.into_iter().map(|used| used.master_key).collect();
        let known = desk.vault.keyring();
        let keyring = file.with_new_key(&known, &needed, desk.random, desk.clock.now())?;
        // The vault must be able to open its canary with the keys of the file before the file is
        // written.
        desk.vault.check(&keyring).await?;
        file.write(&keyring)?;
        desk.vault.prefer(keyring);
    }
    let rewrapped = desk.vault.rewrap_all().await?;
    let keyring = desk.vault.keyring();
    let master_key_id = keyring.current().map(|key| key.id().to_owned()).unwrap_or_default();
    let key_file = desk.key_file.map(|path| path.display().to_string());
    Ok(StaffOutcome::MasterKeyRotated { master_key_id, rewrapped, key_file })
}

fn permitted(permission: Permission) -> Value {
    json!({"permission": permission.to_string()})
}

fn entry(
    desk: &StaffTools<'_>,
    customer: CustomerId,
    action: &'static str,
    details: Value,
) -> AuditEntry {
    let record = AuditRecord { customer, actor: desk.actor.to_owned(), action, details };
    record.now(desk.clock, desk.random)
}
