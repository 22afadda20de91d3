//! Properties of the engine and of the scrubber, against models that see the whole at once.

/// The naive search that the engine must agree with, and ways to cut bytes up.
mod model;
/// Any patterns, any text, any chunks.
mod scanning;
/// Any value, any form, any chunks.
mod scrubbing;
