//! The operator's side of `operator.sock`, and the choice between it and an own vault.

use std::{
    future::Future,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use data_encoding::HEXLOWER;
use keyless_client::{PATIENCE, connect_in_time, hangs_for, process_at};
use keyless_core::{ApproveOnUse, Code, Error, SafeText, SecretPath, approval::RequestId};
use keyless_vault::{Metadata, Vault, Voucher};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    time::timeout,
};
use zeroize::Zeroizing;

use super::{
    approver::Approver,
    channel::{Channel, ChannelError, Greeting},
    given::{Given, Occasion},
    messages::{Call, MAX_ANSWER, MAX_LINE, Reply},
    shown::{Answer, Shown},
};
use crate::{
    inventory::asked_at_least,
    liveness::Checked,
    places::Places,
    service::{UNREADABLE_CALL, while_it_answers},
    session_book::{SessionRow, not_open},
    sockets::told_error,
};

/// An approver, wherever it is.
pub enum ApproverHandle {
    /// In this process: no broker runs, and requests wait in the store.
    Local(Box<Approver>),
    /// At the broker, which tells those who wait at once.
    Remote(Box<RemoteApprover>),
}

/// How long a broker that is well takes at most for what it does by itself; its store may be another machine's.
const OWN_TIME: Duration = Duration::from_secs(30);

/// The channel to a broker that has opened the same vault.
pub struct RemoteApprover {
    /// None after an answer that did not come in time: it might be taken for the next one's.
    channel: Option<Channel<BufReader<UnixStream>>>,
    /// The process at the other end.
    process: Option<u64>,
    /// Where the same broker says how it is, while it is waited for.
    agent_socket: PathBuf,
}

impl ApproverHandle {
    /// The broker's, if there is one, else one in this process. `vault` is the proof of the factor.
    pub async fn open(places: &Places, vault: impl Into<Arc<Vault>>) -> Result<Self, Error> {
        let vault = vault.into();
        match connect_in_time(&places.operator_socket()).await {
            Ok(stream) => {
                let (voucher, agent_socket) = (vault.operator_voucher(), places.agent_socket());
                let remote = RemoteApprover::greet(stream, &voucher, agent_socket).await?;
                return Ok(Self::Remote(Box::new(remote)));
            }
            // It is there, and takes no connection any more.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(lost(&error)),
            Err(_) => {}
        }
        let approver = Approver::new(vault).checking(places);
        // A file that can't be read keeps nobody from an answer; whoever opens a broker by it is told.
        let floor = asked_at_least(places).unwrap_or(ApproveOnUse::Never);
        Ok(Self::Local(Box::new(approver.asking_at_least(floor))))
    }

    /// The requests that wait, oldest first.
    pub async fn pending(&mut self) -> Result<Vec<Shown>, Error> {
        match self {
            Self::Local(approver) => approver.pending().await,
            Self::Remote(remote) => remote.requests(&Call::Pending).await,
        }
    }

    /// One request that waits. Otherwise the error says what became of it, and what can still be done.
    pub async fn waiting(&mut self, id: &RequestId) -> Result<Shown, Error> {
        match self {
            Self::Local(approver) => approver.waiting(id).await,
            Self::Remote(remote) => done(remote.call(&Call::Waiting { id: id.clone() }).await?),
        }
    }

    /// Approvals that hold, and denials that are remembered.
    pub async fn standing(&mut self) -> Result<Vec<Shown>, Error> {
        match self {
            Self::Local(approver) => approver.standing().await,
            Self::Remote(remote) => remote.requests(&Call::Standing).await,
        }
    }

