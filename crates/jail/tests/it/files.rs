use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use serde_json::json;

use crate::scene::{Scene, User, users};

const SECRET: &str = "sk-live-canary";

#[test]
fn hidden_files_are_empty_and_hidden_folders_too() {
    for user in users() {
        let scene = Scene::script(
            user,
            "cd \"$D\"; cat token; cat config.json; cat link; ls folder; ls -A folder; \
             ! cat folder/key 2>/dev/null; ! echo x 2>/dev/null > folder/new; ! echo x 2>/dev/null > token; \
             ! rm token 2>/dev/null; cat kept",
        );
        let folder = scene.folder("home");
        fs::create_dir(folder.join("folder")).expect("made");
        for name in ["token", "config.json", "folder/key", "target", "kept"] {
            fs::write(folder.join(name), SECRET).expect("written");
        }
        symlink("target", folder.join("link")).expect("linked");
        let hide: Vec<_> = ["token", "config.json", "folder", "link", "absent"]
            .map(|name| json!(folder.join(name)))
            .into();
        let text =
            scene.with("hide", hide).variable("D", folder.to_str().expect("text")).play().text();
        assert_eq!(text, format!("{{}}\n{SECRET}"));
    }
}

#[test]
fn what_links_in_a_hidden_folder_lead_to_is_hidden() {
    for user in users() {
        let scene = Scene::script(
            user,
            "cd \"$D\"; cat dotfiles/aws/credentials dotfiles/deep; find keys/ dotfiles/sso -type f; \
             cat shown kept; work/run; python3 -c 'print(3)'; cat dotfiles/ssh/config; ls \"$HOME\"",
        );
        let folder = scene.folder("home/me");
        let dotfiles =
            ["dotfiles/aws", "dotfiles/sso/cache", "dotfiles/ssh", "work", "elsewhere/keys"];
        for sub in [".aws/a/b", ".ssh"].into_iter().chain(dotfiles) {
            fs::create_dir_all(folder.join(sub)).expect("made");
        }
        let secrets = [
            "dotfiles/aws/credentials",
            "dotfiles/sso/cache/token",
            "dotfiles/deep",
            "elsewhere/keys/id",
        ];
        for name in secrets {
            fs::write(folder.join(name), SECRET).expect("written");
        }
        for name in ["shown", "kept", "dotfiles/ssh/config"] {
            fs::write(folder.join(name), format!("{name}\n")).expect("written");
        }
        fs::write(folder.join("work/run"), "#!/bin/sh\necho run\n").expect("written");
        fs::set_permissions(folder.join("work/run"), fs::Permissions::from_mode(0o755))
            .expect("set");
        symlink("elsewhere/keys", folder.join("keys")).expect("linked");
        for (link, target) in [
            (".aws/credentials", "../dotfiles/aws/credentials"),
            (".aws/sso", "../dotfiles/sso"),
            (".aws/a/b/deep", "../../../dotfiles/deep"),
            (".aws/keys", "../keys"),
            (".aws/shown", "../shown"),
            // None of these may take the jail's own away.
            (".aws/root", "/"),
            (".aws/home", ".."),
            (".aws/homes", "../.."),
            (".aws/work", "../work"),
            (".aws/run", "../work/run"),
            (".aws/python", "/usr/bin/python3"),
            (".aws/usr", "/usr"),
            (".aws/loop", "loop"),
            (".aws/gone", "gone"),
            // Shown as a whole, with what it leads to.
            (".ssh/config", "../dotfiles/ssh/config"),
        ] {
            symlink(target, folder.join(link)).expect("linked");
        }
        let paths =
            |names: &[&str]| names.iter().map(|name| json!(folder.join(name))).collect::<Vec<_>>();
        let home = folder.to_str().expect("text");
        let text = scene
            .with("hide", paths(&[".aws", ".ssh"]))
            .with("show", paths(&["shown", ".ssh"]))
            .variable("D", home)
            .variable("HOME", home)
            .play()
            .text();
        let expected = "shown\nkept\nrun\n3\ndotfiles/ssh/config\ndotfiles\nelsewhere\nkept\nkeys\nshown\nwork\n";
        assert_eq!(text, expected, "{user:?}");
    }
}

