//! `admin`: staff work. Opens the database itself, or asks the service that has it open.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::operators::OperatorIdentity;
use anyhow::{Context as _, anyhow};
use domain::customer::{CustomerRef, Email};
use domain::id::KeyId;
use domain::staff::{OperatorName, Permission};
use domain::time::Timestamp;
use identity::staff::{self, CREDITS_MAX, GIFT_END_MAX, StaffOutcome, StaffPermission};
use node::start::ReconciliationReport;
use settings::Config;

use super::liability::{self, ReportFormat};
use super::operators::{
    CallsWork, CustomersWork, DisputesWork, OperatorWork, RefundWork, UnmatchedWork,
};
use super::request::Destination;
use super::{operator_tables, operators};
use crate::ConfigFile;
use crate::output::say_line;

/// The command, and the database it is for.
#[derive(clap::Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    work: AdminSubcommand,
    #[command(flatten)]
    file: ConfigFile,
    /// The data folder of a sandbox, instead of a configuration.
    #[arg(long, global = true, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Prints one JSON object on one line.
    #[arg(long, global = true)]
    json: bool,
    /// Your name, for the audit lists of customers: letters, digits, `.`, `-`, `_`, `@`. Without
    /// it, the name of the system's user.
    #[arg(long = "as", global = true, value_name = "NAME")]
    operator: Option<OperatorName>,
}

#[derive(clap::Subcommand)]
enum AdminSubcommand {
    /// Customers: list, show, find, suspend, resume, erase, export.
    #[command(subcommand)]
    Customers(CustomersWork),
    /// Calls: what happened to one.
    #[command(subcommand)]
    Calls(CallsWork),
    /// Refunds an order through the payment processor.
    Refund(RefundWork),
    /// Lists disputes and warnings of fraud that are open, and what to do about each.
    Disputes(DisputesWork),
    /// Grants credits to a customer.
    Grant {
        /// The customer: an id or an email address.
        customer: CustomerRef,
        /// How many credits.
        #[arg(value_parser = parse_credits)]
        credits: i64,
        /// A ticket or a sentence of at most 200 characters. The same reason is recorded once.
        #[arg(long)]
        reason: String,
        /// When the unused part expires, as for `grant-credits`.
        #[arg(long, value_name = "TIME", value_parser = parse_end)]
        expires: Option<Timestamp>,
    },
    /// The credits that customers can still spend, by source and age.
    Liability {
        /// Prints a header and a line for each row, separated by commas.
        #[arg(long, conflicts_with = "json")]
        csv: bool,
    },
    /// Payments that matched no order: list, settle.
    #[command(subcommand)]
    Unmatched(UnmatchedWork),
    /// Creates a customer with a confirmed address; prints its key once.
    CreateCustomer {
        /// The customer's email address. It counts as confirmed, and no email is sent.
        #[arg(long)]
        email: Email,
        /// The customer's name.
        #[arg(long, default_value = "")]
        name: String,
        /// Credits to start with.
        #[arg(long, default_value_t = 0, allow_negative_numbers = true, value_parser = parse_credits)]
        credits: i64,
        /// The customer's permissions as staff: support.read, data-export.manage, customers.read,
        /// customers.write, billing.write. May be given more than once.
        #[arg(long = "permission", value_name = "PERMISSION")]
        permissions: Vec<Permission>,
    },
    /// Gives a customer a permission as staff.
    GrantPermission {
        /// The customer: an id or an email address.
        #[arg(long)]
        customer: CustomerRef,
        /// The permission: support.read (view calls, exports and usage of customers who allow it),
        /// data-export.manage (also remove exports of such customers); on the admin listener:
        /// customers.read, customers.write, billing.write.
        #[arg(long)]
        permission: Permission,
    },
    /// Revokes a permission, effective with the next request.
    RevokePermission {
        /// The customer: an id or an email address.
        #[arg(long)]
        customer: CustomerRef,
        /// The permission.
        #[arg(long)]
        permission: Permission,
    },
    /// Lists who has which permission as staff.
    ListPermissions,
    /// Grants credits to a customer; a negative amount takes them back.
    GrantCredits {
        /// The customer: an id or an email address.
        #[arg(long)]
        customer: CustomerRef,
        /// How many credits to grant, or to take back if negative. Not 0.
        #[arg(long, allow_negative_numbers = true, value_parser = parse_credits)]
        credits: i64,
        /// A ticket or a sentence of at most 200 characters. A reference is recorded once:
        /// repeating it with the same amount changes nothing, with another amount it is an error.
        #[arg(long)]
        reference: String,
        /// When the unused part of the gift expires: a time such as 2027-01-31T12:00:00Z, or a
        /// date, whose whole day (UTC) is included; 3000-01-01 at the latest. Without it the
        /// credits do not expire.
        #[arg(long, value_name = "TIME", value_parser = parse_end)]
        expires: Option<Timestamp>,
    },
    /// Revokes a key permanently, on every node.
    DisableKey {
        /// The key's id (`key_…`), as `GET /v1/auth/keys` and the log name it; not its secret.
        #[arg(long)]
        key: KeyId,
    },
    /// Wraps every customer's data key with a new master key.
    RotateMasterKey,
    /// Retries jobs (such as emails to send) that were given up.
    RetryJobs,
    /// Compares the payment processor's recent payments with the ledger and grants what was paid
    /// but is missing: after a restore, or after a time without events.
    Reconcile {
        /// Hours to look back: 1 to 8784, a year.
        #[arg(long, default_value_t = 72, value_parser = clap::value_parser!(i64).range(1..=node::start::HOURS_MAX))]
        hours: i64,
    },
}

