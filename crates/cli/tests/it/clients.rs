//! What a coding agent's tools do inside `keyless run`, with no setting of their own: the server
//! gets the value, the tool gets the placeholder back.
//!
//! The list is issue 2's "Done when".

use std::{fs, process::Command};

use keyless_testkit::{Alpn, Gate, Nginx, NginxOptions, Origin, Repositories, npm, pypi};

use crate::world::{ALLOWED, World};

/// The value arrived, and the echo that came back has the placeholder in its place.
#[track_caller]
fn assert_swapped_and_scrubbed(world: &World, origin: &Origin, answer: &str) {
    world.assert_received(origin);
    let [request] = &origin.requests()[..] else { panic!("{:?}", origin.requests()) };
    let expected = format!("Bearer {}", world.canary.value());
    assert_eq!(request.header("authorization"), Some(expected));
    assert!(answer.contains("Bearer kloak_"), "no placeholder in the echo: {answer}");
}

#[test]
fn curl_http1() {
    let mut world = World::with_token();
    let origin = world.origin_with(ALLOWED, |options| options.alpn(Alpn::Http1));
    let seen = world
        .agent_sh(
            r#"curl -sS --http1.1 -H "Authorization: Bearer $TOKEN" https://api.allowed.test/"#,
        )
        .run();
    assert_swapped_and_scrubbed(&world, &origin, &seen.ok());
}

#[test]
fn curl_http2() {
    let mut world = World::with_token();
    let origin = world.origin_with(ALLOWED, |options| options.alpn(Alpn::Http2));
    let seen = world
        .agent_sh(
            r#"curl -sS --http2 -w '%{http_version}\n' -H "Authorization: Bearer $TOKEN" \
               https://api.allowed.test/"#,
        )
        .run();
    let answer = seen.ok();
    assert!(answer.ends_with("2\n"), "{answer}");
    assert_swapped_and_scrubbed(&world, &origin, &answer);
}

/// Query, JSON body and form body, as the spec's decisions 6 to 9 have them.
#[test]
fn curl_in_query_and_bodies() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let seen = world
        .agent_sh(
            r#"set -e
            curl -sS "https://api.allowed.test/q?key=$TOKEN"
            curl -sS --json "{\"key\":\"$TOKEN\"}" https://api.allowed.test/json
            curl -sS --data-urlencode "key=$TOKEN" https://api.allowed.test/form"#,
        )
        .run();
    assert_eq!(seen.ok().matches("kloak_").count(), 3, "{}", seen.text());
    let value = world.canary.value();
    let requests = origin.requests();
    assert!(requests[0].target.ends_with(&format!("/q?key={value}")), "{requests:?}");
    assert_eq!(requests[1].body, format!(r#"{{"key":"{value}"}}"#).into_bytes());
    assert_eq!(requests[2].body, format!("key={value}").into_bytes());
}

/// A server that none of us wrote.
#[test]
fn curl_against_nginx() {
    let mut world = World::with_token();
    let names = [ALLOWED];
    let options = NginxOptions { ca: &world.ca, names: &names, locations: NginxOptions::ECHO };
    let nginx = Nginx::start(&options).unwrap();
    world.route(&format!("{ALLOWED}:443"), &nginx.address().to_string());
    let seen = world
        .agent_sh(
            r#"curl -sS --http1.1 -H "Authorization: Bearer $TOKEN" https://api.allowed.test/1
               curl -sS --http2 -H "Authorization: Bearer $TOKEN" https://api.allowed.test/2"#,
        )
        .run();
    assert_eq!(seen.ok().matches("authorization: Bearer kloak_").count(), 2, "{}", seen.text());
    let value = world.canary.value();
    assert_eq!(
        nginx.access_log(2).unwrap(),
        format!("GET /1 200 [Bearer {value}]\nGET /2 200 [Bearer {value}]\n")
    );
}

#[test]
fn git_clones_commits_and_pushes() {
    let mut world = World::with_token();
    let repositories = Repositories::under(world.home.root().join("operator/srv"));
    let bare = repositories.create("team/project.git", &[("README.md", "hello\n")]).unwrap();
    let gate =
        Gate::Basic { user: Some("x-access-token".into()), password: world.canary.value().into() };
    let origin = world.origin_of(ALLOWED, repositories.handler().behind(gate));
    let seen = world
        .agent_sh(
            r#"set -e
            git clone -q "https://x-access-token:$TOKEN@api.allowed.test/team/project.git" copy
            cd copy
            git -c user.name=a -c user.email=a@b.test commit -q --allow-empty -m second
            git push -q origin main
            cat README.md .git/config"#,
        )
        .run();
    let text = seen.ok();
    assert!(text.starts_with("hello\n") && text.contains("x-access-token:kloak_"), "{text}");
    let log = Command::new("git").arg("-C").arg(bare).args(["log", "--format=%s"]).output();
    assert_eq!(String::from_utf8(log.unwrap().stdout).unwrap(), "second\nfirst\n");
    // Basic is base64 on the wire, which the search knows.
    world.assert_received(&origin);
}

/// With a remote of either form, in one session after another: a clone keeps no placeholder, which would be none in the next.
#[test]
fn git_logs_in_by_itself_where_a_token_is_for_its_host() {
    let mut world = World::with_store();
    world.add("team/github/token", &["--to", "github.com", "--env", "GITHUB_TOKEN"]).ok();
    let repositories = Repositories::under(world.home.root().join("operator/srv"));
    let bare = repositories.create("acme/site.git", &[("README.md", "hello\n")]).unwrap();
    let gate =
        Gate::Basic { user: Some("x-access-token".into()), password: world.canary.value().into() };
    let origin = world.origin_of("github.com", repositories.handler().behind(gate));
    let settings = [
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "user.name"),
        ("GIT_CONFIG_VALUE_0", "Ada"),
    ];
    let session = |script: &str| {
        let run = world.agent_sh(&format!("set -e; {script}"));
        let run = settings.iter().fold(run, |run, (name, value)| run.env(name, *value));
        run.run().ok()
    };
    session("git clone -q git@github.com:acme/site.git copy");
    let text = session(
        "cd copy; git -c user.email=a@b.test commit -q --allow-empty -m second; git push -q origin main
         git clone -q https://github.com/acme/site.git ../other; cat .git/config ../other/.git/config",
    );
    assert!(!text.contains("kloak_") && text.contains("git@github.com:acme/site.git"), "{text}");
    let log = Command::new("git").arg("-C").arg(bare).args(["log", "--format=%s %an"]).output();
    let log = String::from_utf8(log.unwrap().stdout).unwrap();
    assert!(log.starts_with("second Ada\nfirst"), "{log}");
    world.assert_received(&origin);
}