/// As in the home, below any folder that the user may write to.
#[test]
fn what_holds_something_hidden_elsewhere_keeps_its_name() {
    for user in users() {
        let scene = Scene::script(
            user,
            "for folder in conf conf/deep other; do \
             python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' \"$D/$folder\" \"$D/aside\" 2>/dev/null && echo \"$folder moved\"; done; ls \"$D\"",
        );
        let folder = scene.folder("work");
        fs::create_dir_all(folder.join("conf/deep")).expect("made");
        fs::create_dir_all(folder.join("other")).expect("made");
        let hidden = folder.join("conf/deep/hidden");
        fs::write(&hidden, SECRET).expect("written");
        if user == User::Nobody {
            for path in ["conf", "conf/deep", "other"] {
                std::os::unix::fs::chown(folder.join(path), Some(65_534), None).expect("given");
            }
        }
        let scene = scene.with("hide", vec![json!(hidden)]);
        let text = scene.variable("D", folder.to_str().expect("text")).play().text();
        assert_eq!(text, "other moved\naside\nconf\n", "{user:?}");
    }
}

/// Under another name the next jail would not know it.
#[test]
fn what_holds_something_hidden_keeps_its_name() {
    for user in users() {
        let scene = Scene::script(
            user,
            "cd \"$HOME\"; for folder in .config .config/deep .local; do \
             python3 -c 'import os, sys; os.rename(sys.argv[1], \"aside\")' $folder 2>/dev/null && echo \"$folder moved\"; done; \
             mv .config/other .config/another; echo new > .config/new; mv plain .config/deep/plain; \
             ls .config/deep .config/deep/er; rm -r .cache; ls -A",
        );
        let home = scene.folder("home");
        for folder in [".config/deep/er", ".local/share", ".cache/x"] {
            fs::create_dir_all(home.join(folder)).expect("made");
        }
        for file in [".config/deep/er/hidden", ".local/share/hidden", ".config/other", "plain"] {
            fs::write(home.join(file), SECRET).expect("written");
        }
        if user == User::Nobody {
            for path in [".config", ".config/deep", ".local", ".local/share", ".cache", ".cache/x"]
            {
                std::os::unix::fs::chown(home.join(path), Some(65_534), None).expect("given");
            }
        }
        let hide = [".config/deep/er", ".local/share/hidden"].map(|name| json!(home.join(name)));
        let scene =
            scene.with("hide", hide.to_vec()).variable("HOME", home.to_str().expect("text"));
        let text = scene.play().text();
        assert_eq!(
            text, ".config/deep:\ner\nplain\n\n.config/deep/er:\n.config\n.local\n",
            "{user:?}"
        );
    }
}

/// The kernel's list has a socket by the name that it was bound by.
#[test]
fn what_holds_a_socket_of_the_hosts_keeps_its_name() {
    for user in users() {
        let scene = Scene::script(
            user,
            "python3 -c 'import os, sys; os.rename(sys.argv[1], sys.argv[2])' \"$D/agent\" \"$D/aside\" 2>/dev/null || ls \"$D\"",
        );
        let folder = scene.folder("work");
        let agent = scene.folder("work/agent");
        let _socket = UnixListener::bind(agent.join("sock")).expect("bound");
        let scene = scene.variable("D", folder.to_str().expect("text"));
        assert_eq!(scene.play().text(), "agent\n", "{user:?}");
    }
}

/// Without them the next jail would not find what is hidden, and the command would put them back.
#[test]
fn links_that_lead_to_something_hidden_keep_their_names() {
    for user in users() {
        let scene = Scene::script(
            user,
            "cd \"$D\"; for link in token home conf/deep tree/now conf tree gone; do \
             python3 -c 'import os, sys; os.rename(sys.argv[1], \"aside\")' $link 2>/dev/null && echo \"$link moved\"; done; \
             for link in token home conf/deep tree/now; do rm $link 2>/dev/null && echo \"$link removed\"; ls -d $link; done; \
             cat token home/store conf/deep tree/v2/key",
        );
        let folder = scene.folder("work");
        for sub in ["real/home", "real/deep", "conf", "keys", "tree/v2"] {
            fs::create_dir_all(folder.join(sub)).expect("made");
        }
        for file in ["real/token", "real/home/store", "real/deep/file", "tree/v2/key"] {
            fs::write(folder.join(file), SECRET).expect("written");
        }
        for (target, link) in [
            ("real/token", "token"),
            ("real/home", "home"),
            ("../real/deep/file", "conf/deep"),
            ("v2", "tree/now"),
            ("../tree/now/key", "keys/key"),
            ("nothing", "gone"),
        ] {
            symlink(target, folder.join(link)).expect("linked");
        }
        if user == User::Nobody {
            for path in ["real", "real/home", "conf", "keys", "tree", "tree/v2"] {
                std::os::unix::fs::chown(folder.join(path), Some(65_534), None).expect("given");
            }
        }
        let hide = ["token", "home/store", "conf/deep", "keys", "gone"];
        let hide = hide.map(|name| json!(folder.join(name))).to_vec();
        let scene = scene.with("hide", hide).variable("D", folder.to_str().expect("text"));
        let text = scene.play().text();
        assert_eq!(text, "gone moved\ntoken\nhome\nconf/deep\ntree/now\n", "{user:?}");
    }
}

