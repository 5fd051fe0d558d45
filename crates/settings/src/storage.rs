//! `[storage]`: where finished exports are stored, and where unfinished files are kept.

use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use storage::{BucketSettings, StorageLocation, StorageSettings};

use super::problem::ConfigProblem;

/// The longest allowed request to a store, in milliseconds: a worker must be able to renew its
/// lease.
const REQUEST_MS_MAX: u64 = 300_000;

/// A folder or a bucket.
#[derive(Debug, Clone, serde::Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct StorageSection {
    /// `file:FOLDER` or `s3://BUCKET`.
    pub url: String,
    /// For a bucket: the store's URL. Empty: Amazon's for the region.
    pub endpoint: String,
    /// For a bucket: the region.
    pub region: String,
    /// For a bucket: the access key's id. Empty: the machine's role is used.
    pub access_key_id: String,
    /// For a bucket: the secret access key.
    #[serde(serialize_with = "super::writing::secret")]
    pub secret_access_key: SecretString,
    /// For a bucket: whether its name is in the path instead of the host.
    pub path_style: bool,
    /// For a bucket: whether another machine may be reached without TLS.
    pub allow_http: bool,
    /// For a bucket: a PEM file with certificate authorities that are trusted in addition to the
    /// system's. Empty: none.
    pub ca_file: PathBuf,
    /// For a bucket: a local folder for files that are being uploaded.
    pub work_folder: PathBuf,
    /// For a bucket: milliseconds that connecting may take.
    pub connect_ms: u64,
    /// For a bucket: milliseconds that one request may take, including retries.
    pub request_ms: u64,
}

impl StorageSection {
    /// The settings of the storage; relative folders are relative to `base`.
    pub fn settings(&self, base: &Path) -> Result<StorageSettings, ConfigProblem> {
        let work_folder = base.join(&self.work_folder);
        let place = if let Some(folder) = self.url.strip_prefix("file:") {
            if folder.is_empty() {
                return Err(ConfigProblem::new("storage.url", "must name a folder"));
            }
            StorageLocation::Folder(base.join(folder))
        } else if let Some(bucket) = self.url.strip_prefix("s3://") {
            StorageLocation::Bucket(self.bucket(bucket)?)
        } else {
            return Err(ConfigProblem::new("storage.url", "must be file:FOLDER or s3://BUCKET"));
        };
        Ok(StorageSettings { place, work_folder })
    }