/// Parses a number of credits that the ledger can hold.
fn parse_credits(text: &str) -> Result<i64, String> {
    let credits: Option<i64> = text.parse().ok();
    let credits = credits.filter(|credits| (-CREDITS_MAX..=CREDITS_MAX).contains(credits));
    credits
        .ok_or_else(|| format!("expected a whole number between -{CREDITS_MAX} and {CREDITS_MAX}"))
}

/// Parses a time with a zone, or a date: the end of that day.
fn parse_end(text: &str) -> Result<Timestamp, String> {
    let end_of_day = || {
        let start = Timestamp::from_rfc3339(&format!("{text}T00:00:00Z"))?;
        Some(start.day().plus_days(1).start())
    };
    let is_far = |end: &Timestamp| *end > GIFT_END_MAX;
    let end = Timestamp::from_rfc3339(text).or_else(end_of_day);
    if end.as_ref().is_some_and(is_far) || text.starts_with("9999-12-3") {
        return Err(
            "too late: 3000-01-01 at the latest; leave it out for credits that do not expire"
                .to_owned(),
        );
    }
    end.ok_or_else(|| {
        "expected a time with a zone, Z or from -23:59 to +23:59, such as 2027-01-31T12:00:00Z, or a date such as \
         2027-01-31"
            .to_owned()
    })
}

/// What is to be done, and by which part of the service.
enum AdminWork {
    /// A staff command.
    Staff(staff::StaffCommand),
    /// A look at customers, calls or payments, or a change of them.
    Operator(OperatorWork),
    /// A comparison with the payment processor, over this many hours.
    Reconcile(i64),
    /// The report of outstanding credits, as csv or not.
    Liability(bool),
}

impl AdminSubcommand {
    fn sorted(self) -> AdminWork {
        use staff::StaffCommand;
        AdminWork::Staff(match self {
            Self::Customers(work) => return AdminWork::Operator(work.into()),
            Self::Calls(work) => return AdminWork::Operator(work.into()),
            Self::Refund(work) => return AdminWork::Operator(work.into()),
            Self::Disputes(work) => return AdminWork::Operator(work.into()),
            Self::Unmatched(work) => return AdminWork::Operator(work.into()),
            Self::Reconcile { hours } => return AdminWork::Reconcile(hours),
            Self::Liability { csv } => return AdminWork::Liability(csv),
            Self::Grant { customer, credits, reason, expires } => StaffCommand::GrantCredits {
                customer,
                credits,
                reference: reason,
                expires_at: expires,
            },
            Self::CreateCustomer { email, name, credits, permissions } => {
                StaffCommand::CreateCustomer { email, name, credits, permissions }
            }
            Self::GrantPermission { customer, permission } => {
                StaffCommand::GrantPermission { customer, permission }
            }
            Self::RevokePermission { customer, permission } => {
                StaffCommand::RevokePermission { customer, permission }
            }
            Self::ListPermissions => StaffCommand::ListPermissions,
            Self::GrantCredits { customer, credits, reference, expires } => {
                StaffCommand::GrantCredits { customer, credits, reference, expires_at: expires }
            }
            Self::DisableKey { key } => StaffCommand::DisableKey { key },
            Self::RotateMasterKey => StaffCommand::RotateMasterKey,
            Self::RetryJobs => StaffCommand::RetryJobs,
        })
    }
}

