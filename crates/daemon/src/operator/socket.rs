//! The broker's side of `operator.sock`.
//!
//! A connection is nobody's until it has proven the factor: whoever opened the same vault elsewhere, by
//! passphrase or phrase, opens the [channel](super::channel) with a key of that vault. A process of the same account
//! that connects gets no further than a refusal, which is on record.

use std::{io, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Draft, Outcome, Target},
};
use keyless_sockets::{Accepting, Seat, Seats};
use keyless_store::AuditLog;
use keyless_vault::{MAX_VALUE_BYTES, Moment, Voucher};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};
use zeroize::Zeroizing;

use super::{
    channel::{Answering, Channel, ChannelError, answered},
    messages::{Call, MAX_LINE, Reply},
    shown::Shown,
};
use crate::{
    broker::{Broker, agent, plain_entry},
    service::UNREADABLE_CALL,
    sockets::{next_own, process_of},
    web::{Desk, Web},
};

/// How long a proof holds for its connection.
const PROOF_LIFE: Duration = Duration::from_mins(10);
/// Connections at a time: a person's commands need a few. Who proves nothing gives way, so that those always come in.
const MAX_CONNECTIONS: usize = 64;

/// What the socket needs of the broker.
pub(crate) struct OperatorDoor {
    desk: Arc<Desk>,
    web: Arc<Web>,
    voucher: Voucher,
    log: AuditLog,
}

impl OperatorDoor {
    pub(crate) fn new(broker: &Broker, desk: Arc<Desk>, web: Arc<Web>) -> Self {
        Self { desk, web, voucher: broker.vault().operator_voucher(), log: broker.log().clone() }
    }

    /// Serves until the task is dropped.
    pub(crate) async fn serve(self: Arc<Self>, listener: UnixListener) {
        let seats = Seats::of(MAX_CONNECTIONS);
        let mut accepting = Accepting::at(listener);
        loop {
            let stream = next_own(&mut accepting).await;
            let taken = seats.wait(process_of(&stream)).await;
            let stream = BufReader::new(stream);
            let door = Arc::clone(&self);
            tokio::spawn(async move {
                let conversation = Conversation { door: &door, seat: taken.seat() };
                tokio::select! {
                    // A connection that breaks off has nobody to tell.
                    _ = conversation.run(stream) => {}
                    () = taken.wanted() => {}
                }
            });
        }
    }

    /// Puts a refusal on record; gives what is said of it.
    async fn refused(&self) -> Error {
        let draft = Draft {
            error_code: Some(Code::OperatorRequired),
            ..plain_entry(
                agent("operator", "unproven"),
                Action::Denied,
                Outcome::Denied,
                Target::Connection,
            )
        };
        self.log.append(draft).await.err().unwrap_or(Code::OperatorRequired.into())
    }
}

struct Conversation<'a> {
    door: &'a OperatorDoor,
    seat: Arc<Seat>,
}

/// What an operator's program is answered.
struct Answered {
    reply: Reply,
    /// What goes after the reply, a message each.
    following: Vec<Shown>,
}

