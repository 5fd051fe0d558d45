//! The operator's commands as a person types them: tables, `--json`, `--dry-run`, and refusals. The
//! same on the database alone and in a service that has it open.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::process::{fails, ok, request};
use crate::serve::{admin, create, folder, serve, with_config};

/// The names in an archive and all of its text, as another program reads them.
const UNZIP: &str = "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; \
    print(' '.join(z.namelist())); [print(z.read(n).decode()) for n in z.namelist()]";

fn unzipped(folder: &Path, file: &str) -> String {
    let read = Command::new("python3").args(["-c", UNZIP, file]).current_dir(folder).output();
    let read = read.unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    String::from_utf8(read.stdout).unwrap()
}

fn text(folder: &Path, arguments: &[&str]) -> String {
    ok(folder, &with_config(&[&["admin", "--as", "grace"], arguments].concat()))
}

fn refused(folder: &Path, arguments: &[&str]) -> String {
    fails(folder, &with_config(&[&["admin"], arguments].concat()))
}

#[test]
fn operators_work_with_and_without_a_service() {
    let folder = folder();
    let folder = folder.path();
    let (ada, key_id, key) = create(folder, "ada@example.com");

    work(folder, &ada, &key_id);
    let (server, base) = serve(folder);
    work(folder, &ada, &key_id);
    let suspended = admin(folder, &["customers", "suspend", &ada, "--reason", "a test"]);
    assert_eq!(
        (&suspended["done"], &suspended["state"]),
        (&"suspension".into(), &"suspended".into())
    );
    assert_eq!(request(&base, "GET", "/v1/billing", &key, "").0, 403);
    assert_eq!(admin(folder, &["customers", "resume", &ada])["state"], "active");
    assert_eq!(request(&base, "GET", "/v1/billing", &key, "").0, 200);
    let audit = request(&base, "GET", "/v1/audit?action=operator.", &key, "").2;
    assert!(audit.contains("operator.customer_viewed") && !audit.contains("grace"), "{audit}");
    assert_eq!(server.stop("TERM").0, 0);

    erase(folder, &ada, &key);
}

