//! AWS's own models of its services, as `cargo xtask aws-models` packed them from botocore's.
//!
//! `providers/aws.models` is one line of JSON that says where each service stands, then a deflated JSON
//! per service. A service is read when it is called, and the last few are kept.

use std::{
    collections::{BTreeMap, VecDeque},
    io::Read as _,
    sync::Arc,
};

use flate2::read::DeflateDecoder;
use parking_lot::Mutex;
use serde::Deserialize;

const FILE: &[u8] = include_bytes!("../../../providers/aws.models");
/// EC2, the largest, is some megabytes when it is read.
const KEPT: usize = 4;

/// All services.
#[derive(Debug)]
pub(super) struct Models {
    places: BTreeMap<String, (usize, usize)>,
    packed: &'static [u8],
    kept: Mutex<VecDeque<(String, Arc<Service>)>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    #[expect(dead_code, reason = "for who reads the file: its origin, version and licence")]
    source: String,
    services: BTreeMap<String, (usize, usize)>,
}

/// One service.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Service {
    pub(super) protocol: Protocol,
    /// The API's, such as `2016-11-15`.
    pub(super) version: String,
    /// What its requests are signed for.
    pub(super) signing: String,
    /// The first one is for all regions that no other one names.
    pub(super) hosts: Vec<Hosts>,
    /// What operations of the JSON protocol are called by.
    #[serde(default)]
    pub(super) target: String,
    /// The JSON protocol's version.
    #[serde(default)]
    pub(super) json: Option<String>,
    operations: BTreeMap<String, Operation>,
    shapes: Vec<Shape>,
}

/// How a service is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Protocol {
    Ec2,
    Json,
    Query,
    RestJson,
    RestXml,
}

/// Where a service is in one part of the world.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Hosts {
    /// What the names of its regions begin with.
    pub(super) regions: String,
    /// May have `{region}`.
    pub(super) host: String,
    /// The one region that is signed for, where all have one host.
    #[serde(default)]
    pub(super) signed: Option<String>,
}

/// One operation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Operation {
    #[serde(default = "post")]
    pub(super) method: String,
    /// Path and query with `{Name}` and `{Name+}`.
    #[serde(default = "root")]
    pub(super) uri: String,
    #[serde(default)]
    pub(super) input: Option<usize>,
    #[serde(default)]
    pub(super) output: Option<usize>,
    /// The element that the result stands in.
    #[serde(default)]
    pub(super) wrapper: Option<String>,
    /// The element that the parameters stand in.
    #[serde(default)]
    pub(super) root: Option<String>,
    #[serde(default)]
    pub(super) namespace: Option<Namespace>,
    /// What stands before the host; may have `{Name}`.
    #[serde(default)]
    pub(super) prefix: Option<String>,
    #[serde(default)]
    pub(super) checksum: Option<Checksum>,
}

/// What the body is told by, beside the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Checksum {
    Md5,
    Sha256,
}

/// What a value is.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Shape {
    /// A document: JSON as it is.
    Any,
    Blob,
    Boolean,
    Float,
    Integer,
    List(List),
    Map(Map),
    /// Text, and in an answer a credential.
    Secret,
    Structure(Structure),
    Text,
    Time(Option<TimeForm>),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List {
    pub(super) of: usize,
    #[serde(default)]
    pub(super) name: Option<String>,
    #[serde(default)]
    pub(super) flat: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Map {
    pub(super) of: usize,
    #[serde(default)]
    pub(super) key: Option<String>,
    #[serde(default)]
    pub(super) value: Option<String>,
    #[serde(default)]
    pub(super) flat: bool,
    /// The keys whose values are credentials in an answer.
    #[serde(default)]
    pub(super) secret: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Structure {
    pub(super) members: BTreeMap<String, Member>,
    /// The member that is the body.
    #[serde(default)]
    pub(super) payload: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "botocore's marks as they are")]
pub(super) struct Member {
    pub(super) of: usize,
    #[serde(default)]
    pub(super) at: Option<Location>,
    /// Its name on the wire, if it is another one there.
    #[serde(default)]
    name: Option<String>,
    /// Its name in EC2's requests.
    #[serde(default)]
    pub(super) query: Option<String>,
    #[serde(default)]
    pub(super) flat: bool,
    /// An XML attribute.
    #[serde(default)]
    pub(super) attribute: bool,
    /// Made up where the caller has none, so that a request that is repeated is done once.
    #[serde(default)]
    pub(super) token: bool,
    /// In a header: JSON in base64.
    #[serde(default)]
    pub(super) json: bool,
    #[serde(default)]
    pub(super) namespace: Option<Namespace>,
}

/// Where in a request or an answer a member stands, if not in the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Location {
    Header,
    /// Headers whose names begin with the member's.
    Headers,
    Query,
    Status,
    Uri,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Namespace {
    #[serde(default)]
    pub(super) prefix: Option<String>,
    pub(super) uri: String,
}

/// How a time is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TimeForm {
    Iso8601,
    Rfc822,
    UnixTimestamp,
}

