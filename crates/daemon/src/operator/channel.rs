//! The channel of `operator.sock`, once the factor is proven.
//!
//! A Noise handshake, `NNpsk0` (The Noise Protocol Framework, revision 34, section 9), whose key both ends have from
//! the vault: each proves to the other that it has opened it, the factor itself never travels, and whoever stands
//! between them, on a socket of his own say, reads nothing and can neither change nor add a word.

use std::io;

use keyless_vault::Voucher;
use snow::{
    Builder, TransportState,
    params::{CipherChoice, DHChoice, HashChoice},
    resolvers::{CryptoResolver, DefaultResolver},
    types::{Cipher, Dh, Hash, Random},
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

use crate::broker::fill_random;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_SHA256";
/// What the key is for, and which form of the channel this is.
const PURPOSE: &str = "keyless operator channel 1";
/// The most bytes of one of Noise's messages, and how many of those are its tag.
const LARGEST: usize = 65535;
const TAG: usize = 16;
/// Stands before a message's part: another follows, or it is the last.
const MORE: u8 = 1;
const LAST: u8 = 0;

/// Why a channel does not go on.
#[derive(Clone, Copy, Debug)]
pub(super) enum ChannelError {
    /// The connection ended.
    Broken,
    /// A message is larger than it may be.
    TooLong,
    /// The other end has not the key, or somebody has changed what it said.
    Unproven,
}

impl From<io::Error> for ChannelError {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

/// The end of the channel.
#[derive(Clone, Copy)]
enum Side {
    Operator,
    Broker,
}

/// What an operator's program has said first, and waits for.
pub(super) struct Greeting(snow::HandshakeState);

/// What a broker has answered, before it goes on.
pub(super) struct Answering(TransportState);

/// One end of the channel between an operator's program and the broker.
pub(super) struct Channel<S> {
    stream: S,
    noise: TransportState,
}

impl Greeting {
    /// Gives the first word, for the broker.
    pub(super) fn new(voucher: &Voucher) -> Result<(Self, Vec<u8>), ChannelError> {
        let mut noise = handshake(voucher, Side::Operator)?;
        let word = next_word(&mut noise)?;
        Ok((Self(noise), word))
    }

    /// Takes the broker's answer, if it has opened the same vault.
    pub(super) fn channel<S>(
        mut self,
        answer: &[u8],
        stream: S,
    ) -> Result<Channel<S>, ChannelError> {
        read_word(&mut self.0, answer)?;
        Ok(Channel { stream, noise: self.0.into_transport_mode().map_err(unproven)? })
    }
}

/// The broker's answer to a first word. Who only repeats a word that he has heard gets so far, and no message of his can be
/// read.
pub(super) fn answered(
    voucher: &Voucher,
    word: &[u8],
) -> Result<(Vec<u8>, Answering), ChannelError> {
    let mut noise = handshake(voucher, Side::Broker)?;
    read_word(&mut noise, word)?;
    let answer = next_word(&mut noise)?;
    Ok((answer, Answering(noise.into_transport_mode().map_err(unproven)?)))
}

impl Answering {
    /// The broker's end, over the connection that the words went over.
    pub(super) fn over<S>(self, stream: S) -> Channel<S> {
        Channel { stream, noise: self.0 }
    }
}

fn handshake(voucher: &Voucher, side: Side) -> Result<snow::HandshakeState, ChannelError> {
    let key = voucher.shared_key(PURPOSE);
    let pattern = PATTERN.parse().map_err(unproven)?;
    let builder = Builder::with_resolver(pattern, Box::new(Primitives));
    let builder = builder.psk(0, &key).map_err(unproven)?;
    let built = match side {
        Side::Operator => builder.build_initiator(),
        Side::Broker => builder.build_responder(),
    };
    built.map_err(unproven)
}

/// snow's own, but for random numbers: those come from where all others here do.
struct Primitives;

impl CryptoResolver for Primitives {
    fn resolve_rng(&self) -> Option<Box<dyn Random>> {
        Some(Box::new(SystemRandom))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
        DefaultResolver.resolve_dh(choice)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
        DefaultResolver.resolve_hash(choice)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
        DefaultResolver.resolve_cipher(choice)
    }
}

struct SystemRandom;

impl Random for SystemRandom {
    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), snow::Error> {
        fill_random(bytes).map_err(|_| snow::Error::Rng)
    }
}

fn next_word(noise: &mut snow::HandshakeState) -> Result<Vec<u8>, ChannelError> {
    let mut word = vec![0; 128];
    let length = noise.write_message(&[], &mut word).map_err(unproven)?;
    word.truncate(length);
    Ok(word)
}

fn read_word(noise: &mut snow::HandshakeState, word: &[u8]) -> Result<(), ChannelError> {
    let mut nothing = [0; 128];
    noise.read_message(word, &mut nothing).map(drop).map_err(unproven)
}

fn unproven(_: snow::Error) -> ChannelError {
    ChannelError::Unproven
}

impl<S: AsyncRead + AsyncWrite + Unpin> Channel<S> {
    /// Sends one message.
    pub(super) async fn send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        let mut parts = message.chunks(LARGEST - TAG - 1).peekable();
        // A message without a byte is a part all the same.
        let mut next = parts.next().unwrap_or_default();
        loop {
            let mark = if parts.peek().is_some() { MORE } else { LAST };
            let part = Zeroizing::new([&[mark], next].concat());
            let mut sealed = vec![0; 2 + part.len() + TAG];
            let length = self.noise.write_message(&part, &mut sealed[2..]).map_err(unproven)?;
            let bytes = u16::try_from(length).map_err(|_| ChannelError::Unproven)?;
            sealed[..2].copy_from_slice(&bytes.to_be_bytes());
            self.stream.write_all(&sealed).await?;
            match parts.next() {
                Some(part) => next = part,
                None => return Ok(()),
            }
        }
    }

    /// The next message, of at most so many bytes, in memory that is wiped.
    pub(super) async fn receive(
        &mut self,
        most: usize,
    ) -> Result<Zeroizing<Vec<u8>>, ChannelError> {
        // As large as it may become from the start: a buffer that grows leaves copies behind.
        let mut message = Zeroizing::new(Vec::with_capacity(most.min(LARGEST)));
        loop {
            let length = usize::from(self.stream.read_u16().await?);
            let mut sealed = vec![0; length];
            self.stream.read_exact(&mut sealed).await?;
            let mut part = Zeroizing::new(vec![0; length]);
            let length = self.noise.read_message(&sealed, &mut part).map_err(unproven)?;
            let (mark, part) = part[..length].split_first().ok_or(ChannelError::Unproven)?;
            if message.len() + part.len() > most {
                return Err(ChannelError::TooLong);
            }
            message = grown(message, part);
            if *mark == LAST {
                return Ok(message);
            }
        }
    }
}

