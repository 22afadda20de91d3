//! When and where a permission holds. A condition that is not known here makes the grant unreadable, never wider.

use std::{collections::BTreeMap, fmt, net::IpAddr, str::FromStr};

use ipnet::{IpNet, Ipv4Net};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::Subject;
use crate::{Destination, SecretPath, agent::TrustLevel, json_object::maybe_whole};

/// The conditions of a permission, in NL's field names; `max_per_minute`, `allowed_hosts` and
/// `allow_writes` are ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conditions {
    /// Not before.
    pub valid_from: Timestamp,
    /// Not after.
    pub valid_until: Timestamp,
    /// How many actions; no limit when absent.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    pub max_uses: Option<u64>,
    /// Whether a person has to allow each action.
    #[serde(default)]
    pub require_human_approval: bool,
    /// How well the agent's origin has to be proven.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_trust_level: Option<TrustLevel>,
    /// The secret's environment has to be one of these; any when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_environments: Option<Vec<String>>,
    /// What the broker knows of the agent's surroundings has to be this.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub allowed_contexts: BTreeMap<String, String>,
    /// Where the request has to come from; anywhere when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_ip_ranges: Option<Vec<IpRange>>,
    /// How many actions at the same time.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    pub max_concurrent: Option<u32>,
    /// How many actions begin within 60 seconds.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "maybe_whole")]
    pub max_per_minute: Option<u32>,
    /// The hosts that an action may reach which has a value inside; no network when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_hosts: Vec<Destination>,
    /// Whether an action may change what it could also be held to read: rows of a database.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_writes: bool,
}

/// The bits before an address of IPv4 that is written as one of IPv6: `::ffff:10.0.0.1`.
const COAT: u8 = 96;

/// An address, or all with the same beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct IpRange(IpNet);

impl Conditions {
    /// Nothing but a time.
    pub fn between(valid_from: Timestamp, valid_until: Timestamp) -> Self {
        Self {
            valid_from,
            valid_until,
            max_uses: None,
            require_human_approval: false,
            min_trust_level: None,
            allowed_environments: None,
            allowed_contexts: BTreeMap::new(),
            allowed_ip_ranges: None,
            max_concurrent: None,
            max_per_minute: None,
            allowed_hosts: Vec::new(),
            allow_writes: false,
        }
    }

    /// Whether `now` lies within its time, the first and the last moment included.
    pub fn is_in_time(&self, now: Timestamp) -> bool {
        self.valid_from <= now && now <= self.valid_until
    }

    /// Whether what it says of secrets themselves leaves room for this one. A place has no environment.
    pub fn leaves_room_for(&self, subject: &Subject) -> bool {
        self.allowed_environments.as_ref().is_none_or(|allowed| {
            let environment = subject.path().environment();
            !subject.is_place() && allowed.iter().any(|name| name.eq_ignore_ascii_case(environment))
        })
    }
}

/// Whether a secret's environment may have this name, in letters of whichever case.
pub(super) fn may_be_environment(name: &str) -> bool {
    SecretPath::parse(&format!("a/{}/c/d", name.to_ascii_lowercase()))
        .is_ok_and(|path| path.name() == "d")
}

impl IpRange {
    /// Whether an address lies within; one of IPv4 in an IPv6 coat is what it is inside, and so is a range.
    pub fn contains(&self, address: IpAddr) -> bool {
        let meant = self.of_ipv4().map_or(self.0, IpNet::V4);
        meant.contains(&address.to_canonical())
    }

    /// Whether it is written as one of IPv4 in an IPv6 coat and is wider than all of IPv4: addresses of IPv4 were meant, and
    /// which ones nobody knows.
    pub(super) fn is_beyond_ipv4(&self) -> bool {
        let IpNet::V6(net) = self.0 else { return false };
        net.addr().to_ipv4_mapped().is_some() && self.of_ipv4().is_none()
    }

    /// The range of IPv4 that is in an IPv6 coat, if it is one. It stays as it is written, since grants are sealed so.
    fn of_ipv4(&self) -> Option<Ipv4Net> {
        let IpNet::V6(net) = self.0 else { return None };
        let length = net.prefix_len().checked_sub(COAT)?;
        Ipv4Net::new(net.addr().to_ipv4_mapped()?, length).ok()
    }
}

impl FromStr for IpRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let range = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        range.map(Self).map_err(|_| "not an address or a range such as 10.0.0.0/8")
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl TryFrom<String> for IpRange {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<IpRange> for String {
    fn from(range: IpRange) -> Self {
        range.to_string()
    }
}
