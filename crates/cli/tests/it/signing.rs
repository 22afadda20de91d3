//! Keys that sign and never leave: boto3 against moto behind botocore's own verification, and a
//! webhook's signature.

use std::process::Command;

use crate::{
    aws::Aws,
    world::{ALLOWED, World},
};

const HOSTS: [&str; 3] = [
    "s3.us-east-1.amazonaws.com",
    "sts.us-east-1.amazonaws.com",
    "dynamodb.us-east-1.amazonaws.com",
];

/// Adds a secret that may go to all of AWS.
fn add(world: &World, path: &str, value: &str, more: &[&str]) {
    let to: Vec<&str> = HOSTS.iter().flat_map(|host| ["--to", host]).collect();
    let arguments = [&["secret", "add", path, "--value-stdin"], &to[..], more].concat();
    world.keyless(&arguments).stdin(value).run().ok();
}

#[test]
fn boto3_signs_with_placeholders_and_aws_sees_the_real_key() {
    let mut world = World::with_store();
    let (id, key) = (world.another_value(), world.another_value());
    add(&world, "team/aws/access-key-id", &id, &["--env", "AWS_ACCESS_KEY_ID"]);
    let sign = ["--sign", "aws:team/aws/access-key-id", "--env", "AWS_SECRET_ACCESS_KEY"];
    add(&world, "team/aws/secret-access-key", &key, &sign);
    let aws = Aws::start(&mut world, &HOSTS, &id, &key);
    // The id comes along with the key.
    let options = ["--secret", "team/aws/secret-access-key"];
    let script = include_str!("aws_agent.py");
    let seen = world.agent_with(&options, &["python3", "-c", script]).run();
    let log = aws.log();
    let said = seen.ok();
    assert!(!log.contains("BAD") && log.matches("good").count() >= 15, "{log}");
    let lines: Vec<&str> = said.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines[0], "123456789012");
    assert!(lines[1].starts_with("signature_refused") && lines[1].contains("not signed"), "{said}");
    assert!(lines[2].starts_with("signature_refused") && lines[2].contains("chunk"), "{said}");
    assert!(lines[3].starts_with("signature_refused") && lines[3].contains("older"), "{said}");
    assert!(lines[4].starts_with("signature_refused") && lines[4].contains("key id"), "{said}");
    let uses = world.log();
    let signed = |entry: &&serde_json::Value| {
        entry["secrets_used"].as_array().unwrap().contains(&"team/aws/secret-access-key".into())
            && entry["action"] == "egress"
    };
    assert!(uses.iter().any(|entry| signed(&entry)), "{uses:?}");
}

/// An alias names the key alone; its id comes along to where programs look for it, unless something is there.
#[test]
fn an_alias_of_a_key_for_aws_brings_its_id_along() {
    let mut world = World::with_store();
    let (id, key) = (world.another_value(), world.another_value());
    add(&world, "team/aws/access-key-id", &id, &[]);
    add(&world, "team/aws/secret-access-key", &key, &["--sign", "aws:team/aws/access-key-id"]);
    let aws = Aws::start(&mut world, &HOSTS, &id, &key);
    let alias = "@secret:team/aws/secret-access-key";
    let script = "import boto3; print(boto3.client('sts', region_name='us-east-1').get_caller_identity()['Account'])";
    let seen = world.agent_python(script).env("AWS_SECRET_ACCESS_KEY", alias).run();
    assert_eq!(seen.ok().trim(), "123456789012");
    assert!(aws.log().contains("good") && !aws.log().contains("BAD"), "{}", aws.log());
    assert_eq!(seen.errors(), "");

    let print = |name: &str| world.agent(&["printenv", name]);
    let left = print("APP_ACCESS_KEY_ID").env("APP_SECRET_ACCESS_KEY", alias).run();
    assert!(left.ok().starts_with("kloak_") && left.errors().is_empty(), "{}", left.errors());
    // The id itself is a value that the command is not left.
    let id = print("AWS_ACCESS_KEY_ID").env_with_value("AWS_ACCESS_KEY_ID", &id);
    assert!(id.env("AWS_SECRET_ACCESS_KEY", alias).run().ok().starts_with("kloak_"));

    let another = print("AWS_ACCESS_KEY_ID").env("AWS_ACCESS_KEY_ID", "AKIAANOTHER");
    let another = another.env("AWS_SECRET_ACCESS_KEY", alias).run();
    assert_eq!(another.ok().trim(), "AKIAANOTHER");
    let nowhere = print("KEY").env("KEY", alias).run();
    nowhere.ok();
    for seen in [another, nowhere] {
        let errors = seen.errors();
        let next = "keyless secret set team/aws/access-key-id --env NAME";
        assert!(errors.contains("has no variable") && errors.contains(next), "{errors}");
    }
    let both = world.agent(&["true"]).env("KEY", alias);
    assert_eq!(both.env("ID", "@secret:team/aws/access-key-id").run().errors(), "");
}

/// The receiver, in the test's own words: GitHub's rule.
#[test]
fn a_webhook_is_signed_by_the_proxy() {
    let mut world = World::with_store();
    let origin = world.origin(ALLOWED);
    world.add("team/hook/key", &["--to", ALLOWED, "--sign", "github-webhook"]).ok();
    let script = r#"curl -sS -H "X-Hub-Signature-256: sha256=mine" --data-binary '{"a": 1}' https://api.allowed.test/hook"#;
    world.agent_sh(script).run().ok();
    // Of no declared length, as streams are.
    let untold = script.replace("curl", "curl -H 'Transfer-Encoding: chunked'");
    world.agent_sh(&untold).run().ok();
    let requests = origin.requests();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, br#"{"a": 1}"#);
    let verify = "import hmac, sys; print('sha256=' + hmac.new(sys.argv[1].encode(), sys.argv[2].encode(), 'sha256').hexdigest())";
    let python = Command::new("python3")
        .args(["-c", verify, world.canary.value(), r#"{"a": 1}"#])
        .output()
        .unwrap();
    let expected = String::from_utf8(python.stdout).unwrap();
    for request in requests {
        assert_eq!(request.header("x-hub-signature-256").as_deref(), Some(expected.trim()));
    }
}

/// It may come later; until then it is said who needs it.
#[test]
fn a_companion_that_nobody_has_is_told() {
    let world = World::with_store();
    let (aws, google) = ("team/aws/key", "team/google/refresh");
    let sign = [
        "--to",
        "s3.amazonaws.com",
        "--env",
        "AWS_SECRET_ACCESS_KEY",
        "--sign",
        "aws:team/aws/nope",
    ];
    let grant = "refresh-token https://auth.allowed.test/token app client-secret=team/google/nope";
    let oauth = ["--to", "api.allowed.test", "--env", "GOOGLE", "--oauth", grant];
    for (path, rule, missing, by) in
        [(aws, sign, "team/aws/nope", "--sign"), (google, oauth, "team/google/nope", "--oauth")]
    {
        let added = world.add(path, &rule);
        let words = format!("--sign or --oauth names {missing}, and there is no such secret yet");
        assert!(added.errors().contains(&words), "{}", added.errors());
        let run = world.keyless(&["run", "--secret", path, "--", "true"]).run();
        let told = run.errors();
        assert!(told.contains(missing) && told.contains(by) && told.contains(path), "{told}");
        let doctor = world.keyless(&["doctor"]).run().text();
        assert!(doctor.contains(&format!("{path} needs {missing}")), "{doctor}");
    }
}
