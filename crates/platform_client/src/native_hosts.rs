//! The hosts of a platform beside its first one: each serves the native paths that begin with its
//! own.

use std::sync::Arc;

use http::HeaderValue;
use http::uri::{Authority, Scheme};
use outbound::SettingsProblem;

use super::settings::HostSettings;
use super::{checks, path};

/// Checked hosts, the longest path first.
#[derive(Debug, Clone, Default)]
pub(super) struct NativeHosts(Arc<[NativeHost]>);

/// One of them.
#[derive(Debug)]
pub(super) struct NativeHost {
    /// Without a slash at its end.
    path: String,
    pub(super) scheme: Scheme,
    pub(super) authority: Authority,
    /// What stands before native paths; begins and ends with a slash.
    pub(super) prefix: String,
    /// As HTTP/1.1 calls it.
    pub(super) header: HeaderValue,
}

impl NativeHosts {
    /// Checks the settings; problems are added with the names of their keys.
    pub(super) fn new(settings: &[HostSettings], problems: &mut Vec<SettingsProblem>) -> Self {
        let mut hosts: Vec<NativeHost> = Vec::new();
        for (index, host) in settings.iter().enumerate() {
            let key = |name: &str| format!("hosts[{index}].{name}");
            let own = host.path.trim_end_matches('/');
            if let Err(problem) = path::check_path(own) {
                let message = format!("must be the beginning of native paths: {problem}");
                problems.push(SettingsProblem::new(key("path"), message));
            } else if hosts.iter().any(|other| other.path == own) {
                problems.push(SettingsProblem::new(key("path"), "is given twice"));
            }
            let place = checks::place(&key("base_url"), &host.base_url, &key("path"), "", problems);
            let checked_host = place.and_then(|(scheme, authority, prefix)| {
                let header = HeaderValue::from_str(authority.as_str()).ok()?;
                Some(NativeHost { path: own.to_owned(), scheme, authority, prefix, header })
            });
            hosts.extend(checked_host);
        }
        hosts.sort_by_key(|host| std::cmp::Reverse(host.path.len()));
        Self(hosts.into())
    }

    /// The host of a native path; nothing for the platform's first one.
    pub(super) fn of(&self, native_path: &str) -> Option<&NativeHost> {
        self.0.iter().find(|host| {
            let rest = native_path.strip_prefix(host.path.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(of: &[(&str, &str)]) -> (NativeHosts, Vec<String>) {
        let host = |(path, base_url): &(&str, &str)| HostSettings {
            path: (*path).to_owned(),
            base_url: (*base_url).to_owned(),
        };
        let settings: Vec<_> = of.iter().map(host).collect();
        let mut problems = Vec::new();
        let hosts = NativeHosts::new(&settings, &mut problems);
        (hosts, problems.into_iter().map(|problem| problem.key).collect())
    }

    #[test]
    fn the_host_with_the_longest_path_serves_it_by_whole_segments() {
        let (hosts, problems) = hosts(&[
            ("uploads/", "https://up.example/v2"),
            ("uploads/large", "https://large.example"),
        ]);
        let of = |path| hosts.of(path).map_or("first", |host| host.authority.as_str());

        assert_eq!(problems, [""; 0]);
        assert_eq!(of("uploads"), "up.example");
        assert_eq!(of("uploads/1"), "up.example");
        assert_eq!(of("uploads/large/1"), "large.example");
        assert_eq!(of("uploads/larger"), "up.example");
        assert_eq!(of("uploaded"), "first");
        assert_eq!(hosts.of("uploads/1").unwrap().prefix, "/v2/");
    }

    #[test]
    fn a_host_that_cannot_be_reached_is_a_problem_of_its_key() {
        let (_, problems) = hosts(&[
            ("", "https://a.example"),
            ("../x", "https://a.example"),
            ("x", "ftp://a.example"),
            ("y", "https://a.example/?b"),
            ("z", "https://a.example"),
            ("z/", "https://b.example"),
        ]);

        assert_eq!(
            problems,
            [
                "hosts[0].path",
                "hosts[1].path",
                "hosts[2].base_url",
                "hosts[3].base_url",
                "hosts[5].path"
            ]
        );
    }
}
