//! Repositories of strangers: nothing in them hangs, crashes, leads elsewhere or runs.

use std::{
    ffi::OsStr,
    fmt::Write as _,
    fs,
    os::unix::{ffi::OsStrExt as _, fs::symlink},
};

use keyless_pack::{Code, Request, commands};

use crate::scene::{MANIFEST, Scene, refused};

#[test]
fn a_hundred_thousand_files_are_planned_and_one_more_is_refused() {
    let scene = Scene::new();
    // For one target alone: 100,000 files are enough.
    let request = Request { target: Some("codex".to_owned()), ..Request::default() };
    let plan = || commands::plan(&scene.surroundings(), &request);
    let folder = scene.at("ap/repo/modules/tidy");
    // SKILL.md and bin/run.sh are there already.
    for number in 0..100_000 - 2 {
        let part = folder.join(format!("data/{}", number / 1000));
        if number % 1000 == 0 {
            fs::create_dir_all(&part).unwrap();
        }
        fs::write(part.join(number.to_string()), "x").unwrap();
    }
    let summary = plan().unwrap().data.summary;
    assert!(summary.create >= 100_000, "{summary:?}");
    fs::write(folder.join("one-more"), "x").unwrap();
    let error = refused(plan(), Code::ConfigInvalid);
    assert!(error.message().contains("more than 100000 files"), "{error}");
}

#[test]
fn names_that_differ_by_case_alone_are_deployed_and_warned_about() {
    let scene = Scene::new();
    scene.module("tidy/Notes.md", "upper\n");
    scene.module("tidy/notes.md", "lower\n");
    let warnings = scene.plan().unwrap().warnings;
    assert!(
        warnings.iter().any(|warning| warning.contains("differ by case alone")),
        "{warnings:?}"
    );
    scene.deploy();
    assert_eq!(scene.read("home/.codex/skills/tidy/Notes.md"), "upper\n");
    assert_eq!(scene.read("home/.codex/skills/tidy/notes.md"), "lower\n");
}

#[test]
fn names_and_contents_that_are_no_utf8_are_refused_or_kept_byte_for_byte() {
    let scene = Scene::new();
    let bytes = [0xff, 0xfe, 0x00, 0x80];
    fs::write(scene.at("ap/repo/modules/tidy/picture.bin"), bytes).unwrap();
    scene.deploy();
    assert_eq!(fs::read(scene.at("home/.codex/skills/tidy/picture.bin")).unwrap(), bytes);
    // A stranger in a watched root is no reason to fail, whatever its name.
    let odd = OsStr::from_bytes(b"od\xffd.md");
    fs::write(scene.at("home/.codex/prompts").join(odd), "x").unwrap();
    commands::status(&scene.surroundings(), &Request::default(), &[]).unwrap();
    let path = scene.at("ap/repo/modules/tidy").join(odd);
    fs::write(&path, "x").unwrap();
    let error = refused(scene.plan(), Code::ConfigInvalid);
    assert!(error.message().contains("name that can't be deployed"), "{error}");
    fs::remove_file(path).unwrap();
    fs::write(scene.at("ap/repo/agentpack.yaml"), b"version: 1\xff\n").unwrap();
    refused(scene.plan(), Code::ConfigInvalid);
}

#[test]
fn links_that_lead_in_circles_end() {
    let scene = Scene::new();
    let module = scene.at("ap/repo/modules/tidy");
    for (target, name) in [("loop", "loop"), ("..", "up"), (".", "here"), ("b", "a")] {
        symlink(target, module.join(name)).unwrap();
        if name == "a" {
            symlink("a", module.join("b")).unwrap();
        }
        let error = refused(scene.plan(), Code::ConfigInvalid);
        assert!(error.message().contains("does not lead to a file of this module"), "{error}");
        fs::remove_file(module.join(name)).unwrap();
        let _ = fs::remove_file(module.join("b"));
    }
    // The module itself, and a watched root.
    fs::rename(&module, scene.at("ap/repo/modules/elsewhere")).unwrap();
    symlink("tidy", &module).unwrap();
    refused(scene.plan(), Code::ConfigInvalid);
    fs::remove_file(&module).unwrap();
    fs::rename(scene.at("ap/repo/modules/elsewhere"), &module).unwrap();
    scene.deploy();
    symlink(".", scene.at("home/.codex/prompts/again")).unwrap();
    commands::status(&scene.surroundings(), &Request::default(), &[]).unwrap();
}

#[test]
fn a_manifest_that_explodes_is_refused() {
    let scene = Scene::new();
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let before = format!("*a{}", level - 1);
        let ten = [before.as_str(); 10].join(", ");
        writeln!(bomb, "a{level}: &a{level} [{ten}]").unwrap();
    }
    for text in [bomb, format!("version: {}1{}\n", "[".repeat(5000), "]".repeat(5000))] {
        scene.manifest(&text);
        refused(scene.plan(), Code::ConfigInvalid);
    }
}

#[test]
fn no_word_becomes_an_option_of_git() {
    let scene = Scene::deployed();
    scene.commit();
    let (at, request) = (scene.surroundings(), Request::default());
    for (name, url) in [
        ("origin", "--upload-pack=touch INJECTED"),
        ("--global", "/srv/x"),
        ("o", "ext::sh -c touch%20INJECTED"),
    ] {
        refused(commands::remote_set(&at, &request, name, url, true), Code::ConfigInvalid);
    }
    scene.write("home/.codex/AGENTS.md", "edited\n");
    for branch in ["--orphan", "-b", "a..b", "a b"] {
        let options = keyless_pack::ProposeOptions {
            module_id: None,
            scope: keyless_pack::OverlayScope::Global,
            branch: Some(branch.to_owned()),
            dry_run: false,
            yes: true,
        };
        let before = scene.git("ap/repo", &["branch", "-a"]);
        assert!(commands::evolve_propose(&at, &request, &options).is_err(), "{branch}");
        assert_eq!(scene.git("ap/repo", &["branch", "-a"]), before, "{branch}");
    }
    let odd = "{ git: { url: \"/srv/x\", ref: \"--upload-pack=touch INJECTED\" } }";
    scene.manifest(&MANIFEST.replace("{ local_path: { path: modules/base } }", odd));
    refused(scene.plan(), Code::ConfigInvalid);
    assert!(!scene.exists("project/INJECTED") && !scene.exists("ap/repo/INJECTED"));
}
