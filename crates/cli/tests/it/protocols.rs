//! More than a request and its answer: gRPC, other protocols, large repositories, package managers.

use std::{fs, process::Command};

use keyless_testkit::{
    Canary, ContainerRegistry, Gate, GrpcServer, Handler, Nginx, NginxOptions, Repositories, image,
    reply,
};

use serde_json::json;

use crate::world::{ALLOWED, World, wait_until};

/// Unary, streams each way and both, trailers, errors, and a refusal that a gRPC client can read.
#[test]
fn grpc_by_python() {
    let mut world = World::with_token();
    let server = GrpcServer::start(&world.ca, ALLOWED, world.canary.value()).unwrap();
    world.route(&format!("{ALLOWED}:443"), &server.address().to_string());
    let seen = world.agent_python(include_str!("protocols/grpc_client.py")).run();
    let text = seen.ok();
    let lines: Vec<&str> = text.lines().collect();
    let [unary, down, up, both, wrong, refused] = lines[..] else { panic!("{text}") };
    // Its length stays, since gRPC's messages carry theirs: the placeholder is cut or padded.
    assert!(unary.starts_with("unary hello for kloak_"), "{unary}");
    assert!(unary.contains("Bearer kloak_"), "the trailer is scrubbed too: {unary}");
    assert_eq!((down, up, both), ("down 01234", "up 2000000", "both OK"));
    assert!(wrong.starts_with("wrong UNAUTHENTICATED not kloak_"), "{wrong}");
    assert!(refused.starts_with("refused INVALID_ARGUMENT "), "{refused}");
    assert!(refused.ends_with("[body_digest]"), "{refused}");
}

/// Neither hangs nor breaks without a word.
#[test]
fn ssh_says_why() {
    let world = World::with_store();
    let ssh = "ssh -o BatchMode=yes -o StrictHostKeyChecking=no git@github.test true 2>&1; true";
    let seen = world.agent_sh(ssh).run();
    let text = seen.ok();
    assert!(text.contains("[port_refused] Instead: use the service's HTTPS interface"), "{text}");
    wait_until("it is logged", || world.log_of("port_refused").len() == 1);
}

#[test]
fn git_moves_a_large_repository_both_ways() {
    let mut world = World::with_token();
    let repositories = Repositories::under(world.home.root().join("operator/srv"));
    let bare = repositories.create("big.git", &[("README.md", "hello\n")]).unwrap();
    let gate = Gate::Basic { user: None, password: world.canary.value().into() };
    let origin = world.origin_of(ALLOWED, repositories.handler().behind(gate));
    let seen = world
        .agent_sh(
            r#"set -e
            url="https://x:$TOKEN@api.allowed.test/big.git"
            git clone -q "$url" one
            head -c 40000000 /dev/urandom > one/large
            git -C one add large
            git -C one -c user.name=a -c user.email=a@b.test commit -q -m large
            git -C one push -q origin main
            git clone -q "$url" two
            cmp one/large two/large
            git -C two fsck --no-progress && rm -r one two"#,
        )
        .run();
    seen.ok();
    let log = Command::new("git").arg("-C").arg(bare).args(["log", "--format=%s"]).output();
    assert_eq!(String::from_utf8(log.unwrap().stdout).unwrap(), "large\nfirst\n");
    world.assert_received(&origin);
}

/// A sparse registry with a token, as Artifactory and its like have it.
#[test]
fn cargo_reads_a_private_registry() {
    let mut world = World::with_token();
    let config = r#"{"dl":"https://api.allowed.test/dl","auth-required":true}"#;
    let entry = r#"{"name":"keyless-sample","vers":"1.0.0","deps":[],"features":{},"yanked":false,
        "cksum":"0000000000000000000000000000000000000000000000000000000000000000"}"#
        .replace('\n', "");
    let registry = Handler::new(move |request| {
        let answer = match request.uri().path() {
            "/index/config.json" => reply(http::StatusCode::OK, config),
            "/index/ke/yl/keyless-sample" => reply(http::StatusCode::OK, format!("{entry}\n")),
            _ => reply(http::StatusCode::NOT_FOUND, ""),
        };
        async { answer }
    });
    let token = Gate::Token(world.canary.value().into());
    let origin = world.origin_of(ALLOWED, registry.behind(token));
    let seen = world
        .agent_sh(
            r#"set -e
            export PATH=$(dirname "$CARGO"):$PATH
            export CARGO_HOME=$PWD/cargo CARGO_REGISTRIES_PRIVATE_TOKEN=$TOKEN
            export CARGO_REGISTRIES_PRIVATE_INDEX=sparse+https://api.allowed.test/index/
            mkdir -p cargo
            printf '[registry]\nglobal-credential-providers = ["cargo:token"]\n' > cargo/config.toml
            mkdir -p src && touch src/lib.rs
            printf '[package]\nname = "user"\nversion = "0.1.0"\n' > Cargo.toml
            printf '[dependencies]\nkeyless-sample = {version = "1", registry = "private"}\n' >> Cargo.toml
            cargo generate-lockfile
            cat Cargo.lock"#,
        )
        // Not rustup's own, which looks for its settings in the home.
        .env("CARGO", env!("CARGO"))
        .run();
    let text = seen.ok();
    assert!(text.contains("sparse+https://api.allowed.test/index/"), "{text}");
    world.assert_received(&origin);
}

