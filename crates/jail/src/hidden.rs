//! The well-known places of plaintext credentials, which a jail covers unless told otherwise.
//!
//! Tables, and nothing but: existence is looked at when the jail is made. The agents' own logins are not hidden, as no
//! agent could work without its own ([`own_logins`]); nor is anything of Keyless's own, which the caller adds.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Everything to hide for a user: the table below `home` and below the home that the system has for this
/// account, which is another where `HOME` was set; places that the user's variables add; and the system's.
/// `variable` reads the user's environment.
pub fn default_hidden(home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let account = crate::system::account_home().filter(|account| account != home);
    let mut hidden = below_home(home);
    hidden.extend(account.iter().flat_map(|account| below_home(account)));
    for (name, _, files) in MOVED {
        // The default place stays hidden: what was kept there before the variable was set still is.
        let folder = variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
        hidden.extend(folder.iter().flat_map(|folder| below(folder, files)));
    }
    hidden.extend(SYSTEM.iter().map(PathBuf::from));
    for name in NAMED_BY_VARIABLE {
        let value = variable(name).unwrap_or_default();
        // KUBECONFIG is a list like PATH; the others are one path.
        // A null device keeps nothing, which is what it is named for.
        let is_file = |path: &PathBuf| path.is_absolute() && path != Path::new("/dev/null");
        hidden.extend(std::env::split_paths(&value).filter(is_file));
    }
    hidden
}

/// Where agents keep what they log in with, which a jail leaves them: below `home` and where a variable has moved it.
pub fn own_logins(home: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    let mut logins = below(home, OWN_IN_HOME);
    for (name, default, files) in OWN_MOVED {
        let moved = variable(name).map(PathBuf::from).filter(|folder| folder.is_absolute());
        logins.extend(below(&moved.unwrap_or_else(|| home.join(default)), files));
    }
    logins
}

fn below_home(home: &Path) -> Vec<PathBuf> {
    let moved = MOVED.iter().flat_map(|(_, default, files)| below(&home.join(default), files));
    below(home, IN_HOME).into_iter().chain(moved).collect()
}

fn below(folder: &Path, names: &[&str]) -> Vec<PathBuf> {
    names.iter().map(|name| folder.join(name)).collect()
}

/// Folders that a variable moves: it, where they are below the home without it, and what is hidden in either.
const MOVED: &[(&str, &str, &[&str])] = &[
    ("XDG_CONFIG_HOME", ".config", IN_CONFIG),
    ("XDG_DATA_HOME", ".local/share", IN_DATA),
    ("BUNDLE_USER_HOME", ".bundle", &["config"]),
    ("CARGO_HOME", ".cargo", &["credentials", "credentials.toml"]),
    ("COMPOSER_HOME", ".composer", &["auth.json"]),
    ("CURL_HOME", ".config", &[".curlrc", "curlrc"]),
    ("DBT_PROFILES_DIR", ".dbt", &["profiles.yml"]),
    ("DOCKER_CONFIG", ".docker", IN_DOCKER),
    ("GRADLE_USER_HOME", ".gradle", &["gradle.properties"]),
    ("HELM_CONFIG_HOME", ".config/helm", &["registry", "registry.json", "repositories.yaml"]),
    ("HF_HOME", ".cache/huggingface", &["token", "stored_tokens"]),
    // Not the folder, which is a notebook's own often enough.
    ("KAGGLE_CONFIG_DIR", ".kaggle", &["access_token", "kaggle.json"]),
    ("PULUMI_HOME", ".pulumi", &["credentials.json"]),
];

/// Agents' own logins below the home directory.
const OWN_IN_HOME: &[&str] = &[".gemini/oauth_creds.json"];

/// Agents' own logins in folders that a variable moves. Of Copilot, several editors and agents read the one file.
const OWN_MOVED: &[(&str, &str, &[&str])] = &[
    ("CLAUDE_CONFIG_DIR", ".claude", &[".credentials.json"]),
    ("CODEX_HOME", ".codex", &["auth.json"]),
    ("XDG_CONFIG_HOME", ".config", &["github-copilot/apps.json", "github-copilot/hosts.json"]),
];

