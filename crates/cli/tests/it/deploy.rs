use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::world::World;

const TEMPLATES: [&str; 3] = ["catalog.yaml", "daemonset.yaml", "serviceaccount.yaml"];

fn deploy(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name)
}

fn yaml(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// What a program prints; nothing when there is no such program.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    Some(String::from_utf8(output.stdout).unwrap() + &errors)
}

fn has(program: &str, arguments: &[&str]) -> bool {
    Command::new(program).args(arguments).output().is_ok_and(|output| output.status.success())
}

/// The chart's resources, by Helm or by its engine; nothing where neither is installed.
fn rendered(world: &World, change: impl FnOnce(&mut Value)) -> Option<Vec<Value>> {
    let chart = deploy("helm/keyless-egress");
    let mut values = yaml(&fs::read_to_string(chart.join("values.yaml")).unwrap());
    change(&mut values);
    world.home.write("work/values.json", values.to_string()).unwrap();
    let values = world.home.work().join("values.json").display().to_string();
    let chart = chart.display().to_string();
    if has("helm", &["version"]) {
        output_of("helm", &["lint", "--strict", &chart, "-f", &values]);
        let text = output_of("helm", &["template", "test", &chart, "-f", &values])?;
        return Some(text.split("\n---").map(yaml).filter(|one| !one.is_null()).collect());
    }
    if !has("go", &["version"]) {
        eprintln!("neither helm nor go is installed: the chart is not rendered");
        return None;
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/chart/render.go");
    let (program, templates) = (program.display().to_string(), format!("{chart}/templates"));
    let render = |file| output_of("go", &["run", &program, &templates, &values, file]);
    Some(TEMPLATES.iter().map(|file| yaml(&render(file).unwrap())).collect())
}

fn of_kind<'a>(resources: &'a [Value], kind: &str) -> &'a Value {
    resources.iter().find(|one| one["kind"] == kind).unwrap()
}

fn container<'a>(pod: &'a Value, name: &str) -> &'a Value {
    pod["containers"].as_array().unwrap().iter().find(|one| one["name"] == name).unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect()
}

/// Every `--option` among these words is one of `keyless proxy`.
fn assert_options_exist<'a>(world: &World, words: impl Iterator<Item = &'a str>) {
    let help = world.keyless(&["proxy", "--help"]).run().ok();
    for option in words.filter(|word| word.starts_with("--")) {
        assert!(help.contains(option), "keyless proxy has no {option}");
    }
}

#[test]
fn the_chart_keeps_the_forwarder_away_from_secrets() {
    let world = World::empty();
    let Some(resources) = rendered(&world, |_| {}) else { return };
    let pod = &of_kind(&resources, "DaemonSet")["spec"]["template"]["spec"];
    let (forwarder, proxy) = (container(pod, "forwarder"), container(pod, "proxy"));
    assert_eq!(names(&forwarder["volumeMounts"]), ["sockets", "guests"]);
    let secret_volumes = pod["volumes"].as_array().unwrap().iter();
    let secret_volumes = secret_volumes.filter(|volume| !volume["secret"].is_null());
    for volume in secret_volumes {
        let name = volume["name"].as_str().unwrap();
        assert!(names(&proxy["volumeMounts"]).contains(&name), "{name}");
        assert_eq!(volume["secret"]["defaultMode"], 0o400);
    }
    for one in [forwarder, proxy] {
        let security = &one["securityContext"];
        assert_eq!(security["capabilities"]["drop"], json!(["ALL"]));
        assert_eq!(security["readOnlyRootFilesystem"], true);
        assert_eq!(security["allowPrivilegeEscalation"], false);
    }
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["automountServiceAccountToken"], false);
    assert_options_exist(
        &world,
        proxy["args"].as_array().unwrap().iter().filter_map(Value::as_str),
    );
}

