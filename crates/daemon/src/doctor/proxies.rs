//! The sidecars (`keyless proxy`) that run with this home: nothing where none does.

use super::Check;
use crate::{
    fleet::{Standing, sidecars},
    operator::counted,
    places::Places,
};

pub(super) fn look(places: &Places) -> Vec<Check> {
    sidecars(places).iter().map(check).collect()
}

fn check(sidecar: &Standing) -> Check {
    let Standing { pid, catalog, secrets, problem } = sidecar;
    let catalog = catalog.display();
    match problem {
        None => {
            let found = format!("process {pid} follows {catalog}: {}", counted(*secrets, "secret"));
            Check::ok("proxy.reload", found)
        }
        Some(problem) => Check::fault(
            "proxy.reload",
            format!("process {pid} could not take up what changed: {problem}"),
            "mend the file, which is taken up within a second; until then what was in force still is",
        ),
    }
}
