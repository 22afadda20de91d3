use serde_json::json;
use zeroize::Zeroizing;

use super::{super::models::Models, *};

fn read(service: &str, operation: &str, headers: &[(&str, &str)], body: &[u8]) -> Option<Value> {
    let service = Models::bundled().service(service).unwrap();
    let (title, operation) = service.operation(operation).unwrap();
    let asked = Asked { service: &service, title, operation };
    let owned =
        |(name, value): &(&str, &str)| ((*name).to_owned(), Zeroizing::new((*value).to_owned()));
    let headers = headers.iter().map(owned).collect();
    let answer = Answer { status: 200, headers, body: Zeroizing::new(body.to_vec()) };
    data(&asked, &answer)
}

#[test]
fn lists_are_lists_and_numbers_numbers() {
    let one = "<ListBucketResult xmlns='x'><Name>b</Name><KeyCount>1</KeyCount><Contents><Key>7</Key><Size>3</Size>\
               </Contents><IsTruncated>false</IsTruncated></ListBucketResult>";
    assert_eq!(
        read("s3", "list_objects_v2", &[], one.as_bytes()).unwrap(),
        json!({
            "Name": "b", "KeyCount": 1, "Contents": [{"Key": "7", "Size": 3}], "IsTruncated": false
        })
    );
    let none = "<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>";
    assert_eq!(read("s3", "list_buckets", &[], none.as_bytes()).unwrap(), json!({"Buckets": []}));
    let acl = "<AccessControlPolicy><AccessControlList><Grant><Grantee xmlns:xsi='i' xsi:type='Group'><URI>u</URI>\
               </Grantee></Grant></AccessControlList></AccessControlPolicy>";
    assert_eq!(
        read("s3", "get_object_acl", &[], acl.as_bytes()).unwrap(),
        json!({"Grants": [{"Grantee": {"Type": "Group", "URI": "u"}}]})
    );
    let location = |text: &str| {
        let body = format!("<LocationConstraint xmlns='x'>{text}</LocationConstraint>");
        read("s3", "get_bucket_location", &[], body.as_bytes()).unwrap()
    };
    assert_eq!(location("eu-west-1"), json!({"LocationConstraint": "eu-west-1"}));
    assert_eq!(location(""), json!({"LocationConstraint": null}));
    let user = "<R><GetUserResult><User><UserName>12</UserName><Tags/></User></GetUserResult></R>";
    assert_eq!(
        read("iam", "get_user", &[], user.as_bytes()).unwrap(),
        json!({"User": {"UserName": "12", "Tags": []}})
    );
    let hosts = "<R><hostSet><item><hostId>h</hostId></item></hostSet></R>";
    assert_eq!(
        read("ec2", "describe_hosts", &[], hosts.as_bytes()).unwrap(),
        json!({"Hosts": [{"HostId": "h"}]})
    );
    let attributes = "<R><GetTopicAttributesResult><Attributes><entry><key>a</key><value>1</value></entry></Attributes>\
                      </GetTopicAttributesResult></R>";
    assert_eq!(
        read("sns", "get_topic_attributes", &[], attributes.as_bytes()).unwrap(),
        json!({"Attributes": {"a": "1"}})
    );
}

#[test]
fn what_the_model_does_not_have_is_not_looked_into() {
    let nested = "<a>".repeat(500) + &"</a>".repeat(500);
    let body = format!("<Tagging>{nested}<TagSet><Tag><Key>k</Key></Tag></TagSet></Tagging>");
    let read = read("s3", "get_bucket_tagging", &[], body.as_bytes());
    assert_eq!(read, Some(json!({"TagSet": [{"Key": "k"}]})));
}

#[test]
fn headers_and_the_body_as_a_whole_are_members() {
    let headers = [("content-length", "15"), ("x-amz-meta-a", "1"), ("etag", "\"e\"")];
    assert_eq!(
        read("s3", "get_object", &headers, b"<a><b>1</b></a>").unwrap(),
        json!({"Body": "<a><b>1</b></a>", "ContentLength": 15, "ETag": "\"e\"", "Metadata": {"a": "1"}})
    );
    let binary = read("s3", "get_object", &[], b"\xff").unwrap();
    assert_eq!(binary, json!({"Metadata": {}, "body_base64": "/w=="}));
    let invoked = read("lambda", "invoke", &[("x-amz-executed-version", "1")], b"{}").unwrap();
    assert_eq!(invoked, json!({"ExecutedVersion": "1", "Payload": "{}", "StatusCode": 200}));
}

#[test]
fn json_is_what_the_model_has() {
    let body = br#"{"items": [{"id": "a", "name": null, "unknown": 1}]}"#;
    let apis = read("apigateway", "get_rest_apis", &[], body).unwrap();
    assert_eq!(apis, json!({}));
    let body = br#"{"item": [{"id": "a", "name": null, "unknown": 1}]}"#;
    let apis = read("apigateway", "get_rest_apis", &[], body).unwrap();
    assert_eq!(apis, json!({"items": [{"id": "a"}]}));
    assert!(read("apigateway", "get_rest_apis", &[], b"<html>").is_none());
    assert_eq!(read("ecs", "list_clusters", &[], b"").unwrap(), json!({}));
}