/// Below the home directory.
const IN_HOME: &[&str] = &[
    // Keys, agents, keyrings, password stores. Of ~/.ssh everything: known_hosts and config are of
    // no use without a key; `--show ~/.ssh/known_hosts` brings one back.
    ".gnupg",
    ".password-store",
    ".pki/nssdb",
    ".putty",
    ".ssh",
    ".step",
    // Clouds.
    ".aliyun",
    ".aws",
    ".azure",
    ".bluemix",
    ".boto",
    ".cloudflared",
    ".dbus-keyrings",
    ".digitalocean",
    ".elasticbeanstalk",
    ".fly",
    ".heroku",
    ".linode-cli",
    ".oci",
    ".oss-cli",
    ".ossutilconfig",
    ".s3cfg",
    ".scaleway",
    ".wrangler",
    // Clusters and infrastructure.
    ".ansible/galaxy_token",
    ".acme.sh/account.conf",
    ".chef",
    ".circleci/cli.yml",
    ".kube",
    ".mc",
    ".minikube/ca.key",
    ".minikube/certs",
    ".minikube/client.key",
    ".minikube/profiles",
    ".minikube/proxy-client-ca.key",
    ".railway/config.json",
    ".rancher",
    ".talos",
    ".terraform.d/credentials.tfrc.json",
    ".terraformrc",
    ".tsh",
    ".vagrant.d/insecure_private_key",
    ".vault-token",
    // Code hosting and version control.
    ".gerritcookies",
    ".git-credential-cache",
    ".git-credentials",
    ".gitcookies",
    ".hgrc.auth",
    ".netrc",
    ".subversion/auth",
    "_netrc",
    // Package registries.
    ".bunfig.toml",
    ".condarc",
    ".continuum/anaconda-client/tokens",
    ".gem/credentials",
    ".hex/hex.config",
    ".huggingface/token",
    ".ivy2/.credentials",
    ".jfrog",
    ".kaggle",
    ".m2/settings-security.xml",
    ".m2/settings.xml",
    ".npmrc",
    ".nuget/NuGet/NuGet.Config",
    ".pip/pip.conf",
    ".pypirc",
    ".sbt/.credentials",
    ".yarnrc",
    ".yarnrc.yml",
    // Databases, mail, services.
    ".authinfo",
    ".authinfo.gpg",
    ".cassandra/cqlshrc",
    ".cassandra/credentials",
    ".databricks/token-cache.json",
    ".databrickscfg",
    // Settings alone with most people; programs go on without them.
    ".curlrc",
    ".dockercfg",
    ".fetchmailrc",
    ".influxdbv2",
    ".mbsyncrc",
    ".mongorc.js",
    ".msmtprc",
    ".mutt",
    ".my.cnf",
    ".mylogin.cnf",
    ".offlineimaprc",
    ".passwd-s3fs",
    ".pgpass",
    ".sentryclirc",
    ".slack",
    ".snowflake",
    ".snowsql",
    ".supabase/access-token",
    ".twurlrc",
    ".vnc/passwd",
    ".wgetrc",
    // Browsers and mail programs.
    ".mozilla",
    ".thunderbird",
    ".var/app/com.brave.Browser",
    ".var/app/com.google.Chrome",
    ".var/app/org.chromium.Chromium",
    ".var/app/org.mozilla.Thunderbird",
    ".var/app/org.mozilla.firefox",
    "snap/chromium",
    "snap/firefox",
    "snap/thunderbird",
    // What was typed, tokens included.
    ".bash_history",
    ".histfile",
    ".irb_history",
    ".mysql_history",
    ".node_repl_history",
    ".psql_history",
    ".python_history",
    ".rediscli_history",
    ".sh_history",
    ".sqlite_history",
    ".zhistory",
    ".zsh_history",
    ".zsh_sessions",
    // Wallets.
    ".bitcoin",
    ".config/solana",
    ".electrum",
    ".ethereum/keystore",
];

/// Below `$XDG_CONFIG_HOME`.
const IN_CONFIG: &[&str] = &[
    ".bunfig.toml",
    ".curlrc",
    ".wrangler",
    "1Password",
    "Bitwarden",
    "Bitwarden CLI",
    "BraveSoftware",
    "Keybase",
    "NuGet/NuGet.Config",
    "Signal",
    "Slack",
    "age",
    "chromium",
    "cloudflared",
    "composer/auth.json",
    "configstore/firebase-tools.json",
    "containers/auth.json",
    "curlrc",
    "doctl",
    "exercism",
    "flyctl",
    "gcloud",
    "gh",
    "git/credentials",
    "gitlab-runner/config.toml",
    "glab-cli",
    "google-chrome",
    "google-chrome-beta",
    "google-chrome-unstable",
    "hcloud/cli.toml",
    "helm/registry",
    "helm/registry.json",
    "helm/repositories.yaml",
    "hub",
    "infisical",
    "kaggle",
    "keepassxc",
    "linode-cli",
    "microsoft-edge",
    "msmtp",
    "netlify/config.json",
    "ngrok",
    "op",
    "opera",
    "pip/pip.conf",
    "pypoetry/auth.toml",
    "rclone",
    "scw",
    "sops",
    "stripe",
    "supabase",
    "vercel",
    "vivaldi",
];

/// Below `$XDG_DATA_HOME`.
const IN_DATA: &[&str] = &[
    "TelegramDesktop",
    "com.vercel.cli",
    "fish/fish_history",
    "gem/credentials",
    "gnupg",
    "keyrings",
    "kwalletd",
    "nix/repl-history",
    "pki/nssdb",
    "pypoetry",
    "uv/credentials",
    "zsh/history",
];

/// Below `$DOCKER_CONFIG`.
const IN_DOCKER: &[&str] = &["config.json", "contexts", "desktop", "machine", "run", "trust"];

