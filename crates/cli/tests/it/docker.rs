//! Docker's daemon, which is outside of any jail: it goes through the sidecar, and holds a placeholder at most.
//!
//! All that the daemon has lies in a folder that the world searches when the test ends.

use std::{fs, path::Path, process::Output};

use keyless_testkit::{Canary, ContainerRegistry, Docker, Handler, Nginx, NginxOptions, reply};

use crate::{
    proxy::Sidecar,
    world::{ALLOWED, World},
};

/// Where a registry has its tokens made.
const TOKENS: &str = "auth.allowed.test";
const IMAGE: &str = "api.allowed.test/team/image:v1";
const USE: &str = "egressTo: [api.allowed.test], locations: [basic]";

/// A registry behind nginx, which lets in whom `condition` does not turn away.
fn private_registry(world: &mut World, condition: &str) -> (ContainerRegistry, Nginx) {
    let registry = ContainerRegistry::start().unwrap();
    let locations = format!(
        "location / {{
            client_max_body_size 0;
            {condition}
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_set_header Host $http_host;
            proxy_pass http://{};
        }}",
        registry.address()
    );
    let options = NginxOptions { ca: &world.ca, names: &[ALLOWED], locations: &locations };
    let nginx = Nginx::start(&options).unwrap();
    world.route(&format!("{ALLOWED}:443"), &nginx.address().to_string());
    (registry, nginx)
}

/// A registry that wants the password with each request.
fn registry_with_password(world: &mut World) -> (ContainerRegistry, Nginx) {
    let users = world.operator_file("users");
    fs::write(&users, format!("ci:{{PLAIN}}{}\n", world.canary.value())).unwrap();
    let condition = format!("auth_basic registry; auth_basic_user_file {};", users.display());
    private_registry(world, &condition)
}

/// The sidecar, with the password as a secret of this use.
fn sidecar<'w>(world: &'w World, usage: &str) -> Sidecar<'w> {
    let catalog = format!(
        "apiVersion: keyless.dev/v1alpha1\nkind: SecretProxy\nspec:\n  secrets:\n    \
         - {{ env: API_TOKEN, secretRef: {{ name: api, key: token }}, {usage} }}\n"
    );
    world.home.write("operator/catalog.yaml", catalog).unwrap();
    world.home.write("operator/mounted/api/token", world.canary.value()).unwrap();
    Sidecar::start_with(world, &[])
}

/// A daemon that goes through the sidecar, trusts it toward the registry, and has one image of nobody's.
struct Machine<'w> {
    world: &'w World,
    docker: Docker,
    proxy: String,
}

impl<'w> Machine<'w> {
    fn start(world: &'w World, sidecar: &Sidecar<'_>) -> Self {
        let proxy = sidecar.word("proxy_url").to_owned();
        let docker = Docker::start(&world.home.root().join("run/docker"), &proxy).unwrap();
        docker.trust(ALLOWED, &fs::read(sidecar.word("ca")).unwrap()).unwrap();
        let this = Self { world, docker, proxy };
        this.sh("head -c 300000 /dev/urandom > large && tar --owner=0 --group=0 -c large | docker import - $IMAGE");
        this
    }

    /// What a person types, where Docker's client is; all of it is searched.
    fn try_sh(&self, home: &Path, script: &str) -> Output {
        let client = self.docker.client(home);
        let mut shell = std::process::Command::new("sh");
        shell.args(["-ec", script]).env_clear();
        shell.envs(client.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = shell.env("IMAGE", IMAGE).current_dir(self.world.home.work()).output();
        let output = output.unwrap();
        self.world.saw("the client's stdout", &output.stdout);
        self.world.saw("the client's stderr", &output.stderr);
        for pid in self.docker.processes().unwrap() {
            for file in ["cmdline", "environ"] {
                // One of the daemon's helpers may have ended since.
                let bytes = fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
                self.world.saw(&format!("the daemon's /proc/{pid}/{file}"), &bytes);
            }
        }
        output
    }

    #[track_caller]
    fn sh(&self, script: &str) -> String {
        let output = self.try_sh(&self.world.home.home(), script);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}\n{}", self.log());
        String::from_utf8(output.stdout).unwrap()
    }

    /// What the client of somebody who has not logged in is told; it fails.
    #[track_caller]
    fn refused(&self, home: &str, script: &str) -> String {
        let home = self.world.home.work().join(home);
        fs::create_dir_all(&home).unwrap();
        let output = self.try_sh(&home, script);
        assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        String::from_utf8(output.stderr).unwrap()
    }

    #[track_caller]
    fn logs_in(&self, placeholder: &str) {
        let login = "docker login -u ci --password-stdin api.allowed.test 2>/dev/null";
        self.sh(&format!("echo {placeholder} | {login}"));
    }

