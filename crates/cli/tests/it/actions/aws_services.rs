//! AWS's services as `sdk_proxy` speaks and reads them: moto answers, botocore judges the signatures and what is told.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use serde_json::{Value, json};

use super::submit;
use crate::{aws::Aws, world::World};

const ID: &str = "AKIAIOSFODNN7EXAMPLE";

/// Service, operation and parameters.
type Asked<'a> = (&'a str, &'a str, Value);

/// AWS at the hosts of these services.
fn with_aws(services: &str) -> (World, Aws) {
    let mut world = World::with_store();
    let credential = json!({"AccessKeyId": ID, "SecretAccessKey": world.canary.value()});
    let add = ["secret", "add", "braincol/production/aws/credentials", "--value-stdin"];
    world.keyless(&add).stdin(credential.to_string()).run().ok();
    let host = |service: &str| match service {
        "cloudfront" | "iam" | "route53" => format!("{service}.amazonaws.com"),
        service => format!("{service}.us-east-1.amazonaws.com"),
    };
    let hosts: Vec<String> = services.split(' ').map(host).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let key = world.canary.value().to_owned();
    let aws = Aws::start(&mut world, &hosts, ID, &key);
    world.write_config();
    (world, aws)
}

fn call(service: &str, operation: &str, parameters: &Value) -> Value {
    json!({
        "type": "sdk_proxy", "provider": "aws", "service": service, "operation": operation,
        "parameters": parameters,
        "credentials_ref": "{{nl:braincol/production/aws/CREDENTIALS}}"
    })
}

/// Does all calls; gives what is told of each, as botocore's parser wants to see it.
fn told(world: &World, aws: &Aws, calls: &[Asked<'_>]) -> Vec<Value> {
    let actions: Vec<Value> = calls.iter().map(|(a, b, c)| call(a, b, c)).collect();
    // As many at once as there may be.
    let responses: Vec<Value> =
        actions.chunks(20).flat_map(|actions| submit(world, actions)).collect();
    let told = calls.iter().zip(&responses).map(|((service, operation, _), response)| {
        assert_eq!(response["status"], "success", "{operation}: {response}\n{}", aws.log());
        json!({"service": service, "operation": operation, "data": response["result"]["data"]})
    });
    told.collect()
}

/// What botocore makes otherwise of the same answers.
fn differences(aws: &Aws, told: &[Value]) -> String {
    let mut process = Command::new("python3")
        .args(["-c", include_str!("aws_compare.py")])
        .env("ANSWERS", aws.answers())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    process.stdin.take().unwrap().write_all(json!(told).to_string().as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn aws_is_called_by_its_own_protocols() {
    let (world, aws) = with_aws(
        "api.ecr apigateway cloudformation cloudfront dynamodb ec2 ecs eks elasticloadbalancing events iam kms lambda \
         logs monitoring rds route53 s3 secretsmanager sns sqs ssm sts",
    );
    // All five protocols.
    let calls: Vec<Asked<'_>> = serde_json::from_str(include_str!("aws_calls.json")).unwrap();
    let mut told = told(&world, &aws, &calls);
    let data = |operation: &str| {
        let told = told.iter().find(|told| told["operation"] == operation);
        &told.unwrap_or_else(|| panic!("{operation}"))["data"]
    };
    assert_eq!(data("list_objects_v2")["Contents"][0]["Size"], 4);
    assert_eq!(data("get_object")["Body"], "a,b\n");
    assert_eq!(data("head_object")["Metadata"], json!({"made-by": "a  machine"}));
    assert_eq!(data("list_buckets")["Buckets"][0]["Name"], "my-data-bucket");
    assert_eq!(data("list_users"), &json!({"IsTruncated": false, "Users": []}));
    assert_eq!(data("get_caller_identity")["Account"], "123456789012");
    let environment = &data("list_functions")["Functions"][0]["Environment"]["Variables"];
    assert_eq!(environment, &json!({"TOKEN": "[withheld]"}));
    // With what AWS names itself.
    let zone = data("create_hosted_zone")["HostedZone"]["Id"].clone();
    let records = ("route53", "list_resource_record_sets", json!({"HostedZoneId": zone}));
    told.extend(self::told(&world, &aws, &[records]));
    assert_eq!(differences(&aws, &told), "");
    told[2]["data"]["Contents"][0]["Size"] = "4".into();
    assert_eq!(differences(&aws, &told), "s3.list_objects_v2.Contents[0].Size: 4 is '4'\n");
    assert!(!aws.log().contains("BAD"), "{}", aws.log());
}

/// S3 stores names: no part of Keyless takes one for a path.
#[test]
fn a_key_of_s3_arrives_as_it_is() {
    let mut world = World::with_store();
    let credential = format!("{ID}:{}", world.canary.value());
    let add = ["secret", "add", "braincol/production/aws/credentials", "--value-stdin"];
    world.keyless(&add).stdin(credential).run().ok();
    let s3 = world.origin("s3.us-east-1.amazonaws.com");
    world.write_config();
    let key = json!({"Bucket": "my-data-bucket", "Key": "a/../b//./c"});
    let response = submit(&world, &[call("s3", "get_object", &key)]).remove(0);
    assert_eq!(response["status"], "success", "{response}");
    let requests = format!("{:?}", s3.requests());
    assert!(requests.contains("/my-data-bucket/a/../b//./c"), "{requests}");
}

#[test]
fn aws_says_no_in_its_own_words_and_what_hands_out_credentials_is_withheld() {
    let (world, aws) = with_aws("sts ec2 lambda s3");
    let missing = json!({"Bucket": "nobodys-bucket"});
    let instance = json!({"InstanceIds": ["i-0123456789abcdef0"]});
    let responses = submit(
        &world,
        &[
            call("s3", "list_objects_v2", &missing),
            call("ec2", "describe_instances", &instance),
            call("lambda", "get_function", &json!({"FunctionName": "f"})),
            call("sts", "get_session_token", &json!({})),
        ],
    );
    for response in &responses[..3] {
        assert_eq!(response["status"], "error", "{response}\n{}", aws.log());
    }
    let data = |index: usize| &responses[index]["result"]["data"];
    assert_eq!(data(0)["Code"], "NoSuchBucket", "{}", data(0));
    assert_eq!(data(1)["Errors"]["Error"]["Code"], "InvalidInstanceID.NotFound", "{}", data(1));
    assert_eq!(data(2)["__type"], "ResourceNotFoundException", "{}", data(2));
    assert_eq!(responses[3]["status"], "denied");
    assert_eq!(responses[3]["error"]["code"], "X_ACTION_BLOCKED", "{}", responses[3]);
    assert!(!aws.log().contains("BAD"), "{}", aws.log());
}
