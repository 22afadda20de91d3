#!/usr/bin/env python3
"""Records what agentpack 0.9.1 answers in a session: record.py AGENTPACK session > session.json, and drift likewise

Each step writes or removes files, or runs a shell in the root ("sh"), then runs a command with --json. Paths, snapshot
ids and times are replaced by words, so that another implementation can be compared in another directory.
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

BOTH = """version: 1
profiles:
  default: { include_tags: [base] }
  empty: {}
targets:
  codex: { mode: files, scope: both }
  claude_code: { mode: files, scope: user, options: { write_user_skills: true } }
modules:
  - id: instructions:base
    type: instructions
    tags: [base]
    source: { local_path: { path: modules/base } }
  - id: prompt:review
    type: prompt
    tags: [base]
    source: { local_path: { path: modules/review.md } }
  - id: skill:tidy
    type: skill
    tags: [base]
    source: { local_path: { path: modules/tidy } }
"""
LINES = "".join(f"line {number}\n" for number in range(12))
COMMIT = "cd ap/repo; git init -q; git add -A; git -c user.name=t -c user.email=t@t commit -qm x"

# Making a repo, what status says and in which order, overlays that have to be rebased.
DRIFT = [
    ({}, ["init"]),
    ({}, ["init", "--guided", "--yes"]),
    ({}, ["init", "--yes"]),
    ({}, ["init", "--git", "--yes"]),
    ({}, ["init", "--git", "--yes"]),
    ({}, ["plan"]),
    ({}, ["status"]),
    ({}, ["deploy", "--apply", "--yes"]),
    ({}, ["add", "prompt", "local:modules/prompts/draftpr.md", "--id", "prompt:bad", "--targets", "emacs", "--yes"]),
    ({}, ["add", "instructions", "local:modules/instructions/base", "--tags", "base", "--yes"]),
    ({}, ["add", "prompt", "local:modules/prompts/draftpr.md", "--tags", "base", "--yes"]),
    ({}, ["add", "command", "local:modules/claude-commands/ap-plan.md", "--tags", "base", "--yes"]),
    ({}, ["plan", "--profile", "default"]),
    ({R + "agentpack.yaml": BOTH, R + "modules/base/AGENTS.md": LINES, R + "modules/review.md": "Review.\n",
      R + "modules/tidy/SKILL.md": "---\nname: tidy\ndescription: Tidies\n---\nTidy.\n"}, ["status"]),
    ({}, ["deploy", "--target", "codex", "--apply", "--yes"]),
    ({}, ["status"]),
    ({}, ["deploy", "--apply", "--yes"]),
    ({"home/.codex/AGENTS.md": "edited\n", "home/.codex/prompts/own.md": "own\n", "home/.codex/prompts/review.md": None,
      "home/.codex/skills/zzz/SKILL.md": "z", "project/AGENTS.md": "edited\n",
      "project/.codex/skills/tidy/SKILL.md": None}, ["status"]),
    ({}, ["status", "--only", "missing,extra"]),
    ({}, ["status", "--profile", "empty"]),
    ({}, ["status", "--machine", "m", "--target", "claude_code"]),
    ({}, ["explain", "status"]),
    ({}, ["explain", "plan", "--profile", "empty"]),
    ({}, ["evolve", "propose", "--dry-run"]),
    ({}, ["evolve", "propose", "--dry-run", "--module-id", "prompt:review"]),
    ({}, ["doctor", "--fix", "--dry-run"]),
    ({}, ["overlay", "edit", "instructions:base", "--kind", "patch", "--materialize", "--yes"]),
    ({"sh": COMMIT}, ["overlay", "edit", "instructions:base", "--yes"]),
    ({}, ["overlay", "edit", "instructions:base", "--kind", "patch", "--yes"]),
    ({}, ["overlay", "rebase", "instructions:base", "--scope", "global", "--yes"]),
    ({R + "modules/base/AGENTS.md": LINES.replace("line 2\n", "upstream 2\n")}, ["overlay", "rebase", "instructions:base", "--dry-run"]),
    ({}, ["plan"]),
    ({OVERLAY + "AGENTS.md": LINES.replace("line 9\n", "mine 9\n"), OVERLAY + "own.md": "own\n"}, ["overlay", "rebase", "instructions:base", "--dry-run"]),
    ({OVERLAY + "AGENTS.md": LINES.replace("line 2\n", "mine 2\n")}, ["overlay", "rebase", "instructions:base", "--dry-run"]),
    ({}, ["overlay", "rebase", "instructions:base", "--scope", "global", "--yes"]),
    ({"sh": "rm -r ap/repo/overlays", R + "modules/base/AGENTS.md": LINES}, ["overlay", "edit", "instructions:base", "--kind", "patch", "--yes"]),
    ({OVERLAY + ".agentpack/patches/AGENTS.md.patch":
      "--- AGENTS.md\n+++ AGENTS.md\n@@ -1,5 +1,5 @@\n line 0\n line 1\n-line 2\n+mine 2\n line 3\n line 4\n"}, ["overlay", "rebase", "instructions:base", "--scope", "global", "--yes"]),
    ({R + "modules/base/AGENTS.md": LINES.replace("line 2\n", "upstream 2\n")}, ["overlay", "rebase", "instructions:base", "--scope", "global", "--yes"]),
    ({OVERLAY + "AGENTS.md": "x\n"}, ["plan"]),
    ({OVERLAY + ".agentpack/overlay.json": "{"}, ["plan"]),
]

def main(agentpack, name):
    steps = {"session": STEPS, "drift": DRIFT}[name]
    root = os.path.realpath(tempfile.mkdtemp())
    for folder in ["home", "ap/repo", "project"]:
        os.makedirs(f"{root}/{folder}")
    env = {"HOME": f"{root}/home", "AGENTPACK_HOME": f"{root}/ap", "HOSTNAME": "box", "PATH": os.environ["PATH"]}
    subprocess.run(["git", "init", "-q"], cwd=f"{root}/project", env=env, check=True)
    first, session = None, []
    for files, command in steps:
        for path, text in files.items():
            if path == "sh":
                subprocess.run(text, shell=True, cwd=root, env=env, check=True)
            elif text is None:
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

main(sys.argv[1], sys.argv[2])