    /// Pushes the image, forgets it, pulls it, builds on it: what comes back is what went there.
    #[track_caller]
    fn pushes_and_pulls(&self) {
        self.sh(r#"
            docker push -q $IMAGE
            id=$(docker images -q --no-trunc $IMAGE)
            docker rmi $IMAGE
            test -z "$(docker images -q)"
            docker pull -q $IMAGE
            test "$id" = "$(docker images -q --no-trunc $IMAGE)"
            container=$(docker create $IMAGE none)
            docker cp $container:/large back && cmp large back
            docker rm $container
            docker rmi $IMAGE
            mkdir built && printf 'FROM %s\nCOPY Dockerfile /\n' $IMAGE > built/Dockerfile
            docker build -q built"#);
    }

    /// No value is in the daemon's memory either, where its session's credential is.
    #[track_caller]
    fn holds_nothing(&self) {
        let memory = self.docker.memory().unwrap();
        assert!(Canary::of(&*self.proxy).find(&memory).is_some(), "{} bytes of it", memory.len());
        self.world.saw("the daemon's memory", &memory);
    }

    /// What the daemon said last.
    fn log(&self) -> String {
        let log = fs::read_to_string(self.world.home.root().join("run/docker/log")).unwrap();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join("\n")
    }
}

#[test]
fn docker_s_daemon_pushes_and_pulls_with_a_placeholder() {
    let mut world = World::empty();
    let _registry = registry_with_password(&mut world);
    let sidecar = sidecar(&world, USE);
    let machine = Machine::start(&world, &sidecar);
    let placeholder = sidecar.placeholder();
    machine.logs_in(&placeholder);
    machine.pushes_and_pulls();
    let saved = fs::read_to_string(world.home.home().join(".docker/config.json")).unwrap();
    let expected = data_encoding::BASE64.encode(format!("ci:{placeholder}").as_bytes());
    assert!(saved.contains(&expected), "{saved}");
    assert!(
        machine.docker.processes().unwrap().len() >= 4,
        "init, daemon and containerd are looked at"
    );
}

#[test]
fn docker_s_daemon_is_told_of_a_placeholder_that_is_not_its_session_s() {
    let mut world = World::empty();
    let _registry = registry_with_password(&mut world);
    let sidecar = sidecar(&world, USE);
    let machine = Machine::start(&world, &sidecar);
    let pull = "docker pull $IMAGE";
    let told = machine.refused("nobody", pull);
    assert!(told.contains("no basic auth credentials"), "{told}");
    let foreign = sidecar.placeholder_of("thread-8");
    assert_ne!(foreign, sidecar.placeholder());
    let login = format!("echo {foreign} | docker login -u ci --password-stdin api.allowed.test");
    let told = machine.refused("stranger", &login);
    assert!(told.contains("403 Forbidden"), "{told}");
    let auth = data_encoding::BASE64.encode(format!("ci:{foreign}").as_bytes());
    let config = format!(r#"{{"auths":{{"{ALLOWED}":{{"auth":"{auth}"}}}}}}"#);
    world.home.write("work/stranger/.docker/config.json", config).unwrap();
    let told = machine.refused("stranger", pull);
    assert!(told.contains("The placeholder belongs to another session or was revoked."), "{told}");
}

/// As Docker Hub does: the password buys a token for each pull, and the daemon gets a placeholder for that too.
#[test]
fn a_token_that_a_registry_hands_to_docker_is_sealed() {
    let mut world = World::empty();
    let token = world.another_value();
    let condition = format!(
        r#"if ($http_authorization != "Bearer {token}") {{
            add_header WWW-Authenticate 'Bearer realm="https://{TOKENS}/token",service="hub"' always;
            return 401;
        }}"#
    );
    let _registry = private_registry(&mut world, &condition);
    let basic = data_encoding::BASE64.encode(format!("ci:{}", world.canary.value()).as_bytes());
    let expected = format!("Basic {basic}");
    let origin = world.origin_of(
        TOKENS,
        Handler::new(move |request| {
            let sent = request.headers().get("authorization").map(|it| it.as_bytes().to_vec());
            let answer = match sent {
                Some(sent) if sent == expected.as_bytes() => reply(
                    http::StatusCode::OK,
                    format!(r#"{{"token":"{token}","access_token":"{token}","expires_in":300}}"#),
                ),
                _ => reply(http::StatusCode::UNAUTHORIZED, ""),
            };
            async { answer }
        }),
    );
    let sidecar = sidecar(
        &world,
        "egressTo: [auth.allowed.test], locations: [basic], \
         seal: ['GET auth.allowed.test/token to=api.allowed.test fields=token,access_token']",
    );
    let machine = Machine::start(&world, &sidecar);
    machine.logs_in(&sidecar.placeholder());
    machine.pushes_and_pulls();
    machine.holds_nothing();
    world.assert_received(&origin);
}

/// With the second mode nobody logs in.
#[test]
fn docker_s_daemon_needs_no_login_where_the_sidecar_injects() {
    let mut world = World::empty();
    let _registry = registry_with_password(&mut world);
    let sidecar = sidecar(&world, "egressTo: [api.allowed.test], inject: 'basic:ci:{}'");
    let machine = Machine::start(&world, &sidecar);
    machine.pushes_and_pulls();
    assert!(!world.home.home().join(".docker/config.json").exists());
}