/// Looks at the customer in every way.
fn work(folder: &Path, ada: &str, key_id: &str) {
    let listed = admin(folder, &["customers", "list", "--email", "ADA@"]);
    assert_eq!(listed["customers"][0]["customer_id"], ada);
    assert_eq!(listed["customers"][0]["balance"], 50);
    assert_eq!(text(folder, &["customers", "list", "--state", "erased"]), "no customer matches\n");
    let table = text(folder, &["customers", "list"]);
    assert!(
        table
            .starts_with(&format!("{ada}  ada@example.com  active  -  balance 50  debt 0  since ")),
        "{table}"
    );

    let found = admin(folder, &["customers", "find", key_id]);
    assert_eq!(
        (&found["done"], &found["matches"][0]["matched"]),
        (&"customers_found".into(), &"key".into())
    );
    assert_eq!(text(folder, &["customers", "find", "nobody"]), "nothing matches\n");

    let profile = admin(folder, &["customers", "show", "ada@example.com"]);
    assert_eq!((&profile["done"], &profile["customer_id"]), (&"customer".into(), &ada.into()));
    let shown = text(folder, &["customers", "show", ada]);
    for line in [
        "credits          50 available, 0 held, 0 spent, 0 owed\n",
        "\nlots\n  gift  50 of 50",
        "\nkeys\n",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert_eq!(
        refused(folder, &["customers", "show", "bob@example.com"]),
        "error: there is no customer bob@example.com\n"
    );
    assert_eq!(
        refused(folder, &["calls", "show", "req_019ab3c4d5e67f8091a2b3c4d5e6f708"]),
        "error: there is no call of the request req_019ab3c4d5e67f8091a2b3c4d5e6f708\n"
    );
    assert_eq!(
        refused(folder, &["refund", "ord_019ab3c4d5e67f8091a2b3c4d5e6f708"]),
        "error: there is no order ord_019ab3c4d5e67f8091a2b3c4d5e6f708\n"
    );
    assert_eq!(text(folder, &["unmatched", "list"]), "no payment waits for a decision\n");
    let granted =
        admin(folder, &["grant", ada, "5", "--reason", "ticket 1", "--expires", "2999-12-31"]);
    assert_eq!(granted["credits"], 5);
    let taken = ["grant-credits", "--customer", ada, "--credits", "-5", "--reference", "ticket 2"];
    admin(folder, &taken);
    export(folder, ada);
    let would = text(folder, &["customers", "suspend", ada, "--reason", "x", "--dry-run"]);
    assert_eq!(would, format!("{ada} would be suspended\n"));
}

fn export(folder: &Path, ada: &str) {
    let file = "ada.zip";
    let done = admin(folder, &["customers", "export", ada, "--output", file]);
    let length = std::fs::metadata(folder.join(file)).unwrap().len();
    assert_eq!((&done["done"], &done["bytes"]), (&"customer_exported".into(), &length.into()));
    let read = unzipped(folder, file);
    assert!(read.starts_with("customer.json keys.json "), "{read}");
    for part in [
        "ada@example.com",
        "operator:grace",
        "calls.csv call_totals.csv ledger.csv\n",
        "id,at,kind,amount",
    ] {
        assert!(read.contains(part), "{part}: {read}");
    }
    // What is there is never overwritten.
    let again = refused(folder, &["customers", "export", ada, "--output", file]);
    assert!(again.starts_with("error: ada.zip cannot be created"), "{again}");
    std::fs::remove_file(folder.join(file)).unwrap();
    let nobody = ["customers", "export", "bob@example.com", "--output", "bob.zip"];
    assert_eq!(refused(folder, &nobody), "error: there is no customer bob@example.com\n");
    assert!(!folder.join("bob.zip").exists());
}

fn erase(folder: &Path, ada: &str, key: &str) {
    let would = text(folder, &["customers", "erase", ada, "--dry-run"]);
    assert!(
        would.starts_with(&format!("{ada} would be erased; the ledger stays as it is.")),
        "{would}"
    );
    let done = admin(folder, &["customers", "erase", "ada@example.com"]);
    assert_eq!((&done["applied"], &done["dry_run"]), (&Value::Bool(true), &Value::Bool(false)));
    let again = text(folder, &["customers", "erase", ada]);
    assert_eq!(again, format!("{ada} was erased before: nothing changed\n"));
    assert_eq!(refused(folder, &["customers", "resume", ada]), "error: the customer was erased\n");

    text(folder, &["customers", "export", ada, "--output", "erased.zip"]);
    let read = unzipped(folder, "erased.zip");
    assert!(
        read.contains(ada) && !read.contains("ada@example.com") && !read.contains(key),
        "{read}"
    );
    let clean = "the ledger is consistent: no invariant is violated\n";
    assert_eq!(ok(folder, &with_config(&["verify"])), clean);
}

#[test]
fn wrong_arguments_are_named() {
    let folder = folder();
    let folder = folder.path();
    let misused = |arguments: &[&str]| {
        let all = with_config(&[&["admin"], arguments].concat());
        let (code, out, err) = crate::process::run(folder, &all);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        err
    };

    assert!(misused(&["--as", "a b", "customers", "list"]).contains("must have 1 to 64 letters"));
    assert!(
        misused(&["customers", "list", "--state", "lost"]).contains("one of active, unconfirmed")
    );
    assert!(misused(&["customers", "suspend", "ada@example.com"]).contains("--reason"));
    assert!(misused(&["calls", "show"]).contains("<REQUEST>"));
    assert!(misused(&["calls", "show", "--idempotency-key", "x"]).contains("--customer"));
    assert!(
        misused(&["unmatched", "settle", "pi_1", "--note", "x", "--credits", "5"])
            .contains("--customer")
    );
}
