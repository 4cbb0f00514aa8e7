//! Turns values into the bytes of output files.
