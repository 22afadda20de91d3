//! Real clients against the ready-made services: nginx, git, pip, npm.

use std::{
    fs,
    process::{Command, Output},
    time::Duration,
};

use keyless_testkit::{
    Gate, Handler, Nginx, NginxOptions, Origin, OriginOptions, Repositories, ScratchHome, TestCa,
    npm, pypi,
};

/// How long a test waits for something that is certain to happen.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// curl, told where the origin is and whom to trust.
pub(crate) struct Curl {
    home: ScratchHome,
    name: String,
    port: u16,
}

impl Curl {
    pub(crate) fn new(ca: &TestCa, name: &str, origin: &Origin) -> Self {
        Self::at_port(ca, name, origin.port())
    }

    pub(crate) fn at_port(ca: &TestCa, name: &str, port: u16) -> Self {
        let home = ScratchHome::new().unwrap();
        home.write("ca.pem", ca.pem()).unwrap();
        Self { home, name: name.into(), port }
    }

    /// Fetches `path` with more arguments; the error is curl's own.
    pub(crate) fn run(&self, path: &str, arguments: &[&str]) -> Result<String, String> {
        let (name, port) = (&self.name, self.port);
        let output = Command::new("curl")
            .env_clear()
            .envs(self.home.environment())
            .args(["-sS", "--max-time", "90", "--cacert"])
            .arg(self.home.root().join("ca.pem"))
            .args(["--resolve", &format!("{name}:{port}:127.0.0.1")])
            .args(arguments)
            .arg(format!("https://{name}:{port}{path}"))
            .output()
            .unwrap();
        text(output)
    }

    pub(crate) fn get(&self, path: &str, arguments: &[&str]) -> String {
        self.run(path, arguments).unwrap()
    }
}

fn text(output: Output) -> Result<String, String> {
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(String::from_utf8(output.stdout).unwrap())
}

/// An origin at 127.0.0.1 with a certificate for that address, and a home that trusts it.
fn local(handler: Handler) -> (Origin, ScratchHome) {
    let (ca, home) = (TestCa::new(), ScratchHome::new().unwrap());
    home.write("ca.pem", ca.pem()).unwrap();
    let options = OriginOptions::tls(&ca, &["127.0.0.1", "localhost"]).handler(handler);
    (Origin::start(options).unwrap(), home)
}

fn command(program: &str, home: &ScratchHome) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(home.environment()).current_dir(home.work());
    command
}

#[test]
fn nginx_echoes_and_logs() {
    let ca = TestCa::new();
    let names = ["nginx.test"];
    let options = NginxOptions { ca: &ca, names: &names, locations: NginxOptions::ECHO };
    let nginx = Nginx::start(&options).unwrap();
    let curl = Curl::at_port(&ca, "nginx.test", nginx.address().port());
    let answer = curl.get("/x?y=1", &["-H", "Authorization: Bearer word"]);
    assert_eq!(answer, "authorization: Bearer word\ntarget: /x?y=1\n");
    assert_eq!(nginx.access_log(1).unwrap(), "GET /x?y=1 200 [Bearer word]\n");
}

#[test]
fn nginx_tells_what_is_wrong_with_its_configuration() {
    let ca = TestCa::new();
    let names = ["nginx.test"];
    let options = NginxOptions { ca: &ca, names: &names, locations: "nonsense on;" };
    let error = Nginx::start(&options).err().unwrap().to_string();
    assert!(error.contains("nonsense"), "{error}");
}

#[test]
fn git_clones_and_pushes_with_the_right_password_only() {
    let folder = ScratchHome::new().unwrap();
    let repositories = Repositories::under(folder.root().join("srv"));
    let bare = repositories.create("team/project.git", &[("README.md", "hello\n")]).unwrap();
    let gate = Gate::Basic { user: Some("x-access-token".into()), password: "right".into() };
    let (origin, home) = local(repositories.handler().behind(gate));
    let git = |arguments: &[&str]| {
        let mut git = command("git", &home);
        git.env("GIT_SSL_CAINFO", home.root().join("ca.pem")).env("GIT_TERMINAL_PROMPT", "0");
        text(
            git.args(["-c", "user.name=a", "-c", "user.email=a@b.test"])
                .args(arguments)
                .output()
                .unwrap(),
        )
    };
    let url = |password: &str| {
        format!("https://x-access-token:{password}@{}/team/project.git", origin.address())
    };
    assert!(git(&["clone", &url("wrong"), "refused"]).is_err());
    git(&["clone", &url("right"), "copy"]).unwrap();
    assert_eq!(fs::read_to_string(home.work().join("copy/README.md")).unwrap(), "hello\n");

    git(&["-C", "copy", "commit", "-q", "--allow-empty", "-m", "second"]).unwrap();
    git(&["-C", "copy", "push", "-q", "origin", "main"]).unwrap();
    let log = text(
        command("git", &home).arg("-C").arg(bare).args(["log", "--format=%s"]).output().unwrap(),
    );
    assert_eq!(log.unwrap(), "second\nfirst\n");
}

#[test]
fn pip_downloads_the_sample() {
    let (origin, home) = local(pypi());
    let mut pip = command("python3", &home);
    pip.env("PIP_CERT", home.root().join("ca.pem")).args(["-m", "pip", "download", "--no-deps"]);
    // By name: Debian 13's pip verifies no address.
    let index = format!("https://localhost:{}/simple/", origin.address().port());
    pip.args(["--index-url", &index, "keyless-sample"]);
    text(pip.output().unwrap()).unwrap();
    assert!(home.work().join("keyless_sample-1.0-py3-none-any.whl").exists());
}

#[test]
fn npm_views_and_installs_the_sample() {
    let (origin, home) = local(npm().behind(Gate::Bearer("right".into())));
    let registry = format!("--registry=https://{}/", origin.address());
    let token = format!("//{}/:_authToken=right\n", origin.address());
    home.write("home/.npmrc", token).unwrap();
    let npm = |arguments: &[&str]| {
        let mut npm = command("npm", &home);
        npm.env("npm_config_cafile", home.root().join("ca.pem")).arg(&registry);
        text(npm.args(arguments).output().unwrap()).unwrap()
    };
    assert_eq!(npm(&["view", "keyless-sample", "version"]).trim(), "1.0.0");
    npm(&["install", "--no-audit", "--no-fund", "keyless-sample"]);
    assert!(home.work().join("node_modules/keyless-sample/index.js").exists());
}