    /// Applies an answer and records it.
    pub async fn answer(
        &mut self,
        id: &RequestId,
        answer: Answer,
        value: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<Shown, Error> {
        match self {
            Self::Local(approver) => approver.answer(id, answer, value).await,
            Self::Remote(remote) => remote.answer(id, answer, value).await,
        }
    }

    /// Gives a secret a value that no agent has asked for. [`Code::StateUnfit`] when a first value would overwrite one,
    /// [`Code::SecretExists`] when a new secret is there already.
    pub async fn give(
        &mut self,
        path: &SecretPath,
        occasion: Occasion,
        given: Given,
        value: Zeroizing<Vec<u8>>,
    ) -> Result<(), Error> {
        match self {
            Self::Local(approver) => approver.give(path, occasion, given, value).await,
            Self::Remote(remote) => {
                let (path, value_bytes) = (path.clone(), value.len());
                let call = Call::Give { path, occasion, given, value_bytes };
                kept(&remote.call_with(&call, Some(value)).await?)
            }
        }
    }

    /// Puts `after` in place of a secret's metadata, which was `before` when it was shown. [`Code::ChangedMeanwhile`] when somebody
    /// changed it meanwhile.
    pub async fn change(
        &mut self,
        path: &SecretPath,
        before: Metadata,
        after: Metadata,
    ) -> Result<(), Error> {
        match self {
            Self::Local(approver) => approver.change(path, &before, after).await,
            Self::Remote(remote) => {
                let (before, after) = (Box::new(before), Box::new(after));
                let call = Call::Change { path: path.clone(), before, after };
                kept(&remote.call(&call).await?)
            }
        }
    }

    /// Asks the service of a secret whether it takes its value.
    pub async fn check(&mut self, places: &Places, path: &SecretPath) -> Result<Checked, Error> {
        match self {
            Self::Local(approver) => approver.check(places, path).await,
            Self::Remote(remote) => match remote.call(&Call::Check { path: path.clone() }).await? {
                Reply::Checked { checked } => Ok(checked),
                _ => Err(unexpected()),
            },
        }
    }

    /// The open sessions, the newest first. Without a broker there is none.
    pub async fn sessions(&mut self) -> Result<Vec<SessionRow>, Error> {
        match self {
            Self::Local(_) => Ok(Vec::new()),
            Self::Remote(remote) => match remote.call(&Call::Sessions).await? {
                Reply::Sessions { sessions } => Ok(sessions),
                _ => Err(unexpected()),
            },
        }
    }

    /// Ends a session: its connections break at once, and what was approved for it is over.
    /// [`Code::SessionEnded`] when none of that name is open.
    pub async fn end_session(&mut self, id: &str) -> Result<(), Error> {
        match self {
            Self::Local(_) => Err(not_open()),
            Self::Remote(remote) => {
                match remote.call(&Call::EndSession { id: id.to_owned() }).await? {
                    Reply::Ended => Ok(()),
                    _ => Err(unexpected()),
                }
            }
        }
    }

    /// Revokes an approval, or lifts a denial.
    pub async fn take_back(&mut self, id: &RequestId) -> Result<Shown, Error> {
        match self {
            // What this process knows ends with it, so that nothing has been taken back.
            Self::Local(approver) => approver.take_back(id).await.map_err(|error| {
                let is_unwritten = error.code() == Code::TakenBackUnwritten;
                let why = || Error::with(Code::StoreUnusable, error.detail().clone());
                if is_unwritten { why() } else { error }
            }),
            Self::Remote(remote) => done(remote.call(&Call::TakeBack { id: id.clone() }).await?),
        }
    }
}

impl RemoteApprover {
    /// Proves the factor to the broker, and has it prove that it has the same vault open.
    async fn greet(
        stream: UnixStream,
        voucher: &Voucher,
        agent_socket: PathBuf,
    ) -> Result<Self, Error> {
        let process = process_at(&stream);
        let mut stream = BufReader::new(stream);
        let (greeting, word) = Greeting::new(voucher).map_err(not_its)?;
        let word = HEXLOWER.encode(&word);
        let Reply::Secured { word } = ask_plainly(&mut stream, &Call::Secure { word }).await?
        else {
            return Err(unexpected());
        };
        let word = HEXLOWER.decode(word.as_bytes()).map_err(|_| unexpected())?;
        let channel = Some(greeting.channel(&word, stream).map_err(not_its)?);
        Ok(Self { channel, process, agent_socket })
    }

    async fn requests(&mut self, call: &Call) -> Result<Vec<Shown>, Error> {
        let Reply::Requests { count } = self.call(call).await? else { return Err(unexpected()) };
        let mut requests = Vec::new();
        for _ in 0..count {
            let message = self.exchange(None, longest(call)).await?;
            requests.push(serde_json::from_slice(&message).map_err(|_| unexpected())?);
        }
        Ok(requests)
    }

