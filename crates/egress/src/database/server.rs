//! The database's side of a login: TLS, then whichever method it asks for.

use std::{future::poll_fn, pin::Pin, task::Poll, time::Duration};

use bytes::BytesMut;
use keyless_core::{Authority, Code, Error, SafeText};
use postgres_protocol::{
    authentication::{
        md5_hash,
        sasl::{ChannelBinding, SCRAM_SHA_256, ScramSha256},
    },
    message::frontend,
};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf},
    net::TcpStream,
    task::spawn_blocking,
    time::timeout,
};
use tokio_rustls::client::TlsStream;

use super::broke_off;
use crate::tls::{self, Alpn, Roots};

/// The longest message that a database sends before it has let somebody in.
const MAX_MESSAGE: usize = 64 << 10;
/// PostgreSQL's own is 4,096; more than this is no protection but a way to keep us busy.
const MAX_ITERATIONS: u32 = 1_000_000;

/// More remarks than these before a login is no conversation.
const MAX_REMARKS: usize = 64;

/// A database that has proven its name.
pub(crate) struct Server<S = TlsStream<TcpStream>> {
    stream: S,
}

/// A message of the database.
pub(crate) struct Message {
    pub(crate) kind: u8,
    /// Without kind and length.
    pub(crate) body: Vec<u8>,
}

/// Who logs in.
pub(crate) struct Hello<'a> {
    /// The start-up packet, said as it is.
    pub(crate) packet: &'a [u8],
    pub(crate) user: &'a [u8],
}

/// Why nobody is logged in.
pub(crate) enum LoginFault {
    /// By us, or on the way.
    By(Error),
    /// By the database, with its own message.
    ByServer(Message),
}

impl From<Error> for LoginFault {
    fn from(error: Error) -> Self {
        Self::By(error)
    }
}

/// How far SCRAM has come.
enum Scram {
    Before,
    Begun(Box<ScramSha256>),
    /// The database has shown that it knows the password as well.
    Proven,
}

