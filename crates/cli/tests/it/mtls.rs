//! Destinations that ask for a client certificate, whose key is a secret: an nginx that lets nobody
//! else in.

use std::{cell::RefCell, fs};

use keyless_testkit::{Canary, Leaf, Nginx, NginxOptions};

use crate::{
    proxy::Sidecar,
    world::{ALLOWED, World, wait_until},
};

const KEY: &str = "team/corp/client-key";

/// nginx at [`ALLOWED`], which says who came.
fn nginx(world: &mut World) -> Nginx {
    let locations = format!(
        "ssl_client_certificate {};
        ssl_verify_client on;
        location / {{
            default_type text/plain;
            return 200 \"$ssl_client_verify $ssl_client_s_dn $request_method $http_authorization\\n\";
        }}",
        world.operator_file("ca.pem").display()
    );
    let options = NginxOptions { ca: &world.ca, names: &[ALLOWED], locations: &locations };
    let nginx = Nginx::start(&options).unwrap();
    world.route(&format!("{ALLOWED}:443"), &nginx.address().to_string());
    nginx
}

/// A client's certificate, whose key nobody may see from now on.
fn client(world: &World, name: &str) -> Leaf {
    let leaf = world.ca.issue_client(name).unwrap();
    let line = leaf.key_pem.lines().nth(1).unwrap();
    world.watch(Canary::of(line));
    leaf
}

fn bundle(leaf: &Leaf) -> String {
    format!("{}{}", leaf.key_pem, leaf.certificate_pem)
}

#[test]
fn a_client_certificate_opens_the_door_for_requests_within_its_rules() {
    let mut world = World::with_store();
    let _nginx = nginx(&mut world);
    let (first, second) = (client(&world, "first"), client(&world, "second"));
    let add = ["secret", "add", KEY, "--value-stdin", "--to", ALLOWED, "--sign", "tls-client"];
    let rules = ["--allow", "GET /open/**"];
    let adding = |value: &str| world.keyless(&[&add[..], &rules].concat()).stdin(value).run();
    // A key alone is no client, and neither are certificates.
    for (value, why) in [
        ("no key at all", "are text in PEM"),
        (&first.key_pem, "a private key and no certificate"),
        (&first.certificate_pem, "no private key"),
    ] {
        let errors = adding(value).exits(2).errors();
        assert!(errors.contains(why), "{errors}");
    }
    adding(&bundle(&first)).ok();
    let ask = "for way in --http1.1 --http2; do curl -sS $way https://api.allowed.test/open/a; done
        curl -sS -w '%{http_code}\\n' -X POST https://api.allowed.test/open/a";
    let rotate = ["secret", "rotate", KEY, "--value-stdin"];
    world.keyless(&rotate).stdin(&second.key_pem[..]).run().exits(2);
    let said = world.agent_sh(ask).run().ok();
    assert_eq!(said.matches("SUCCESS CN=first GET").count(), 2, "{said}");
    assert!(said.contains("rule_denied") && said.ends_with("403\n"), "{said}");
    // Another key makes another connection, though the first one is still kept.
    let script = "while read line; do curl -sS https://api.allowed.test/open/a; done";
    let mut session = world.agent_sh(script).start();
    session.say("go");
    assert!(session.line().contains("CN=first"));
    world.keyless(&rotate).stdin(bundle(&second)).run().ok();
    let session = RefCell::new(session);
    wait_until("the other certificate is shown", || {
        session.borrow_mut().say("go");
        session.borrow_mut().line().contains("CN=second")
    });
    assert_eq!(session.borrow_mut().wait().code(), Some(0));
    // Without the secret, nginx's own words.
    let without = world.agent_with(&["--no-secrets"], &["sh", "-c", ask]).run().ok();
    assert!(without.contains("No required SSL certificate was sent"), "{without}");
    let log = world.log();
    let used = |entry: &&serde_json::Value| entry["secrets_used"][0] == KEY;
    assert!(log.iter().filter(used).count() >= 3, "{log:?}");
}

/// Neither of them has a variable: the key is used by itself, and its certificates with it.
#[test]
fn certificates_that_stand_apart_come_along_with_their_key() {
    let mut world = World::with_store();
    let _nginx = nginx(&mut world);
    let leaf = client(&world, "apart");
    let add = |path: &str, sign: &str, value: &str| {
        let words = ["secret", "add", path, "--value-stdin", "--to", ALLOWED, "--sign", sign];
        world.keyless(&words).stdin(value).run().ok();
    };
    add("team/corp/tls-crt", "tls-chain", &leaf.certificate_pem);
    add(KEY, "tls-client:team/corp/tls-crt", &leaf.key_pem);
    let ask = ["curl", "-sS", "https://api.allowed.test/open/a"];
    for options in [&[][..], &["--secret", KEY]] {
        let seen = world.agent_with(options, &ask).run();
        assert!(seen.ok().contains("SUCCESS CN=apart GET"), "{}", seen.text());
        assert_eq!(seen.errors(), "");
    }
}

#[test]
fn a_fleet_mounts_key_and_certificates_side_by_side() {
    let mut world = World::empty();
    let _nginx = nginx(&mut world);
    let leaf = client(&world, "fleet");
    world.home.write("operator/mounted/corp/tls.key", &leaf.key_pem).unwrap();
    world.home.write("operator/mounted/corp/tls.crt", &leaf.certificate_pem).unwrap();
    let catalog = "\
apiVersion: keyless.dev/v1alpha1
kind: SecretProxy
spec:
  secrets:
    - env: CORP_KEY
      secretRef: { name: corp, key: tls.key }
      egressTo: [api.allowed.test]
      sign: tls-client:fleet/corp/tls-crt
    - env: CORP_CHAIN
      secretRef: { name: corp, key: tls.crt }
      egressTo: [api.allowed.test]
      sign: tls-chain
";
    world.home.write("operator/catalog.yaml", catalog).unwrap();
    let sidecar = Sidecar::start_with(&world, &[]);
    let answer = sidecar.curl(sidecar.word("proxy_url"), &["https://api.allowed.test/"]);
    assert!(answer.ends_with("SUCCESS CN=fleet GET \n"), "{answer}");
    // cert-manager writes both anew; the next request shows the new one.
    let renewed = client(&world, "renewed");
    fs::write(world.operator_file("mounted/corp/tls.key"), &renewed.key_pem).unwrap();
    fs::write(world.operator_file("mounted/corp/tls.crt"), &renewed.certificate_pem).unwrap();
    wait_until("the renewed certificate is shown", || {
        let answer = sidecar.curl(sidecar.word("proxy_url"), &["https://api.allowed.test/"]);
        answer.contains("CN=renewed")
    });
}