/// Runs the command and prints the result.
pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let config = match &options.data {
        Some(folder) => super::verify::sandbox_config(folder)?,
        None => options.file.load()?,
    };
    let name = options.operator.or_else(system_user);
    let (name, is_json) = (name.as_ref(), options.json);
    match options.work.sorted() {
        AdminWork::Reconcile(hours) => {
            return Box::pin(reconcile(config, hours, is_json)).await;
        }
        AdminWork::Liability(is_csv) => {
            let format = match (is_csv, is_json) {
                (true, _) => ReportFormat::Csv,
                (false, true) => ReportFormat::Json,
                (false, false) => ReportFormat::Table,
            };
            Box::pin(liability::run(config, name, format)).await?;
        }
        AdminWork::Operator(OperatorWork::Export { customer, output }) => {
            let exporting = Box::pin(operators::export(config, name, &customer, &output));
            let bytes = exporting.await?;
            if is_json {
                let file = output.display().to_string();
                let done =
                    serde_json::json!({"done": "customer_exported", "file": file, "bytes": bytes});
                say_line!("{done}")?;
            } else {
                say_line!("{}: {bytes} bytes", output.display())?;
            }
        }
        AdminWork::Operator(OperatorWork::Command(command)) => {
            let done = Box::pin(operators::run(config, name, command)).await?;
            if is_json {
                say_line!("{}", serde_json::to_string(&done)?)?;
            } else {
                operator_tables::print(&done)?;
            }
        }
        AdminWork::Staff(command) => {
            let done = run_staff(&config, name, &command).await?;
            if is_json {
                say_line!("{}", serde_json::to_string(&done)?)?;
            } else {
                print(&done)?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The name of the user who runs the command, as far as the system says and the audit list takes
/// it.
fn system_user() -> Option<OperatorName> {
    let mut named = ["USER", "LOGNAME"].into_iter().filter_map(|name| std::env::var(name).ok());
    named.find_map(|name| name.parse().ok())
}

async fn run_staff(
    config: &Config,
    name: Option<&OperatorName>,
    command: &staff::StaffCommand,
) -> anyhow::Result<StaffOutcome> {
    let who = OperatorIdentity::of(name.cloned());
    match node::start::run_staff_command(config, &who, command.clone()).await {
        Ok(done) => Ok(done),
        Err(failure) if failure.is_held_by_a_server() => {
            let server = server_of(config.embedded_database().as_deref())?;
            server.ask("/commands", name, &serde_json::to_vec(command)?).await
        }
        Err(failure) => Err(failure.into()),
    }
}

fn print(done: &StaffOutcome) -> anyhow::Result<()> {
    match done {
        StaffOutcome::CustomerCreated {
            customer_id,
            email,
            key_id,
            api_key,
            credits,
            permissions,
        } => {
            say_line!("customer {customer_id} ({email}) with {credits} credits")?;
            for permission in permissions {
                say_line!("with the permission {permission}")?;
            }
            say_line!("key {key_id}: {api_key}")?;
            say_line!("The key is not shown again.")?;
        }
        StaffOutcome::CreditsGranted {
            customer_id,
            credits,
            applied,
            expires_at,
            balance,
            debt,
        } => {
            let word =
                if *applied { "recorded" } else { "had been recorded before: nothing changed" };
            let end = expires_at.map_or_else(String::new, |end| format!(", expiring at {end}"));
            let owed = if *debt > 0 { format!(", the debt {debt}") } else { String::new() };
            say_line!(
                "{credits} credits for {customer_id} {word}{end}; the balance is {balance}{owed}"
            )?;
        }
        StaffOutcome::PermissionGranted { customer_id, permission, applied: true } => {
            say_line!("{customer_id} has the permission {permission} from now on")?;
        }
        StaffOutcome::PermissionGranted { customer_id, permission, applied: false } => {
            say_line!("{customer_id} had the permission {permission} before: nothing changed")?;
        }
        StaffOutcome::PermissionRevoked { customer_id, permission } => {
            say_line!("{customer_id} no longer has the permission {permission}")?;
        }
        StaffOutcome::Permissions { staff } if staff.is_empty() => {
            say_line!("no customer has a permission")?;
        }
        StaffOutcome::Permissions { staff } => {
            let width = staff.iter().map(|member| member.email.len()).max().unwrap_or_default();
            for StaffPermission { customer_id, email, permission, granted_at } in staff {
                say_line!("{email:width$}  {customer_id}  {permission:18}  since {granted_at}")?;
            }
        }
        StaffOutcome::KeyDisabled { key_id } => say_line!("key {key_id} is revoked")?,
        StaffOutcome::MasterKeyRotated { master_key_id, rewrapped, key_file } => {
            say_line!("{rewrapped} data key(s) are now wrapped by the master key {master_key_id}")?;
            if let Some(path) = key_file {
                say_line!("Back up {path} now, apart from the database: backups of the database")?;
                say_line!(
                    "from now on open with it alone. Keep the earlier copy of the file as long"
                )?;
                say_line!("as you keep earlier backups of the database.")?;
            }
        }
        StaffOutcome::JobsRetried { jobs } => say_line!("{jobs} job(s) will be retried")?,
    }
    Ok(())
}

/// Compares the payment processor with the ledger, in the service that has the database open if
/// there is one.
async fn reconcile(config: Config, hours: i64, is_json: bool) -> anyhow::Result<ExitCode> {
    let database = config.embedded_database();
    let report: ReconciliationReport = match Box::pin(node::start::reconcile(config, hours)).await {
        Ok(report) => report,
        Err(failure) if failure.is_held_by_a_server() => {
            let json = serde_json::to_vec(&serde_json::json!({ "hours": hours }))?;
            server_of(database.as_deref())?.ask("/reconcile", None, &json).await?
        }
        Err(failure) => return Err(failure.into()),
    };
    if is_json {
        say_line!("{}", serde_json::to_string(&report)?)?;
    } else {
        let ReconciliationReport { hours: covered, looked_at, granted, events, .. } = report;
        let ReconciliationReport { unmatched, failed, limited_s, .. } = report;
        say_line!("checked {looked_at} object(s) of the last {covered} hours")?;
        say_line!("granted {granted} payment(s) that were missing from the ledger")?;
        say_line!("processed {events} event(s) that had not arrived")?;
        say_line!("{unmatched} payment(s) match no order; {failed} failure(s), see the log")?;
        if let Some(seconds) = limited_s {
            say_line!("the processor limits requests: try again in {seconds} s for the rest")?;
        }
    }
    Ok(if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The admin listener of a service on this machine.
pub(crate) struct AdminServer {
    address: String,
    token: String,
}

/// The service that has the embedded database open.
pub(crate) fn server_of(database: Option<&Path>) -> anyhow::Result<AdminServer> {
    let path = database.ok_or_else(|| anyhow!("the database is in use by a running service"))?;
    let file = node::start::admin_file(path);
    let text = std::fs::read_to_string(&file).with_context(|| {
        format!("a running service uses the database, but {} cannot be read", file.display())
    })?;
    let (address, token) = text.trim().split_once('\n').context("the admin file is malformed")?;
    Ok(AdminServer { address: address.to_owned(), token: token.to_owned() })
}

impl AdminServer {
    /// A path of this service, and who asks for it.
    pub(crate) fn to<'a>(
        &'a self,
        path: &'a str,
        name: Option<&'a OperatorName>,
    ) -> Destination<'a> {
        let operator = name.map(OperatorName::as_str);
        Destination { address: &self.address, path, token: &self.token, operator }
    }

    /// Sends a command and reads its result.
    pub(crate) async fn ask<T: serde::de::DeserializeOwned>(
        &self,
        path: &str,
        name: Option<&OperatorName>,
        json: &[u8],
    ) -> anyhow::Result<T> {
        let answer = super::request::post(&self.to(path, name), json).await?;
        if answer.status == 200 {
            return Ok(serde_json::from_slice(&answer.body)?);
        }
        Err(anyhow!("{}", refusal(&answer.body)))
    }
}

/// What the service says about a command that it refused.
pub(crate) fn refusal(body: &[u8]) -> String {
    let refused: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let error = refused.get("error").and_then(serde_json::Value::as_str);
    error.unwrap_or("the service refused the command").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gift_expires_at_a_time_or_after_a_whole_day() {
        let read = |text| parse_end(text).map(Timestamp::to_rfc3339);

        assert_eq!(read("2027-01-31"), Ok("2027-02-01T00:00:00.000000Z".to_owned()));
        assert_eq!(read("2027-01-31T12:00:00+02:00"), Ok("2027-01-31T10:00:00.000000Z".to_owned()));
        let malformed = [
            "",
            "soon",
            "2027-02-30",
            "2027-01-31T12:00:00",
            "31.01.2027",
            "2027-01-31T12:00:00+25:00",
        ];
        for wrong in malformed {
            let problem = read(wrong).unwrap_err();
            assert!(problem.starts_with("expected a time with a zone"), "{wrong}: {problem}");
        }
        assert_eq!(read("3000-01-01T00:00:00Z"), Ok("3000-01-01T00:00:00.000000Z".to_owned()));
        for far in ["3000-01-01T00:00:01Z", "3000-01-01", "9999-12-31", "9999-12-31T23:59:59Z"] {
            assert!(read(far).unwrap_err().starts_with("too late"), "{far}");
        }
    }

    #[test]
    fn amounts_are_whole_numbers_that_the_ledger_can_hold() {
        assert_eq!(parse_credits("-7"), Ok(-7));
        assert_eq!(parse_credits("1000000000000"), Ok(1_000_000_000_000));
        for wrong in
            ["", "1.5", "1e3", "1000000000001", "9223372036854775807", "99999999999999999999"]
        {
            assert_eq!(
                parse_credits(wrong),
                Err("expected a whole number between -1000000000000 and 1000000000000".to_owned()),
                "{wrong}"
            );
        }
    }
}
