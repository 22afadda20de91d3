//! `METHOD /path` patterns of operations that are withheld: `*` within a segment, `**` for the rest.

/// Whether a request fits `METHOD /path` with stars.
pub(super) fn fits(pattern: &str, method: &str, path: &str) -> bool {
    let Some((wanted, glob)) = pattern.split_once(' ') else { return false };
    (wanted == "*" || wanted.eq_ignore_ascii_case(method)) && path_fits(glob, path)
}

fn path_fits(glob: &str, path: &str) -> bool {
    let (mut globs, mut parts) = (glob.split('/'), path.trim_end_matches('/').split('/'));
    loop {
        match (globs.next(), parts.next()) {
            (Some("**"), _) | (None, None) => return true,
            (Some(glob), Some(part)) if segment_fits(glob, part) => {}
            _ => return false,
        }
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
    }
}
