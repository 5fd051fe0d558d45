//! `serve` and what works beside it: one service per file, staff work with and without it, the
//! ledger.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::process::{Running, command, fails, get, ok, request, run};

const CONFIG: &str = "
[http]
listen = \"127.0.0.1:0\"
cores = 1
[admin]
listen = \"127.0.0.1:0\"
[log]
format = \"json\"
";

/// A folder with a configuration and a database in it.
pub(crate) fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("gateway.toml"), CONFIG).unwrap();
    ok(folder.path(), &with_config(&["migrate"]));
    folder
}

const WITH: [&str; 2] = ["--config", "gateway.toml"];

pub(crate) fn with_config<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    arguments.iter().copied().chain(WITH).collect()
}

/// The service, and the address on which it says that it listens.
pub(crate) fn serve(folder: &Path) -> (Running, String) {
    let (running, base, _admin) = serve_with_admin(folder);
    (running, base)
}

/// The same, and the address of its admin listener.
fn serve_with_admin(folder: &Path) -> (Running, String, String) {
    let mut command = command(folder, &with_config(&["serve"]));
    let log = folder.join("log");
    command.stderr(std::fs::File::create(&log).unwrap());
    let running = Running::start(command);
    loop {
        let text = std::fs::read_to_string(&log).unwrap();
        let ready = text.lines().find(|line| line.contains("the service is listening"));
        if let Some(line) = ready.and_then(|line| serde_json::from_str::<Value>(line).ok()) {
            let url = |name: &str| format!("http://{}", line[name].as_str().unwrap());
            return (running, url("address"), url("admin_address"));
        }
        assert!(!text.contains("error:"), "{text}");
        std::thread::yield_now();
    }
}

pub(crate) fn admin(folder: &Path, arguments: &[&str]) -> Value {
    let mut all = vec!["admin", "--json"];
    all.extend(arguments);
    serde_json::from_str(&ok(folder, &with_config(&all))).unwrap()
}

pub(crate) fn create(folder: &Path, email: &str) -> (String, String, String) {
    let made = admin(folder, &["create-customer", "--email", email, "--credits", "50"]);
    let text = |name: &str| made[name].as_str().unwrap().to_owned();
    (text("customer_id"), text("key_id"), text("api_key"))
}

/// Staff work is the same whether the database is free or a service has it open.
#[test]
fn staff_work_with_and_without_a_service() {
    let folder = folder();
    let folder = folder.path();
    let (customer, _, key) = create(folder, "before@example.com");
    let grant = ["grant-credits", "--customer", &customer, "--credits", "7", "--reference", "a"];
    assert_eq!(admin(folder, &grant)["balance"], 57);
    let mut other_amount = grant;
    other_amount[4] = "8";
    fails(folder, &with_config(&[&["admin"], &other_amount[..]].concat()));

    let (server, base) = serve(folder);
    assert_eq!(get(&base, "/v1/billing", &key)["balance"], 57);
    let again = admin(folder, &grant);
    assert_eq!((&again["applied"], &again["balance"]), (&Value::Bool(false), &Value::from(57)));
    let take = ["grant-credits", "--customer", &customer, "--credits", "-7", "--reference", "b"];
    assert_eq!(admin(folder, &take)["balance"], 50);
    assert_eq!(get(&base, "/v1/billing", &key)["balance"], 50);
    let gift = |reference: &'static str, end: &'static str| {
        let args = ["--credits", "3", "--reference", reference, "--expires", end];
        [&["grant-credits", "--customer", customer.as_str()][..], &args[..]].concat()
    };
    let given = admin(folder, &gift("c", "2999-12-31"));
    assert_eq!(given["expires_at"], "3000-01-01T00:00:00.000000Z");
    assert_eq!((&given["balance"], &given["debt"]), (&Value::from(53), &Value::from(0)));
    let lots = get(&base, "/v1/billing", &key)["lots"].to_string();
    assert!(lots.contains("3000-01-01T00:00:00.000000Z"), "{lots}");
    let late = fails(folder, &with_config(&[&["admin"], &gift("d", "2026-01-01")[..]].concat()));
    assert_eq!(late, "error: --expires must be in the future\n");
    let other = fails(folder, &with_config(&[&["admin"], &other_amount[..]].concat()));
    assert_eq!(
        other,
        "error: --reference \"a\" was already used for 7 credits, not for 8 credits; nothing was changed; use another \
         reference for another grant\n"
    );
    let (_, beside, beside_key) = create(folder, "beside@example.com");
    assert_eq!(get(&base, "/v1/billing", &beside_key)["balance"], 50);
    admin(folder, &["disable-key", "--key", &beside]);
    assert_eq!(request(&base, "GET", "/v1/whoami", &beside_key, "").0, 401);
    let rotated = admin(folder, &["rotate-master-key"]);
    assert!(rotated["master_key_id"].is_string(), "{rotated}");
    let told = ok(folder, &with_config(&["admin", "rotate-master-key"]));
    let backup = format!("Back up {}", rotated["key_file"].as_str().unwrap());
    assert!(told.contains(&backup), "{told}");
    let closed = fails(folder, &with_config(&["admin", "disable-key", "--key", &beside]));
    assert_eq!(closed, format!("error: there is no open key {beside}\n"));
    assert_eq!(server.stop("TERM").0, 0);

    assert!(admin(folder, &["rotate-master-key"])["master_key_id"].is_string());
    let refused =
        fails(folder, &with_config(&["admin", "create-customer", "--email", "BEFORE@example.com"]));
    assert_eq!(refused, "error: a customer with this address already exists\n");
    assert_eq!(
        ok(folder, &with_config(&["verify"])),
        "the ledger is consistent: no invariant is violated\n"
    );
}

