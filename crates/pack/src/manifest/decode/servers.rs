//! `mcp_servers` of the manifest. agentpack 0.9.1 passes over the key, so it may still read the manifest.

use std::collections::BTreeMap;

use super::Decoder;
use crate::{
    error::{PackError, Result},
    servers::{ALIAS, Reached, Server, knows_servers},
    targets::TargetId,
    yaml::Node,
};

const SERVER: &[&str] = &["command", "args", "env", "url", "headers", "enabled", "tags", "targets"];

impl Decoder<'_> {
    /// The enabled servers, by name.
    pub(super) fn servers(&mut self, root: &Node) -> Result<Vec<Server>> {
        let mut servers = Vec::new();
        for (key, node) in self.entries(root, "mcp_servers")? {
            let name = key.text.clone();
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
            if name.is_empty() || name.len() > 64 || !name.chars().all(plain) {
                let message =
                    format!("server `{name}`: a name has letters, digits, `-` and `_` only");
                return Err(self.fault(key.line, &message));
            }
            self.keys(node, SERVER, &format!("server `{name}`"))?;
            if node.get("enabled").and_then(Node::bool) == Some(false) {
                continue;
            }
            let reached = self.reached(&name, node)?;
            let tags = self.words(node, "tags")?;
            let targets = self.server_targets(&name, node)?;
            servers.push(Server { name, reached, tags, targets });
        }
        servers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(servers)
    }

    fn reached(&self, name: &str, node: &Node) -> Result<Reached> {
        let text = |key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
        let fault = |message: &str| self.server_fault(name, node, message);
        let given = |key: &str| node.get(key).is_some_and(|node| !node.is_null());
        match (text("command"), text("url")) {
            (Some(_), None) if given("headers") => Err(fault("`headers` are for a `url`")),
            (None, Some(_)) if given("args") || given("env") => {
                Err(fault("`args` and `env` are for a `command`"))
            }
            (Some(command), None) => {
                let args = self.texts(node, "args")?;
                if args.iter().any(|arg| arg.contains(ALIAS)) {
                    return Err(fault(
                        "an alias belongs into `env`: arguments are seen by everybody",
                    ));
                }
                Ok(Reached::Command { command, args, env: self.pairs(name, node, "env")? })
            }
            (None, Some(url)) => {
                let headers = self.pairs(name, node, "headers")?;
                if headers.values().any(|value| value.contains(ALIAS)) {
                    return Err(fault(
                        "a header can't hold an alias: start a bridge with `command`, and use `env`",
                    ));
                }
                Ok(Reached::Url { url, headers })
            }
            _ => Err(fault("exactly one of `command` and `url` is needed")),
        }
    }

    fn server_targets(&self, name: &str, node: &Node) -> Result<Vec<TargetId>> {
        let mut targets = Vec::new();
        for word in self.words(node, "targets")? {
            let target =
                TargetId::parse(&word).ok_or_else(|| self.unknown_target(node.line, &word))?;
            if !knows_servers(target) {
                return Err(self.server_fault(
                    name,
                    node,
                    &format!("target `{word}` has no file for servers"),
                ));
            }
            targets.push(target);
        }
        Ok(targets)
    }

    fn pairs(&self, name: &str, node: &Node, key: &str) -> Result<BTreeMap<String, String>> {
        let fault = || self.server_fault(name, node, &format!("`{key}` must map names to texts"));
        let Some(map) = node.get(key).filter(|node| !node.is_null()) else {
            return Ok(BTreeMap::new());
        };
        map.map()
            .ok_or_else(fault)?
            .iter()
            .map(|(key, value)| Ok((key.text.clone(), value.text().ok_or_else(fault)?.to_owned())))
            .collect()
    }

    fn server_fault(&self, name: &str, node: &Node, message: &str) -> PackError {
        self.fault(node.line, &format!("server `{name}`: {message}")).with("mcp_server", name)
    }
}
