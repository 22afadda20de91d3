//! What works and is hardly meant, of a secret that is added or changed: said once, where it can still be mended.

use jiff::{Timestamp, tz::TimeZone};
use keyless_core::{Destination, EgressRule, Host, REGISTERED_METHODS, SecretPath};
use keyless_daemon::{
    Places, missing_companions,
    setup::signer_of,
    vault::{Freshness, Metadata, RouterConfig, Secret, SourceConfig},
    word_of_shared_variable,
};

use crate::{commands::slips::nearest, ui::Ui};

/// Hosts that are the jail's own inside of one.
const OWN: [&str; 2] = ["localhost", "127.0.0.1"];

/// Says what of `metadata` won't do what it looks like. `all` are the store's secrets, that one among them.
pub(super) fn remark(
    ui: &Ui,
    places: &Places,
    path: &SecretPath,
    metadata: &Metadata,
    all: &[Secret],
) {
    for host in own_hosts(metadata) {
        ui.warn(format!(
            "{host} is the jail's own inside of keyless run, so no request goes there through Keyless; a name that \
             [egress.connect_to] of config.toml leads there works"
        ));
    }
    if metadata.upkeep.freshness(Timestamp::now().to_zoned(TimeZone::UTC).date())
        == Freshness::Expired
    {
        ui.warn(format!(
            "it is taken to have ended: its date lies behind; keyless secret set {path} --expires DATE gives another, or none"
        ));
    }
    warn_of_hosts(ui, metadata.egress.iter().flat_map(|rule| &rule.to));
    warn_of_methods(ui, metadata.egress.as_ref());
    if let Some(name) = undeclared_source(places, metadata) {
        ui.warn(format!(
            "sources.toml has no source {name}, so the value can't be had: keyless source add {name} --type TYPE"
        ));
    }
    if metadata.egress.is_some()
        && let Some(signer) = signer_of(path, metadata, all)
    {
        ui.warn(format!(
            "such a key is never sent, it signs: a service that checks the signature refuses requests until keyless \
             secret set {path} --sign {signer} (docs/signing.md)"
        ));
    }
    for missing in missing_companions(metadata, all) {
        ui.warn(format!(
            "--sign or --oauth names {missing}, and there is no such secret yet: until keyless secret add {missing}, a \
             keyless run with {path} is refused"
        ));
    }
    if is_unseen(metadata) {
        ui.warn(format!(
            "no --env NAME: keyless run offers it to no command by itself; keyless secret set {path} --env NAME"
        ));
    }
    if let Some(words) = word_of_shared_variable(path, all) {
        ui.warn(words);
    }
}

/// Says which of these hosts no request reaches with the value, and which are hardly a host's whole name.
pub(in crate::commands) fn warn_of_hosts<'a>(
    ui: &Ui,
    hosts: impl IntoIterator<Item = &'a Destination>,
) {
    for host in hosts {
        if let Some(why) = keyless_daemon::never_carried(host.port()) {
            ui.warn(format!(
                "{host}: {why}, so no request carries the value there; with --to none, keyless exec --host HOST:PORT \
                 gives it to one command that talks to it"
            ));
        } else if host.is_single_label() && !OWN.contains(&host.to_string().as_str()) {
            ui.warn(format!(
                "{host} is a name of one word: a machine of your own network, unless a dot is missing"
            ));
        }
    }
}

/// Says which methods of the rules no request is likely to have: an `ask` with a slip in it asks nobody.
fn warn_of_methods(ui: &Ui, rule: Option<&EgressRule>) {
    for rule in rule.iter().flat_map(|rule| rule.allow.iter().chain(&rule.ask)) {
        for method in rule.unregistered_methods() {
            let meant = nearest(method, REGISTERED_METHODS.iter(), |name| name);
            let meant = meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default();
            ui.warn(format!("{method} in the rule {rule} is no method that HTTP has{meant}"));
        }
    }
}

fn own_hosts(metadata: &Metadata) -> impl Iterator<Item = &Destination> {
    let own = |to: &&Destination| {
        let mut hosts = OWN.iter().filter_map(|name| Host::parse(name).ok());
        hosts.any(|host| to.names(&host))
    };
    metadata.egress.iter().flat_map(|rule| &rule.to).filter(own)
}

fn undeclared_source<'a>(places: &Places, metadata: &'a Metadata) -> Option<&'a str> {
    let SourceConfig::Routed { source: Some(name), .. } = &metadata.source else { return None };
    // A file that can't be read is told of where it is needed.
    let declared = RouterConfig::load(&places.sources_file()).ok()?;
    (!declared.knows(name)).then_some(name)
}

/// Whether it may go somewhere, and nothing leads a command to it.
fn is_unseen(metadata: &Metadata) -> bool {
    let rule = metadata.egress.as_ref();
    metadata.env.is_none()
        && !metadata.honeypot
        && rule.is_some_and(|rule| rule.inject.is_none() && rule.sign.is_none())
}
