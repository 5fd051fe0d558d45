//! A customer with something in every table that has something of customers, and a look at all
//! tables.

use domain::charge::Outcome;
use domain::id::{DataKeyId, JobId, SessionId};
use domain::job::JobKind;
use domain::mail::LinkPurpose;
use domain::notice::NoticeKind;
use domain::staff::Permission;
use domain::token::SecretToken;
use store::accounts::{self, NewAccount, SealedCredentials};
use store::audit::{self, AuditEntry};
use store::cards::{self, SavedCard};
use store::change_previews::{self, StoredPreview};
use store::customers::{self, NewCustomer, PasswordHash};
use store::data_keys::{self, DataKey};
use store::exports::{self, NewExport};
use store::idempotency::StoredAnswer;
use store::invoices::{self, StoredInvoice};
use store::jobs::{self, NewJob};
use store::keys::{NewKey, NewSecret};
use store::mail_links::{self, NewEmailLink};
use store::metering::{CallResolution, Hold, IdempotencyClaim};
use store::order_payments::{self, OrderReceipt};
use store::sent_notices::{self, NoticeReason};
use store::sessions::{self, NewSession, VerifiedLogin};
use store::{DatabaseKind, Store, email_changes, payments, permissions, support_access, testing};

use crate::exports::{claimed, new_export, published};
use crate::support::{
    NOON, TestCaller, TestMetering, create_key, creator, entry, fresh_secret, grant, is_held,
    new_account, new_customer, new_key, resolution, unique,
};

/// A customer whose texts all contain `name`, apart from what the ledger needs of it.
pub(crate) async fn whole_customer(store: &Store, name: &str) -> TestCaller {
    let caller = registered(store, name).await;
    grant(store, caller.customer, 100).await;
    grant(store, caller.customer, 50).await;
    log_in(store, &caller, name).await;
    connect(store, &caller, name).await;
    ask_for_email(store, &caller, name).await;
    call(store, &caller, name).await;
    export(store, &caller, name).await;
    pay(store, &caller, name).await;
    decide(store, &caller, name).await;
    caller
}

/// Registers the customer with a key, and creates another one that is limited to an account.
async fn registered(store: &Store, name: &str) -> TestCaller {
    let named_key = |number: u8| NewKey {
        name: format!("{name}'s robot {number}"),
        secret: NewSecret {
            shown_prefix: format!("cgw_live_{name}_{number}"),
            shown_suffix: format!("{name}{number}"),
            ..fresh_secret()
        },
        ..new_key(fresh_secret())
    };
    let new = NewCustomer {
        name: format!("Lady {name}"),
        password_hash: PasswordHash(format!("$argon2id${name}")),
        first_key: named_key(1),
        ..new_customer(&format!("{name}@example.com"))
    };
    customers::create(store, &new).await.unwrap();
    let caller = TestCaller {
        customer: new.id,
        key: new.first_key.id,
        key_hash: new.first_key.secret.hash,
        key_version: 0,
        account: creator("ada"),
        account_version: 0,
    };
    accounts::connect(store, &new_account(caller.customer, "ada")).await.unwrap();
    let limited = NewKey { accounts: vec![creator("ada")], ..named_key(2) };
    create_key(store, caller.customer, &limited).await;
    let found = accounts::find(store, caller.customer, &caller.account).await.unwrap().unwrap();
    TestCaller { account_version: found.version, ..caller }
}

/// Stores the networks of all sessions, as earlier versions did at a login.
const NETWORKS_OF_SESSIONS: &str = "
    insert into login_networks (customer_id, network, last_login_at)
    select customer_id, network, created_at from sessions where true on conflict do nothing";