/// `message` with more behind it, and no copy left where it was.
fn grown(mut message: Zeroizing<Vec<u8>>, part: &[u8]) -> Zeroizing<Vec<u8>> {
    if message.capacity() - message.len() < part.len() {
        let mut larger = Zeroizing::new(Vec::with_capacity(2 * (message.len() + part.len())));
        larger.extend_from_slice(&message);
        message = larger;
    }
    message.extend_from_slice(part);
    message
}

#[cfg(test)]
mod tests {
    use tokio::io::{DuplexStream, duplex};

    use super::*;
    use crate::scene::Scene;

    /// An operator's end and a broker's, over what somebody between them has in hand.
    fn ends(scene: &Scene) -> (Channel<DuplexStream>, Channel<DuplexStream>, [DuplexStream; 2]) {
        let voucher = scene.vault.operator_voucher();
        let (ours, between_us) = duplex(1 << 20);
        let (theirs, between_them) = duplex(1 << 20);
        let (greeting, word) = Greeting::new(&voucher).unwrap();
        let (word, noise) = answered(&voucher, &word).unwrap();
        (greeting.channel(&word, ours).unwrap(), noise.over(theirs), [between_us, between_them])
    }

    /// Takes one sealed part off a stream.
    async fn part(stream: &mut DuplexStream) -> Vec<u8> {
        let mut part = vec![0; 2];
        stream.read_exact(&mut part).await.unwrap();
        part.resize(2 + usize::from(u16::from_be_bytes([part[0], part[1]])), 0);
        stream.read_exact(&mut part[2..]).await.unwrap();
        part
    }

    #[tokio::test]
    async fn messages_of_every_length_arrive_and_none_is_readable_between() {
        let scene = Scene::new().await;
        let (mut ours, mut theirs, [mut here, mut there]) = ends(&scene);
        let whole = LARGEST - TAG - 1;
        for length in [0, 1, whole - 1, whole, whole + 1, 3 * whole] {
            let message: Vec<u8> = b"SENTINEL".iter().copied().cycle().take(length).collect();
            ours.send(&message).await.unwrap();
            for _ in 0..length.div_ceil(whole).max(1) {
                let part = part(&mut here).await;
                assert!(!part.windows(8).any(|bytes| bytes == b"SENTINEL"));
                there.write_all(&part).await.unwrap();
            }
            assert_eq!(*theirs.receive(length).await.unwrap(), message);
        }
        ours.send(b"more than wanted").await.unwrap();
        there.write_all(&part(&mut here).await).await.unwrap();
        assert!(matches!(theirs.receive(15).await, Err(ChannelError::TooLong)));
    }

    /// Neither a word that was changed, nor one that was said before, nor one of his own.
    #[tokio::test]
    async fn who_stands_between_can_add_nothing() {
        let scene = Scene::new().await;
        let (mut ours, mut theirs, [mut here, mut there]) = ends(&scene);
        ours.send(b"one").await.unwrap();
        let said = part(&mut here).await;
        there.write_all(&said).await.unwrap();
        assert_eq!(theirs.receive(9).await.unwrap().as_slice(), b"one");
        there.write_all(&said).await.unwrap();
        assert!(matches!(theirs.receive(9).await, Err(ChannelError::Unproven)), "said again");

        let (mut ours, mut theirs, [mut here, mut there]) = ends(&scene);
        ours.send(b"one").await.unwrap();
        let mut said = part(&mut here).await;
        *said.last_mut().unwrap() ^= 1;
        there.write_all(&said).await.unwrap();
        assert!(matches!(theirs.receive(9).await, Err(ChannelError::Unproven)), "changed");

        // He repeats a first word, and is answered; what he says then he can't seal.
        let voucher = scene.vault.operator_voucher();
        let (_, word) = Greeting::new(&voucher).unwrap();
        for _ in 0..2 {
            let (mut his, broker) = duplex(1024);
            let mut channel = answered(&voucher, &word).unwrap().1.over(broker);
            his.write_all(&said).await.unwrap();
            assert!(matches!(channel.receive(9).await, Err(ChannelError::Unproven)));
        }
    }
}
