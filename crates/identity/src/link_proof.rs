//! Who uses an emailed link. The link shows that the address is theirs, but not that the customer
//! is: anybody can register with the address of somebody else, or change theirs to it.
//!
//! A key or session of the customer, or its password, shows that both are the same person. Without
//! any of them, the owner of an address that was never confirmed sets a new password, and all
//! that was set up before ends; a customer with a confirmed address keeps that address.

use domain::field_error::FieldErrorKind;
use failures::{Failure, FieldProblem};
use store::customers::PasswordHash;
use store::ended_credentials::{LastingCredentials, LastingKey};
use store::mail_links::EmailLink;
use web::auth::AccompanyingCredentials;
use web::auth::device::CallingDevice;

use crate::IdentityState;
use crate::login;
use crate::passwords::{self, HashRequester};

/// What came with a link to confirm an address.
#[derive(Default)]
pub struct LinkProof {
    /// The key and session that came with the request, whosever they are.
    pub accompanying: Option<AccompanyingCredentials>,
    /// The field `current_password`.
    pub current_password: Option<String>,
    /// The field `new_password`.
    pub new_password: Option<String>,
}

/// Who uses the link.
pub(crate) enum LinkUser {
    /// The customer, who holds these credentials.
    Customer(AccompanyingCredentials),
    /// The owner of the address, who sets this password.
    Owner(PasswordHash),
}

impl LinkProof {
    /// Whether it shows without a password that the link's customer uses it.
    pub fn is_of(&self, link: &EmailLink) -> bool {
        self.accompanying.is_some_and(|held| held.customer == link.customer)
    }

    /// Who uses the link; 422 if nothing shows it.
    pub(crate) async fn check(
        self,
        identity: &IdentityState,
        caller: &CallingDevice,
        link: &EmailLink,
    ) -> Result<LinkUser, Failure> {
        if let Some(new) = self.new_password {
            if link.is_customer_confirmed {
                return Err(not_now().into());
            }
            passwords::check_new(identity, &new, &link.email)?;
            let requester = HashRequester::Known(link.customer, caller.ip);
            return passwords::hash(identity, requester, new).await.map(LinkUser::Owner);
        }
        if let Some(held) = self.accompanying.filter(|held| held.customer == link.customer) {
            return Ok(LinkUser::Customer(held));
        }
        let Some(current) = self.current_password else { return Err(missing(link).into()) };
        login::confirm(identity, link.customer, current, caller).await?;
        let customer = link.customer;
        Ok(LinkUser::Customer(AccompanyingCredentials { customer, key: None, session: None }))
    }
}

impl LinkUser {
    /// What lasts of the customer's credentials.
    pub(crate) fn lasting(&self, link: &EmailLink) -> LastingCredentials<'_> {
        match self {
            Self::Owner(password) => LastingCredentials::Nothing(password),
            Self::Customer(_) if link.is_customer_confirmed => LastingCredentials::Everything,
            Self::Customer(held) => LastingCredentials::Held {
                session: held.session,
                key: held.key.map_or(LastingKey::Oldest, LastingKey::Presented),
            },
        }
    }
}

fn missing(link: &EmailLink) -> FieldProblem {
    let (field, message) = if link.is_customer_confirmed {
        ("current_password", "is needed unless a key or a session of the customer is sent")
    } else {
        (
            "new_password",
            "is needed, and replaces everything that gives access to the customer, unless a key, a \
             session or the `current_password` of the customer is sent",
        )
    };
    FieldProblem::new("body", field, FieldErrorKind::Missing, message)
}

fn not_now() -> FieldProblem {
    let message = "can be set only while the customer has no confirmed address; leave it out";
    FieldProblem::new("body", "new_password", FieldErrorKind::NotAllowed, message)
}
