//! What a stream does as the one that it wraps: streams that read, or write, in a way of their own leave the rest to it.

/// Implements `AsyncWrite` for a type by its field `inner`, vectored writes included.
macro_rules! write_through {
    ($name:ident $(<$inner:ident>)?) => {
        impl$(<$inner: tokio::io::AsyncWrite + Unpin>)? tokio::io::AsyncWrite for $name$(<$inner>)? {
            fn poll_write(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bytes: &[u8],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.inner).poll_write(cx, bytes)
            }

            fn poll_write_vectored(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                bytes: &[std::io::IoSlice<'_>],
            ) -> std::task::Poll<std::io::Result<usize>> {
                std::pin::Pin::new(&mut self.inner).poll_write_vectored(cx, bytes)
            }

            $crate::write_through::end_through!();
        }
    };
}

/// Reads of a stream that change nothing.
macro_rules! read_through {
    ($name:ident $(<$inner:ident>)?) => {
        impl$(<$inner: tokio::io::AsyncRead + Unpin>)? tokio::io::AsyncRead for $name$(<$inner>)? {
            fn poll_read(
                mut self: std::pin::Pin<&mut Self>,
                cx: &mut std::task::Context<'_>,
                into: &mut tokio::io::ReadBuf<'_>,
            ) -> std::task::Poll<std::io::Result<()>> {
                std::pin::Pin::new(&mut self.inner).poll_read(cx, into)
            }
        }
    };
}

/// Within an `AsyncWrite`: all but the writes themselves.
macro_rules! end_through {
    () => {
        fn is_write_vectored(&self) -> bool {
            self.inner.is_write_vectored()
        }

        fn poll_flush(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.inner).poll_flush(cx)
        }

        fn poll_shutdown(
            mut self: std::pin::Pin<&mut Self>,
            cx: &mut std::task::Context<'_>,
        ) -> std::task::Poll<std::io::Result<()>> {
            std::pin::Pin::new(&mut self.inner).poll_shutdown(cx)
        }
    };
}

pub(crate) use {end_through, read_through, write_through};