impl Server {
    /// Asks for TLS and takes nothing else.
    pub(crate) async fn meet(
        roots: &Roots,
        authority: &Authority,
        mut tcp: TcpStream,
        patience: Duration,
    ) -> Result<Self, Error> {
        let asking = async {
            let mut request = BytesMut::new();
            frontend::ssl_request(&mut request);
            tcp.write_all(&request).await?;
            // This one byte and no more: what came behind it in the clear could be anybody's.
            tcp.read_u8().await
        };
        let timed_out = || Error::with(Code::ConnectTimeout, "it does not answer".into());
        match timeout(patience, asking).await.map_err(|_| timed_out())? {
            Ok(b'S') => {}
            Ok(b'N') => return Err(Error::with(Code::UpstreamTls, "it offers no TLS".into())),
            Ok(_) => {
                let words = "it does not speak PostgreSQL";
                return Err(Error::with(Code::UpstreamProtocol, words.into()));
            }
            Err(_) => return Err(broke_off()),
        }
        let config = roots.config(Alpn::Postgres, None)?;
        let stream = tls::connect(config, &authority.host, tcp, patience).await?;
        Ok(Self::over(stream))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Server<S> {
    /// The database at the other end of `stream`, which has proven its name.
    pub(super) fn over(stream: S) -> Self {
        Self { stream }
    }

    /// Logs in with `password`. Gives what the database remarked on the way, for a client.
    pub(crate) async fn log_in(
        &mut self,
        hello: &Hello<'_>,
        password: &[u8],
        patience: Duration,
    ) -> Result<Vec<Message>, LoginFault> {
        let logging_in = self.authenticate(hello, password);
        let timed_out = || Error::with(Code::ConnectTimeout, "in the login".into());
        timeout(patience, logging_in).await.map_err(|_| timed_out())?
    }

    async fn authenticate(
        &mut self,
        hello: &Hello<'_>,
        password: &[u8],
    ) -> Result<Vec<Message>, LoginFault> {
        self.write(hello.packet).await?;
        let mut remarks = Vec::new();
        let mut scram = Scram::Before;
        loop {
            let message = self.read().await?;
            match (message.kind, message.authentication()) {
                (b'R', Some((0, _))) if !matches!(scram, Scram::Begun(_)) => return Ok(remarks),
                (b'R', Some((3, _))) => {
                    self.say(|out| frontend::password_message(password, out)).await?;
                }
                (b'R', Some((5, salt))) => {
                    let salt = *salt.first_chunk().ok_or_else(unknown)?;
                    let hash = md5_hash(hello.user, password, salt);
                    self.say(|out| frontend::password_message(hash.as_bytes(), out)).await?;
                }
                (b'R', Some((10, mechanisms))) if matches!(scram, Scram::Before) => {
                    let mut offered = mechanisms.split(|byte| *byte == 0);
                    if !offered.any(|name| name == SCRAM_SHA_256.as_bytes()) {
                        return Err(unknown().into());
                    }
                    // The certificate is verified; binding the login to it adds nothing.
                    let begun = ScramSha256::new(password, ChannelBinding::unsupported());
                    self.say(|out| {
                        frontend::sasl_initial_response(SCRAM_SHA_256, begun.message(), out)
                    })
                    .await?;
                    scram = Scram::Begun(Box::new(begun));
                }
                (b'R', Some((11, challenge))) => {
                    let Scram::Begun(begun) = scram else { return Err(unknown().into()) };
                    let answered = respond(begun, challenge.to_vec()).await?;
                    self.say(|out| frontend::sasl_response(answered.message(), out)).await?;
                    scram = Scram::Begun(answered);
                }
                (b'R', Some((12, proof))) => {
                    let Scram::Begun(mut begun) = scram else { return Err(unknown().into()) };
                    begun.finish(proof).map_err(|_| impostor())?;
                    scram = Scram::Proven;
                }
                (b'E', _) => return Err(LoginFault::ByServer(message)),
                // What it thinks of the protocol's version, and remarks.
                (b'N' | b'v', _) if remarks.len() < MAX_REMARKS => remarks.push(message),
                _ => return Err(unknown().into()),
            }
        }
    }

    /// Whether it has hung up: before it knows who logs in, it has nothing to say.
    pub(crate) async fn has_left(&mut self) -> bool {
        let mut byte = [0];
        let mut read = ReadBuf::new(&mut byte);
        poll_fn(|cx| Poll::Ready(Pin::new(&mut self.stream).poll_read(cx, &mut read).is_ready()))
            .await
    }

    /// Says something that gets no answer, and leaves.
    pub(crate) async fn say_last(mut self, words: &[u8]) -> Result<(), Error> {
        self.write(words).await?;
        self.stream.shutdown().await.map_err(|_| broke_off())
    }

    pub(crate) fn into_stream(self) -> S {
        self.stream
    }

    async fn read(&mut self) -> Result<Message, Error> {
        let reading = async {
            let kind = self.stream.read_u8().await?;
            let length = usize::try_from(self.stream.read_u32().await?).unwrap_or(usize::MAX);
            if !(4..=MAX_MESSAGE).contains(&length) {
                return Ok(None);
            }
            let mut body = vec![0; length - 4];
            self.stream.read_exact(&mut body).await?;
            Ok::<_, std::io::Error>(Some(Message { kind, body }))
        };
        reading.await.map_err(|_| broke_off())?.ok_or_else(unknown)
    }

    async fn say(
        &mut self,
        message: impl FnOnce(&mut BytesMut) -> std::io::Result<()>,
    ) -> Result<(), Error> {
        let mut out = BytesMut::new();
        message(&mut out).map_err(|_| {
            Error::with(Code::ValueRefused, "a password can't have a NUL in it".into())
        })?;
        let written = self.write(&out).await;
        zeroize::Zeroize::zeroize(&mut out[..]);
        written
    }

    async fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let writing = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        writing.await.map_err(|_: std::io::Error| broke_off())
    }
}

impl Message {
    /// Whether it is a remark that a client shows its user.
    pub(crate) fn is_notice(&self) -> bool {
        self.kind == b'N'
    }