    async fn answer(
        &mut self,
        id: &RequestId,
        answer: Answer,
        value: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<Shown, Error> {
        let value_bytes = value.as_ref().map(|value| value.len());
        done(self.call_with(&Call::Answer { id: id.clone(), answer, value_bytes }, value).await?)
    }

    /// A call that a value belongs to: its bytes go when they are asked for, and never in a message.
    async fn call_with(
        &mut self,
        call: &Call,
        value: Option<Zeroizing<Vec<u8>>>,
    ) -> Result<Reply, Error> {
        match (self.call(call).await?, value) {
            (Reply::Send, Some(value)) => {
                understood(&self.exchange(Some(&value), longest(call)).await?)
            }
            (reply, _) => Ok(reply),
        }
    }

    async fn call(&mut self, call: &Call) -> Result<Reply, Error> {
        let said = serde_json::to_vec(call).map_err(|_| unexpected())?;
        understood(&self.exchange(Some(&said), longest(call)).await?)
    }

    /// Says this, if anything, and gives the next message. [`Code::BrokerHangs`] where none comes in so much time, or the
    /// broker does not even say how it is.
    async fn exchange(
        &mut self,
        said: Option<&[u8]>,
        longest: Option<Duration>,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let mut channel = self.channel.take().ok_or(Code::BrokerNotRunning)?;
        let exchanged = async {
            if let Some(said) = said {
                channel.send(said).await.map_err(not_its)?;
            }
            channel.receive(MAX_ANSWER).await.map_err(not_its)
        };
        let answered = while_it_answers(&self.agent_socket, exchanged);
        let message = match longest {
            Some(longest) => within(longest, self.process, answered).await?,
            None => answered.await?,
        };
        self.channel = Some(channel);
        Ok(message)
    }
}

/// How long the answer may take; as long as it does where a source or a service is asked.
fn longest(call: &Call) -> Option<Duration> {
    match call {
        // Two of them wait for their turn behind the others.
        Call::Answer { .. }
        | Call::Change { .. }
        | Call::Check { .. }
        | Call::Give { .. }
        | Call::TakeBack { .. } => None,
        Call::EndSession { .. }
        | Call::OpenPage
        | Call::Pending
        | Call::Secure { .. }
        | Call::Sessions
        | Call::Standing
        | Call::Waiting { .. } => Some(OWN_TIME),
    }
}

/// What comes in time; [`Code::BrokerHangs`] with the process otherwise.
async fn within<T>(
    longest: Duration,
    process: Option<u64>,
    coming: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout(longest, coming).await.unwrap_or_else(|_| Err(hangs_for(longest, process)))
}

/// A call before the channel is open, which nobody who is well takes long to answer.
async fn ask_plainly(stream: &mut BufReader<UnixStream>, call: &Call) -> Result<Reply, Error> {
    let process = process_at(stream.get_ref());
    within(PATIENCE, process, exchange_plainly(stream, call)).await
}

async fn exchange_plainly(stream: &mut BufReader<UnixStream>, call: &Call) -> Result<Reply, Error> {
    let mut line = serde_json::to_vec(call).map_err(|_| unexpected())?;
    line.push(b'\n');
    stream.get_mut().write_all(&line).await.map_err(|error| lost(&error))?;
    let mut line = Vec::new();
    stream
        .take(MAX_LINE as u64)
        .read_until(b'\n', &mut line)
        .await
        .map_err(|error| lost(&error))?;
    // One that broke off is no word of another version's: what is done about that would end every session.
    if line.ends_with(b"\n") { understood(&line) } else { Err(Code::BrokerNotRunning.into()) }
}

fn understood(answer: &[u8]) -> Result<Reply, Error> {
    match serde_json::from_slice(answer) {
        Ok(Reply::Error { detail, .. }) if detail == UNREADABLE_CALL => Err(unexpected()),
        Ok(Reply::Error { code, detail }) => Err(told_error(&code, &detail)),
        Ok(reply) => Ok(reply),
        Err(_) => Err(unexpected()),
    }
}

/// A link to the broker's page, and for how many seconds it is good; [`Code::BrokerNotRunning`] when
/// there is no broker.
pub async fn page_link(socket: &Path) -> Result<(String, u64), Error> {
    let stream = connect_in_time(socket).await.map_err(|error| lost(&error))?;
    match ask_plainly(&mut BufReader::new(stream), &Call::OpenPage).await? {
        Reply::Page { url, seconds } => Ok((url, seconds)),
        _ => Err(unexpected()),
    }
}

fn done(reply: Reply) -> Result<Shown, Error> {
    match reply {
        Reply::Done { request } => Ok(*request),
        _ => Err(unexpected()),
    }
}

fn kept(reply: &Reply) -> Result<(), Error> {
    match reply {
        Reply::Kept => Ok(()),
        _ => Err(unexpected()),
    }
}

fn lost(error: &io::Error) -> Error {
    match error.kind() {
        // Those that wait for who takes no connection any more have filled its queue.
        io::ErrorKind::WouldBlock => hangs_for(PATIENCE, None),
        _ => Code::BrokerNotRunning.into(),
    }
}

/// Why the channel does not go on.
fn not_its(error: ChannelError) -> Error {
    match error {
        ChannelError::Broken => Code::BrokerNotRunning.into(),
        ChannelError::TooLong => {
            let words = SafeText::words("the broker's answer is longer than 16 MiB");
            Error::with(Code::Internal, words)
        }
        ChannelError::Unproven => Code::BrokerUnproven.into(),
    }
}

fn unexpected() -> Error {
    let words = "it does not understand this keyless, or this keyless does not understand it";
    Error::with(Code::BrokerOutdated, SafeText::words(words))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{operator::channel::answered, scene::Scene};

    /// Someone who has the vault open and answers, to whatever he is asked, this.
    async fn answering(voucher: Voucher, stream: UnixStream, answers: Vec<Vec<u8>>) {
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        let Call::Secure { word } = serde_json::from_str(&line).unwrap() else { panic!("{line}") };
        let word = HEXLOWER.decode(word.as_bytes()).unwrap();
        let (word, noise) = answered(&voucher, &word).unwrap();
        let secured = Reply::Secured { word: HEXLOWER.encode(&word) };
        let line = serde_json::to_string(&secured).unwrap() + "\n";
        stream.get_mut().write_all(line.as_bytes()).await.unwrap();
        let mut channel = noise.over(stream);
        channel.receive(MAX_LINE).await.unwrap();
        for answer in answers {
            let _ = channel.send(&answer).await;
        }
    }

    /// A value typed for it would be his.
    #[tokio::test]
    async fn who_has_not_opened_the_vault_is_told_nothing() {
        let (scene, other) = (Scene::new().await, Scene::new().await);
        let word = HEXLOWER.encode(&[7; 48]);
        for (answer, code) in
            [(Reply::Secured { word }, Code::BrokerUnproven), (Reply::Kept, Code::BrokerOutdated)]
        {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let fake = tokio::spawn(async move {
                let mut stream = BufReader::new(theirs);
                let (mut heard, mut more) = (String::new(), Vec::new());
                stream.read_line(&mut heard).await.unwrap();
                let line = serde_json::to_string(&answer).unwrap() + "\n";
                stream.get_mut().write_all(line.as_bytes()).await.unwrap();
                stream.read_to_end(&mut more).await.unwrap();
                more
            });
            let refused =
                RemoteApprover::greet(ours, &scene.vault.operator_voucher(), PathBuf::new()).await;
            assert_eq!(refused.err().unwrap().code(), code);
            assert_eq!(fake.await.unwrap(), b"", "not a byte after the first word");
        }
        // One who has another vault open does not even understand the first word.
        let (_, word) = Greeting::new(&scene.vault.operator_voucher()).unwrap();
        assert!(answered(&other.vault.operator_voucher(), &word).is_err());
    }

    /// What is done about an outdated broker ends every session.
    #[tokio::test]
    async fn an_answer_that_is_torn_is_not_of_another_version() {
        let scene = Scene::new().await;
        let requests = |count| serde_json::to_vec(&Reply::Requests { count }).unwrap();
        for (answers, code) in [
            (vec![], Code::BrokerNotRunning),
            (vec![requests(1)], Code::BrokerNotRunning),
            (vec![b"{\"reply\":\"something new\"}".to_vec()], Code::BrokerOutdated),
        ] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let voucher = scene.vault.operator_voucher();
            let broker = tokio::spawn(answering(voucher, theirs, answers));
            let voucher = scene.vault.operator_voucher();
            let mut remote = RemoteApprover::greet(ours, &voucher, PathBuf::new()).await.unwrap();
            let heard = remote.requests(&Call::Pending).await;
            assert_eq!(heard.unwrap_err().code(), code);
            broker.abort();
        }
    }
}