impl Conversation<'_> {
    /// In lines, until the channel is open.
    async fn run(self, mut stream: BufReader<UnixStream>) -> Result<(), ChannelError> {
        loop {
            let mut line = Vec::new();
            (&mut stream).take(MAX_LINE as u64).read_until(b'\n', &mut line).await?;
            if !line.ends_with(b"\n") {
                return Ok(());
            }
            let under_way = self.seat.begin();
            let reply = match understood(&line) {
                Ok(Call::Secure { word }) => match self.secured(&word) {
                    Some((word, noise)) => {
                        send_line(&mut stream, &Reply::Secured { word }).await?;
                        drop(under_way);
                        return self.converse(noise.over(stream)).await;
                    }
                    None => Err(self.door.refused().await),
                },
                // It leads to a page that asks for the factor itself.
                Ok(Call::OpenPage) => self.door.web.link().await.map(|link| {
                    let seconds = link.life.as_secs();
                    Reply::Page { url: link.url, seconds }
                }),
                Ok(_) => Err(self.door.refused().await),
                Err(error) => Err(error),
            };
            drop(under_way);
            send_line(&mut stream, &reply.unwrap_or_else(|error| told(&error))).await?;
        }
    }

    /// The answer to the channel's first word, where that comes from somebody who has opened the vault.
    fn secured(&self, word: &str) -> Option<(String, Answering)> {
        let word = HEXLOWER.decode(word.as_bytes()).ok()?;
        let (answer, noise) = answered(&self.door.voucher, &word).ok()?;
        Some((HEXLOWER.encode(&answer), noise))
    }

    /// In the channel.
    async fn converse(
        self,
        mut channel: Channel<BufReader<UnixStream>>,
    ) -> Result<(), ChannelError> {
        let mut proven: Option<Moment> = None;
        loop {
            let message = match channel.receive(MAX_LINE).await {
                Ok(message) => message,
                Err(error) => {
                    // A first word that somebody has heard and says again opens nothing.
                    if let (ChannelError::Unproven, None) = (&error, proven) {
                        let _ = self.door.refused().await;
                    }
                    return Err(error);
                }
            };
            // What came is of who has the vault's key.
            let since = *proven.get_or_insert_with(|| {
                self.seat.note_operator();
                Moment::now()
            });
            let under_way = self.seat.begin();
            let answered = match understood(&message) {
                Ok(_) if since.elapsed() >= PROOF_LIFE => Err(self.door.refused().await),
                Ok(call) => self.answer(call, &mut channel).await,
                Err(error) => Err(error),
            };
            drop(under_way);
            let Answered { reply, following } =
                answered.unwrap_or_else(|error| told(&error).into());
            channel.send(&serde_json::to_vec(&reply).map_err(io::Error::from)?).await?;
            for shown in following {
                channel.send(&serde_json::to_vec(&shown).map_err(io::Error::from)?).await?;
            }
        }
    }

    async fn answer(
        &self,
        call: Call,
        channel: &mut Channel<BufReader<UnixStream>>,
    ) -> Result<Answered, Error> {
        let desk = &self.door.desk;
        let approver = &desk.approver;
        let reply = match call {
            Call::Pending => return approver.pending().await.map(requests),
            Call::Standing => return approver.standing().await.map(requests),
            Call::Sessions => Reply::Sessions { sessions: desk.book.rows() },
            Call::EndSession { id } => {
                desk.end_session(&id, agent("operator", "operator")).await?;
                Reply::Ended
            }
            Call::Change { path, before, after } => {
                approver.change(&path, &before, *after).await.map(|()| Reply::Kept)?
            }
            Call::Check { path } => {
                Reply::Checked { checked: approver.check(&desk.places, &path).await? }
            }
            Call::Give { path, occasion, given, value_bytes } => {
                let value = receive(channel, value_bytes).await?;
                approver.give(&path, occasion, given, value).await.map(|()| Reply::Kept)?
            }
            Call::TakeBack { id } => approver.take_back(&id).await.map(done)?,
            Call::Waiting { id } => approver.waiting(&id).await.map(done)?,
            Call::Answer { id, answer, value_bytes } => {
                let value = match value_bytes {
                    None => None,
                    Some(length) => Some(receive(channel, length).await?),
                };
                approver.answer(&id, answer, value).await.map(done)?
            }
            Call::OpenPage | Call::Secure { .. } => return Err(unreadable()),
        };
        Ok(reply.into())
    }
}

