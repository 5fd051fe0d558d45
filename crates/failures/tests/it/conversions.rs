//! Errors of lower layers as the failures they are for callers.

use domain::field_error::FieldErrorKind;
use failures::{AccountProblem, ExportProblem, Failure, FieldProblem, PaymentProblem};
use processor_client::ProcessorError;
use runtime::{Tasks, VaultError};
use storage::{Storage, StorageError, StorageLocation, StorageSettings};

/// As when the folder for work is gone.
fn of_storage() -> StorageError {
    let folder = tempfile::tempdir().unwrap();
    let place = StorageLocation::Folder(folder.path().join("files"));
    let work_folder = folder.path().join("work");
    let storage = Storage::open(&StorageSettings { place, work_folder }).unwrap();
    folder.close().unwrap();
    storage.work_file("rows").map(|_| ()).unwrap_err()
}

#[test]
fn an_account_whose_key_is_gone_can_be_connected_again_and_other_faults_are_ours() {
    let of = |error: VaultError| Failure::from(error);

    assert!(matches!(of(VaultError::NoDataKey), Failure::CredentialError));
    let url = || store::StoreError::Url("bad".to_owned());
    assert!(matches!(of(VaultError::Store(url())), Failure::Store(_)));
    for error in [
        VaultError::Sealing,
        VaultError::WrongKey("1".to_owned()),
        VaultError::MissingKey { id: "1".to_owned(), count: 2 },
    ] {
        let in_logs = error.to_string();
        let failure = of(error);
        assert!(matches!(&failure, Failure::Internal(kept) if *kept == in_logs));
        assert!(!failure.to_string().contains(&in_logs), "no key is named to a caller");
    }
}

#[test]
fn one_invalid_field_is_a_list_of_one() {
    let problem = FieldProblem::new("body", "name", FieldErrorKind::Missing, "is required");

    let Failure::Invalid(problems) = Failure::from(problem.clone()) else {
        panic!("another failure")
    };

    assert_eq!(problems, [problem]);
    assert_eq!(Failure::Invalid(problems).to_string(), "the request has invalid fields");
}

#[test]
fn errors_of_the_processor_and_of_the_storage_keep_what_they_are() {
    let locked = Failure::from(ProcessorError::LockTimeout);
    assert!(matches!(locked, Failure::Payment(PaymentProblem::ChangeInProgress)));
    let stored = Failure::from(of_storage());
    assert_eq!(stored.to_string(), "the file storage is not responding; try again in a moment");
    assert!(matches!(stored, Failure::Export(ExportProblem::Storage(_))));
    let account = Failure::from(AccountProblem::of_inactive(&"ada".parse().unwrap(), true));
    assert!(matches!(account, Failure::Account(AccountProblem::SwitchedOff(_))));
}

#[tokio::test]
async fn a_task_that_panicked_is_a_failure_of_ours_and_its_words_are_not_told() {
    let tasks = Tasks::on_this_runtime();
    let lost = tasks.on_control(async { panic!("hush") }).await.unwrap_err();

    let failure = Failure::from(lost);

    assert_eq!(failure.to_string(), "something went wrong on our side; nothing was charged");
    assert!(matches!(failure, Failure::Internal(_)));
}
