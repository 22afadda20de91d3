//! What holds for every repo and every disk: plan-apply-plan is empty, and rolling back before is undoing.

use keyless_pack::Request;
use proptest::prelude::*;

use crate::scene::{MANIFEST, Scene};

/// One thing that somebody does between two deploys.
#[derive(Clone, Debug)]
enum Act {
    EditDeployed(usize, String),
    EditModule(usize, String),
    RemoveDeployed(usize),
    SwitchPrompts(bool),
}

const MODULES: &[&str] = &["base/AGENTS.md", "review.md", "tidy/bin/run.sh", "tidy/extra.md"];
const DEPLOYED: &[&str] = &[
    "home/.codex/AGENTS.md",
    "home/.codex/prompts/review.md",
    "home/.codex/prompts/stranger.md",
    "home/.codex/skills/tidy/SKILL.md",
    "home/.claude/commands/ship.md",
    "project/.claude/commands/ship.md",
];

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0..DEPLOYED.len(), "[a-z\n]{0,20}")
            .prop_map(|(index, text)| Act::EditDeployed(index, text)),
        (0..MODULES.len(), "[a-z\n]{0,20}").prop_map(|(index, text)| Act::EditModule(index, text)),
        (0..DEPLOYED.len()).prop_map(Act::RemoveDeployed),
        any::<bool>().prop_map(Act::SwitchPrompts),
    ]
}

fn perform(scene: &Scene, act: &Act) {
    match act {
        Act::EditDeployed(index, text) => {
            scene.write(DEPLOYED[*index], text);
        }
        Act::EditModule(index, text) => scene.module(MODULES[*index], text),
        Act::RemoveDeployed(index) => {
            let _ = std::fs::remove_file(scene.at(DEPLOYED[*index]));
        }
        Act::SwitchPrompts(on) => {
            let options = format!("scope: user, options: {{ write_user_prompts: {on} }} }}");
            scene.manifest(&MANIFEST.replacen("scope: user }", &options, 1));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn plan_apply_plan_is_empty(rounds in prop::collection::vec(prop::collection::vec(act(), 1..4), 1..4)) {
        let scene = Scene::new();
        for acts in &rounds {
            for act in acts {
                perform(&scene, act);
            }
            let before = files(&scene);
            let outcome = scene.deploy_for(&Request::default(), true).unwrap().data;
            prop_assert_eq!(scene.changes(), Vec::<String>::new());
            if let Some(id) = outcome.snapshot_id {
                let after = files(&scene);
                let event = scene.try_rollback(&format!("before:{id}")).unwrap().data.event_snapshot_id;
                prop_assert_eq!(files(&scene), before);
                scene.rollback(&format!("before:{event}"));
                prop_assert_eq!(files(&scene), after);
            }
        }
    }
}

fn files(scene: &Scene) -> Vec<(String, Vec<u8>)> {
    scene.picture("home").into_iter().chain(scene.picture("project")).collect()
}
