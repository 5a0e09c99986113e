//! Why the library is not there.

use std::fmt;

/// The library cannot be loaded: what was tried, and what each try gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadError {
    message: String,
}

impl LoadError {
    pub(crate) fn abi(library: &str, found: i32) -> Self {
        let expected = crate::ABI;
        let message =
            format!("{library} has ABI {found}, this crate ABI {expected}; install versions that belong together");
        Self { message }
    }

    #[cfg(not(feature = "link"))]
    pub(crate) fn new(message: String) -> Self {
        Self { message }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for LoadError {}