/// Whoever owns it opens it again. In a group that the jail does not know even its init can't look into it.
#[test]
fn what_is_hidden_in_a_closed_folder_is_hidden_with_it() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    for user in users() {
        let scene = Scene::script(
            user,
            "cd \"$D\"; for folder in closed linked; do \
             chmod 755 $folder 2>/dev/null || true; cat $folder/token 2>/dev/null || true; done; ls closed linked",
        );
        let folder = scene.folder("work");
        let owner = (user == User::Nobody).then_some(65_534);
        for name in ["closed", "linked"] {
            let closed = folder.join(name);
            fs::create_dir(&closed).expect("made");
            fs::write(closed.join("token"), SECRET).expect("written");
            std::os::unix::fs::chown(&closed, owner, Some(4242)).expect("given");
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o000)).expect("closed");
        }
        symlink("linked/token", folder.join("link")).expect("linked");
        let hide = vec![json!(folder.join("closed/token")), json!(folder.join("link"))];
        let scene = scene.with("hide", hide).variable("D", folder.to_str().expect("text"));
        assert_eq!(scene.play().text(), "closed:\n\nlinked:\n", "{user:?}");
    }
}

#[test]
fn shown_paths_win() {
    for user in users() {
        let scene = Scene::script(
            user,
            "cd \"$D\"; cat plain deep/er/known deep/tree/leaf; ls deep; echo new > deep/tree/new",
        );
        let folder = scene.folder("home");
        for sub in ["deep/er", "deep/tree"] {
            fs::create_dir_all(folder.join(sub)).expect("made");
        }
        for (name, text) in [
            ("plain", "1\n"),
            ("deep/er/known", "2\n"),
            ("deep/tree/leaf", "3\n"),
            ("deep/secret", SECRET),
        ] {
            fs::write(folder.join(name), text).expect("written");
        }
        if user == User::Nobody {
            std::os::unix::fs::chown(folder.join("deep/tree"), Some(65_534), None).expect("given");
        }
        let paths =
            |names: &[&str]| names.iter().map(|name| json!(folder.join(name))).collect::<Vec<_>>();
        let scene = scene
            .with("hide", paths(&["plain", "deep", "deep/tree/leaf"]))
            .with("show", paths(&["plain", "deep/er/known", "deep/tree"]))
            .variable("D", folder.to_str().expect("text"));
        let text = scene.play().text();
        // What is hidden below a shown folder stays hidden.
        assert_eq!(text, "1\n2\ner\ntree\n");
        assert_eq!(fs::read_to_string(folder.join("deep/tree/new")).expect("shared"), "new\n");
    }
}

#[test]
fn sockets_of_the_host_refuse_and_their_list_is_empty() {
    let connect = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\n\
        try: s.connect(sys.argv[1]); print('connected')\nexcept OSError as e: print(type(e).__name__)";
    for folder in ["/tmp", "/var/tmp", "/run"] {
        let folder = tempfile::tempdir_in(folder).expect("a folder");
        let path = folder.path().join("agent.sock");
        let _listener = UnixListener::bind(&path).expect("bound");
        let text = Scene::new(&["/usr/bin/python3", "-c", connect, path.to_str().expect("text")])
            .play()
            .text();
        assert_ne!(text, "connected\n", "{}", path.display());
    }
    // One of the places where sockets gather, of which the jail has its own.
    let tmux = format!("/tmp/tmux-{}", rustix::process::getuid().as_raw());
    fs::create_dir_all(&tmux).expect("made");
    for folder in ["/run", &tmux] {
        let folder = tempfile::tempdir_in(folder).expect("a folder");
        let path = folder.path().join("wanted.sock");
        let _listener = UnixListener::bind(&path).expect("bound");
        let scene = Scene::new(&["/usr/bin/python3", "-c", connect, path.to_str().expect("text")]);
        let text = scene.with("show", vec![json!(path)]).play().text();
        assert_eq!(text, "connected\n", "{}", path.display());
    }
}

