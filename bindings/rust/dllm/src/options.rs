//! Typed keys and values, checked by the library against the schema of the call that they are passed to.

use crate::error::{Code, Error, Result, check};
use crate::handle::{Handle, length, make, text, with_text};
use crate::json::{self, Json};
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
    /// The options of another kind: `engine` of [`Generator::load`](crate::Generator::load).
    Options(Options),
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

/// Types with a method for each key of a kind of options, or of a policy, which they name.
macro_rules! typed_options {
    ($(
        $(#[$about:meta])*
        $name:ident $(of $policy:literal)? {
            $($(#[$doc:meta])* $key:ident: $type:ty = $text:literal;)*
        }
    )*) => {$(
        $(#[$about])*
        #[derive(Clone, Debug, PartialEq)]
        #[must_use]
        pub struct $name(Options);

        impl $name {
            /// Every key at its default.
            pub fn new() -> Self {
                Self(Options::new()$(.set("policy", $policy))?)
            }

            /// With other settings too, such as those of a policy; a later value replaces an earlier one.
            pub fn and(self, others: &Options) -> Self {
                Self(self.0.and(others))
            }

            $(
                $(#[$doc])*
                pub fn $key(self, value: $type) -> Self {
                    Self(self.0.set($text, value))
                }
            )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }

        impl Deref for $name {
            type Target = Options;

            fn deref(&self) -> &Options {
                &self.0
            }
        }

        impl From<$name> for Options {
            fn from(typed: $name) -> Self {
                typed.0
            }
        }

        impl From<$name> for crate::Value {
            fn from(typed: $name) -> Self {
                Self::Options(typed.0)
            }
        }
    )*};
}
pub(crate) use typed_options;

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

    /// With other settings too; a later value replaces an earlier one.
    pub fn and(self, others: &Self) -> Self {
        others.0.iter().fold(self, |made, (key, value)| made.set(key, value.clone()))
    }

    /// The name of a policy that has options of its own; None: there is none, or it is auto.
    pub(crate) fn policy(&self) -> Option<&str> {
        match self.get("policy") {
            Some(Value::Text(name)) if name != "auto" => Some(name),
            _ => None,
        }
    }

    /// The settings of a generator or a queue, and of its model.
    pub(crate) fn of_load(&self, noun: &str) -> Result<(Self, Self)> {
        let (own, model) = (keys_of(noun)?, keys_of("model")?);
        if let Some((key, _)) = self.0.iter().find(|(key, _)| !own.contains(key) && !model.contains(key)) {
            return Err(unknown_of_load(noun, key, [own, model, vec!["engine".into()]].concat()));
        }
        self.split(noun)
    }

    /// The settings of a kind, and the others.
    pub(crate) fn split(&self, kind: &str) -> Result<(Self, Self)> {
        let own = keys_of(kind)?;
        let (taken, others) = self.0.iter().cloned().partition(|(key, _)| own.contains(key));
        Ok((Self(taken), Self(others)))
    }

    /// The value of a key, and the settings without it.
    pub(crate) fn take(mut self, key: &str) -> (Option<Value>, Self) {
        let value = self.get(key).cloned();
        self.0.retain(|(other, _)| other != key);
        (value, self)
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
            Self::List(_) | Self::Options(_) => {
                let text = json::object(key, &self.to_json(key)?);
                let (start, size) = (text.as_ptr().cast(), length(text.len()));
                check(|err| unsafe { sys::dllm_options_set_json(options, start, size, err) })
            }
        })
    }

    /// `place` is what errors call it.
    fn to_json(&self, place: &str) -> Result<String> {
        Ok(match self {
            Self::Bool(value) => value.to_string(),
            Self::Int(value) => value.to_string(),
            Self::Float(value) if value.is_finite() => format!("{value:?}"),
            Self::Float(value) if value.is_nan() => {
                return Err(Error::invalid(format!("{place} is NaN: write a finite number")));
            }
            Self::Float(value) => {
                let sign = if *value < 0.0 { "-" } else { "" };
                return Err(Error::invalid(format!("{place} is {sign}Infinity: write a finite number")));
            }
            Self::Text(value) => json::quote(value),
            Self::List(values) => {
                let each = |(at, value): (usize, &Self)| value.to_json(&format!("{place}, item {}", at + 1));
                json::list(values.iter().enumerate().map(each).collect::<Result<Vec<_>>>()?)
            }
            Self::Options(_) => return Err(Error::invalid(format!("{place} takes no options"))),
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
    Options: value => Self::Options(value);
}

impl<T: Into<Self>> From<Vec<T>> for Value {
    fn from(values: Vec<T>) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

impl<T: Into<Self> + Clone> From<&[T]> for Value {
    fn from(values: &[T]) -> Self {
        Self::List(values.iter().cloned().map(Into::into).collect())
    }
}

impl<T: Into<Self>, const N: usize> From<[T; N]> for Value {
    fn from(values: [T; N]) -> Self {
        Self::List(values.into_iter().map(Into::into).collect())
    }
}

fn keys_of(kind: &str) -> Result<Vec<String>> {
    let schema = schema(kind)?;
    let keys = Json::read(&schema).and_then(|all| Some(all.get("keys")?.items(|key| key.get("name")?.text())));
    Ok(keys.unwrap_or_default())
}

/// The error of a key that a load does not have: it has the nearest name of one of its kinds, or all its names.
fn unknown_of_load(noun: &str, key: &str, mut names: Vec<String>) -> Error {
    names.sort();
    let hint_for = |kind| Some(Options::new().set(key, 0).make(kind).err()?.hint().to_owned());
    let near = [noun, "model"].into_iter().filter_map(hint_for).find(|hint| hint.starts_with("did you mean"));
    let hint = near.unwrap_or_else(|| format!("the names are {}", names.join(", ")));
    Error::new(Code::NotFound, format!("there is no option named \"{key}\" of kind model or {noun}"), hint)
}

/// The keys of a kind of options as JSON: name, type, default, range or choices, one sentence, since.
///
/// # Errors
/// [`Code::NotFound`](crate::Code::NotFound) for an unknown kind; [`names("options")`](crate::names) lists them.
pub fn schema(kind: &str) -> Result<String> {
    // SAFETY: `kind` ends with a byte 0.
    with_text(kind, |kind| text(|out, err| unsafe { sys::dllm_options_schema(kind, out, err) }))
}