fn post() -> String {
    "POST".to_owned()
}

fn root() -> String {
    "/".to_owned()
}

impl Models {
    /// Those that come with Keyless.
    pub(super) fn bundled() -> Self {
        let end = FILE.iter().position(|byte| *byte == b'\n').expect("a test reads it");
        let head: Head = serde_json::from_slice(&FILE[..end]).expect("a test reads it");
        Self { places: head.services, packed: &FILE[end + 1..], kept: Mutex::default() }
    }

    /// A service by the name that boto3 has for it.
    pub(super) fn service(&self, name: &str) -> Option<Arc<Service>> {
        let (offset, length) = *self.places.get(name)?;
        let mut kept = self.kept.lock();
        if let Some((_, service)) = kept.iter().find(|(other, _)| other == name) {
            return Some(Arc::clone(service));
        }
        let mut text = Vec::new();
        let packed = self.packed.get(offset..offset + length)?;
        DeflateDecoder::new(packed).read_to_end(&mut text).ok()?;
        let service: Arc<Service> = Arc::new(serde_json::from_slice(&text).ok()?);
        kept.truncate(KEPT - 1);
        kept.push_front((name.to_owned(), Arc::clone(&service)));
        Some(service)
    }
}

impl Service {
    /// An operation in AWS's spelling or boto3's: `DescribeDBInstances` is `describe_db_instances`.
    pub(super) fn operation(&self, wanted: &str) -> Option<(&str, &Operation)> {
        let wanted = wanted.replace('_', "");
        let found = self.operations.iter().find(|(title, _)| title.eq_ignore_ascii_case(&wanted));
        found.map(|(title, operation)| (title.as_str(), operation))
    }

    pub(super) fn shape(&self, number: usize) -> &Shape {
        self.shapes.get(number).unwrap_or(&Shape::Any)
    }

    /// The members of a structure; none of what is no structure.
    pub(super) fn structure(&self, number: Option<usize>) -> Option<&Structure> {
        match self.shape(number?) {
            Shape::Structure(structure) => Some(structure),
            _ => None,
        }
    }

    /// Where it is for a region, and the region to sign for.
    pub(super) fn place(&self, region: &str) -> Option<(String, String)> {
        let of = |hosts: &&Hosts| !hosts.regions.is_empty() && region.starts_with(&hosts.regions);
        let hosts = self.hosts.iter().find(of).or(self.hosts.first())?;
        let signed = hosts.signed.clone().unwrap_or(region.to_owned());
        Some((hosts.host.replace("{region}", region), signed))
    }
}

impl Member {
    /// Its name on the wire.
    pub(super) fn wire<'a>(&'a self, title: &'a str) -> &'a str {
        self.name.as_deref().unwrap_or(title)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_service_can_be_read_and_points_at_what_is_there() {
        let models = Models::bundled();
        assert!(models.places.len() > 400);
        for name in models.places.keys() {
            let service = models.service(name).unwrap_or_else(|| panic!("{name}"));
            let there = |number: usize| assert!(number < service.shapes.len(), "{name} {number}");
            for operation in service.operations.values() {
                operation.input.into_iter().chain(operation.output).for_each(there);
            }
            for shape in &service.shapes {
                match shape {
                    Shape::List(list) => there(list.of),
                    Shape::Map(map) => there(map.of),
                    Shape::Structure(structure) => {
                        structure.members.values().for_each(|member| there(member.of));
                    }
                    _ => {}
                }
            }
        }
        assert!(models.kept.lock().len() <= KEPT);
        assert!(models.service("none").is_none());
    }

    #[test]
    fn operations_and_places_are_found_as_botocore_has_them() {
        let models = Models::bundled();
        let rds = models.service("rds").unwrap();
        for spelling in ["describe_db_instances", "DescribeDBInstances", "describeDBInstances"] {
            assert_eq!(rds.operation(spelling).unwrap().0, "DescribeDBInstances");
        }
        let place = |service: &str, region: &str| {
            let (host, signed) = models.service(service).unwrap().place(region).unwrap();
            format!("{host} {signed}")
        };
        for (service, region, wanted) in [
            ("s3", "us-east-1", "s3.us-east-1.amazonaws.com us-east-1"),
            ("ecr", "eu-west-3", "api.ecr.eu-west-3.amazonaws.com eu-west-3"),
            ("iam", "eu-west-1", "iam.amazonaws.com us-east-1"),
            ("route53", "cn-north-1", "route53.amazonaws.com.cn cn-northwest-1"),
            ("lambda", "us-gov-east-1", "lambda.us-gov-east-1.amazonaws.com us-gov-east-1"),
        ] {
            assert_eq!(place(service, region), wanted);
        }
    }
}
