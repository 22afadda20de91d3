use serde_json::json;

use super::{super::models::Models, *};

/// `METHOD path?query`, headers and body of a request.
fn drafted(service: &str, operation: &str, parameters: Value) -> Result<Draft, Error> {
    let Value::Object(parameters) = parameters else { panic!("an object") };
    let service = Models::bundled().service(service).unwrap();
    let (title, operation) = service.operation(operation).unwrap();
    let asked = Asked { service: &service, title, operation };
    asked.draft(parameters, Timestamp::UNIX_EPOCH).map(|(draft, _)| draft)
}

#[track_caller]
fn check(service: &str, operation: &str, parameters: Value, line: &str, body: &str) -> Draft {
    let draft = drafted(service, operation, parameters).unwrap();
    let query = encoded(&draft.query);
    assert_eq!(format!("{} {}?{query}", draft.method, draft.path), line);
    assert_eq!(String::from_utf8_lossy(&draft.body), body);
    draft
}

fn header<'a>(draft: &'a Draft, name: &str) -> &'a str {
    let found = draft.headers.iter().find(|(other, _)| other == name);
    found.map_or("", |(_, value)| value.as_str())
}

#[test]
fn the_query_protocols_write_pairs() {
    let filters = json!([{"Name": "tag:a", "Values": ["x y", "z"]}]);
    check(
        "ec2",
        "describe_instances",
        json!({"Filters": filters, "InstanceIds": ["i-1"], "MaxResults": 5, "DryRun": true}),
        "POST /?",
        "Action=DescribeInstances&Version=2016-11-15&DryRun=true&Filter.1.Name=tag%3Aa&Filter.1.Value.1=x%20y\
         &Filter.1.Value.2=z&InstanceId.1=i-1&MaxResults=5",
    );
    let attributes = json!({"Name": "t", "Attributes": {"FifoTopic": "true"}, "Tags": []});
    check(
        "sns",
        "create_topic",
        attributes,
        "POST /?",
        "Action=CreateTopic&Version=2010-03-31&Attributes.entry.1.key=FifoTopic&Attributes.entry.1.value=true&Name=t&Tags=",
    );
    check(
        "rds",
        "describe_events",
        json!({"StartTime": 1_709_208_001, "EventCategories": ["a"]}),
        "POST /?",
        "Action=DescribeEvents&Version=2014-10-31&EventCategories.EventCategory.1=a&StartTime=2024-02-29T12%3A00%3A01Z",
    );
}

#[test]
fn the_json_protocols_write_json() {
    let draft = check(
        "cloudwatch",
        "get_metric_statistics",
        json!({"Namespace": "n", "StartTime": "2024-02-29T12:00:01Z"}),
        "POST /?",
        r#"{"Namespace":"n","StartTime":1709208001}"#,
    );
    assert_eq!(header(&draft, "x-amz-target"), "GraniteServiceVersion20100801.GetMetricStatistics");
    let draft = check(
        "lambda",
        "invoke",
        json!({"FunctionName": "arn:f", "InvocationType": "Event", "Qualifier": "1", "Payload": {"a": 1}}),
        "POST /2015-03-31/functions/arn%3Af/invocations?Qualifier=1",
        r#"{"a":1}"#,
    );
    assert_eq!(header(&draft, "x-amz-invocation-type"), "Event");
    check("apigateway", "get_rest_apis", json!({"limit": 2}), "GET /restapis?limit=2", "");
    check(
        "batch",
        "tag_resource",
        json!({"resourceArn": "a/b", "tags": {"k": "v"}}),
        "POST /v1/tags/a%2Fb?",
        r#"{"tags":{"k":"v"}}"#,
    );
}

#[test]
fn rest_xml_writes_elements() {
    let rule = json!({"ID": "a<b", "Status": "Enabled", "Expiration": {"Days": 3}, "Filter": {"Prefix": ""}});
    let draft = check(
        "s3",
        "put_bucket_lifecycle_configuration",
        json!({"Bucket": "b", "LifecycleConfiguration": {"Rules": [rule]}}),
        "PUT /b?lifecycle=",
        "<LifecycleConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Rule><Expiration><Days>3</Days>\
         </Expiration><Filter><Prefix></Prefix></Filter><ID>a&lt;b</ID><Status>Enabled</Status></Rule>\
         </LifecycleConfiguration>",
    );
    assert_eq!(header(&draft, "x-amz-sdk-checksum-algorithm"), "SHA256");
    let grantee = json!({"Type": "Group", "URI": "u"});
    check(
        "s3",
        "put_object_acl",
        json!({"Bucket": "b", "Key": "a b/c", "AccessControlPolicy": {"Grants": [{"Grantee": grantee}]}}),
        "PUT /b/a%20b/c?acl=",
        "<AccessControlPolicy xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><AccessControlList><Grant>\
         <Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"Group\"><URI>u</URI></Grantee>\
         </Grant></AccessControlList></AccessControlPolicy>",
    );
    let object =
        json!({"Bucket": "b", "Key": "k", "Body": "x", "Metadata": {"a": "1"}, "ContentLength": 9});
    let draft = check("s3", "put_object", object, "PUT /b/k?", "x");
    assert_eq!((header(&draft, "x-amz-meta-a"), header(&draft, "content-length")), ("1", ""));
    let zone = json!({"Name": "a.test", "CallerReference": "r"});
    check(
        "route53",
        "create_hosted_zone",
        zone,
        "POST /2013-04-01/hostedzone?",
        "<CreateHostedZoneRequest xmlns=\"https://route53.amazonaws.com/doc/2013-04-01/\"><CallerReference>r\
         </CallerReference><Name>a.test</Name></CreateHostedZoneRequest>",
    );
    let zone = json!({"Id": "/hostedzone/Z1"});
    check("route53", "get_hosted_zone", zone, "GET /2013-04-01/hostedzone/Z1?", "");
}

