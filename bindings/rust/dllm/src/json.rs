//! The JSON of this crate: it writes options, and reads the description of a request, the adapters of a model and what
//! the hub has. Other descriptions go out as JSON text, for any JSON crate.

use crate::error::{Code, Error, Result};

/// A text in quotes.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => out += &format!("\\u{:04x}", u32::from(c)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// An object of one key.
pub(crate) fn object(key: &str, value: &str) -> String {
    format!("{{{}: {value}}}", quote(key))
}

/// A list of values that are JSON already.
pub(crate) fn list(values: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", values.into_iter().collect::<Vec<_>>().join(", "))
}

/// A value that the library wrote.
#[derive(Debug, PartialEq)]
pub(crate) enum Json<'a> {
    /// null, true, false or a number, as it is written.
    Plain(&'a str),
    Text(String),
    List(Vec<Json<'a>>),
    Object(Vec<(String, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// None: the text is not JSON.
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        let mut reader = Reader { rest: text };
        let value = reader.value()?;
        reader.rest.trim_start().is_empty().then_some(value)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Object(pairs) => pairs.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<String> {
        match self {
            Self::Text(text) => Some(text.clone()),
            _ => None,
        }
    }

    pub(crate) fn number<T: std::str::FromStr>(&self) -> Option<T> {
        match self {
            Self::Plain(digits) => digits.parse().ok(),
            _ => None,
        }
    }

    pub(crate) fn items<T>(&self, of: impl Fn(&Self) -> Option<T>) -> Vec<T> {
        match self {
            Self::List(items) => items.iter().filter_map(of).collect(),
            _ => Vec::new(),
        }
    }
}

/// What the library wrote as a value.
pub(crate) fn answer<T>(written: &str, of: impl Fn(&Json) -> Option<T>) -> Result<T> {
    Json::read(written)
        .and_then(|all| of(&all))
        .ok_or_else(|| Error::new(Code::Internal, format!("the library wrote {written}, which cannot be read"), ""))
}

struct Reader<'a> {
    rest: &'a str,
}

impl<'a> Reader<'a> {
    /// Whether the next character is `c`, which is taken.
    fn take(&mut self, c: char) -> bool {
        let rest = self.rest.trim_start();
        self.rest = rest.strip_prefix(c).unwrap_or(rest);
        self.rest.len() < rest.len()
    }

    fn value(&mut self) -> Option<Json<'a>> {
        if self.take('"') {
            return self.text().map(Json::Text);
        }
        if self.take('[') {
            return self.until(']', Self::value).map(Json::List);
        }
        if self.take('{') {
            return self.until('}', Self::pair).map(Json::Object);
        }
        let end = self.rest.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(self.rest.len());
        let (plain, rest) = self.rest.split_at(end);
        self.rest = rest;
        (end > 0).then_some(Json::Plain(plain))
    }

    fn pair(&mut self) -> Option<(String, Json<'a>)> {
        let key = if self.take('"') { self.text()? } else { return None };
        if self.take(':') { Some((key, self.value()?)) } else { None }
    }

    /// Items with commas between them, up to `end`.
    fn until<T>(&mut self, end: char, item: impl Fn(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut items = Vec::new();
        while !self.take(end) {
            if !items.is_empty() && !self.take(',') {
                return None;
            }
            items.push(item(self)?);
        }
        Some(items)
    }

    /// A text after its first quote.
    fn text(&mut self) -> Option<String> {
        let mut out = String::new();
        loop {
            let end = self.rest.find(['"', '\\'])?;
            out += &self.rest[..end];
            let quote = self.rest[end..].starts_with('"');
            self.rest = &self.rest[end + 1..];
            if quote {
                return Some(out);
            }
            out.push(self.escaped()?);
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(match c {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'u' => {
                let unit = self.unit()?;
                let low = if (0xd800..0xdc00).contains(&unit) && self.take('\\') && self.take('u') {
                    self.unit()?
                } else {
                    return char::from_u32(unit);
                };
                char::from_u32(0x10000 + ((unit - 0xd800) << 10) + low.checked_sub(0xdc00)?)?
            }
            other => other,
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let unit = u32::from_str_radix(self.rest.get(..4)?, 16).ok()?;
        self.rest = &self.rest[4..];
        Some(unit)
    }
}

#[cfg(test)]
mod tests {
    use super::Json;

    #[test]
    fn what_is_written_is_read() {
        let value = Json::read(r#" {"a": [1, -2.5e3, null], "b": "q\"\\\u000a\u00e9\ud83d\ude00", "c": [], "d": {}} "#)
            .unwrap();
        assert_eq!(value.get("a").unwrap().items(Json::number::<f64>), [1.0, -2500.0]);
        assert_eq!(value.get("b").unwrap().text().unwrap(), "q\"\\\n\u{e9}\u{1f600}");
        assert_eq!(value.get("c"), Some(&Json::List(Vec::new())));
        assert_eq!(value.get("e"), None);
        for wrong in ["", "[1", "{\"a\"}", "[1] 2", "[1 2]", "\"open", "\"\\u12\"", "[,]"] {
            assert_eq!(Json::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn quotes_and_controls_are_escaped() {
        assert_eq!(super::quote("a\"b\\c\nd\u{e9}"), "\"a\\\"b\\\\c\\u000ad\u{e9}\"");
    }
}