#[test]
fn a_socket_with_a_relative_path_refuses_too() {
    let top = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let folder = top.path().join("a/project");
    fs::create_dir_all(folder.join("run")).expect("made");
    let listen = "import socket\ns=socket.socket(socket.AF_UNIX)\n\
        s.bind('run/agent.sock'); s.listen(); print('listening', flush=True); input()";
    let mut server = Command::new("/usr/bin/python3");
    server.args(["-c", listen]).current_dir(&folder).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = server.spawn().expect("started");
    let mut said = [0; "listening\n".len()];
    server.stdout.as_mut().expect("piped").read_exact(&mut said).expect("said");
    let path = folder.join("run/agent.sock");
    let connect = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\n\
        try: s.connect(sys.argv[1]); print('connected')\nexcept OSError as e: print(type(e).__name__)";
    let text = Scene::new(&["/usr/bin/python3", "-c", connect, path.to_str().expect("text")]);
    let text = text.play().text();
    drop(server.stdin.take());
    server.wait().expect("ended");
    assert_ne!(text, "connected\n");
}

#[test]
fn run_and_dev_are_the_jails_own() {
    for user in users() {
        let text = Scene::script(
            user,
            "ls /run; ls /dev; echo x > /run/user/$(id -u)/f; echo y > /dev/shm/f",
        )
        .play()
        .text();
        let expected = "keyless\nlock\nuser\n\
            fd\nfull\nnull\nptmx\npts\nrandom\nshm\nstderr\nstdin\nstdout\ntty\nurandom\nzero\n";
        assert_eq!(text, expected, "{user:?}");
    }
}

#[test]
fn pseudo_terminals_can_be_made() {
    let script = "import pty,os; m,s=pty.openpty(); print(os.ttyname(s)); os.write(s,b'hi'); print(os.read(m,2))";
    for user in users() {
        assert_eq!(
            Scene::of(user, &["/usr/bin/python3", "-c", script]).play().text(),
            "/dev/pts/0\nb'hi'\n"
        );
    }
}

#[test]
fn the_default_list_covers_a_planted_home() {
    let scene = Scene::script(User::Caller, "cd \"$HOME\"; ! grep -r canary . 2>/dev/null");
    let home = scene.folder("home");
    let planted = [
        ".aws/credentials",
        ".ssh/id_ed25519",
        ".netrc",
        ".config/gh/hosts.yml",
        ".npmrc",
        ".pypirc",
        ".docker/config.json",
        ".kube/config",
        ".config/gcloud/credentials.db",
        ".git-credentials",
        ".cargo/credentials.toml",
        ".bash_history",
        ".local/share/com.vercel.cli/auth.json",
        ".mozilla/firefox/p/logins.json",
        ".m2/settings.xml",
        ".config/composer/auth.json",
        ".config/helm/repositories.yaml",
        ".databrickscfg",
        ".dbt/profiles.yml",
        ".jfrog/jfrog-cli.conf.v6",
        ".mc/config.json",
        ".minikube/client.key",
        ".supabase/access-token",
        ".tsh/keys/teleport.example.com/me",
        ".authinfo",
        ".local/share/gem/credentials",
        ".railway/config.json",
        ".acme.sh/account.conf",
        ".config/gitlab-runner/config.toml",
        ".config/cloudflared/cert.pem",
        "tools/rclone.conf",
        "tools/token",
        "tools/credentials.json",
        "tools/gradle.properties",
        "tools/profiles.yml",
        "history",
    ];
    for name in planted {
        let path = home.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, SECRET).expect("written");
    }
    // As a service manager or another agent may set them: what the user had before stays where it was.
    let moved = scene.folder("moved");
    let variables = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "CARGO_HOME", "DOCKER_CONFIG"];
    let set = |name: &str| match name {
        "HF_HOME" | "PULUMI_HOME" | "GRADLE_USER_HOME" | "DBT_PROFILES_DIR" => {
            Some(home.join("tools").into_os_string())
        }
        "RCLONE_CONFIG" => Some(home.join("tools/rclone.conf").into_os_string()),
        "HISTFILE" => Some(home.join("history").into_os_string()),
        _ => variables.contains(&name).then(|| moved.clone().into_os_string()),
    };
    let hide: Vec<_> =
        keyless_jail::default_hidden(&home, set).iter().map(|path| json!(path)).collect();
    scene.with("hide", hide).variable("HOME", home.to_str().expect("text")).play().text();
}
