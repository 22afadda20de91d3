//! The demo's stage: scratch home, servers, secret.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use keyless_core::{Code, Error, SafeText};
use keyless_testkit::{
    Canary, Gate, Handler, Origin, OriginOptions, Repositories, ScratchHome, TestCa, reply,
};

/// The host that the secret may go to.
pub(super) const API: &str = "api.allowed.test";
/// The git server that the secret may go to.
pub(super) const GIT: &str = "git.allowed.test";
/// The attacker's host.
pub(super) const EVIL: &str = "evil.test";
/// The secret's path.
pub(super) const SECRET: &str = "demo/github/token";

/// Everything that is there before the agent starts.
pub(super) struct Scene {
    pub(super) home: ScratchHome,
    pub(super) value: Canary,
    pub(super) api: Origin,
    pub(super) git: Origin,
    pub(super) evil: Origin,
    pub(super) passphrase_file: PathBuf,
    ca_file: PathBuf,
}

impl Scene {
    /// Starts the servers, makes the store and puts the secret into it.
    pub(super) fn set() -> Result<Self, Error> {
        let scene = Self::build().map_err(|error| stage("the demo's servers", &error))?;
        let pass = scene.passphrase_file.clone().into_os_string();
        scene.keyless(
            &["init".into(), "--json".into(), "--passphrase-file".into(), pass.clone()],
            b"",
        )?;
        let add = ["secret", "add", SECRET, "--env", "GITHUB_TOKEN", "--to", API, "--to", GIT];
        let mut add: Vec<OsString> = add.iter().map(OsString::from).collect();
        add.extend(["--value-stdin".into(), "--passphrase-file".into(), pass]);
        scene.keyless(&add, scene.value.value().as_bytes())?;
        Ok(scene)
    }

    fn build() -> io::Result<Self> {
        let home = ScratchHome::new()?;
        let value = Canary::new();
        let ca = TestCa::new();
        let repositories = Repositories::under(home.root().join("repositories"));
        repositories.create("team/project.git", &[("README.md", "A private project.\n")])?;
        let login = Gate::Basic { user: None, password: value.value().to_owned() };
        let bearer = Gate::Bearer(value.value().to_owned());
        let api = OriginOptions::tls(&ca, &[API]).handler(talkative_api().behind(bearer));
        let git = OriginOptions::tls(&ca, &[GIT]).handler(repositories.handler().behind(login));
        let evil = OriginOptions::tls(&ca, &[EVIL]).handler(Handler::text("thanks\n"));
        let ca_file = home.root().join("ca.pem");
        ca.write_pem(&ca_file)?;
        // The passphrase guards a store that is gone in ten seconds; it need not be guessable.
        let passphrase = Canary::new();
        let passphrase_file = home.write("passphrase", passphrase.value())?;
        Ok(Self {
            api: Origin::start(api)?,
            git: Origin::start(git)?,
            evil: Origin::start(evil)?,
            home,
            value,
            passphrase_file,
            ca_file,
        })
    }

    /// Runs this binary with the scratch home; its error if it fails.
    fn keyless(&self, arguments: &[OsString], stdin: &[u8]) -> Result<Output, Error> {
        let output = self.command(arguments, stdin).map_err(|error| stage("keyless", &error))?;
        if output.status.success() {
            return Ok(output);
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(Error::with(Code::Internal, SafeText::words("setting up: ").as_they_wrote(said.trim())))
    }

    /// Runs `keyless run` around `command`, with the routes to the servers.
    pub(super) fn run_agent(&self, command: &[OsString], in_jail: bool) -> Result<Output, Error> {
        let mut arguments: Vec<OsString> = vec!["run".into(), "--secret".into(), SECRET.into()];
        if !in_jail {
            arguments.push("--no-jail".into());
        }
        for (host, origin) in [(API, &self.api), (GIT, &self.git), (EVIL, &self.evil)] {
            let route = format!("{host}:443={}", origin.address());
            arguments.extend(["--connect-to".into(), route.into()]);
        }
        arguments.extend(["--extra-root".into(), self.ca_file.clone().into_os_string()]);
        arguments
            .extend(["--passphrase-file".into(), self.passphrase_file.clone().into_os_string()]);
        arguments.push("--".into());
        arguments.extend(command.iter().cloned());
        self.command(&arguments, b"").map_err(|error| stage("keyless run", &error))
    }

    fn command(&self, arguments: &[OsString], stdin: &[u8]) -> io::Result<Output> {
        let mut command = Command::new(keyless_daemon::this_program()?);
        command.args(arguments).env_clear().envs(self.home.environment());
        command.current_dir(self.home.work());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn()?;
        if let Some(mut pipe) = child.stdin.take() {
            pipe.write_all(stdin)?;
        }
        child.wait_with_output()
    }
}

/// An API that repeats the credential in its answer, as debug endpoints and error pages do.
fn talkative_api() -> Handler {
    Handler::new(|request| async move {
        let sent = request.headers().get("authorization").cloned();
        let sent =
            sent.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
        let body = http_body_util::BodyExt::collect(request.into_body()).await;
        let body = body.map(http_body_util::Collected::to_bytes).unwrap_or_default();
        let body = String::from_utf8_lossy(&body);
        let answer = serde_json::json!({ "login": "octo-agent", "you_sent": sent, "body": body });
        let mut answer = reply(http::StatusCode::OK, answer.to_string());
        let json = http::HeaderValue::from_static("application/json");
        answer.headers_mut().insert("content-type", json);
        answer
    })
}

fn stage(what: &'static str, error: &io::Error) -> Error {
    let words = SafeText::words(what).and(": ").as_they_wrote(&error.to_string());
    Error::with(Code::Internal, words)
}