    /// What an authentication message asks for, and the rest of it.
    fn authentication(&self) -> Option<(u32, &[u8])> {
        let (code, rest) = self.body.split_first_chunk::<4>()?;
        Some((u32::from_be_bytes(*code), rest))
    }
}

/// Works out the answer to a challenge: thousands of hashes, off the serving threads.
async fn respond(
    mut scram: Box<ScramSha256>,
    challenge: Vec<u8>,
) -> Result<Box<ScramSha256>, Error> {
    if iterations(&challenge).is_none_or(|count| count > MAX_ITERATIONS) {
        return Err(unknown());
    }
    let working = spawn_blocking(move || scram.update(&challenge).map(|()| scram));
    let worked = working.await.map_err(|_| Error::new(Code::Internal))?;
    worked.map_err(|_| impostor())
}

/// The `i=` of a server's first message (RFC 5802, section 5.1).
fn iterations(challenge: &[u8]) -> Option<u32> {
    let mut members = challenge.split(|byte| *byte == b',');
    let count = members.find_map(|member| member.strip_prefix(b"i="))?;
    str::from_utf8(count).ok()?.parse().ok()
}

fn unknown() -> Error {
    let words = "it asks for a login in a way that Keyless doesn't know";
    Error::with(Code::UpstreamProtocol, SafeText::words(words))
}

fn impostor() -> Error {
    let words = "it could not prove that it knows the password";
    Error::with(Code::UpstreamProtocol, SafeText::words(words))
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use tokio::io::{DuplexStream, duplex};

    use super::*;

    const PASSWORD: &[u8] = b"sesame-open-the-door";
    const START: &[u8] = b"start";

    /// A database that has proven its name, and means no good all the same.
    struct Hostile {
        stream: DuplexStream,
        heard: Vec<u8>,
    }

    impl Hostile {
        async fn say(&mut self, kind: u8, body: &[u8]) {
            let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
            self.stream.write_all(&[&[kind], &length[..], body].concat()).await.unwrap();
        }

        async fn ask(&mut self, code: u32, more: &[u8]) {
            self.say(b'R', &[&code.to_be_bytes(), more].concat()).await;
        }

        /// Asks for SCRAM, and gives the nonce that it is answered with.
        async fn scram(&mut self) -> Vec<u8> {
            self.ask(10, b"SCRAM-SHA-256\0\0").await;
            self.hear().await;
            let nonce = self.heard.windows(2).position(|bytes| bytes == b"r=").unwrap();
            self.heard[nonce + 2..].to_vec()
        }

        /// A challenge as it should be.
        async fn scram_to_its_end(&mut self) {
            let nonce = [&self.scram().await[..], b"more"].concat();
            self.challenge(&nonce, "1").await;
            self.hear().await;
        }

        async fn challenge(&mut self, nonce: &[u8], iterations: &str) {
            let rest = format!(",s=c2FsdHNhbHQ=,i={iterations}");
            self.ask(11, &[b"r=", nonce, rest.as_bytes()].concat()).await;
        }

        async fn hear(&mut self) {
            let read = self.stream.read_buf(&mut self.heard).await.unwrap();
            assert_ne!(read, 0);
        }
    }

    /// What the login comes to, and all that the database heard.
    async fn against(play: impl AsyncFnOnce(&mut Hostile)) -> (Code, Vec<u8>) {
        let (ours, stream) = duplex(1 << 20);
        let (mut server, mut hostile) = (Server::over(ours), Hostile { stream, heard: Vec::new() });
        let hello = Hello { packet: START, user: b"ana" };
        let playing = async {
            hostile.hear().await;
            play(&mut hostile).await;
            pending::<()>().await;
        };
        let login = tokio::select! {
            login = server.log_in(&hello, PASSWORD, Duration::from_mins(1)) => login,
            () = playing => unreachable!("it waits"),
        };
        let code = match login {
            Ok(_) => panic!("nobody was let in"),
            Err(LoginFault::By(error)) => error.code(),
            Err(LoginFault::ByServer(_)) => panic!("it is no refusal of the database's"),
        };
        drop(server);
        hostile.stream.read_to_end(&mut hostile.heard).await.unwrap();
        (code, hostile.heard)
    }

    #[track_caller]
    fn assert_kept((code, heard): (Code, Vec<u8>)) {
        assert_eq!(code, Code::UpstreamProtocol);
        assert!(heard.starts_with(START));
        assert!(!heard.windows(PASSWORD.len()).any(|bytes| bytes == PASSWORD));
    }

    /// Who does not prove to know the password lets nobody in, and does not hear it.
    #[tokio::test]
    async fn scram_goes_both_ways() {
        // A nonce of its own.
        assert_kept(
            against(async |it| {
                it.scram().await;
                it.challenge(b"of-its-own", "4096").await;
            })
            .await,
        );
        // No word about the password, a wrong one, an error.
        for last in [&b""[..], b"v=d3Jvbmc=", b"e=other-error"] {
            assert_kept(
                against(async |it| {
                    it.scram_to_its_end().await;
                    it.ask(12, last).await;
                })
                .await,
            );
        }
        // In, before it has shown anything: after its challenge, and instead of one.
        assert_kept(
            against(async |it| {
                it.scram_to_its_end().await;
                it.ask(0, b"").await;
            })
            .await,
        );
        assert_kept(
            against(async |it| {
                it.scram().await;
                it.ask(0, b"").await;
            })
            .await,
        );
    }

    /// More than what protects anybody is work for nothing.
    #[tokio::test]
    async fn nobody_hashes_for_as_long_as_a_database_likes() {
        for iterations in ["2147483648", "4294967297", "1000001", "", "-1", "x"] {
            assert_kept(
                against(async |it| {
                    let nonce = [&it.scram().await[..], b"more"].concat();
                    it.challenge(&nonce, iterations).await;
                })
                .await,
            );
        }
    }

    #[tokio::test]
    async fn no_message_is_longer_than_a_login_takes_and_no_remarks_are_endless() {
        for length in [0, 3, 1 << 20, u32::MAX] {
            let head = [&b"R"[..], &length.to_be_bytes()].concat();
            assert_kept(against(async |it| it.stream.write_all(&head).await.unwrap()).await);
        }
        assert_kept(
            against(async |it| {
                for _ in 0..=MAX_REMARKS {
                    it.say(b'N', b"SNOTICE\0Mx\0\0").await;
                }
            })
            .await,
        );
    }
}
