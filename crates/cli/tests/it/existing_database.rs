//! Commands that need a database that exists: they never create one, and never migrate.

use std::path::Path;
use std::process::Command;

use crate::process::{fails, ok};

const CUSTOMER: &str = "cus_019ab3c4d5e67f8091a2b3c4d5e6f708";
const KEY: &str = "key_019ab3c4d5e67f8091a2b3c4d5e6f708";
const REQUEST: &str = "req_019ab3c4d5e67f8091a2b3c4d5e6f708";
const ORDER: &str = "ord_019ab3c4d5e67f8091a2b3c4d5e6f708";

/// Every command that works on a database and is none of `serve`, `migrate` and `sandbox`.
const COMMANDS: &[&[&str]] = &[
    &["verify"],
    &["admin", "create-customer", "--email", "ada@example.com"],
    &["admin", "grant-credits", "--customer", CUSTOMER, "--credits", "1", "--reference", "x"],
    &["admin", "disable-key", "--key", KEY],
    &["admin", "grant-permission", "--customer", CUSTOMER, "--permission", "support.read"],
    &["admin", "revoke-permission", "--customer", CUSTOMER, "--permission", "support.read"],
    &["admin", "list-permissions"],
    &["admin", "rotate-master-key"],
    &["admin", "retry-jobs"],
    &["admin", "reconcile", "--hours", "1"],
    &["admin", "liability"],
    &["admin", "grant", CUSTOMER, "1", "--reason", "x"],
    &["admin", "refund", ORDER],
    &["admin", "calls", "show", REQUEST],
    &["admin", "unmatched", "list"],
    &["admin", "customers", "list"],
    &["admin", "customers", "find", "ada"],
    &["admin", "customers", "show", CUSTOMER],
    &["admin", "customers", "suspend", CUSTOMER, "--reason", "x"],
    &["admin", "customers", "resume", CUSTOMER],
    &["admin", "customers", "end-sessions", CUSTOMER],
    &["admin", "customers", "export", CUSTOMER, "--output", "customer.zip"],
    &["admin", "customers", "erase", CUSTOMER, "--dry-run"],
];

fn files(folder: &Path) -> Vec<String> {
    let found = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        found.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs statements on the database of this folder.
fn change(folder: &Path, sql: &str) {
    let program = "import sqlite3, sys; d = sqlite3.connect('creator-gateway.db'); \
        d.executescript(sys.argv[1]); d.commit()";
    let done = Command::new("python3").args(["-c", program, sql]).current_dir(folder).status();
    assert!(done.unwrap().success());
}

#[test]
fn in_a_folder_without_a_database_they_name_its_path_and_create_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let path = folder.canonicalize().unwrap().join("creator-gateway.db");
    let expected = format!(
        "error: there is no database at {}; run this in the folder of the service, or set database.url to an \
         absolute path; `creator-gateway serve` or `migrate` creates one\n",
        path.display()
    );

    for arguments in COMMANDS {
        let said = fails(folder, arguments);

        assert!(said.ends_with(&expected), "{arguments:?}: {said}");
        assert_eq!(files(folder), [""; 0], "{arguments:?}");
    }
}

#[test]
fn they_refuse_an_older_schema_and_an_empty_database_and_name_migrate() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ok(folder, &["migrate"]);
    change(
        folder,
        "delete from _sqlx_migrations where version = (select max(version) from _sqlx_migrations)",
    );

    for arguments in COMMANDS {
        let said = fails(folder, arguments);
        assert!(said.contains("creator-gateway.db is older than this version: "), "{said}");
        assert!(said.contains("run `creator-gateway migrate`"), "{arguments:?}: {said}");
    }
    change(folder, "drop table _sqlx_migrations");
    for arguments in COMMANDS {
        let said = fails(folder, arguments);
        assert!(said.contains("creator-gateway.db has no tables of creator-gateway"), "{said}");
    }
}

/// `migrate` creates the file of the master keys with the database; nothing else does later.
#[test]
fn a_missing_key_file_is_named_and_not_created() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ok(folder, &["migrate"]);
    let keys = folder.canonicalize().unwrap().join("creator-gateway.keys");
    std::fs::remove_file(&keys).unwrap();

    for arguments in [&["admin", "list-permissions"][..], &["admin", "reconcile", "--hours", "1"]] {
        let said = fails(folder, arguments);

        assert!(said.contains(&format!("there is no master key file at {}", keys.display())));
        assert!(!keys.exists(), "{arguments:?}");
    }
    ok(folder, &["migrate"]);
    ok(folder, &["admin", "create-customer", "--email", "ada@example.com"]);
}
