//! The two databases that a store can be in, for tests that say the same of both.

/// A database.
#[derive(Clone, Copy, Debug)]
pub enum Engine {
    /// A server of the test's own.
    Postgres,
    /// A file.
    Sqlite,
}

/// Makes two tests of each story, an `async fn` that takes an [`Engine`].
#[macro_export]
macro_rules! on_both {
    ($($story:ident)*) => {$(
        mod $story {
            #[tokio::test]
            async fn on_sqlite() {
                super::$story($crate::Engine::Sqlite).await;
            }

            #[tokio::test]
            async fn on_postgres() {
                super::$story($crate::Engine::Postgres).await;
            }
        }
    )*};
}