    fn bucket(&self, bucket: &str) -> Result<BucketSettings, ConfigProblem> {
        let is_plain = |byte: u8| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
        };
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(is_plain) {
            let message = "must name a bucket: 3 to 63 lower-case letters, digits, '-' and '.'";
            return Err(ConfigProblem::new("storage.url", message));
        }
        if self.region.is_empty() {
            return Err(ConfigProblem::new("storage.region", "is required for a bucket"));
        }
        let settings = BucketSettings {
            bucket: bucket.to_owned(),
            endpoint: self.endpoint.clone(),
            region: self.region.clone(),
            path_style: self.path_style,
            allow_http: self.allow_http,
            credentials: self.credentials()?,
            authorities: self.authorities()?,
            connect_timeout: Duration::from_millis(self.connect_ms),
            request_timeout: Duration::from_millis(self.request_ms),
        };
        settings
            .check()
            .map_err(|invalid| ConfigProblem::new("storage.endpoint", invalid.to_string()))?;
        Ok(settings)
    }

    fn credentials(&self) -> Result<Option<(String, zeroize::Zeroizing<String>)>, ConfigProblem> {
        let secret = self.secret_access_key.expose_secret();
        match (self.access_key_id.is_empty(), secret.is_empty()) {
            (true, true) => Ok(None),
            (false, false) => Ok(Some((self.access_key_id.clone(), secret.to_owned().into()))),
            (true, false) => Err(ConfigProblem::new(
                "storage.access_key_id",
                "is required with storage.secret_access_key",
            )),
            (false, true) => Err(ConfigProblem::new(
                "storage.secret_access_key",
                "is required with storage.access_key_id",
            )),
        }
    }

    fn authorities(&self) -> Result<Option<Vec<u8>>, ConfigProblem> {
        if self.ca_file.as_os_str().is_empty() {
            return Ok(None);
        }
        let unreadable =
            |error| ConfigProblem::new("storage.ca_file", format!("cannot be read: {error}"));
        std::fs::read(&self.ca_file).map(Some).map_err(unreadable)
    }

    pub(super) fn check(&self, problems: &mut Vec<ConfigProblem>) {
        for (key, value) in
            [("storage.connect_ms", self.connect_ms), ("storage.request_ms", self.request_ms)]
        {
            if !(1..=REQUEST_MS_MAX).contains(&value) {
                problems.push(ConfigProblem::new(key, "must be 1 to 300,000"));
            }
        }
        if self.work_folder.as_os_str().is_empty() {
            problems.push(ConfigProblem::new("storage.work_folder", "must name a folder"));
        }
        if let Err(problem) = self.settings(Path::new("")) {
            problems.push(problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    const KEY: &str = "access_key_id = \"id\"\nsecret_access_key = \"secret\"";

    fn section(toml: &str) -> StorageSection {
        Config::from_toml(&format!("[storage]\n{toml}")).unwrap().storage
    }

    fn problems(toml: &str) -> Vec<String> {
        let mut problems = Vec::new();
        section(toml).check(&mut problems);
        problems.into_iter().map(|problem| problem.key).collect()
    }

    #[test]
    fn relative_folders_start_beside_the_database() {
        let settings = section("").settings(Path::new("/data")).unwrap();

        let StorageLocation::Folder(folder) = settings.place else { panic!("no folder") };
        assert_eq!(folder, Path::new("/data/exports"));
    }

    #[test]
    fn a_bucket_uses_an_access_key_or_the_role_of_the_machine() {
        let bucket = |toml: &str| {
            let settings = section(toml).settings(Path::new("/data")).unwrap();
            let StorageLocation::Bucket(bucket) = settings.place else {
                panic!("not a bucket: {toml}")
            };
            (bucket.bucket, bucket.credentials.map(|(id, secret)| format!("{id}:{}", *secret)))
        };

        assert_eq!(bucket("url = \"s3://my-exports\""), ("my-exports".to_owned(), None));
        assert_eq!(
            bucket(&format!("url = \"s3://my-exports\"\n{KEY}")),
            ("my-exports".to_owned(), Some("id:secret".to_owned()))
        );
        assert!(!format!("{:?}", section(KEY)).contains("secret\""));
    }

    #[test]
    fn unusable_storage_settings_are_problems() {
        assert_eq!(problems(""), [""; 0]);
        assert_eq!(
            problems("url = \"s3://bucket\"\nendpoint = \"http://127.0.0.1:9000\""),
            [""; 0]
        );
        let bucket = |more: &str| format!("url = \"s3://bucket\"\n{more}");
        for (toml, key) in [
            ("url = \"exports\"".to_owned(), "storage.url"),
            ("url = \"file:\"".to_owned(), "storage.url"),
            ("url = \"s3://\"".to_owned(), "storage.url"),
            ("url = \"s3://bucket/prefix\"".to_owned(), "storage.url"),
            ("url = \"s3://Bucket\"".to_owned(), "storage.url"),
            (bucket("region = \"\""), "storage.region"),
            (bucket("access_key_id = \"id\""), "storage.secret_access_key"),
            (bucket("secret_access_key = \"x\""), "storage.access_key_id"),
            (bucket("endpoint = \"http://s3.example.com\""), "storage.endpoint"),
            (bucket("endpoint = \"s3.example.com\""), "storage.endpoint"),
            (bucket("endpoint = \"https://id:secret@s3.example.com\""), "storage.endpoint"),
            (bucket("endpoint = \"https://s3.example.com/path\""), "storage.endpoint"),
            (bucket("ca_file = \"no/such/file\""), "storage.ca_file"),
            ("request_ms = 0".to_owned(), "storage.request_ms"),
            ("connect_ms = 300001".to_owned(), "storage.connect_ms"),
            ("work_folder = \"\"".to_owned(), "storage.work_folder"),
        ] {
            assert_eq!(problems(&toml), [key], "{toml}");
        }
        let allowed = bucket("endpoint = \"http://s3.example.com\"\nallow_http = true");
        assert_eq!(problems(&allowed), [""; 0]);
    }
}
