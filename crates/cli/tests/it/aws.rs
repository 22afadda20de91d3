//! moto behind botocore's own verification of signatures.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::world::{World, wait_until};

/// moto, verifying; killed at the end.
pub(crate) struct Aws {
    process: Child,
    log: PathBuf,
    answers: PathBuf,
}

impl Aws {
    /// Serves these hosts for one key.
    pub(crate) fn start(world: &mut World, hosts: &[&str], id: &str, key: &str) -> Self {
        let leaf = world.ca.issue(hosts).unwrap();
        let certificate = world.home.write("operator/aws.pem", &leaf.certificate_pem).unwrap();
        let private = world.home.write("operator/aws.key", &leaf.key_pem).unwrap();
        let log = world.operator_file("aws.log");
        let answers = world.operator_file("aws.answers");
        let mut process = Command::new("python3")
            .args(["-c", include_str!("aws_origin.py")])
            .args([certificate, private])
            .env("REAL_ID", id)
            .env("REAL_KEY", key)
            .env("ANSWERS", &answers)
            .stdout(fs::File::create(&log).unwrap())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(process.stderr.take().unwrap());
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(drop));
        let port = || Some(fs::read_to_string(&log).ok()?.lines().next()?.to_owned());
        wait_until("moto listens", || port().is_some());
        for host in hosts {
            world.route(&format!("{host}:443"), &format!("127.0.0.1:{}", port().unwrap()));
        }
        Self { process, log, answers }
    }

    /// A line for each request: `good`, or `BAD` and why.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// A line of JSON for each answer: status, headers and body.
    pub(crate) fn answers(&self) -> &Path {
        &self.answers
    }
}

impl Drop for Aws {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
