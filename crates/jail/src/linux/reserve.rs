//! Jails that stand before they are needed: an action then waits for its command, not for namespaces and mounts.
//!
//! A jail of the reserve is as fresh as any: it has done no job, it gets one, and goes with it. It holds no value, since
//! all that is one command's own comes with the job. What it was built by and over is compared when it is taken: another
//! list of what to hide (the configuration changed), or a host that looks different (a file that is covered was
//! replaced, a socket has come, something was mounted) makes it useless, and it is taken down.
//!
//! Only jails that can't change the host's files are kept; what they see of them depends on the job in nothing. So a
//! caller that has to wait for something else before its command can begin may have the host looked at meanwhile.

use std::{
    mem,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    linux::{
        mounts::sight::Sight,
        orders::{Ground, Purpose},
        spawn::ways_out_of_caller,
        standing::{Origin, Standing},
    },
    outcome::{JailError, Jailed, Streams},
    plan::Plan,
};

/// The jails that one process makes for detached commands; they end with it.
#[derive(Debug)]
pub struct Reserve {
    spare: usize,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    ready: Vec<Ready>,
    /// What the last command was given, so what the next is likely to need, and the look by which it was.
    wanted: Option<(Ground, Look)>,
    is_filling: bool,
}

/// What a jail for a command must be like, and what of the host mattered to that a moment ago.
#[derive(Debug)]
pub struct Outlook {
    ground: Ground,
    look: Look,
}

/// A look at the host, for a moment as good as another.
#[derive(Clone, Debug)]
struct Look {
    sight: Sight,
    begun: Instant,
}

#[derive(Debug)]
struct Ready {
    standing: Standing,
    ground: Ground,
    sight: Sight,
    since: Instant,
}

impl Reserve {
    /// How old a look at the host may be when a jail is taken or made by it; after that it is looked at again.
    pub const FRESH: Duration = Duration::from_millis(50);

    /// Keeps at most so many standing; with none every command waits for a jail to be built.
    pub fn keeping(spare: usize) -> Self {
        Self { spare, kept: Mutex::default() }
    }

    /// Looks at the host for a command that will come at once, of which all is known that a jail is built by. `None`
    /// where no jail stands for such a command.
    pub fn look(&self, plan: &Plan) -> Option<Outlook> {
        if self.spare == 0 {
            return None;
        }
        let ground = Ground::new(Purpose::Run, plan, ways_out_of_caller());
        let look = Look::at(&ground)?;
        Some(Outlook { ground, look })
    }

    /// As [`crate::spawn`], but the command has these streams, a session of its own and no terminal; in a jail that
    /// stands already, if there is one for it. The host is not looked at if the caller just has, for this command.
    pub fn spawn_detached(
        &self,
        plan: &Plan,
        streams: Streams,
        outlook: Option<Outlook>,
    ) -> Result<Jailed, JailError> {
        let ground = Ground::new(Purpose::Run, plan, ways_out_of_caller());
        let fits = |outlook: &Outlook| outlook.look.is_fresh() && outlook.ground.is_alike(&ground);
        let seen = outlook.filter(fits).map(|outlook| outlook.look);
        // One that has gone meanwhile takes no job.
        let ready =
            self.take(&ground, seen).filter(|ready| ready.hand(plan, Some(&streams)).is_ok());
        let standing = if let Some(ready) = ready {
            ready
        } else {
            let new = Standing::make(&ground, Origin::Keeper)?;
            new.hand(plan, Some(&streams)).map_err(JailError::Start)?;
            new
        };
        // The jail has its own copies of the streams.
        drop(streams);
        standing.begin(plan, None)
    }

    /// Makes jails like the last, until enough of them stand. Blocks meanwhile, unless another thread is at it.
    pub fn refill(&self) {
        let mut kept = self.lock();
        if mem::replace(&mut kept.is_filling, true) {
            return;
        }
        while let Some((ground, look)) =
            kept.wanted.clone().filter(|_| kept.ready.len() < self.spare)
        {
            drop(kept);
            let made = Ready::make(ground, look);
            kept = self.lock();
            match made {
                Some(ready) => kept.ready.push(ready),
                // The next command says what is wrong.
                None => break,
            }
        }
        kept.is_filling = false;
    }

    /// How many stand now.
    pub fn ready(&self) -> usize {
        self.lock().ready.len()
    }

    /// Takes down what nobody has needed for so long.
    pub fn drop_idle(&self, longest: Duration) {
        self.lock().ready.retain(|ready| ready.since.elapsed() < longest);
    }

    /// One that is what would be built now, the longest standing of those that expect such a job; all others that
    /// are not are taken down.
    fn take(&self, ground: &Ground, seen: Option<Look>) -> Option<Standing> {
        if self.spare == 0 {
            return None;
        }
        let look = seen.or_else(|| Look::at(ground))?;
        let mut kept = self.lock();
        kept.ready.retain(|ready| ready.ground.is_alike(ground) && ready.sight == look.sight);
        kept.wanted = Some((ground.clone(), look));
        let expects_this = |ready: &Ready| ready.ground.expects_ca == ground.expects_ca;
        let best = kept.ready.iter().position(expects_this).unwrap_or(0);
        (!kept.ready.is_empty()).then(|| kept.ready.remove(best).standing)
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Look {
    /// Looks now; `None` as for [`Sight::of`].
    fn at(ground: &Ground) -> Option<Self> {
        let begun = Instant::now();
        Some(Self { sight: Sight::of(ground)?, begun })
    }

    fn is_fresh(&self) -> bool {
        self.begun.elapsed() < Reserve::FRESH
    }
}

impl Ready {
    fn make(ground: Ground, look: Look) -> Option<Self> {
        // From before the jail is built: what changes from here on is seen when it is taken.
        let look = if look.is_fresh() { look } else { Look::at(&ground)? };
        let sight = look.sight;
        let standing = Standing::make(&ground, Origin::Keeper).ok()?;
        Some(Self { standing, ground, sight, since: Instant::now() })
    }
}