/// Large chunked uploads, redirected locations, ranges: a real registry behind nginx, skopeo before it.
#[test]
fn an_image_goes_to_a_registry_and_back() {
    let mut world = World::with_token();
    let registry = ContainerRegistry::start().unwrap();
    let users = world.operator_file("users");
    fs::write(&users, format!("ci:{{PLAIN}}{}\n", world.canary.value())).unwrap();
    let locations = format!(
        r"location / {{
            client_max_body_size 0;
            auth_basic registry;
            auth_basic_user_file {};
            proxy_http_version 1.1;
            proxy_request_buffering off;
            proxy_set_header Host $http_host;
            proxy_pass http://{};
        }}",
        users.display(),
        registry.address()
    );
    let names = [ALLOWED];
    let options = NginxOptions { ca: &world.ca, names: &names, locations: &locations };
    let nginx = Nginx::start(&options).unwrap();
    world.route(&format!("{ALLOWED}:443"), &nginx.address().to_string());
    world.home.write("work/image.py", include_str!("protocols/image.py")).unwrap();
    let seen = world
        .agent_sh(
            r#"set -e
            python3 image.py
            export TMPDIR=$PWD
            there=docker://api.allowed.test/team/image:v1
            skopeo --insecure-policy copy -q --dest-creds "ci:$TOKEN" oci:image:v1 $there
            skopeo --insecure-policy copy -q --src-creds "ci:$TOKEN" $there oci:again:v1
            blob=$(find image/blobs -size +10M -printf %f)
            cmp image/blobs/sha256/$blob again/blobs/sha256/$blob
            curl -sS -u "ci:$TOKEN" -r 1000-1999 -o part \
                https://api.allowed.test/v2/team/image/blobs/sha256:$blob
            tail -c +1001 image/blobs/sha256/$blob | head -c 1000 | cmp - part
            rm -r image again"#,
        )
        .run();
    seen.ok();
}

/// As Docker Hub has it: a password for a token at one host, the token for the image at another, its blobs at a third. The
/// agent holds neither, and the third gets neither.
#[test]
fn an_image_is_pulled_with_a_minted_token_from_where_its_blobs_are() {
    const AUTH: &str = "auth.allowed.test";
    const BLOBS: &str = "blobs.test";
    let mut world = World::with_store();
    let seal = "GET auth.allowed.test/token to=api.allowed.test fields=token,access_token";
    let rule = ["--to", AUTH, "--env", "HUB", "--locations", "basic", "--seal", seal];
    world.add("team/hub/password", &rule).ok();
    let minted = world.watch(Canary::new());
    let answer = json!({ "token": minted, "access_token": minted, "expires_in": 300 }).to_string();
    let endpoint = Handler::new(move |_| {
        let answer = reply(http::StatusCode::OK, answer.clone());
        async { answer }
    });
    let password = world.canary.value().to_owned();
    let user = Some("ci".to_owned());
    let auth = world.origin_of(AUTH, endpoint.behind(Gate::Basic { user, password }));
    let (registry, blobs) = image(BLOBS);
    let url = format!("https://{AUTH}/token");
    let gate = Gate::Minted { token: minted.clone(), endpoint: url };
    let hub = world.origin_of(ALLOWED, registry.behind(gate));
    let blobs = world.origin_of(BLOBS, blobs);
    let seen = world
        .agent_sh(
            r#"set -e
            export TMPDIR=$PWD
            from=docker://api.allowed.test/team/image:v1
            skopeo --insecure-policy copy -q --src-tls-verify=false --src-creds "ci:$HUB" $from oci:image:v1
            ls image/blobs/sha256 | wc -l"#,
        )
        .run();
    assert_eq!(seen.ok().trim(), "3");
    world.assert_received(&auth);
    let asked = hub.requests();
    let last = asked.last().and_then(|request| request.header("authorization"));
    assert_eq!(last, Some(format!("Bearer {minted}")));
    let fetched = blobs.requests();
    assert_eq!(fetched.len(), 2, "{fetched:?}");
    assert!(fetched.iter().all(|request| request.header("authorization").is_none()), "{fetched:?}");
}