/// A value, which is sent only when it is asked for.
async fn receive(
    channel: &mut Channel<BufReader<UnixStream>>,
    length: usize,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    if length > MAX_VALUE_BYTES {
        let words = SafeText::words("a value has at most 65536 bytes");
        return Err(Error::with(Code::ValueRefused, words));
    }
    let lost = |_| Error::with(Code::BadRequest, SafeText::words("the value did not arrive"));
    let send = serde_json::to_vec(&Reply::Send).map_err(|_| Error::from(Code::Internal))?;
    channel.send(&send).await.map_err(lost)?;
    let value = channel.receive(length).await.map_err(lost)?;
    if value.len() == length { Ok(value) } else { Err(lost(ChannelError::TooLong)) }
}

async fn send_line(stream: &mut BufReader<UnixStream>, reply: &Reply) -> io::Result<()> {
    let mut text = serde_json::to_vec(reply)?;
    text.push(b'\n');
    stream.get_mut().write_all(&text).await
}

fn understood(message: &[u8]) -> Result<Call, Error> {
    serde_json::from_slice(message).map_err(|_| unreadable())
}

fn unreadable() -> Error {
    Error::with(Code::BadRequest, SafeText::words(UNREADABLE_CALL))
}

fn told(error: &Error) -> Reply {
    let detail = error.detail().as_str().to_owned();
    Reply::Error { code: error.code().as_str().to_owned(), detail }
}

fn requests(following: Vec<Shown>) -> Answered {
    Answered { reply: Reply::Requests { count: following.len() }, following }
}

impl From<Reply> for Answered {
    fn from(reply: Reply) -> Self {
        Self { reply, following: Vec::new() }
    }
}

fn done(request: Shown) -> Reply {
    Reply::Done { request: Box::new(request) }
}

#[cfg(test)]
mod tests {
    use keyless_core::{SecretPath, approval::Asked};

    use super::*;
    use crate::{
        operator::{ApproverHandle, Overview},
        places::Places,
        requests::Requests,
        scene::Scene,
        session_book::SessionBook,
        window::{Keeper, UnlockConfig},
    };

    /// An agent that asks for much keeps the operator from nothing.
    #[tokio::test]
    async fn however_much_waits_all_of_it_is_shown() {
        let Scene { vault, log, folder } = Scene::new().await;
        let places = Places::below(folder.path());
        let window = UnlockConfig::default().window(None).unwrap();
        let requests = Arc::new(Requests::new(&vault, log.clone()));
        let desk = Arc::new(Desk {
            requests: Arc::clone(&requests),
            approver: Arc::new(super::super::Approver::new(Arc::clone(&vault))),
            overview: Overview::with_log(Arc::clone(&vault), log.clone()),
            keeper: Arc::new(Keeper::new(Arc::clone(&vault), log.clone(), window)),
            book: Arc::<SessionBook>::default(),
            lock: Arc::default(),
            places: places.clone(),
            log: log.clone(),
            vault: Arc::clone(&vault),
        });
        let web = Arc::new(Web::new(Arc::clone(&desk)));
        let door = Arc::new(OperatorDoor { desk, web, voucher: vault.operator_voucher(), log });
        let socket = places.operator_socket();
        std::fs::create_dir_all(socket.parent().unwrap()).unwrap();
        tokio::spawn(door.serve(UnixListener::bind(&socket).unwrap()));

        let path = SecretPath::parse("team/a/key").unwrap();
        for number in 0..120 {
            let asked = Asked::use_approval("why ".repeat(2500));
            requests.put_as(number, "m-1", Some(path.clone()), asked).await;
        }
        let mut remote = ApproverHandle::open(&places, vault).await.unwrap();
        assert!(matches!(remote, ApproverHandle::Remote(_)));
        let shown = remote.pending().await.unwrap();
        assert_eq!(shown.len(), 120);
        assert!(serde_json::to_vec(&shown).unwrap().len() > MAX_LINE);
        // Nothing of it is left in the way of the next answer.
        assert_eq!(remote.standing().await.unwrap().len(), 0);
        assert_eq!(remote.sessions().await.unwrap().len(), 0);
    }
}