/// Permissions are granted and revoked in the database, and in the service that has it open.
#[test]
fn permissions_change_with_and_without_a_service() {
    let folder = folder();
    let folder = folder.path();
    let (victim, _, victim_key) = create(folder, "victim@example.com");
    let made = admin(
        folder,
        &["create-customer", "--email", "grace@example.com", "--permission", "support.read"],
    );
    let grace = made["api_key"].as_str().unwrap();
    let calls = format!("/v1/support/customers/{victim}/calls");
    let change = |what: &'static str, permission: &'static str| {
        [what, "--customer", "Grace@example.com", "--permission", permission]
    };

    let (server, base) = serve(folder);
    assert_eq!(request(&base, "GET", &calls, grace, "").0, 404);
    let consent = r#"{"enabled": true}"#;
    assert_eq!(request(&base, "POST", "/v1/support-access", &victim_key, consent).0, 200);
    assert_eq!(request(&base, "GET", &calls, grace, "").0, 200);
    admin(folder, &change("grant-permission", "data-export.manage"));
    let listed = admin(folder, &["list-permissions"]);
    let listed: Vec<&Value> =
        listed["staff"].as_array().unwrap().iter().map(|member| &member["permission"]).collect();
    assert_eq!(listed, ["data-export.manage", "support.read"]);
    admin(folder, &change("revoke-permission", "support.read"));
    assert_eq!(request(&base, "GET", &calls, grace, "").0, 403);
    assert_eq!(server.stop("TERM").0, 0);

    assert_eq!(
        admin(folder, &change("grant-permission", "data-export.manage"))["applied"],
        Value::Bool(false)
    );
    let customer = made["customer_id"].as_str().unwrap();
    let again = fails(
        folder,
        &with_config(&[&["admin"], &change("revoke-permission", "support.read")[..]].concat()),
    );
    assert_eq!(
        again,
        format!("error: the customer {customer} does not have the permission support.read\n")
    );
}

#[test]
fn the_text_output_names_permissions() {
    let folder = folder();
    let folder = folder.path();
    let said = |arguments: &[&str]| ok(folder, &with_config(&[&["admin"], arguments].concat()));
    let change = |what: &'static str| {
        [what, "--customer", "grace@example.com", "--permission", "support.read"]
    };

    let nobody = said(&["list-permissions"]);
    let created =
        said(&["create-customer", "--email", "grace@example.com", "--permission", "support.read"]);
    let repeated = said(&change("grant-permission"));
    let listed = said(&["list-permissions"]);
    let revoked = said(&change("revoke-permission"));
    let unknown = fails(
        folder,
        &with_config(&[
            "admin",
            "grant-permission",
            "--customer",
            "nobody@example.com",
            "--permission",
            "support.read",
        ]),
    );
    let wrong = run(
        folder,
        &["admin", "grant-permission", "--customer", "grace", "--permission", "support.write"],
    );

    assert_eq!(nobody, "no customer has a permission\n");
    assert!(created.contains("\nwith the permission support.read\nkey key_"), "{created}");
    let id = listed.split_whitespace().nth(1).unwrap();
    assert_eq!(repeated, format!("{id} had the permission support.read before: nothing changed\n"));
    assert!(
        listed.starts_with(&format!("grace@example.com  {id}  support.read  since 2")),
        "{listed}"
    );
    assert_eq!(revoked, format!("{id} no longer has the permission support.read\n"));
    assert_eq!(unknown, "error: there is no customer with the address nobody@example.com\n");
    assert!(
        wrong.0 == 2
            && wrong.2.contains("expected the id of a customer (cus_…) or an email address"),
        "{wrong:?}"
    );
}

