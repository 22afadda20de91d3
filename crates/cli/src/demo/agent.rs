//! The agent of the demo: a shell that plays the steps inside `keyless run` and keeps what it saw.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use keyless_core::{Code, Error, SafeText};

use super::{scene::Scene, steps::Step};

/// Everything that came to the agent's side.
pub(super) struct Seen {
    /// What each step printed, and its exit status, in their order.
    pub(super) steps: Vec<(i32, Vec<u8>)>,
    /// What `keyless run` itself printed.
    pub(super) terminal: Vec<u8>,
    /// The directory that the agent worked in.
    pub(super) work: PathBuf,
}

const DRIVER: &str = r#"
for script in steps/*.sh; do
  name=$(basename "$script" .sh)
  timeout 30 sh "$script" > "out/$name" 2>&1 < /dev/null
  echo $? > "rc/$name"
done
echo "the agent's terminal: token is $GITHUB_TOKEN"
"#;

/// Plays every step in one session, in a jail or with proxy variables alone.
pub(super) fn run(scene: &Scene, steps: &[Step], in_jail: bool) -> Result<Seen, Error> {
    let work = scene.home.work();
    write_scripts(&work, steps).map_err(|error| fault("the agent's scripts", &error))?;
    let output = scene.run_agent(&["sh".into(), "driver.sh".into()], in_jail)?;
    let terminal = [output.stdout, output.stderr].concat();
    if !output.status.success() {
        let said = String::from_utf8_lossy(&terminal).into_owned();
        return Err(Error::with(
            Code::Internal,
            SafeText::words("keyless run: ").as_they_wrote(said.trim()),
        ));
    }
    let read = |index: usize| -> io::Result<(i32, Vec<u8>)> {
        let status = fs::read_to_string(work.join("rc").join(name(index)))?;
        let out = fs::read(work.join("out").join(name(index)))?;
        Ok((status.trim().parse().unwrap_or(-1), out))
    };
    let steps = (0..steps.len()).map(read).collect::<Result<_, _>>();
    let steps = steps.map_err(|error| fault("what the agent saw", &error))?;
    Ok(Seen { steps, terminal, work })
}

fn write_scripts(work: &Path, steps: &[Step]) -> io::Result<()> {
    for folder in ["steps", "out", "rc"] {
        fs::create_dir_all(work.join(folder))?;
    }
    fs::write(work.join("driver.sh"), DRIVER)?;
    for (index, step) in steps.iter().enumerate() {
        fs::write(work.join("steps").join(name(index)).with_extension("sh"), &step.script)?;
    }
    Ok(())
}

fn name(index: usize) -> String {
    format!("{index:02}")
}

fn fault(what: &'static str, error: &io::Error) -> Error {
    Error::with(Code::Internal, SafeText::words(what).and(": ").and(error.kind()))
}
