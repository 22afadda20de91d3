//! The broker's side of `operator.sock`.
//!
//! A connection is nobody's until it has proven the factor: whoever opened the same vault elsewhere, by
//! passphrase or phrase, seals a challenge with a key of that vault. So the factor itself never travels, and a
//! process of the same account that connects gets no further than a refusal, which is on record.

use std::{mem, sync::Arc, time::Duration};

use data_encoding::HEXLOWER;
use keyless_core::{
    Code, Error, SafeText,
    audit::{Action, Draft, Outcome, Target},
};
use keyless_store::AuditLog;
use keyless_vault::{MAX_VALUE_BYTES, Moment, Voucher};
use serde::Serialize;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{UnixListener, UnixStream},
};
use zeroize::Zeroizing;

use super::{
    messages::{Call, MAX_LINE, Reply},
    shown::Shown,
};
use crate::{
    broker::{Broker, agent, fill_random, plain_entry},
    seats::{Seat, Seats},
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
        loop {
            let stream = next_own(&listener).await;
            let taken = seats.wait(process_of(&stream)).await;
            let stream = BufReader::new(stream);
            let door = Arc::clone(&self);
            tokio::spawn(async move {
                let (nonce, proven, seat) = (None, None, taken.seat());
                let (door, following) = (&*door, Vec::new());
                let conversation = Conversation { door, stream, nonce, proven, seat, following };
                tokio::select! {
                    // A connection that breaks off has nobody to tell.
                    _ = conversation.run() => {}
                    () = taken.wanted() => {}
                }
            });
        }
    }

    async fn record_refusal(&self) -> Result<(), Error> {
        let draft = Draft {
            error_code: Some(Code::OperatorRequired),
            ..plain_entry(
                agent("operator", "unproven"),
                Action::Denied,
                Outcome::Denied,
                Target::Connection,
            )
        };
        self.log.append(draft).await.map(drop)
    }
}

struct Conversation<'a> {
    door: &'a OperatorDoor,
    stream: BufReader<UnixStream>,
    nonce: Option<[u8; 32]>,
    proven: Option<Moment>,
    seat: Arc<Seat>,
    /// What goes after the reply, a line each.
    following: Vec<Shown>,
}

impl Conversation<'_> {
    async fn run(mut self) -> std::io::Result<()> {
        loop {
            let mut line = Vec::new();
            let mut limited = (&mut self.stream).take(MAX_LINE as u64);
            limited.read_until(b'\n', &mut line).await?;
            if !line.ends_with(b"\n") {
                return Ok(());
            }
            let under_way = self.seat.begin();
            let reply = match serde_json::from_slice(&line) {
                Ok(call) => self.answer(call).await,
                Err(_) => Err(Error::with(Code::BadRequest, SafeText::words(UNREADABLE_CALL))),
            };
            drop(under_way);
            let reply = reply.unwrap_or_else(|error| Reply::Error {
                code: error.code().as_str().to_owned(),
                detail: error.detail().as_str().to_owned(),
            });
            self.send(&reply).await?;
            for shown in mem::take(&mut self.following) {
                self.send(&shown).await?;
            }
        }
    }

    async fn answer(&mut self, call: Call) -> Result<Reply, Error> {
        let desk = &self.door.desk;
        let approver = &desk.approver;
        match call {
            Call::Challenge => {
                let mut nonce = [0; 32];
                fill_random(&mut nonce)?;
                self.nonce = Some(nonce);
                Ok(Reply::Challenge { nonce: HEXLOWER.encode(&nonce) })
            }
            Call::Prove { proof } => return self.prove(&proof).await,
            // It leads to a page that asks for the factor itself.
            Call::OpenPage => {
                let link = self.door.web.link().await?;
                Ok(Reply::Page { url: link.url, seconds: link.life.as_secs() })
            }
            _ if !self.is_proven() => {
                self.door.record_refusal().await?;
                Err(Code::OperatorRequired.into())
            }
            Call::Pending => {
                self.following = approver.pending().await?;
                Ok(Reply::Requests { count: self.following.len() })
            }
            Call::Standing => {
                self.following = approver.standing().await?;
                Ok(Reply::Requests { count: self.following.len() })
            }
            Call::Sessions => Ok(Reply::Sessions { sessions: desk.book.rows() }),
            Call::EndSession { id } => {
                desk.end_session(&id, agent("operator", "operator")).await?;
                Ok(Reply::Ended)
            }
            Call::Change { path, before, after } => {
                approver.change(&path, &before, *after).await.map(|()| Reply::Kept)
            }
            Call::Check { path } => {
                approver.check(&desk.places, &path).await.map(|checked| Reply::Checked { checked })
            }
            Call::Give { path, occasion, given, value_bytes } => {
                let value = self.receive(value_bytes).await?;
                approver.give(&path, occasion, given, value).await.map(|()| Reply::Kept)
            }
            Call::TakeBack { id } => approver.take_back(&id).await.map(done),
            Call::Waiting { id } => approver.waiting(&id).await.map(done),
            Call::Answer { id, answer, value_bytes } => {
                let value = match value_bytes {
                    None => None,
                    Some(length) => Some(self.receive(length).await?),
                };
                approver.answer(&id, answer, value).await.map(done)
            }
        }
    }

    async fn prove(&mut self, proof: &str) -> Result<Reply, Error> {
        // Each challenge is good for one try.
        let nonce = self.nonce.take();
        let proof = HEXLOWER.decode(proof.as_bytes()).unwrap_or_default();
        if nonce.is_some_and(|nonce| self.door.voucher.fits(&nonce, &proof)) {
            self.proven = Some(Moment::now());
            self.seat.is_operators();
            return Ok(Reply::Proven);
        }
        self.door.record_refusal().await?;
        Err(Code::OperatorRequired.into())
    }

    fn is_proven(&self) -> bool {
        self.proven.is_some_and(|since| since.elapsed() < PROOF_LIFE)
    }

    /// The bytes of a value, straight into a buffer that is wiped: they are sent only when asked
    /// for, so none of them is in the line reader's own buffer.
    async fn receive(&mut self, length: usize) -> Result<Zeroizing<Vec<u8>>, Error> {
        if length > MAX_VALUE_BYTES || !self.stream.buffer().is_empty() {
            let words = SafeText::words("a value has at most 65536 bytes");
            return Err(Error::with(Code::ValueRefused, words));
        }
        let lost = |_| Error::with(Code::BadRequest, SafeText::words("the value did not arrive"));
        self.send(&Reply::Send).await.map_err(lost)?;
        let mut value = Zeroizing::new(vec![0; length]);
        self.stream.get_mut().read_exact(&mut value).await.map_err(lost)?;
        Ok(value)
    }

    async fn send(&mut self, line: &impl Serialize) -> std::io::Result<()> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.stream.get_mut().write_all(&text).await
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
            let asked =
                Asked::UseApproval { reason: "why ".repeat(2500), deed: None, per_call: false };
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
