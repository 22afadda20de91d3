//! What plan, deploy and status of large config repos cost, against agentpack 0.9.1 in the same rounds.
//!
//! `AGENTPACK_BENCH_BINARY` names agentpack's binary; without it only our own figures are printed, beside
//! those of shared/reference/agentpack.md. `pack generate DIR SHAPE N` makes a repo and ends
//! (`cargo xtask gen-pack-repo`). Budget (issue 6): a no-op plan of mixed 10,000 in <= 2 s and >= 5 times as
//! fast; git with a lockfile grows linearly.

use std::{
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Instant,
};

use keyless_benches::{Binary, PackRepo, Result, Shape, Table, decimals, median};

const ROUNDS: usize = 3;

/// A program under measurement.
struct Subject {
    name: &'static str,
    program: Box<dyn Fn() -> Command>,
}

fn main() -> Result<()> {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [verb, folder, shape, count] = &words[..]
        && verb == "generate"
    {
        let shape = Shape::parse(shape).ok_or("a shape is git, mixed or prompts")?;
        PackRepo::generate(Path::new(folder), shape, count.parse()?)?;
        return Ok(());
    }
    let scratch = tempfile::tempdir()?;
    let subjects = subjects(scratch.path())?;
    let mut table = Table::new(&["repo", "command", "program", "median ms", "of agentpack"]);
    for (name, shape, count) in [
        ("prompts 1,000", Shape::Prompts, 1_000),
        ("prompts 10,000", Shape::Prompts, 10_000),
        ("mixed 1,000", Shape::Mixed, 1_000),
        ("mixed 10,000", Shape::Mixed, 10_000),
        ("git 500", Shape::Git, 500),
        ("git 1,000", Shape::Git, 1_000),
        ("git 2,000", Shape::Git, 2_000),
    ] {
        measure(&mut table, scratch.path(), &subjects, (name, shape, count))?;
    }
    println!("{table}");
    println!(
        "Budget: no-op plan of mixed 10,000 <= 2,000 ms and <= 0.20 of agentpack; git linear."
    );
    if subjects.len() == 1 {
        println!("AGENTPACK_BENCH_BINARY names no agentpack 0.9.1: no baseline in this run.");
    }
    Ok(())
}

fn subjects(scratch: &Path) -> Result<Vec<Subject>> {
    let binary = Binary::find(&scratch.join("keyless"))?;
    let ours = move || {
        let mut command = binary.command();
        command.arg("pack");
        command
    };
    let mut subjects = vec![Subject { name: "keyless pack", program: Box::new(ours) }];
    if let Some(theirs) = env::var_os("AGENTPACK_BENCH_BINARY").map(PathBuf::from) {
        let program = move || {
            let mut command = Command::new(&theirs);
            command.env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
            command
        };
        subjects.push(Subject { name: "agentpack", program: Box::new(program) });
    }
    Ok(subjects)
}

/// Each command of each program on a repo of its own, in interleaved rounds.
fn measure(
    table: &mut Table,
    scratch: &Path,
    subjects: &[Subject],
    (name, shape, count): (&str, Shape, usize),
) -> Result<()> {
    let commands: &[(&str, &[&str])] = match shape {
        Shape::Git => &[("lock", &["lock", "--yes"]), ("plan", &["plan"])],
        Shape::Mixed | Shape::Prompts => &[
            ("plan, all new", &["plan"]),
            ("deploy --apply", &["deploy", "--apply", "--yes"]),
            ("plan, no-op", &["plan"]),
            ("status", &["status"]),
        ],
    };
    let mut times = vec![vec![Vec::new(); subjects.len()]; commands.len()];
    for round in 0..ROUNDS {
        for (at, subject) in subjects.iter().enumerate() {
            let folder = scratch.join(format!("{round}-{at}"));
            let repo = PackRepo::generate(&folder, shape, count)?;
            for ((_, words), times) in commands.iter().zip(&mut times) {
                times[at].push(timed(&repo, subject, words)?);
            }
            std::fs::remove_dir_all(&folder)?;
        }
    }
    for ((what, _), times) in commands.iter().zip(&times) {
        for (at, subject) in subjects.iter().enumerate() {
            let ratio =
                times.get(1).filter(|_| at == 0).map(|theirs| median(&times[0]) / median(theirs));
            table.row([
                name.to_owned(),
                (*what).to_owned(),
                subject.name.to_owned(),
                decimals(median(&times[at]), 0),
                ratio.map_or_else(String::new, |ratio| decimals(ratio, 2)),
            ]);
        }
    }
    Ok(())
}

/// Milliseconds of one command, which must succeed.
fn timed(repo: &PackRepo, subject: &Subject, words: &[&str]) -> Result<f64> {
    let mut command = (subject.program)();
    repo.at(&mut command).args(words).arg("--json").stdin(Stdio::null());
    let start = Instant::now();
    let output = command.output()?;
    let took = start.elapsed().as_secs_f64() * 1e3;
    if output.status.success() {
        return Ok(took);
    }
    let said = String::from_utf8_lossy(&output.stdout);
    Err(format!("{} {words:?}: {}: {said}", subject.name, output.status).into())
}
