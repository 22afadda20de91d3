//! Where a store lies.

use std::{
    fmt,
    path::{Path, PathBuf},
};

use super::Server;

/// A file of this machine, or a database server.
#[derive(Clone, Debug)]
pub enum StorePlace {
    /// SQLite.
    File(PathBuf),
    /// PostgreSQL.
    Server(Box<Server>),
}

/// The engine and the place, fit for a person; never a password.
impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(file) => file.display().fmt(f),
            Self::Server(server) => server.fmt(f),
        }
    }
}

impl From<&Path> for StorePlace {
    fn from(file: &Path) -> Self {
        Self::File(file.to_owned())
    }
}

impl From<&PathBuf> for StorePlace {
    fn from(file: &PathBuf) -> Self {
        Self::File(file.clone())
    }
}

impl From<Server> for StorePlace {
    fn from(server: Server) -> Self {
        Self::Server(Box::new(server))
    }
}

impl From<&Self> for StorePlace {
    fn from(place: &Self) -> Self {
        place.clone()
    }
}