#[test]
fn what_leads_astray_is_refused() {
    for (service, operation, parameters) in [
        ("mediastore-data", "get_object", json!({"Path": "a/../b"})),
        ("s3", "get_object", json!({"Bucket": "..", "Key": "a"})),
        ("s3", "get_object", json!({"Bucket": "b"})),
        ("s3", "get_object", json!({"Bucket": "b", "Key": "k", "Nothing": 1})),
        ("s3", "put_object", json!({"Bucket": "b", "Key": "k", "Metadata": {"a: b\r\nhost": "x"}})),
        ("s3control", "list_jobs", json!({"AccountId": "evil.test/"})),
        ("dynamodb", "list_tables", json!({"Nothing": 1})),
    ] {
        let refused = drafted(service, operation, parameters).err().unwrap();
        assert_eq!(refused.code(), Code::BadRequest, "{service} {operation}");
    }
}

#[test]
fn a_token_is_made_up_where_there_is_none() {
    let body = |parameters| {
        let draft = drafted("secretsmanager", "create_secret", parameters).unwrap();
        serde_json::from_slice::<Value>(&draft.body).unwrap()
    };
    let made_up = body(json!({"Name": "a"}));
    assert_eq!(made_up["ClientRequestToken"].as_str().unwrap().len(), 36);
    assert_ne!(made_up["ClientRequestToken"], body(json!({"Name": "b"}))["ClientRequestToken"]);
    let own = body(json!({"Name": "a", "ClientRequestToken": "mine"}));
    assert_eq!(own["ClientRequestToken"], "mine");
}

/// One request as botocore's own serializer writes it (`cargo xtask aws-models`).
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    service: String,
    operation: String,
    parameters: Value,
    method: String,
    path: String,
    query: Vec<(String, String)>,
    headers: Map<String, Value>,
    body: String,
    prefix: String,
}

#[test]
fn requests_are_those_of_botocore() {
    let vectors: Vec<Vector> = serde_json::from_str(include_str!("vectors.json")).unwrap();
    assert!(vectors.len() > 300);
    let models = Models::bundled();
    for vector in vectors {
        let service = models.service(&vector.service).unwrap();
        let (title, operation) = service.operation(&vector.operation).unwrap();
        let asked = Asked { service: &service, title, operation };
        let Value::Object(parameters) = vector.parameters else { panic!("an object") };
        let (mut draft, prefix) = asked.draft(parameters, Timestamp::UNIX_EPOCH).unwrap();
        draft.query.sort();
        let place = format!("{}.{title}", vector.service);
        assert_eq!(
            (&draft.method, &draft.path, &draft.query, &prefix),
            (&vector.method, &vector.path, &vector.query, &vector.prefix),
            "{place}"
        );
        for (name, value) in &vector.headers {
            // Which checksum there is, is ours to say.
            if name != "x-amz-sdk-checksum-algorithm" {
                assert_eq!(header(&draft, name), value, "{place} {name}");
            }
        }
        let body = String::from_utf8_lossy(&draft.body);
        assert!(is_same(service.protocol, &body, &vector.body), "{place}\n{body}\n{}", vector.body);
    }
}

#[test]
fn a_key_of_s3_is_a_name_and_no_path() {
    let at = |key: &str| drafted("s3", "get_object", json!({"Bucket": "b", "Key": key}));
    for (key, path) in
        [("a/../b", "/b/a/../b"), ("..", "/b/.."), ("/./x", "/b//./x"), ("a%2F..", "/b/a%252F..")]
    {
        assert_eq!(at(key).ok().map(|draft| draft.path).as_deref(), Some(path));
    }
}

/// Whether two bodies say the same.
fn is_same(protocol: Protocol, ours: &str, theirs: &str) -> bool {
    let json = |text: &str| serde_json::from_str::<Value>(text);
    let pairs = |text: &str| {
        let mut pairs: Vec<_> = text.split('&').map(str::to_owned).collect();
        pairs.sort();
        pairs
    };
    if ours == theirs {
        return true;
    }
    match protocol {
        Protocol::Ec2 | Protocol::Query => pairs(ours) == pairs(theirs),
        Protocol::Json | Protocol::RestJson => json(ours).unwrap() == json(theirs).unwrap(),
        Protocol::RestXml => {
            let document = |text| roxmltree::Document::parse(text).unwrap();
            is_same_tree(document(ours).root_element(), document(theirs).root_element())
        }
    }
}

fn is_same_tree(ours: roxmltree::Node<'_, '_>, theirs: roxmltree::Node<'_, '_>) -> bool {
    let attributes = |node: roxmltree::Node<'_, '_>| {
        let written =
            |one: roxmltree::Attribute<'_, '_>| (one.name().to_owned(), one.value().to_owned());
        node.attributes().map(written).collect::<Vec<_>>()
    };
    ours.tag_name() == theirs.tag_name()
        && ours.text() == theirs.text()
        && attributes(ours) == attributes(theirs)
        && ours.children().count() == theirs.children().count()
        && ours.children().zip(theirs.children()).all(|(ours, theirs)| is_same_tree(ours, theirs))
}
