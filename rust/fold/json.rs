//! Reading the values of canonical JSON (FORMAT.md section 5) without building them: texts, counts, elements.
//!
//! Theory of operation: in valid JSON a quote after an even number of backslashes is the end of a string, whichever way
//! one comes. A value is handed over as the bytes from its first one on; where it ends is found by who reads it.
//! Owns: the one exact reading of each shape. Invariants: nothing is allocated but a text that was escaped; no
//! recursion; `None` means "not read here": whatever is seen not to be canonical, or would need more than this file
//! knows (a lone surrogate, an integer of 20 digits), is left to the reader in Python. Must not know: events.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// Every integer of so many digits fits into 64 bits.
const DIGITS_MAX: usize = 19;
/// No count is read as more, and no total grows beyond it: what every reader of a snapshot can hold.
pub(super) const COUNT_MAX: u64 = i64::MAX as u64;

pub(super) fn is_delimiter(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 0
}

pub(super) fn next_is(bytes: &[u8], at: usize, wanted: u8) -> Option<usize> {
    (*bytes.get(at)? == wanted).then_some(at + 1)
}

/// Return the offset after the value that begins at `start`.
pub(super) fn value_end(bytes: &[u8], start: usize) -> Option<usize> {
    match *bytes.get(start)? {
        b'"' => string_end(bytes, start),
        b'{' | b'[' => container_end(bytes, start),
        _ => {
            let length = bytes[start..].iter().position(|byte| matches!(byte, b',' | b'}' | b']'));
            Some(length.map_or(bytes.len(), |length| start + length))
        }
    }
}

pub(super) fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
    let first = next_is(bytes, start, b'"')?;
    let mut at = first;
    loop {
        let quote = at + memchr(b'"', bytes.get(at..)?)?;
        if is_delimiter(&bytes[first..quote]) {
            return Some(quote + 1);
        }
        at = quote + 1;
    }
}

fn container_end(bytes: &[u8], start: usize) -> Option<usize> {
    let (mut at, mut depth) = (start, 0_usize);
    loop {
        match *bytes.get(at)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Some(at + 1),
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
    }
}

/// Return the elements of an array.
pub(super) fn elements(array: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    each_element(array, |element| found.push(element))?;
    Some(found)
}

/// Call `take` with each element of an array; return the offset after it.
pub(super) fn each_element<'a>(array: &'a [u8], mut take: impl FnMut(&'a [u8])) -> Option<usize> {
    let mut at = next_is(array, 0, b'[')?;
    if *array.get(at)? == b']' {
        return Some(at + 1);
    }
    loop {
        let end = value_end(array, at)?;
        take(&array[at..end]);
        if *array.get(end)? == b']' {
            return Some(end + 1);
        }
        at = next_is(array, end, b',')?;
    }
}

/// Call `take` with each key, in quotes, and the bytes from its value on; it returns the offset after the value.
pub(super) fn each_member<'a>(
    object: &'a [u8],
    mut take: impl FnMut(&'a [u8], &'a [u8]) -> Option<usize>,
) -> Option<()> {
    let mut at = next_is(object, 0, b'{')?;
    if *object.get(at)? == b'}' {
        return Some(());
    }
    loop {
        let key_end = string_end(object, at)?;
        let start = next_is(object, key_end, b':')?;
        let end = start + take(&object[at..key_end], &object[start..])?;
        if *object.get(end)? == b'}' {
            return Some(());
        }
        at = next_is(object, end, b',')?;
    }
}

/// Whether a member is absent or null.
pub(super) fn is_null(value: Option<&[u8]>) -> bool {
    value.is_none_or(|value| value.starts_with(b"null"))
}

/// Whether a member is there and is a string.
pub(super) fn is_text(value: Option<&[u8]>) -> bool {
    value.is_some_and(|value| value.starts_with(b"\""))
}

/// Whether a member is this text, which needs no escapes.
pub(super) fn names(value: Option<&[u8]>, text: &str) -> bool {
    let inner = value.and_then(|value| value.strip_prefix(b"\"")?.strip_prefix(text.as_bytes()));
    inner.is_some_and(|after| after.starts_with(b"\""))
}

/// Return the first `limit` characters of a member that is a string, else "".
pub(super) fn text(value: Option<&[u8]>, limit: usize) -> Option<Cow<'_, str>> {
    let Some(mut rest) = value.and_then(|value| value.strip_prefix(b"\"")) else {
        return Some(Cow::Borrowed(""));
    };
    let (mut out, mut left) = (Cow::Borrowed(""), limit);
    loop {
        let plain = memchr2(b'"', b'\\', rest)?;
        let run = first(std::str::from_utf8(&rest[..plain]).ok()?, left);
        out += run;
        left -= if limit == usize::MAX { 0 } else { run.chars().count() };
        if left == 0 || rest[plain] == b'"' {
            return Some(out);
        }
        let (character, length) = unescaped(&rest[plain + 1..])?;
        out.to_mut().push(character);
        left -= 1;
        rest = &rest[plain + 1 + length..];
    }
}

/// Return the first `limit` characters of a text.
pub(super) fn first(text: &str, limit: usize) -> &str {
    let is_plain = text.as_bytes().get(..limit).is_none_or(<[u8]>::is_ascii);
    if is_plain {
        return &text[..text.len().min(limit)];
    }
    text.char_indices().nth(limit).map_or(text, |(end, _)| &text[..end])
}

/// Return what stands for an escape, and the length of its name behind the backslash.
fn unescaped(name: &[u8]) -> Option<(char, usize)> {
    let character = match *name.first()? {
        b'b' => '\u{8}',
        b't' => '\t',
        b'n' => '\n',
        b'f' => '\u{c}',
        b'r' => '\r',
        b'u' => {
            let digits = name.get(1..5).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
            let code = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
            return Some((char::from_u32(code)?, 5));
        }
        other @ (b'"' | b'\\') => char::from(other),
        _ => return None,
    };
    Some((character, 1))
}

/// Return a member that is an integer above 0, at most `COUNT_MAX`, else 0.
pub(super) fn positive(value: Option<&[u8]>) -> Option<u64> {
    let Some(value) = value else { return Some(0) };
    let length = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    if matches!(value.get(length), Some(b'.' | b'e')) {
        return Some(0);
    }
    if length > DIGITS_MAX {
        return None;
    }
    let number = value[..length].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0'));
    Some(number.min(COUNT_MAX))
}