async fn log_in(store: &Store, caller: &TestCaller, name: &str) {
    for number in 0..3_u8 {
        let mut bytes = [number; 32];
        bytes[..10].copy_from_slice(&unique());
        let session = NewSession {
            id: SessionId::new(NOON, unique()),
            customer: caller.customer,
            token_hash: SecretToken::new(bytes).hash(),
            user_agent: format!("{name}Browser/{number}"),
            network: format!("{name}.{number}/24"),
            created_at: NOON,
        };
        let checked = PasswordHash(format!("$argon2id${name}"));
        let login = VerifiedLogin {
            session: &session,
            checked: &checked,
            rehashed: None,
            replaced: None,
            sessions_max: 50,
        };
        assert!(sessions::log_in(store, &login).await.unwrap());
    }
    testing::run_raw(store, NETWORKS_OF_SESSIONS).await.unwrap();
}

async fn connect(store: &Store, caller: &TestCaller, name: &str) {
    let data_key = DataKey {
        id: DataKeyId::new(NOON, unique()),
        customer: caller.customer,
        wrapped: format!("wrapped {name}").into_bytes(),
        master_key: "first".to_owned(),
        created_at: NOON,
    };
    data_keys::create_first(store, &data_key).await.unwrap();
    let account = NewAccount {
        platform_account_id: format!("{name}-4711"),
        credentials: SealedCredentials {
            sealed: format!("token of {name}").into_bytes(),
            data_key: data_key.id,
            scopes: Some(vec![format!("read:{name}"), "write:chat".to_owned()]),
            token_expires_at: Some(NOON.plus_seconds(60)),
        },
        ..new_account(caller.customer, "bob")
    };
    accounts::connect(store, &account).await.unwrap();
}

