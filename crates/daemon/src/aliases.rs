//! `NAME=@secret:PATH` in the environment that a command inherits: an alias, resolved here, where
//! it is used. The command gets the placeholder. One that can't be resolved stops the command.

use keyless_core::{Code, Error, SafeText, SecretPath, alias};

use crate::broker::{Inherited, Wanted};

/// A variable that holds an alias.
pub(crate) struct Aliased {
    pub(crate) variable: String,
    pub(crate) path: SecretPath,
}

/// The aliases among what is inherited. Fails with `Code::SessionUnfit` on one of nothing that could be a
/// secret, and on one of a secret that the session was not to have.
pub(crate) fn aliases(inherited: &[Inherited], wanted: &Wanted) -> Result<Vec<Aliased>, Error> {
    let mut all = Vec::new();
    for Inherited { name, value } in inherited {
        let Some(path) = alias(value) else { continue };
        let refuse = |words: SafeText| {
            let place = SafeText::words("the variable ").as_they_wrote(name);
            Error::with(Code::SessionUnfit, place.and(" is an alias of ").and(words))
        };
        let path = path.map_err(|why| refuse(SafeText::words("no secret: ").and(why)))?;
        match wanted {
            Wanted::These(paths) if !paths.contains(&path) => {
                let words = SafeText::default().and(&path);
                return Err(refuse(words.and(", which this session does not name with --secret")));
            }
            Wanted::Nothing => {}
            Wanted::All | Wanted::These(_) => all.push(Aliased { variable: name.clone(), path }),
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(value: &str, wanted: &Wanted) -> Result<usize, Code> {
        let inherited = [Inherited { name: "TOKEN".to_owned(), value: value.to_owned().into() }];
        aliases(&inherited, wanted).map(|all| all.len()).map_err(|error| error.code())
    }

    #[test]
    fn aliases_are_found_and_kept_within_the_session() {
        let these = |text: &str| Wanted::These(vec![SecretPath::parse(text).unwrap()]);
        assert_eq!(found("@secret:a/b/c", &Wanted::All), Ok(1));
        assert_eq!(found("@secret:a/b/c", &these("a/b/c")), Ok(1));
        assert_eq!(found("@secret:a/b/c", &these("a/b/d")), Err(Code::SessionUnfit));
        assert_eq!(found("@secret:a/b", &Wanted::All), Err(Code::SessionUnfit));
        assert_eq!(found("see @secret:a/b/c", &Wanted::All), Ok(0));
    }
}
