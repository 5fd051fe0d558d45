//! Credits granted and taken by the operator: checks, and applying each reference once.

use domain::credits::Credits;
use domain::id::{CustomerId, EntryId};
use domain::lots::LotSource;
use domain::time::{MICROS_PER_SECOND, Timestamp};
use runtime::audit;
use serde_json::json;
use settings::ExpirySection;
use store::ledger::{CreditGrant, CreditGrantOutcome, OperatorAdjustment};

use super::{StaffError, StaffOutcome, StaffTools, entry};

/// The most credits that one command grants or takes.
pub const CREDITS_MAX: i64 = 1_000_000_000_000;
/// The latest expiry of granted credits: 3000-01-01.
pub const GIFT_END_MAX: Timestamp = Timestamp::from_unix_micros(32_503_680_000 * MICROS_PER_SECOND);
/// The longest reference, in characters.
const REFERENCE_CHARS_MAX: usize = 200;

/// Credits and their expiry, for people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DescribedCredits(OperatorAdjustment);

impl std::fmt::Display for DescribedCredits {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(OperatorAdjustment { amount, expires_at }) = self;
        write!(formatter, "{amount} credits")?;
        expires_at.map_or(Ok(()), |end| write!(formatter, " expiring at {end}"))
    }
}

/// Grants credits, or takes them back if the amount is negative. Each reference is applied once.
pub(super) async fn grant(
    desk: &StaffTools<'_>,
    customer: CustomerId,
    credits: i64,
    reference: &str,
    named: Option<Timestamp>,
) -> Result<StaffOutcome, StaffError> {
    let now = desk.clock.now();
    check_grant(credits, reference, named, now)?;
    let usual = (credits > 0).then(|| ExpirySection::after(desk.gift_days, now)).flatten();
    let expires_at = named.or(usual);
    let grant = CreditGrant {
        entry: EntryId::new(now, desk.random.bytes()),
        customer,
        amount: Credits::from_whole(credits.saturating_abs()),
        kind: "adjustment",
        source: "adjustment",
        source_id: &format!("{customer}:{reference}"),
        reference: Some(reference),
        lot: LotSource::Gift,
        expires_at,
        at: now,
    };
    let details = match expires_at {
        Some(end) => json!({"credits": credits, "reference": reference, "expires_at": end}),
        None => json!({"credits": credits, "reference": reference}),
    };
    let entry = entry(desk, customer, audit::CREDITS_ADJUSTED, details);
    let granting = store::ledger::adjust(desk.store, &grant, credits < 0, &entry).await?;
    let applied = match granting {
        CreditGrantOutcome::Granted { .. } => true,
        CreditGrantOutcome::Repeated => {
            let wanted = OperatorAdjustment { amount: credits, expires_at };
            // The usual expiry depends on when the command ran first.
            let any_expiry = named.is_none() && usual.is_some();
            refuse_other(desk, customer, reference, wanted, any_expiry).await?;
            false
        }
        CreditGrantOutcome::TooMany { at_most } => {
            return Err(StaffError::TooMany(at_most.whole()));
        }
        CreditGrantOutcome::NoCustomer => return Err(StaffError::NoCustomer(customer)),
        CreditGrantOutcome::Erased => return Err(StaffError::Erased(customer)),
    };
    let standing = store::usage::balance(desk.store, customer).await?;
    let standing = standing.ok_or(StaffError::NoCustomer(customer))?;
    let (balance, debt) = (standing.available.whole(), standing.debt.whole());
    let expires_at = expires_at.filter(|_| applied);
    Ok(StaffOutcome::CreditsGranted {
        customer_id: customer,
        credits,
        applied,
        expires_at,
        balance,
        debt,
    })
}

/// Refuses invalid input before anything is written.
fn check_grant(
    credits: i64,
    reference: &str,
    expires_at: Option<Timestamp>,
    now: Timestamp,
) -> Result<(), StaffError> {
    let problem = if credits == 0 {
        "--credits must not be 0"
    } else if !(-CREDITS_MAX..=CREDITS_MAX).contains(&credits) {
        "--credits must be between -1000000000000 and 1000000000000"
    } else if reference.trim().is_empty() {
        "--reference must not be empty; enter a ticket number or a sentence"
    } else if reference.chars().any(char::is_control) {
        "--reference must not contain control characters such as line breaks; write it on one line"
    } else if reference.chars().count() > REFERENCE_CHARS_MAX {
        "--reference must have at most 200 characters"
    } else if expires_at.is_some() && credits < 0 {
        "--expires applies only to credits that are granted, not taken back"
    } else if expires_at.is_some_and(|end| end <= now) {
        "--expires must be in the future"
    } else if expires_at.is_some_and(|end| end > GIFT_END_MAX) {
        "--expires must not be after 3000-01-01; leave it out for credits that do not expire"
    } else {
        return Ok(());
    };
    Err(StaffError::Amount(problem))
}

/// Refuses a reference that was used for something else.
async fn refuse_other(
    desk: &StaffTools<'_>,
    customer: CustomerId,
    reference: &str,
    wanted: OperatorAdjustment,
    any_expiry: bool,
) -> Result<(), StaffError> {
    let reference = reference.to_owned();
    let found = store::ledger::find_adjustment(desk.store, customer, &reference).await?;
    let booked = found.ok_or_else(|| StaffError::ReferenceTaken(reference.clone()))?;
    // For credits taken back, the recorded expiry is that of the lots they came from.
    let is_same = booked.amount == wanted.amount
        && (wanted.amount < 0 || any_expiry || booked.expires_at == wanted.expires_at);
    if is_same {
        return Ok(());
    }
    let expires_at = booked.expires_at.filter(|_| booked.amount > 0);
    let booked = DescribedCredits(OperatorAdjustment { expires_at, ..booked });
    Err(StaffError::OtherAmount { reference, booked, wanted: DescribedCredits(wanted) })
}