async fn ask_for_email(store: &Store, caller: &TestCaller, name: &str) {
    let email: domain::customer::Email = format!("new-{name}@example.com").parse().unwrap();
    email_changes::request(store, caller.customer, &email, &[], NOON).await.unwrap();
    let mut bytes = [0; 32];
    bytes[..10].copy_from_slice(&unique());
    let link = NewEmailLink {
        hash: SecretToken::new(bytes).hash(),
        customer: caller.customer,
        purpose: LinkPurpose::ChangeEmail,
        email,
        created_at: NOON,
    };
    assert!(mail_links::create(store, &link).await.unwrap());
    let job = NewJob {
        id: JobId::new(NOON, unique()),
        kind: JobKind::SendMail,
        payload: format!(r#"{{"customer":"{}","to":"new-{name}"}}"#, caller.customer),
        created_at: NOON,
    };
    jobs::enqueue(store, &job).await.unwrap();
}

/// Makes three calls, one of them with an `Idempotency-Key` and a stored response.
async fn call(store: &Store, caller: &TestCaller, name: &str) {
    let metering = TestMetering::start(store).await;
    for number in 0..3_i64 {
        let claim = IdempotencyClaim {
            key_hash: [1; 32],
            fingerprint: [2; 32],
            identity: None,
            expires_at: NOON.plus_seconds(60),
        };
        let idempotency = (number == 0).then_some(claim);
        let answer = idempotency.is_some().then(|| StoredAnswer {
            status: 200,
            sealed: format!("response for {name}").into_bytes(),
        });
        let hold = Hold { idempotency, ..caller.hold(1 + number) };
        assert!(is_held(&metering.hold(hold.clone()).await));
        let end = CallResolution { answer, ..resolution(hold.call_id, Outcome::Answered) };
        assert!(metering.meter.resolve(end).await);
    }
    metering.stop().await;
}

/// Makes an export with a file.
async fn export(store: &Store, caller: &TestCaller, name: &str) {
    let new = NewExport {
        params: format!(r#"{{"owner":"{name}"}}"#),
        start_date: Some(format!("the birthday of {name}")),
        ..new_export(caller)
    };
    exports::create(store, &new).await.unwrap();
    let lease = claimed(store, NOON).await.unwrap();
    assert!(published(store, &lease, NOON).await);
}

/// Buys a pack with a receipt and an invoice, and saves a card.
async fn pay(store: &Store, caller: &TestCaller, name: &str) {
    let payer = crate::payments::link(store, caller).await;
    let card = SavedCard {
        fingerprint: Some(format!("print of {name}")),
        ..crate::processor::card(&format!("pm_{name}"))
    };
    cards::save(store, caller.customer, &card, NOON).await.unwrap();
    let order = crate::payments::ordered(store, caller, &payer).await;
    let intent = format!("pi_{}", order.id);
    payments::fulfil(store, &crate::payments::paid(&order, &intent)).await.unwrap();
    let url = format!("https://pay.example.com/{name}");
    let receipt = OrderReceipt { order: order.id, charge_id: &intent, url: &url };
    order_payments::note_receipt(store, &receipt).await.unwrap();
    let id = format!("in_{}", order.id);
    let invoice = StoredInvoice {
        order: Some(order.id),
        hosted_url: Some(url.clone()),
        pdf_url: Some(url),
        ..crate::invoices::invoice(caller.customer, &id, NOON)
    };
    invoices::insert(store, &invoice).await.unwrap();
}

/// What the customer and the operator decided.
async fn decide(store: &Store, caller: &TestCaller, name: &str) {
    let customer = caller.customer;
    assert!(crate::top_ups::turn_on(store, caller, 5_000, NOON).await);
    let choice = store::notice_choices::NoticeChoice {
        kind: NoticeKind::Exports,
        is_on: true,
        threshold: None,
    };
    crate::customer_notices::choose(store, caller, choice).await;
    let subjects = [format!("{name}'s card")];
    let reason =
        NoticeReason { kind: NoticeKind::ExpiringCard, customer, subjects: &subjects, at: NOON };
    let email = NewJob {
        payload: format!(r#"{{"customer":"{customer}","about":"{name}"}}"#),
        ..crate::customer_notices::email()
    };
    assert!(sent_notices::send_once(store, &reason, &email).await.unwrap());
    let preview = StoredPreview {
        subject: format!("slots of {name}"),
        wanted: "3".to_owned(),
        proration_date_s: NOON.unix_seconds(),
        made_at: NOON,
    };
    change_previews::remember(store, customer, &preview).await.unwrap();
    let until = NOON.plus_seconds(3_600);
    support_access::enable(store, until, &entry(customer)).await.unwrap();
    permissions::grant(store, customer, Permission::SupportRead, &entry(customer)).await.unwrap();
    let noted = AuditEntry { details: format!("{name} was here"), ..entry(customer) };
    audit::record(store, &noted).await.unwrap();
}

/// A row of any table, as a text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AnyRow {
    pub(crate) table: String,
    pub(crate) text: String,
}

/// The rows of all tables that contain the text, in clear or in bytes.
pub(crate) async fn rows_with(store: &Store, text: &str) -> Vec<AnyRow> {
    let hex = hex::encode(text);
    let mut found = Vec::new();
    for table in tables(store).await {
        for row in rows(store, &table).await {
            let lower = row.to_lowercase();
            if lower.contains(text) || lower.contains(&hex) {
                found.push(AnyRow { table: table.clone(), text: row });
            }
        }
    }
    found.sort();
    found
}

async fn tables(store: &Store) -> Vec<String> {
    let sql = match store.database() {
        DatabaseKind::Sqlite => {
            "select name as line from sqlite_master where type = 'table' and name not like 'sqlite%'"
        }
        DatabaseKind::Postgres => {
            "select cast(tablename as text) as line from pg_tables
             where schemaname = current_schema()"
        }
    };
    testing::lines(store, sql).await.unwrap()
}

async fn rows(store: &Store, table: &str) -> Vec<String> {
    let shown = match store.database() {
        DatabaseKind::Postgres => format!("cast({table} as text)"),
        DatabaseKind::Sqlite => {
            let columns = format!("select name as line from pragma_table_info('{table}')");
            let columns = testing::lines(store, kept(columns)).await.unwrap();
            let quoted: Vec<_> =
                columns.iter().map(|column| format!("quote(\"{column}\")")).collect();
            quoted.join(" || ' ' || ")
        }
    };
    let sql = kept(format!("select {shown} as line from {table}"));
    testing::lines(store, sql).await.unwrap()
}

/// A statement that is made while the test runs, kept until the process ends.
fn kept(sql: String) -> &'static str {
    Box::leak(sql.into_boxed_str())
}
