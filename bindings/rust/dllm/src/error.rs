//! What a call that failed returns.

use crate::handle::{Handle, text_at};
use dllm_sys as sys;
use std::error::Error as StdError;
use std::fmt;

/// The result of calls that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failed call.
///
/// ```
/// use dllm::{Code, Engine, Error, options};
///
/// match Engine::new(&options! { thread: 2 }) {
///     Err(Error::Call { code: Code::NotFound, message, hint }) => {
///         assert!(message.contains("thread"), "{message}");
///         assert!(hint.contains("threads"), "{hint}");
///     }
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The library refused or failed. `message` is one line with the thing and the numbers, `hint` is what to try, or "".
    Call {
        /// The status.
        code: Code,
        /// One line that names the thing and the numbers.
        message: String,
        /// What to try; "" when there is no advice.
        hint: String,
    },
    /// What a callback returned as its error: [`Error::into_callback`] has it as the type it was.
    Callback(Box<dyn StdError + Send + Sync>),
    /// The library cannot be loaded.
    Load(sys::LoadError),
}

/// The status of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The task was cancelled.
    Cancelled,
    /// A failure of an unexpected kind.
    Unknown,
    /// Out of range, of the wrong type or shape.
    InvalidArgument,
    /// The task's deadline passed.
    DeadlineExceeded,
    /// No such key, name or file; the hint names the nearest.
    NotFound,
    /// A name or a folder is taken.
    AlreadyExists,
    /// Refused by the system or the sandbox.
    PermissionDenied,
    /// Memory, disk, or a limit that was set.
    ResourceExhausted,
    /// The right call in the wrong state.
    FailedPrecondition,
    /// The object is unusable after an earlier failure.
    Aborted,
    /// The end of the data, or an index past the end.
    OutOfRange,
    /// Not supported by this build or engine.
    Unimplemented,
    /// A bug of the library.
    Internal,
    /// A device or a peer cannot be reached now.
    Unavailable,
    /// A file is damaged.
    DataLoss,
    /// The caller is not authenticated.
    Unauthenticated,
    /// A callback failed.
    CallbackFailed,
    /// A Lua script raised an error; the hint holds its traceback.
    ScriptFailed,
    /// A status that this crate has no name for.
    Other(i32),
}

const CODES: [(i32, Code); 18] = [
    (sys::DLLM_CANCELLED, Code::Cancelled),
    (sys::DLLM_UNKNOWN, Code::Unknown),
    (sys::DLLM_INVALID_ARGUMENT, Code::InvalidArgument),
    (sys::DLLM_DEADLINE_EXCEEDED, Code::DeadlineExceeded),
    (sys::DLLM_NOT_FOUND, Code::NotFound),
    (sys::DLLM_ALREADY_EXISTS, Code::AlreadyExists),
    (sys::DLLM_PERMISSION_DENIED, Code::PermissionDenied),
    (sys::DLLM_RESOURCE_EXHAUSTED, Code::ResourceExhausted),
    (sys::DLLM_FAILED_PRECONDITION, Code::FailedPrecondition),
    (sys::DLLM_ABORTED, Code::Aborted),
    (sys::DLLM_OUT_OF_RANGE, Code::OutOfRange),
    (sys::DLLM_UNIMPLEMENTED, Code::Unimplemented),
    (sys::DLLM_INTERNAL, Code::Internal),
    (sys::DLLM_UNAVAILABLE, Code::Unavailable),
    (sys::DLLM_DATA_LOSS, Code::DataLoss),
    (sys::DLLM_UNAUTHENTICATED, Code::Unauthenticated),
    (sys::DLLM_CALLBACK_FAILED, Code::CallbackFailed),
    (sys::DLLM_SCRIPT_FAILED, Code::ScriptFailed),
];

impl From<i32> for Code {
    fn from(status: i32) -> Self {
        CODES.iter().find(|(number, _)| *number == status).map_or(Self::Other(status), |(_, code)| *code)
    }
}

impl From<Code> for i32 {
    fn from(code: Code) -> Self {
        match code {
            Code::Other(status) => status,
            named => CODES.iter().find(|(_, code)| *code == named).map_or(sys::DLLM_UNKNOWN, |(number, _)| *number),
        }
    }
}

/// The name of the status, such as "not_found".
impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: any number is allowed; the text is valid for the life of the process.
        f.write_str(&unsafe { text_at(sys::dllm_status_name((*self).into())) }.unwrap_or_default())
    }
}

impl Error {
    /// A failure that this crate finds before the library is called.
    pub(crate) fn new(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Call { code, message: message.into(), hint: hint.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, message, "")
    }

    /// The failure that a call just wrote; `error` is what was passed to it.
    fn from_status(status: i32, error: *mut sys::dllm_error) -> Self {
        let code = Code::from(status);
        // SAFETY: `error` is NULL or this thread's own; the texts are copied before its next use.
        unsafe {
            if error.is_null() || sys::dllm_error_code(error) != status {
                return Self::new(code, code.to_string(), "");
            }
            let message = text_at(sys::dllm_error_message(error)).unwrap_or_default();
            Self::new(code, message, text_at(sys::dllm_error_hint(error)).unwrap_or_default())
        }
    }

    /// The status; [`Code::CallbackFailed`] for what a callback returned, [`Code::Unavailable`] without a library.
    pub fn code(&self) -> Code {
        match self {
            Self::Call { code, .. } => *code,
            Self::Callback(_) => Code::CallbackFailed,
            Self::Load(_) => Code::Unavailable,
        }
    }

    /// What to try; "" when there is no advice.
    pub fn hint(&self) -> &str {
        match self {
            Self::Call { hint, .. } => hint,
            Self::Callback(_) | Self::Load(_) => "",
        }
    }

    /// The error of type `E` that the callback returned; `Err` has this error again when it is another one.
    ///
    /// # Errors
    /// `self`, unchanged.
    pub fn into_callback<E: StdError + 'static>(self) -> Result<E, Self> {
        match self {
            Self::Callback(inner) => inner.downcast::<E>().map(|own| *own).map_err(Self::Callback),
            other => Err(other),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Call { message, hint, .. } if hint.is_empty() => f.write_str(message),
            Self::Call { message, hint, .. } => write!(f, "{message} ({hint})"),
            Self::Callback(inner) => write!(f, "the callback failed: {inner}"),
            Self::Load(inner) => inner.fmt(f),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Call { .. } => None,
            Self::Callback(inner) => Some(inner.as_ref()),
            Self::Load(inner) => Some(inner),
        }
    }
}

impl From<sys::LoadError> for Error {
    fn from(problem: sys::LoadError) -> Self {
        Self::Load(problem)
    }
}

thread_local! {
    /// The one `dllm_error` of this thread.
    // SAFETY: a new error is the caller's; NULL when out of memory.
    static HERE: Option<Handle<sys::dllm_error>> = unsafe { Handle::take(sys::dllm_error_new()) };
}

/// The status of `f`, which gets the error of this thread, as a result.
pub(crate) fn check(f: impl FnOnce(*mut sys::dllm_error) -> i32) -> Result<()> {
    // While a thread ends its error may be released already: NULL is allowed, and the status is enough.
    let error = HERE.try_with(|here| here.as_ref().map_or(std::ptr::null_mut(), Handle::as_ptr));
    let error = error.unwrap_or(std::ptr::null_mut());
    match f(error) {
        sys::DLLM_OK => Ok(()),
        status => Err(Error::from_status(status, error)),
    }
}
