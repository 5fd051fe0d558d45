//! The binary as a separate process, with a clean environment.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use serde_json::Value;

/// The binary with these arguments, in this folder.
pub(crate) fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_creator-gateway"));
    command.args(arguments).current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

/// Runs it until it ends: (exit code, standard output, standard error).
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> (i32, String, String) {
    said(command(folder, arguments).output().unwrap())
}

/// The same with environment variables.
pub(crate) fn run_with(
    folder: &Path,
    variables: &[(&str, &str)],
    arguments: &[&str],
) -> (i32, String, String) {
    said(command(folder, arguments).envs(variables.iter().copied()).output().unwrap())
}

fn said(output: Output) -> (i32, String, String) {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap_or(-1), text(output.stdout), text(output.stderr))
}

/// The output of a command that must succeed.
pub(crate) fn ok(folder: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = run(folder, arguments);
    assert_eq!(code, 0, "{arguments:?}: {out}{err}");
    out
}

/// The output of a command that must fail: everything it prints.
pub(crate) fn fails(folder: &Path, arguments: &[&str]) -> String {
    let (code, out, err) = run(folder, arguments);
    assert_eq!(code, 1, "{arguments:?}: {out}{err}");
    format!("{out}{err}")
}

/// A command that runs until it is told to stop; killed if the test fails.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// The next line of its standard output; empty at its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    /// The id of its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
        assert!(sent.success());
    }

    /// Sends a signal and waits for the end: (exit code, the rest of standard output).
    pub(crate) fn stop(mut self, signal: &str) -> (i32, String) {
        self.signal(signal);
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), rest)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It has already ended if the test passed.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// One request to a service on this machine: (status, head, body).
pub(crate) fn request(
    base_url: &str,
    method: &str,
    path: &str,
    key: &str,
    body: &str,
) -> (u16, String, String) {
    let address = base_url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let length = if body.is_empty() {
        String::new()
    } else {
        format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len())
    };
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nX-API-Key: {key}\r\n{length}\r\n{body}"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, rest) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, head.to_lowercase(), rest.to_owned())
}

/// The JSON response to a GET with this key.
pub(crate) fn get(base_url: &str, path: &str, key: &str) -> Value {
    let (status, _, body) = request(base_url, "GET", path, key, "");
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}
