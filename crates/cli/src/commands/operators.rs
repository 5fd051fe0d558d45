//! `admin customers`, `calls`, `refund` and `unmatched`: what they take, and how they are sent.

use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ::operators::{CreditTreatment, OperatorCommand, OperatorIdentity, OperatorOutcome};
use anyhow::{Context as _, anyhow, bail};
use domain::customer::{CustomerRef, CustomerState};
use domain::id::{CustomerId, OrderId};
use domain::staff::OperatorName;
use settings::Config;

use super::admin::{AdminServer, server_of};
use super::request;

/// Work on customers.
#[derive(clap::Subcommand)]
pub(crate) enum CustomersWork {
    /// Lists customers, the newest first.
    List {
        /// Only customers in this state: active, unconfirmed, suspended, closed, erased.
        #[arg(long)]
        state: Option<CustomerState>,
        /// Only customers with this plan; `none` for those without one.
        #[arg(long)]
        plan: Option<String>,
        /// Only customers that owe credits.
        #[arg(long)]
        debt: bool,
        /// Only customers whose email address contains this.
        #[arg(long, value_name = "TEXT")]
        email: Option<String>,
        /// The cursor that the page before ended with.
        #[arg(long)]
        cursor: Option<CustomerId>,
        /// The number of customers: 1 to 500.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=500))]
        limit: i64,
    },
    /// Shows one customer: credits, plan, slots, keys, accounts, last calls, orders, invoices,
    /// refunds and disputes.
    Show {
        /// The customer: an id or an email address.
        customer: CustomerRef,
    },
    /// Finds customers by anything of theirs.
    Find {
        /// A part of an email address, the beginning of a key, the number of an invoice, or the id
        /// of a customer, key, account, order, checkout, payment, charge, refund, dispute, warning,
        /// subscription, invoice, export or request (also one that the caller chose).
        text: String,
    },
    /// Suspends a customer: its keys and sessions are refused, top-ups and exports stop, nothing is
    /// lost.
    Suspend {
        /// The customer: an id or an email address.
        customer: CustomerRef,
        /// Why, for your own records. The customer does not see it.
        #[arg(long)]
        reason: String,
        /// Also ends its subscription immediately. This cannot be undone.
        #[arg(long)]
        cancel_subscription: bool,
        /// Only says what would happen.
        #[arg(long)]
        dry_run: bool,
    },
    /// Ends a suspension: keys and logins work again, but no session of before.
    Resume {
        /// The customer: an id or an email address.
        customer: CustomerRef,
    },
    /// Signs a customer out of every browser. Its keys and its password keep working.
    EndSessions {
        /// The customer: an id or an email address.
        customer: CustomerRef,
    },
    /// Removes everything that identifies a customer. The ledger stays exact. This cannot be
    /// undone.
    Erase {
        /// The customer: an id or an email address.
        customer: CustomerRef,
        /// Also if it loses credits that it paid for, or credit at the payment processor.
        #[arg(long)]
        forfeit: bool,
        /// Only says what would happen.
        #[arg(long)]
        dry_run: bool,
    },
    /// Writes everything that is stored about a customer into one archive, without secrets.
    Export {
        /// The customer: an id or an email address.
        customer: CustomerRef,
        /// The file to write. It must not exist.
        #[arg(long, value_name = "FILE")]
        output: PathBuf,
    },
}

/// Work on calls.
#[derive(clap::Subcommand)]
pub(crate) enum CallsWork {
    /// Shows what happened to a call.
    Show {
        /// The id of its request (`X-Request-Id`) or of the call.
        #[arg(required_unless_present = "idempotency_key")]
        request: Option<String>,
        /// The customer: an id or an email address. Makes the search for an id that the caller
        /// chose fast.
        #[arg(long)]
        customer: Option<CustomerRef>,
        /// The `Idempotency-Key` of the call, instead of an id.
        #[arg(long, requires = "customer", conflicts_with = "request")]
        idempotency_key: Option<String>,
    },
}

/// Which disputes to list.
#[derive(clap::Args)]
pub(crate) struct DisputesWork {
    /// Lists those that are over, too.
    #[arg(long)]
    all: bool,
    /// The number of disputes and warnings: 1 to 500.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=500))]
    limit: i64,
}

