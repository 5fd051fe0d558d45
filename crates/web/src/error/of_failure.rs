//! Maps the services' failures to rows of the table and to members of the problem.

use failures::{Failure, NotStored, OperatorProblem, UnknownOutcome, UnknownReason};
use serde_json::{Map, Value};

use super::table::{self, FailureRow, callers};
use super::{accounts, exports, payments};

/// The row of the table for a failure.
pub(super) fn row(failure: &Failure) -> FailureRow {
    match failure {
        Failure::InvalidKey => callers::INVALID_KEY,
        Failure::CustomerSuspended => callers::CUSTOMER_SUSPENDED,
        Failure::InvalidSession => callers::INVALID_SESSION,
        Failure::WrongCredentials => callers::WRONG_CREDENTIALS,
        Failure::WrongPassword => callers::WRONG_PASSWORD,
        Failure::ReadOnlyKey => callers::READ_ONLY_KEY,
        Failure::MissingScope(_) => table::MISSING_SCOPE,
        Failure::Account(problem) => accounts::row(problem),
        Failure::AccountNotFound => table::ACCOUNT_NOT_FOUND,
        Failure::NotFound(_) => table::NOT_FOUND,
        Failure::RouteNotListed(_) => table::ROUTE_NOT_LISTED,
        Failure::InsufficientCredits { .. }
        | Failure::TrialPending { .. }
        | Failure::InDebt { .. } => table::INSUFFICIENT_CREDITS,
        Failure::KeyBudgetExhausted { .. } => callers::KEY_BUDGET_EXHAUSTED,
        Failure::CostAboveMax { .. } => callers::COST_ABOVE_MAX,
        Failure::TooManyTags(_) => callers::TOO_MANY_TAGS,
        Failure::TooManyKeys(_) => callers::TOO_MANY_KEYS,
        Failure::UnsupportedPlatform(_) => table::UNSUPPORTED_PLATFORM,
        Failure::LimitedKey => callers::LIMITED_KEY,
        Failure::MissingPermission(_) => callers::MISSING_PERMISSION,
        Failure::SupportAccessClosed => callers::SUPPORT_ACCESS_CLOSED,
        Failure::Gone(_) => table::GONE,
        Failure::Invalid(_) => table::INVALID,
        Failure::EmailTaken => callers::EMAIL_TAKEN,
        Failure::UnknownLink => callers::UNKNOWN_LINK,
        Failure::LinkUsed => callers::LINK_USED,
        Failure::LinkExpired => callers::LINK_EXPIRED,
        Failure::LinkOutdated => callers::LINK_OUTDATED,
        Failure::OtherIdentity { .. } => table::OTHER_IDENTITY,
        Failure::VerificationFailed { .. } => table::VERIFICATION_FAILED,
        Failure::PlatformNotOffered(_) => table::PLATFORM_NOT_OFFERED,
        Failure::CredentialError | Failure::CredentialsUnusable(_) => table::CREDENTIAL_ERROR,
        Failure::PlatformUnreachable => table::PLATFORM_UNREACHABLE,
        Failure::BadPlatformAnswer(_) => table::BAD_PLATFORM_ANSWER,
        Failure::PlatformTimeout => table::PLATFORM_TIMEOUT,
        Failure::PlatformUnavailable { .. } | Failure::TokenBeingRefreshed => {
            table::PLATFORM_UNAVAILABLE
        }
        Failure::PlatformRefusing(_) => table::PLATFORM_REFUSING,
        Failure::AccountPaused { .. } => table::ACCOUNT_PAUSED,
        Failure::AccountPaced { .. } => callers::ACCOUNT_PACED,
        Failure::RateLimited { .. } => table::RATE_LIMITED,
        Failure::TooManyRegistrations { .. } => callers::TOO_MANY_REGISTRATIONS,
        Failure::TooManyLogins { .. } => callers::TOO_MANY_LOGINS,
        Failure::TooManyMails { .. } => callers::TOO_MANY_MAILS,
        Failure::TooManyInFlight(_) => table::TOO_MANY_IN_FLIGHT,
        Failure::Overloaded => table::OVERLOADED,
        Failure::IdempotencyInProgress => table::IDEMPOTENCY_IN_PROGRESS,
        Failure::IdempotencyMismatch => table::IDEMPOTENCY_MISMATCH,
        Failure::AnswerNotStored(_) => table::ANSWER_NOT_STORED,
        Failure::OutcomeUnknown(unknown) => row_of_unknown(unknown),
        Failure::Payment(problem) => payments::row(problem),
        Failure::Export(problem) => exports::row(problem),
        Failure::Operator(problem) => row_of_operator(problem),
        Failure::NotMetered => table::DATABASE_UNAVAILABLE,
        Failure::Store(error) if error.is_outage() => table::DATABASE_UNAVAILABLE,
        Failure::Store(_) | Failure::Internal(_) => table::INTERNAL,
    }
}