#[test]
fn a_credential_among_other_things_is_not_told() {
    let client = br#"{"UserPoolClient": {"ClientName": "c", "ClientSecret": "s3ntinel"}}"#;
    assert_eq!(
        read("cognito-idp", "describe_user_pool_client", &[], client).unwrap(),
        json!({"UserPoolClient": {"ClientName": "c", "ClientSecret": "[withheld]"}})
    );
    let function = br#"{"FunctionName": "f", "Environment": {"Variables": {"A": "s3ntinel"}}}"#;
    assert_eq!(
        read("lambda", "get_function_configuration", &[], function).unwrap(),
        json!({"FunctionName": "f", "Environment": {"Variables": {"A": "[withheld]"}}})
    );
    let connection = br#"{"Connection": {"Name": "c", "ConnectionProperties": {"HOST": "h", "USERNAME": "u", "PASSWORD": "s3ntinel",
        "ENCRYPTED_PASSWORD": "s3ntinel", "KAFKA_SASL_SCRAM_PASSWORD": "s3ntinel"}}}"#;
    let told = read("glue", "get_connection", &[], connection).unwrap();
    let properties = &told["Connection"]["ConnectionProperties"];
    let withheld = "[withheld]";
    assert_eq!(
        *properties,
        json!({"HOST": "h", "USERNAME": "u", "PASSWORD": withheld, "ENCRYPTED_PASSWORD": withheld,
            "KAFKA_SASL_SCRAM_PASSWORD": withheld})
    );
    let list = br#"{"ConnectionList": [{"ConnectionProperties": {"PASSWORD": "s3ntinel"}}]}"#;
    let told = read("glue", "get_connections", &[], list).unwrap().to_string();
    assert!(told.contains(withheld) && !told.contains("s3ntinel"), "{told}");
    let task = br#"{"taskDefinition": {"family": "f", "containerDefinitions": [{"name": "c",
        "environment": [{"name": "A", "value": "s3ntinel"}], "secrets": [{"name": "B", "valueFrom": "arn:b"}]}]}}"#;
    let told = read("ecs", "describe_task_definition", &[], task).unwrap();
    assert_eq!(
        told["taskDefinition"]["containerDefinitions"][0],
        json!({"name": "c", "environment": [{"name": "A", "value": withheld}],
            "secrets": [{"name": "B", "valueFrom": "arn:b"}]})
    );
    let tasks = br#"{"tasks": [{"overrides": {"containerOverrides": [{"environment": [{"name": "A", "value": "s3ntinel"}]}]},
        "attachments": [{"details": [{"name": "subnetId", "value": "subnet-1"}]}]}]}"#;
    let told = read("ecs", "describe_tasks", &[], tasks).unwrap().to_string();
    assert!(told.contains("subnet-1") && !told.contains("s3ntinel"), "{told}");
    let keys = br#"{"item": [{"id": "a", "value": "s3ntinel"}]}"#;
    assert_eq!(
        read("apigateway", "get_api_keys", &[], keys).unwrap(),
        json!({"items": [{"id": "a", "value": "[withheld]"}]})
    );
    let provider = "<R><verifiedAccessTrustProvider><oidcOptions><clientSecret>s3ntinel</clientSecret></oidcOptions>\
                    </verifiedAccessTrustProvider></R>";
    let told = read("ec2", "create_verified_access_trust_provider", &[], provider.as_bytes());
    assert!(!told.unwrap().to_string().contains("s3ntinel"));
    let tunnels = "<R><vpnConnectionSet><item><vpnConnectionId>vpn-1</vpnConnectionId><customerGatewayConfiguration>s3ntinel\
                   </customerGatewayConfiguration><options><tunnelOptionSet><item><preSharedKey>s3ntinel</preSharedKey></item>\
                   </tunnelOptionSet></options></item></vpnConnectionSet></R>";
    let told =
        read("ec2", "describe_vpn_connections", &[], tunnels.as_bytes()).unwrap().to_string();
    assert!(told.contains("vpn-1") && !told.contains("s3ntinel"), "{told}");
    for (service, operation, body) in [
        ("ivs", "create_channel", r#"{"streamKey": {"arn": "a", "value": "s3ntinel"}}"#),
        (
            "iotwireless",
            "get_wireless_device",
            r#"{"LoRaWAN": {"OtaaV1_1": {"AppKey": "s3ntinel", "NwkKey": "s3ntinel"}}}"#,
        ),
        (
            "directconnect",
            "describe_virtual_interfaces",
            r#"{"virtualInterfaces": [{"authKey": "s3ntinel"}]}"#,
        ),
        (
            "eks",
            "describe_cluster",
            r#"{"cluster": {"connectorConfig": {"activationCode": "s3ntinel"}}}"#,
        ),
        (
            "workspaces-thin-client",
            "get_environment",
            r#"{"environment": {"activationCode": "s3ntinel"}}"#,
        ),
        ("amplify", "get_webhook", r#"{"webhook": {"webhookUrl": "s3ntinel"}}"#),
        ("amplify", "get_app", r#"{"app": {"environmentVariables": {"A": "s3ntinel"}}}"#),
        (
            "codebuild",
            "batch_get_projects",
            r#"{"projects": [{"environment": {"environmentVariables": [{"name": "A", "value": "s3ntinel"}]}}]}"#,
        ),
        (
            "batch",
            "describe_jobs",
            r#"{"jobs": [{"container": {"environment": [{"name": "A", "value": "s3ntinel"}]}}]}"#,
        ),
        ("sagemaker", "describe_training_job", r#"{"Environment": {"A": "s3ntinel"}}"#),
    ] {
        let told = read(service, operation, &[], body.as_bytes()).unwrap().to_string();
        assert!(told.contains("[withheld]") && !told.contains("s3ntinel"), "{service}: {told}");
    }
}