#[test]
fn python_urllib() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let seen = world
        .agent_python(
            r#"
import os, urllib.request
request = urllib.request.Request("https://api.allowed.test/",
    headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
print(urllib.request.urlopen(request).read().decode())"#,
        )
        .run();
    assert_swapped_and_scrubbed(&world, &origin, &seen.ok());
}

#[test]
fn python_requests() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let seen = world
        .agent_python(
            r#"
import os, requests
answer = requests.get("https://api.allowed.test/",
    headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
answer.raise_for_status()
print(answer.text)"#,
        )
        .run();
    assert_swapped_and_scrubbed(&world, &origin, &seen.ok());
}

#[test]
fn python_httpx() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = r#"
import os, httpx
answer = httpx.get("https://api.allowed.test/",
    headers={"Authorization": "Bearer " + os.environ["TOKEN"]})
answer.raise_for_status()
print(answer.text)"#;
    assert_swapped_and_scrubbed(&world, &origin, &world.agent_python(script).run().ok());
}

#[test]
fn python_aiohttp() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = r#"
import aiohttp, asyncio, os
async def main():
    headers = {"Authorization": "Bearer " + os.environ["TOKEN"]}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.get("https://api.allowed.test/") as answer:
            print(await answer.text())
asyncio.run(main())"#;
    assert_swapped_and_scrubbed(&world, &origin, &world.agent_python(script).run().ok());
}

/// GnuTLS, on Debian.
#[test]
fn wget() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = r#"wget -qO- --header "Authorization: Bearer $TOKEN" https://api.allowed.test/"#;
    assert_swapped_and_scrubbed(&world, &origin, &world.agent_sh(script).run().ok());
}

/// TLS and roots of its own reading.
#[test]
fn go_net_http() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let program = r#"package main

import (
	"io"
	"net/http"
	"os"
)