/// Work on payments that matched no order.
#[derive(clap::Subcommand)]
pub(crate) enum UnmatchedWork {
    /// Lists those that wait for a decision, the newest first.
    List {
        /// Lists settled ones, too.
        #[arg(long)]
        all: bool,
        /// The number of payments: 1 to 500.
        #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(i64).range(1..=500))]
        limit: i64,
    },
    /// Settles one: with a note alone, with credits for a customer, or with a refund.
    Settle {
        /// The object at the payment processor, as `list` names it.
        object: String,
        /// What was decided, at most 200 characters.
        #[arg(long)]
        note: String,
        /// Grants credits to this customer: an id or an email address.
        #[arg(long, requires = "credits")]
        customer: Option<CustomerRef>,
        /// How many credits.
        #[arg(long, requires = "customer")]
        credits: Option<i64>,
        /// Gives the money back.
        #[arg(long, conflicts_with = "credits")]
        refund: bool,
        /// Only says what would happen.
        #[arg(long)]
        dry_run: bool,
    },
}

/// A refund of an order.
#[derive(clap::Args)]
pub(crate) struct RefundWork {
    /// The order.
    order: OrderId,
    /// What becomes of its credits: `take` takes them back, and spent ones become debt; `keep`
    /// marks the refund, so that it takes nothing.
    #[arg(long, value_enum, default_value_t = KeptOrTaken::Take)]
    credits: KeptOrTaken,
    /// Only says what would happen.
    #[arg(long)]
    dry_run: bool,
}

/// What becomes of the credits of a refunded order.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum KeptOrTaken {
    /// The customer keeps them.
    Keep,
    /// They are taken back.
    Take,
}

/// What is to be done, apart from staff commands.
pub(crate) enum OperatorWork {
    /// A command whose result is printed.
    Command(OperatorCommand),
    /// An archive that is written to a file.
    Export {
        /// The customer.
        customer: CustomerRef,
        /// The file.
        output: PathBuf,
    },
}

impl From<CustomersWork> for OperatorWork {
    fn from(work: CustomersWork) -> Self {
        Self::Command(match work {
            CustomersWork::List { state, plan, debt, email, cursor, limit } => {
                OperatorCommand::ListCustomers {
                    state,
                    plan,
                    in_debt: debt,
                    text: email,
                    cursor,
                    limit: Some(limit),
                }
            }
            CustomersWork::Show { customer } => OperatorCommand::ShowCustomer { customer },
            CustomersWork::Find { text } => OperatorCommand::FindCustomers { text },
            CustomersWork::Suspend { customer, reason, cancel_subscription, dry_run } => {
                OperatorCommand::SuspendCustomer { customer, reason, cancel_subscription, dry_run }
            }
            CustomersWork::Resume { customer } => OperatorCommand::ResumeCustomer { customer },
            CustomersWork::EndSessions { customer } => OperatorCommand::EndSessions { customer },
            CustomersWork::Erase { customer, forfeit, dry_run } => {
                OperatorCommand::EraseCustomer { customer, forfeit, dry_run }
            }
            CustomersWork::Export { customer, output } => {
                return Self::Export { customer, output };
            }
        })
    }
}

impl From<CallsWork> for OperatorWork {
    fn from(work: CallsWork) -> Self {
        let CallsWork::Show { request, customer, idempotency_key } = work;
        Self::Command(OperatorCommand::ShowCall { request, customer, idempotency_key })
    }
}

impl From<UnmatchedWork> for OperatorWork {
    fn from(work: UnmatchedWork) -> Self {
        Self::Command(match work {
            UnmatchedWork::List { all, limit } => {
                OperatorCommand::ListUnmatched { with_settled: all, limit: Some(limit) }
            }
            UnmatchedWork::Settle { object, note, customer, credits, refund, dry_run } => {
                OperatorCommand::SettleUnmatched {
                    object,
                    note,
                    customer,
                    credits,
                    refund,
                    dry_run,
                }
            }
        })
    }
}

impl From<DisputesWork> for OperatorWork {
    fn from(work: DisputesWork) -> Self {
        let DisputesWork { all, limit } = work;
        Self::Command(OperatorCommand::ListDisputes { with_ended: all, limit: Some(limit) })
    }
}

