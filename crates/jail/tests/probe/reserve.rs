//! Plays with a reserve: commands in jails that stand already, or not.

use std::{fs, fs::File, io, io::Read, path::PathBuf, thread};

use keyless_jail::{Exit, JailError, Outlook, Plan, Reserve, Streams};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// Hide this as well from now on.
    Hide(PathBuf),
    /// Look at the host for the next command.
    Look,
    /// Wait until standard input ends.
    Pause,
    /// Say how many jails stand.
    Ready,
    /// Have some stand.
    Refill,
    /// Move the one file to the other's place.
    Rename(PathBuf, PathBuf),
    /// Wait until what was seen of the host is old.
    Rest,
    /// Run the command, and say what it wrote and how it ended.
    Run,
    /// Run it so often at the same time, and say how often it did well.
    RunAtOnce(usize),
    /// Trust this CA from now on.
    Trust(String),
}

pub(crate) fn play(steps: &[Step], mut plan: Plan) -> Result<(), JailError> {
    let reserve = Reserve::keeping(2);
    let mut outlook = None;
    for step in steps {
        match step {
            Step::Hide(path) => plan.hide.push(path.clone()),
            Step::Look => outlook = reserve.look(&plan),
            Step::Pause => {
                let _ = io::stdin().read_to_end(&mut Vec::new());
            }
            Step::Ready => println!("{} ready", reserve.ready()),
            Step::Refill => reserve.refill(),
            Step::Rename(from, to) => fs::rename(from, to).expect("renamed"),
            Step::Rest => thread::sleep(Reserve::FRESH),
            Step::Run => {
                let (text, exit) = run(&reserve, &plan, outlook.take())?;
                print!("{text}");
                println!("{exit:?}");
            }
            Step::RunAtOnce(times) => println!("{} did well", run_at_once(&reserve, &plan, *times)),
            Step::Trust(pem) => plan.ca_pem.clone_from(pem),
        }
    }
    Ok(())
}

fn run(
    reserve: &Reserve,
    plan: &Plan,
    outlook: Option<Outlook>,
) -> Result<(String, Exit), JailError> {
    let (mut from_output, output) = io::pipe().expect("a pipe");
    let input = File::open("/dev/null").expect("opened").into();
    let errors = output.try_clone().expect("cloned").into();
    let streams = Streams { input, output: output.into(), errors };
    let jailed = reserve.spawn_detached(plan, streams, outlook)?;
    let exit = jailed.wait();
    let mut text = String::new();
    // Everything that could write has ended.
    from_output.read_to_string(&mut text).expect("read");
    Ok((text, exit))
}

fn run_at_once(reserve: &Reserve, plan: &Plan, times: usize) -> usize {
    thread::scope(|scope| {
        let runs: Vec<_> = (0..times)
            .map(|_| {
                scope.spawn(|| {
                    let done = run(reserve, plan, None);
                    reserve.refill();
                    matches!(done, Ok((_, Exit::Code(0))))
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().expect("no panic")).filter(|well| *well).count()
    })
}