func main() {
	request, _ := http.NewRequest("GET", "https://api.allowed.test/", nil)
	request.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(err)
	}
	io.Copy(os.Stdout, answer.Body)
}
"#;
    world.home.write("work/main.go", program).unwrap();
    let seen = world.agent(&["go", "run", "main.go"]).run();
    assert_swapped_and_scrubbed(&world, &origin, &seen.ok());
}

/// GitHub's own client, at a GitHub of somebody's own.
#[test]
fn gh_api() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = "GH_ENTERPRISE_TOKEN=$TOKEN gh api --hostname api.allowed.test user";
    let seen = world.agent_sh(script).run();
    world.assert_received(&origin);
    assert!(origin.requests()[0].target.ends_with("/api/v3/user"), "{:?}", origin.requests());
    assert!(seen.ok().contains("token kloak_"), "{}", seen.text());
}

/// The JVM's own key store.
#[test]
fn java_http_client() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let program = r#"
import java.net.URI;
import java.net.http.*;

public class Client {
    public static void main(String[] arguments) throws Exception {
        var request = HttpRequest.newBuilder(URI.create("https://api.allowed.test/"))
            .header("Authorization", "Bearer " + System.getenv("TOKEN")).build();
        var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        System.out.println(answer.body());
    }
}
"#;
    world.home.write("work/Client.java", program).unwrap();
    let seen = world.agent(&["java", "Client.java"]).run();
    assert_swapped_and_scrubbed(&world, &origin, &seen.ok());
}

#[test]
fn node_fetch() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    let script = r#"
fetch("https://api.allowed.test/", { headers: { authorization: "Bearer " + process.env.TOKEN } })
    .then(async answer => console.log(answer.status, await answer.text()));"#;
    let seen = world.agent(&["node", "-e", script]).run();
    assert_swapped_and_scrubbed(&world, &origin, &seen.ok());
}

#[test]
fn npm_views_from_a_private_registry() {
    let mut world = World::with_token();
    let gate = Gate::Bearer(world.canary.value().into());
    let origin = world.origin_of(ALLOWED, npm().behind(gate));
    let npmrc = "registry=https://api.allowed.test/\n//api.allowed.test/:_authToken=${TOKEN}\n";
    world.home.write("work/.npmrc", npmrc).unwrap();
    world.home.write("work/package.json", "{}").unwrap();
    let seen = world.agent(&["npm", "view", "keyless-sample", "version"]).run();
    assert_eq!(seen.ok().trim(), "1.0.0");
    world.assert_received(&origin);
}

#[test]
fn pip_downloads_from_a_private_index() {
    let mut world = World::with_token();
    let gate = Gate::Basic { user: Some("ci".into()), password: world.canary.value().into() };
    let origin = world.origin_of(ALLOWED, pypi().behind(gate));
    world
        .agent_sh(
            r#"python3 -m pip download -q --no-deps --no-cache-dir \
               --index-url "https://ci:$TOKEN@api.allowed.test/simple/" keyless-sample"#,
        )
        .run()
        .ok();
    let wheel = world.home.work().join("keyless_sample-1.0-py3-none-any.whl");
    assert!(fs::metadata(wheel).unwrap().len() > 0);
    world.assert_received(&origin);
}

/// A host that no secret names is tunnelled untouched: the client sees the server's own certificate.
/// Chromium's database of certificates is replaced by one that trusts the session's CA.
#[test]
fn chromium_reads_a_page() {
    let mut world = World::with_token();
    let origin = world.origin(ALLOWED);
    world.home.write("home/.pki/nssdb/key4.db", "the user's own keys").unwrap();
    let seen = world
        .agent_sh(
            r#"chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run \
               --disable-background-networking --disable-component-update --disable-sync \
               --user-data-dir="$HOME/profile" --dump-dom "https://api.allowed.test/?key=$TOKEN" \
               2>/dev/null
            grep -c "own keys" "$HOME/.pki/nssdb/key4.db""#,
        )
        .run();
    world.assert_received(&origin);
    assert!(seen.text().ends_with("\n0\n"), "{}", seen.text());
}

#[test]
fn other_hosts_keep_their_own_certificate() {
    let mut world = World::with_token();
    let _origin = world.origin("other.test");
    let script = "curl -sSv --cacert $CA https://other.test/ 2>&1 | grep issuer";
    let shown = world.operator_file("ca.pem");
    let seen = world.agent_with(&[], &["sh", "-c", script]).env("CA", shown).run();
    assert!(seen.ok().contains("CN=Keyless test CA"), "{}", seen.text());
}