impl From<RefundWork> for OperatorWork {
    fn from(work: RefundWork) -> Self {
        let RefundWork { order, credits, dry_run } = work;
        let credits = match credits {
            KeptOrTaken::Keep => CreditTreatment::Keep,
            KeptOrTaken::Take => CreditTreatment::Take,
        };
        Self::Command(OperatorCommand::RefundOrder { order, credits, dry_run })
    }
}

/// Runs a command on the database, or in the service that has it open.
pub(crate) async fn run(
    config: Config,
    name: Option<&OperatorName>,
    command: OperatorCommand,
) -> anyhow::Result<OperatorOutcome> {
    let database = config.embedded_database();
    let who = OperatorIdentity::of(name.cloned());
    match Box::pin(node::start::run_operator_command(config, &who, command.clone())).await {
        Ok(done) => Ok(done),
        Err(failure) if failure.is_held_by_a_server() => {
            let json = serde_json::to_vec(&command)?;
            server_of(database.as_deref())?.ask("/commands/operator", name, &json).await
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Writes the archive of a customer to a file, and returns its length.
pub(crate) async fn export(
    config: Config,
    name: Option<&OperatorName>,
    customer: &CustomerRef,
    output: &Path,
) -> anyhow::Result<u64> {
    let mut file = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(output)
        .with_context(|| format!("{} cannot be created", output.display()))?;
    let mut archive = WrittenArchive::default();
    let database = config.embedded_database();
    let who = OperatorIdentity::of(name.cloned());
    let write = |piece: &[u8]| {
        archive.note(piece);
        file.write_all(piece)
    };
    let exported = match Box::pin(node::start::export_customer(config, &who, customer, write)).await
    {
        Err(failure) if failure.is_held_by_a_server() => {
            let write_again = |piece: &[u8]| {
                archive.note(piece);
                file.write_all(piece)
            };
            let server = server_of(database.as_deref());
            match server {
                Ok(server) => ask_for_archive(&server, name, customer, write_again).await,
                Err(error) => Err(error),
            }
        }
        exported => exported.map_err(anyhow::Error::from),
    };
    let whole = exported.and_then(|()| archive.whole()).and_then(|length| {
        file.sync_all()?;
        Ok(length)
    });
    if whole.is_err() {
        // Half an archive is of no use.
        drop(std::fs::remove_file(output));
    }
    whole
}

async fn ask_for_archive(
    server: &AdminServer,
    name: Option<&OperatorName>,
    customer: &CustomerRef,
    write: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> anyhow::Result<()> {
    let json = serde_json::to_vec(&serde_json::json!({ "customer": customer }))?;
    let path = "/commands/operator/export";
    let refused = request::post_for_stream(&server.to(path, name), &json, write).await?;
    refused.map_or(Ok(()), |answer| Err(anyhow!("{}", super::admin::refusal(&answer.body))))
}

/// What was written of an archive: its length and its end.
#[derive(Default)]
struct WrittenArchive {
    bytes: u64,
    end: Vec<u8>,
}

/// The length of the record that every archive ends with, and how it begins.
const END_BYTES: usize = 22;
const END_MARK: &[u8] = b"PK\x05\x06";

impl WrittenArchive {
    fn note(&mut self, piece: &[u8]) {
        self.bytes = self.bytes.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        self.end.extend_from_slice(piece);
        let extra = self.end.len().saturating_sub(END_BYTES);
        self.end.drain(..extra);
    }

    /// The length, if the archive has its end.
    fn whole(&self) -> anyhow::Result<u64> {
        if self.end.len() == END_BYTES && self.end.starts_with(END_MARK) {
            return Ok(self.bytes);
        }
        bail!("the archive is incomplete; the log of the service says why")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_without_its_end_is_refused() {
        let mut archive = WrittenArchive::default();
        let before = b"PK\x03\x04 something long that goes before the end";
        archive.note(before);
        assert!(archive.whole().is_err());

        for piece in [&b"PK"[..], b"\x05\x06", &[0; 18]] {
            archive.note(piece);
        }
        assert_eq!(archive.whole().unwrap(), before.len() as u64 + 22);
    }
}