#[test]
fn the_text_output_reports_staff_work() {
    let folder = folder();
    let folder = folder.path();

    let said = ok(
        folder,
        &with_config(&["admin", "create-customer", "--email", "a@b.cd", "--credits", "5"]),
    );

    let lines: Vec<&str> = said.lines().collect();
    assert!(
        lines[0].starts_with("customer cus_") && lines[0].ends_with("(a@b.cd) with 5 credits"),
        "{said}"
    );
    assert!(lines[1].starts_with("key key_") && lines[1].contains(": cgw_live_"), "{said}");
    assert_eq!(lines[2], "The key is not shown again.");
    let grant = ["admin", "grant-credits", "--customer", "a@b.cd", "--credits", "2"];
    let granted = ok(folder, &with_config(&[&grant[..], &["--reference", "gift"]].concat()));
    assert!(granted.ends_with("the balance is 7\n"), "{granted}");
}

#[test]
fn a_second_service_on_the_same_file_is_refused() {
    let folder = folder();
    let (server, _) = serve(folder.path());

    let refused = fails(folder.path(), &with_config(&["serve"]));

    assert!(refused.contains("creator-gateway.db is in use by another server"), "{refused}");
    let beside = ok(folder.path(), &with_config(&["verify"]));
    assert_eq!(beside, "the ledger is consistent: no invariant is violated\n");
    assert_eq!(server.stop("INT").0, 0);
}

/// A changed row is reported with the rule that it violates and its owner.
#[test]
fn verify_names_the_rule_that_a_tampered_row_violates() {
    let folder = folder();
    let folder = folder.path();
    let (customer, _, _) = create(folder, "a@b.cd");
    let tamper = "import sqlite3; d = sqlite3.connect('creator-gateway.db'); \
        d.execute('update customer_credits set granted = granted + 1, available = available + 1'); d.commit()";
    let done = Command::new("python3")
        .args(["-c", tamper])
        .current_dir(folder)
        .stdin(Stdio::null())
        .status();
    assert!(done.unwrap().success());

    let said = fails(folder, &with_config(&["verify"]));

    assert!(said.starts_with("2 row(s) violate an invariant:\n"), "{said}");
    assert!(said.contains("the credits left and spent in a customer's lots"), "{said}");
    assert!(
        said.contains("a customer's credits granted and removed equal the sum of its ledger"),
        "{said}"
    );
    assert!(said.contains(&customer), "{said}");
    assert!(said.contains("51") && said.contains("50"), "it shows both figures: {said}");
}

#[test]
fn a_registration_survives_a_restart() {
    let folder = folder();
    let folder = folder.path();
    let (_, _, key) = create(folder, "a@b.cd");
    let (server, base) = serve(folder);
    let form = r#"{"email":"c@d.ef","password":"correct horse"}"#;

    let (status, _, body) = request(&base, "POST", "/v1/auth/register", &key, form);

    assert_eq!(status, 201, "{body}");
    let made: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(server.stop("TERM").0, 0);
    let (again, base_again) = serve(folder);
    let who = get(&base_again, "/v1/whoami", made["api_key"].as_str().unwrap());
    assert_eq!(who["customer_id"], made["customer"]["customer_id"]);
    assert_eq!(again.stop("TERM").0, 0);
}

#[test]
fn missing_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();

    let no_data = fails(folder, &["verify", "--data", "nowhere"]);
    assert_eq!(no_data, "error: there is no database in nowhere\n");
    let refused = fails(folder, &["serve", "--config", "nowhere.toml"]);
    assert!(refused.contains("nowhere.toml is not usable"), "{refused}");
    assert!(refused.contains("there is no such file"), "{refused}");
    let (code, _, err) = run(folder, &["admin", "disable-key", "--key", "x"]);
    assert_eq!(code, 2);
    assert!(err.contains("expected an id that starts with `key_`"), "{err}");
}

#[test]
fn after_sigterm_it_keeps_serving_while_not_ready_until_the_next_signal() {
    let folder = folder();
    let folder = folder.path();
    let config = format!("{CONFIG}[http.timeouts]\nannounce_ms = 300000\n");
    std::fs::write(folder.join("gateway.toml"), config).unwrap();
    let (server, base, admin) = serve_with_admin(folder);
    let status = |url: &str, path: &str| request(url, "GET", path, "", "").0;
    assert_eq!(status(&admin, "/ready"), 200);

    server.signal("TERM");
    while status(&admin, "/ready") == 200 {
        std::thread::yield_now();
    }

    assert_eq!((status(&admin, "/ready"), status(&base, "/openapi.json")), (503, 200));
    assert_eq!(server.stop("TERM").0, 0);
}

#[test]
fn ctrl_c_does_not_wait_for_load_balancers() {
    let folder = folder();
    let folder = folder.path();
    let config = format!("{CONFIG}[http.timeouts]\nannounce_ms = 300000\n");
    std::fs::write(folder.join("gateway.toml"), config).unwrap();
    let (server, _) = serve(folder);

    assert_eq!(server.stop("INT").0, 0);
}