#[test]
fn the_charts_catalog_is_one_that_the_proxy_takes() {
    let world = World::empty();
    let Some(resources) = rendered(&world, |_| {}) else { return };
    let catalog = of_kind(&resources, "ConfigMap")["data"]["catalog.yaml"].as_str().unwrap();
    world.home.write("operator/catalog.yaml", catalog).unwrap();
    world.home.write("operator/key", "0123456789abcdef0123456789abcdef").unwrap();
    let place = |name: &str| world.operator_file(name).display().to_string();
    let (catalog, key) = (place("catalog.yaml"), place("key"));
    let words = ["placeholders", "--catalog", &catalog, "--key-file", &key, "--session", "s"];
    let placeholders = world.keyless(&words).run().ok();
    assert!(placeholders.starts_with("GITHUB_TOKEN=kloak_"), "{placeholders}");
}

#[test]
fn the_chart_mounts_an_authority_and_keeps_the_log_where_it_is_told() {
    let world = World::empty();
    let resources = rendered(&world, |values| {
        values["ca"]["secretName"] = json!("agents-ca");
        values["auditHostPath"] = json!("/var/lib/keyless");
        values["forwarder"]["enabled"] = json!(false);
    });
    let Some(resources) = resources else { return };
    let pod = &of_kind(&resources, "DaemonSet")["spec"]["template"]["spec"];
    assert_eq!(names(&pod["containers"]), ["proxy"]);
    let volumes = names(&pod["volumes"]);
    assert!(volumes.contains(&"ca") && !volumes.contains(&"guests"), "{volumes:?}");
    let state = pod["volumes"].as_array().unwrap().iter().find(|one| one["name"] == "state");
    assert_eq!(state.unwrap()["hostPath"]["path"], "/var/lib/keyless");
}

#[test]
fn the_chart_sends_spans_where_it_is_told_and_nowhere_else() {
    let world = World::empty();
    let proxys_words = |endpoint: &str| {
        let set = |values: &mut Value| values["proxy"]["otlpEndpoint"] = json!(endpoint);
        let resources = rendered(&world, set)?;
        let pod = &of_kind(&resources, "DaemonSet")["spec"]["template"]["spec"];
        let words = container(pod, "proxy")["args"].as_array().unwrap().clone();
        assert_options_exist(&world, words.iter().filter_map(Value::as_str));
        Some(words)
    };
    let Some(words) = proxys_words("http://collector.observability:4318") else { return };
    let pair = [json!("--otlp-endpoint"), json!("http://collector.observability:4318")];
    assert!(words.windows(2).any(|two| two == pair), "{words:?}");
    assert!(!proxys_words("").unwrap().contains(&pair[0]));
}

#[test]
fn the_unit_verifies_and_is_confined() {
    let world = World::empty();
    let unit = fs::read_to_string(deploy("systemd/keyless-proxy.service")).unwrap();
    let words = unit.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
    assert_options_exist(&world, words);
    if !has("systemd-analyze", &["--version"]) {
        eprintln!("systemd-analyze is not installed: the unit is only read");
        return;
    }
    // The path of the program is the only thing that is not as on the host.
    let unit = unit.replace("/usr/local/bin/keyless", "/bin/true");
    world.home.write("work/keyless-proxy.service", unit).unwrap();
    let file = world.home.work().join("keyless-proxy.service").display().to_string();
    let said = output_of("systemd-analyze", &["verify", &file]).unwrap();
    assert_eq!(said, "");
    // A threshold of 25 is an exposure of 2.5 out of 10.
    let words = ["security", "--offline=yes", "--threshold=25", "--no-pager", &file];
    output_of("systemd-analyze", &words);
}

#[test]
fn the_image_is_not_root_and_holds_one_file() {
    let file = fs::read_to_string(deploy("container/Containerfile")).unwrap();
    let last = file.split("\nFROM ").last().unwrap();
    assert!(last.contains("distroless") && last.contains("\nUSER 65532:65532"), "{last}");
    assert_eq!(last.matches("\nCOPY ").count(), 1);
    assert!(!last.contains("\nRUN ") && !file.contains("\nADD "), "{last}");
}
