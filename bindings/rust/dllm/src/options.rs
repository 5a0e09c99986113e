//! Typed keys and values, checked by the library against the schema of the call that they are passed to.

use crate::error::{Error, Result, check};
use crate::handle::{Handle, length, make, text, with_text};
use crate::json;
use dllm_sys as sys;

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A text, or one of the choices of a key.
    Text(String),
    /// A list.
    List(Vec<Value>),
}

/// Settings of a call. They have no kind until they are passed: the call knows its own, and an unknown key fails there
/// with the nearest one in the hint. [`schema`] lists the keys of a kind.
///
/// ```
/// use dllm::{Options, options};
///
/// let typed = options! { steps: 32, temperature: 0.7, policy: "low_confidence" };
/// let built = Options::new().set("steps", 32).set("temperature", 0.7).set("policy", "low_confidence");
/// assert_eq!(typed, built);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct Options(Vec<(String, Value)>);

/// [`Options`] in place: `options! { steps: 32, "pjrt.plugin": "cpu" }`.
#[macro_export]
macro_rules! options {
    (@key $key:ident) => { stringify!($key) };
    (@key $key:literal) => { $key };
    ($($key:tt : $value:expr),* $(,)?) => { $crate::Options::new()$(.set($crate::options!(@key $key), $value))* };
}

impl Options {
    /// Every key at its default.
    pub fn new() -> Self {
        Self::default()
    }

    /// With a key set; a later value replaces an earlier one.
    pub fn set(mut self, key: impl Into<String>, value: impl Into<Value>) -> Self {
        let (key, value) = (key.into(), value.into());
        self.0.retain(|(other, _)| *other != key);
        self.0.push((key, value));
        self
    }

    /// The value that was set.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(other, _)| other == key).map(|(_, value)| value)
    }

    /// Every key of a kind with its effective value, as a JSON object.
    ///
    /// # Errors
    /// As of a call of that kind: an unknown kind or key, a value of another type or out of its range.
    pub fn to_json(&self, kind: &str) -> Result<String> {
        let made = self.make(kind)?;
        // SAFETY: `made` is alive.
        text(|out, err| unsafe { sys::dllm_options_to_json(made.as_ptr(), out, err) })
    }

    /// `f` with the options as the library has them, NULL for none.
    pub(crate) fn with<R>(&self, kind: &str, f: impl FnOnce(*const sys::dllm_options) -> Result<R>) -> Result<R> {
        if self.0.is_empty() {
            return f(std::ptr::null());
        }
        let made = self.make(kind)?;
        f(made.as_ptr())
    }

    /// The same with the keys of a registered name: "decoder:low_confidence".
    pub(crate) fn with_name<R>(
        &self,
        kind: &str,
        name: Option<&str>,
        f: impl FnOnce(*const sys::dllm_options) -> Result<R>,
    ) -> Result<R> {
        match name {
            Some(name) => self.with(&format!("{kind}:{name}"), f),
            None => self.with(kind, f),
        }
    }

    fn make(&self, kind: &str) -> Result<Handle<sys::dllm_options>> {
        // SAFETY: `kind` ends with a byte 0.
        let made = with_text(kind, |kind| make(|out, err| unsafe { sys::dllm_options_new(kind, out, err) }))?;
        for (key, value) in &self.0 {
            value.put(&made, key)?;
        }
        Ok(made)
    }
}

impl Value {
    fn put(&self, options: &Handle<sys::dllm_options>, key: &str) -> Result<()> {
        let options = options.as_ptr();
        // SAFETY: the options are alive and used by this thread alone; texts end with a byte 0.
        with_text(key, |name| match self {
            Self::Bool(value) => check(|err| unsafe { sys::dllm_options_set_i64(options, name, (*value).into(), err) }),
            Self::Int(value) => check(|err| unsafe { sys::dllm_options_set_i64(options, name, *value, err) }),
            Self::Float(value) => check(|err| unsafe { sys::dllm_options_set_f64(options, name, *value, err) }),
            Self::Text(value) => {
                with_text(value, |value| check(|err| unsafe { sys::dllm_options_set_str(options, name, value, err) }))
            }
            Self::List(_) => {
                let text = json::object(key, &self.to_json()?);
                let (start, size) = (text.as_ptr().cast(), length(text.len()));
                check(|err| unsafe { sys::dllm_options_set_json(options, start, size, err) })
            }
        })
    }

    fn to_json(&self) -> Result<String> {
        Ok(match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) if value.is_finite() => format!("{value:?}"),
            Self::Float(value) => return Err(Error::invalid(format!("an option holds the number {value}"))),
            Self::Text(value) => json::quote(value),
            Self::List(values) => json::list(values.iter().map(Self::to_json).collect::<Result<Vec<_>>>()?),
        })
    }
}

macro_rules! value_from {
    ($($type:ty: $value:ident => $made:expr;)*) => {$(
        impl From<$type> for Value {
            fn from($value: $type) -> Self {
                $made
            }
        }
    )*};
}

value_from! {
    bool: value => Self::Bool(value);
    i32: value => Self::Int(value.into());
    i64: value => Self::Int(value);
    u32: value => Self::Int(value.into());
    // More than i64 holds is out of the range of every key: the library names the range.
    u64: value => Self::Int(i64::try_from(value).unwrap_or(i64::MAX));
    usize: value => Self::Int(i64::try_from(value).unwrap_or(i64::MAX));
    f32: value => Self::Float(value.into());
    f64: value => Self::Float(value);
    &str: value => Self::Text(value.into());
    String: value => Self::Text(value);
    &String: value => Self::Text(value.clone());
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Value {
    fn from(values: [T; N]) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

/// The keys of a kind of options as JSON: name, type, default, range or choices, one sentence, since.
///
/// # Errors
/// [`Code::NotFound`](crate::Code::NotFound) for an unknown kind; [`names("options")`](crate::names) lists them.
pub fn schema(kind: &str) -> Result<String> {
    // SAFETY: `kind` ends with a byte 0.
    with_text(kind, |kind| text(|out, err| unsafe { sys::dllm_options_schema(kind, out, err) }))
}