/// Variables that name a credential file or folder.
const NAMED_BY_VARIABLE: &[&str] = &[
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AZURE_CONFIG_DIR",
    "BITWARDENCLI_APPDATA_DIR",
    "BOTO_CONFIG",
    "BUNDLE_USER_CONFIG",
    "CLOUDSDK_CONFIG",
    "DATABRICKS_CONFIG_FILE",
    "GH_CONFIG_DIR",
    "GLAB_CONFIG_DIR",
    "GNUPGHOME",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "HELM_REGISTRY_CONFIG",
    "HELM_REPOSITORY_CONFIG",
    "HF_TOKEN_PATH",
    "HISTFILE",
    "KUBECONFIG",
    "MYSQL_TEST_LOGIN_FILE",
    "NETRC",
    "NPM_CONFIG_USERCONFIG",
    "OCI_CLI_CONFIG_FILE",
    "OP_CONFIG_DIR",
    "PASSWORD_STORE_DIR",
    "PGPASSFILE",
    "PIP_CONFIG_FILE",
    "RCLONE_CONFIG",
    "REGISTRY_AUTH_FILE",
    "SCW_CONFIG_PATH",
    "SNOWFLAKE_HOME",
    "SOPS_AGE_KEY_FILE",
    "TELEPORT_HOME",
    "TF_CLI_CONFIG_FILE",
    "VAULT_TOKEN_PATH",
    "WGETRC",
    "XDG_RUNTIME_DIR",
    "npm_config_userconfig",
];

/// Readable by root only, or by a group; a jail may be root's.
const SYSTEM: &[&str] = &[
    "/etc/NetworkManager/system-connections",
    "/etc/cloudflared",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/krb5.keytab",
    "/etc/kubernetes",
    "/etc/letsencrypt/archive",
    "/etc/letsencrypt/live",
    "/etc/openvpn",
    "/etc/pki/tls/private",
    "/etc/rancher",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssl/private",
    "/etc/wireguard",
    "/etc/wpa_supplicant",
    "/var/lib/kubelet",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moved_places_are_hidden_where_they_are_and_where_they_were() {
        let variable = |name: &str| match name {
            "XDG_CONFIG_HOME" => Some("/elsewhere".into()),
            "DOCKER_CONFIG" => Some("relative".into()),
            "KUBECONFIG" => Some("/a/one:/b/two:relative".into()),
            _ => None,
        };
        let hidden = default_hidden(Path::new("/home/me"), variable);
        let holds = |path: &str| hidden.contains(&PathBuf::from(path));
        assert!(holds("/elsewhere/hcloud/cli.toml"));
        assert!(holds("/elsewhere/gh") && holds("/home/me/.ssh") && holds("/etc/shadow"));
        assert!(holds("/home/me/.config/gh") && holds("/home/me/.docker/config.json"));
        assert!(holds("/home/me/.cargo/credentials.toml") && !holds("relative/config.json"));
        assert!(holds("/a/one") && holds("/b/two") && !holds("relative"));
    }

    #[test]
    fn a_tools_own_variable_moves_what_is_hidden_and_no_more() {
        let variable = |name: &str| match name {
            "HISTFILE" => Some("/dev/null".into()),
            "RCLONE_CONFIG" | "HF_TOKEN_PATH" | "OP_CONFIG_DIR" => Some("/moved/one".into()),
            _ => (MOVED.iter().any(|(moved, ..)| *moved == name)).then(|| "/moved/all".into()),
        };
        let hidden = default_hidden(Path::new("/home/me"), variable);
        let holds = |path: &str| hidden.contains(&PathBuf::from(path));
        assert!(holds("/moved/one") && !holds("/moved/all") && !holds("/dev/null"));
        for name in ["token", "credentials.json", "gradle.properties", "auth.json", "kaggle.json"] {
            assert!(holds(&format!("/moved/all/{name}")), "{name}");
        }
        for name in [".cache/huggingface/token", ".composer/auth.json", ".kaggle", ".authinfo"] {
            assert!(holds(&format!("/home/me/{name}")), "{name}");
        }
        for name in [".netlify/config.json", "netlify/config.json", "cloudflared", ".curlrc"] {
            assert_eq!(
                holds(&format!("/home/me/.config/{name}")),
                !name.starts_with(".n"),
                "{name}"
            );
        }
    }

    #[test]
    fn agents_keep_what_they_log_in_with() {
        let variable = |name: &str| (name == "CODEX_HOME").then(|| "/elsewhere".into());
        let logins = own_logins(Path::new("/home/me"), variable);
        for login in ["/home/me/.claude/.credentials.json", "/elsewhere/auth.json"] {
            assert!(logins.contains(&PathBuf::from(login)), "{login}");
        }
        let hidden = default_hidden(Path::new("/home/me"), variable);
        assert!(logins.iter().all(|login| hidden.iter().all(|place| !login.starts_with(place))));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_accounts_own_home_is_hidden_whatever_home_says() {
        let account = crate::system::account_home().expect("an account");
        let hidden = default_hidden(Path::new("/tmp/agent"), |_| None);
        for home in [Path::new("/tmp/agent"), &account] {
            assert!(hidden.contains(&home.join(".ssh")), "{}", home.display());
            assert!(hidden.contains(&home.join(".config/gh")), "{}", home.display());
        }
    }
}