const fn row_of_operator(problem: &OperatorProblem) -> FailureRow {
    match problem {
        OperatorProblem::Unknown { .. } => table::NOT_FOUND,
        OperatorProblem::Erased
        | OperatorProblem::NotSuspended
        | OperatorProblem::NotErasable(_)
        | OperatorProblem::WouldForfeit { .. }
        | OperatorProblem::NotRefundable(_)
        | OperatorProblem::NothingPaid
        | OperatorProblem::Disputed
        | OperatorProblem::SettledOtherwise(_)
        | OperatorProblem::NotAPayment(_)
        | OperatorProblem::NotGranted(_) => callers::OPERATOR_REFUSED,
    }
}

const fn row_of_unknown(unknown: &UnknownOutcome) -> FailureRow {
    match unknown.reason {
        UnknownReason::Unusable(_) => table::OUTCOME_UNKNOWN_UNUSABLE,
        UnknownReason::Late => table::OUTCOME_UNKNOWN_LATE,
        UnknownReason::Repeated | UnknownReason::RepeatedHere => table::OUTCOME_UNKNOWN_REPEATED,
    }
}

/// Milliseconds after which the same request may succeed, if known.
pub(super) fn retry_after_ms(failure: &Failure) -> Option<i64> {
    match failure {
        Failure::PlatformUnavailable { retry_after_ms }
        | Failure::AccountPaused { retry_after_ms }
        | Failure::AccountPaced { retry_after_ms }
        | Failure::RateLimited { retry_after_ms }
        | Failure::TooManyRegistrations { retry_after_ms }
        | Failure::TooManyLogins { retry_after_ms }
        | Failure::TooManyMails { retry_after_ms } => Some(*retry_after_ms),
        Failure::TooManyInFlight(_)
        | Failure::TokenBeingRefreshed
        | Failure::Overloaded
        | Failure::NotMetered
        | Failure::IdempotencyInProgress => Some(1_000),
        Failure::PlatformRefusing(_) => Some(60_000),
        Failure::Payment(problem) => payments::retry_after_ms(problem),
        Failure::Export(problem) => exports::retry_after_ms(problem),
        Failure::Store(error) if error.is_outage() => Some(1_000),
        _ => None,
    }
}

/// Members of the problem besides the code, for programs.
pub(super) fn members(failure: &Failure) -> Map<String, Value> {
    let members: Vec<(&'static str, Value)> = match failure {
        Failure::InsufficientCredits { balance, cost } => {
            vec![("balance", balance.whole().into()), ("cost", cost.whole().into())]
        }
        Failure::TrialPending { balance, cost, trial } => vec![
            ("balance", balance.whole().into()),
            ("cost", cost.whole().into()),
            ("trial_credits", trial.whole().into()),
        ],
        Failure::InDebt { balance, cost, debt } => vec![
            ("balance", balance.whole().into()),
            ("cost", cost.whole().into()),
            ("debt", debt.whole().into()),
        ],
        Failure::KeyBudgetExhausted { key, budget, used, cost, resets_at } => vec![
            ("key_id", key.to_string().into()),
            ("budget", budget.whole().into()),
            ("used", used.whole().into()),
            ("cost", cost.whole().into()),
            ("resets_at", resets_at.to_rfc3339().into()),
        ],
        Failure::CostAboveMax { cost, max } => {
            vec![("cost", cost.whole().into()), ("max_cost", max.whole().into())]
        }
        Failure::MissingScope(scopes) => vec![("missing_scopes", scopes.clone().into())],
        Failure::VerificationFailed { status: Some(status) } => {
            vec![("platform_status", (*status).into())]
        }
        Failure::Payment(problem) => payments::members(problem),
        Failure::Account(problem) => accounts::members(problem),
        Failure::AnswerNotStored(NotStored(call)) => {
            call.iter().map(|call| ("call_id", call.to_string().into())).collect()
        }
        Failure::OutcomeUnknown(unknown) => {
            let call = unknown.call.map(|call| ("call_id", call.to_string().into()));
            let status = unknown.platform_status.map(|status| ("platform_status", status.into()));
            call.into_iter().chain(status).collect()
        }
        _ => Vec::new(),
    };
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
