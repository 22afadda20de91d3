//! `METHOD /path` patterns of operations that are withheld: `*` within a segment, `**` for any number of them.

/// Whether a request fits `METHOD /path` with stars. A path may end as services let it end, `/a.json` is `/a`.
pub(super) fn fits(pattern: &str, method: &str, path: &str) -> bool {
    let Some((wanted, glob)) = pattern.split_once(' ') else { return false };
    let globs: Vec<&str> = glob.split('/').collect();
    let mut parts: Vec<&str> = path.trim_end_matches('/').split('/').collect();
    let fits = |parts: &[&str]| path_fits(&globs, parts);
    let is_method = wanted == "*" || wanted.eq_ignore_ascii_case(method);
    is_method && (fits(&parts) || without_ending(&mut parts) && fits(&parts))
}

/// Takes `.json` and its like off the last part; false where it has none.
fn without_ending(parts: &mut [&str]) -> bool {
    let Some(last) = parts.last_mut() else { return false };
    match last.rsplit_once('.') {
        Some((name, ending)) if !name.is_empty() && !ending.is_empty() => {
            *last = name;
            true
        }
        _ => false,
    }
}

fn path_fits(globs: &[&str], parts: &[&str]) -> bool {
    match globs.split_first() {
        None => parts.is_empty(),
        Some((&"**", rest)) => (0..=parts.len()).any(|skipped| path_fits(rest, &parts[skipped..])),
        Some((glob, rest)) => parts
            .split_first()
            .is_some_and(|(part, others)| segment_fits(glob, part) && path_fits(rest, others)),
    }
}

/// A star at the end stands for anything.
fn segment_fits(glob: &str, part: &str) -> bool {
    match glob.strip_suffix('*') {
        Some(begin) => {
            part.get(..begin.len()).is_some_and(|there| there.eq_ignore_ascii_case(begin))
        }
        None => glob.eq_ignore_ascii_case(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stay_in_their_segment() {
        assert!(fits("POST /oauth.*", "post", "/oauth.v2.access"));
        assert!(fits("* /organization/**", "GET", "/organization/a/b"));
        assert!(fits("GET /projects/*/variables", "GET", "/projects/1/variables/"));
        assert!(!fits("GET /projects/*/variables", "GET", "/projects/1/2/variables"));
        assert!(!fits("POST /a", "GET", "/a"));
        assert!(fits("POST /**/tokens/**", "POST", "/tokens"));
        assert!(fits("POST /**/tokens/**", "POST", "/a/b/tokens/1/rotate"));
        assert!(!fits("POST /**/tokens/**", "POST", "/a/b/token/1"));
        assert!(fits("GET /**/variables/**", "GET", "/a/1/variables.json"));
        assert!(fits("GET /**/variables/**", "GET", "/a/1/variables/A.B"));
        assert!(!fits("GET /a", "GET", "/.a"));
    }
}
