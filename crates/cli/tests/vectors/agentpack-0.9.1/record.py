#!/usr/bin/env python3
"""Records what agentpack 0.9.1 answers in a session: record.py AGENTPACK > session.json

Each step writes or removes files, then runs a command with --json. Paths, snapshot ids and times are
replaced by words, so that another implementation can be compared in another directory.
Source of the binary: `cargo install agentpack --version 0.9.1` (crates.io, MIT).
"""
import json, os, re, subprocess, sys, tempfile

MODULES = """
modules:
  - id: instructions:base
    type: instructions
    tags: [base]
    source: { local_path: { path: modules/base } }
  - id: instructions:work
    type: instructions
    tags: [base]
    targets: [vscode, jetbrains, zed]
    source: { local_path: { path: modules/work } }
  - id: prompt:review
    type: prompt
    tags: [base]
    source: { local_path: { path: modules/review.md } }
  - id: skill:tidy
    type: skill
    tags: [base]
    source: { local_path: { path: modules/tidy } }
"""
TARGETS = """
  cursor: { mode: files, scope: project }
  jetbrains: { mode: files, scope: project }
  vscode: { mode: files, scope: both }
  zed: { mode: files, scope: project }
"""
BASE = "version: 1\nprofiles:\n  default: { include_tags: [base] }\n  empty: {}\ntargets:" + TARGETS
WITH_CODEX = BASE + "  codex: { mode: files, scope: user }\n"
R = "ap/repo/"
OVERLAY = R + "overlays/instructions_base--d39861fff1/"

STEPS = [
    ({}, ["plan"]),
    ({R + "agentpack.yaml": "version: 2\nprofiles: {default: {}}\n"}, ["plan"]),
    ({R + "agentpack.yaml": "version: 1\nprofiles: {}\ntargets: {}\n"}, ["plan"]),
    ({R + "agentpack.yaml": BASE + MODULES,
      R + "modules/base/AGENTS.md": "Be kind.\n", R + "modules/work/AGENTS.md": "Work.",
      R + "modules/review.md": "Review.\n",
      R + "modules/tidy/SKILL.md": "---\nname: tidy\ndescription: Tidies\n---\nTidy.\n"}, ["plan"]),
    ({}, ["plan", "--target", "emacs"]),
    ({}, ["plan", "--target", "codex"]),
    ({}, ["diff", "--target", "zed"]),
    ({}, ["preview", "--diff", "--target", "cursor"]),
    ({}, ["status"]),
    ({}, ["deploy"]),
    ({}, ["deploy", "--apply"]),
    ({}, ["deploy", "--apply", "--dry-run"]),
    ({}, ["deploy", "--apply", "--yes"]),
    ({}, ["deploy", "--apply", "--yes"]),
    ({}, ["status"]),
    ({}, ["status", "--only", "missing"]),
    ({"project/.rules": "edited\n", "project/.junie/guidelines.md": None, "project/.cursor/rules/own.mdc": "x"}, ["status"]),
    ({}, ["status", "--only", "missing,extra"]),
    ({}, ["explain", "status"]),
    ({}, ["explain", "plan"]),
    ({}, ["evolve", "propose", "--dry-run"]),
    ({}, ["evolve", "propose"]),
    ({}, ["evolve", "restore", "--dry-run"]),
    ({}, ["evolve", "restore", "--yes"]),
    ({}, ["evolve", "restore"]),
    ({}, ["plan"]),
    ({R + "modules/review.md": "Review that.\n"}, ["explain", "diff"]),
    ({}, ["preview", "--diff"]),
    ({}, ["deploy", "--apply", "--yes"]),
    ({}, ["plan", "--profile", "empty"]),
    ({}, ["overlay", "path", "instructions:base"]),
    ({}, ["overlay", "edit", "instructions:base", "--yes"]),
    ({}, ["overlay", "edit", "instructions:base", "--scope", "machine", "--sparse", "--machine", "box 1", "--yes"]),
    ({}, ["overlay", "rebase", "instructions:work", "--yes"]),
    ({}, ["overlay", "rebase", "instructions:base", "--yes"]),
    ({OVERLAY + "AGENTS.md": "Overlaid.\n"}, ["explain", "plan"]),
    ({OVERLAY + ".agentpack/baseline.json": None}, ["overlay", "rebase", "instructions:base", "--yes"]),
    ({}, ["fetch", "--yes"]),
    ({}, ["lock"]),
    ({}, ["lock", "--yes"]),
    ({}, ["fetch", "--yes"]),
    ({}, ["update", "--yes"]),
    ({R + "agentpack.lock.json": "{"}, ["fetch", "--yes"]),
    ({R + "agentpack.lock.json": '{"version": 9}'}, ["fetch", "--yes"]),
    ({R + "agentpack.lock.json": None}, ["remove", "prompt:review", "--yes"]),
    ({}, ["add", "prompt", "local:modules/review.md", "--tags", "base,x", "--targets", "vscode", "--yes"]),
    ({}, ["plan"]),
    ({R + "agentpack.yaml": WITH_CODEX + MODULES, "home/.codex/AGENTS.md": "mine\n"}, ["plan"]),
    ({}, ["deploy", "--apply", "--yes"]),
    ({}, ["deploy", "--apply", "--adopt", "--yes"]),
    ({}, ["doctor", "--target", "zed"]),
    ({}, ["rollback", "--to", "$FIRST"]),
    ({}, ["rollback", "--to", "$FIRST", "--yes"]),
]

def main(agentpack):
    root = os.path.realpath(tempfile.mkdtemp())
    for folder in ["home", "ap/repo", "project"]:
        os.makedirs(f"{root}/{folder}")
    env = {"HOME": f"{root}/home", "AGENTPACK_HOME": f"{root}/ap", "HOSTNAME": "box", "PATH": os.environ["PATH"]}
    subprocess.run(["git", "init", "-q"], cwd=f"{root}/project", env=env, check=True)
    first, session = None, []
    for files, command in STEPS:
        for path, text in files.items():
            if text is None:
                os.remove(f"{root}/{path}")
            else:
                os.makedirs(os.path.dirname(f"{root}/{path}"), exist_ok=True)
                open(f"{root}/{path}", "w").write(text)
        words = [first if word == "$FIRST" else word for word in command]
        done = subprocess.run([agentpack, "--json", *words], cwd=f"{root}/project", env=env, capture_output=True, text=True)
        text = done.stdout
        if first is None:
            found = re.search(r'"snapshot_id": "(\d+)"', text)
            first = found.group(1) if found else None
        text = re.sub(r"\b1[789]\d{17}\b", "$ID", text.replace(root, "$ROOT"))
        answer = json.loads(text)
        answer.pop("version")
        session.append({"files": files, "run": command, "exit": done.returncode, "answer": answer})
    json.dump(session, sys.stdout, indent=1)
    print()

main(sys.argv[1])
