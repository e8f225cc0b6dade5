//! Reading canonical JSON (FORMAT.md section 5) without building it: single members, texts, counts.
//!
//! Theory of operation: the keys of an object rise, so what stands before its long values is read from the front and
//! what stands behind them from the end, and a long value is walked through only if a wanted key may hide behind it.
//! In valid JSON a quote after an even number of backslashes is the end of a string, whichever way one comes.
//! A value is handed out as the bytes from its first one on; where it ends is found by who reads it.
//! Owns: the one exact reading of each shape. Invariants: nothing is allocated but a text that was escaped; no
//! recursion; `None` means "not read here": whatever is seen not to be canonical, or would need more than this file
//! knows (a lone surrogate, an integer of 19 digits), is left to the reader in Python. Must not know: events.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::{memchr, memchr2, memrchr};

/// Every integer of so many digits fits into 63 bits.
const DIGITS_MAX: usize = 18;
/// A longer value is not looked through from its end.
const SHORT_BYTES: usize = 128;
/// The one key that payloads rarely hold and that stands between others: it is cheaper to search than to walk to it.
const RARE: &str = "source";
static RARE_MEMBER: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(b"\"source\":"));

/// Return the values of the wanted members of an object, in the order of `wanted`, which rises.
///
/// An escape in a key stands for a character below the letters of `wanted`, as its backslash does, or for a lone
/// surrogate above them, and then the walk only goes on for longer.
pub(super) fn members<'a, const N: usize>(
    object: &'a [u8],
    wanted: [&str; N],
) -> Option<[Option<&'a [u8]>; N]> {
    let mut found = [None; N];
    let (mut low, mut high) = (0, N); // what is not decided yet
    let mut rest = object.strip_prefix(b"{")?.strip_suffix(b"}")?;
    while low < high {
        let Some((key, value, before)) = last_member(rest) else { break };
        while low < high && wanted[high - 1].as_bytes() > key {
            high -= 1;
        }
        if low < high && wanted[high - 1].as_bytes() == key {
            high -= 1;
            found[high] = Some(value);
        }
        rest = before;
    }
    while low < high && !rest.is_empty() {
        let key_end = string_end(rest, 0)?;
        let (key, start) = (&rest[1..key_end - 1], next_is(rest, key_end, b':')?);
        while low < high && wanted[low].as_bytes() < key {
            low += 1;
        }
        if low < high && wanted[low].as_bytes() == key {
            found[low] = Some(&rest[start..]);
            low += 1;
        }
        let is_absent = low + 1 == high && wanted[low] == RARE && RARE_MEMBER.find(&rest[start..]).is_none();
        if low == high || is_absent {
            break;
        }
        let end = value_end(rest, start)?;
        rest = if end == rest.len() { &[] } else { &rest[next_is(rest, end, b',')?..] };
    }
    Some(found)
}

/// Whether an object may have a member of this name or a higher one; false is certain. Looks at the end alone.
pub(super) fn may_reach(object: &[u8], name: &str) -> bool {
    let members = object.strip_prefix(b"{").and_then(|object| object.strip_suffix(b"}"));
    members.and_then(last_member).is_none_or(|(key, ..)| key >= name.as_bytes())
}

/// Split the last of some members off, into key, value and what comes before; none if the value is long.
fn last_member(members: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let value_start = match *members.last()? {
        b'"' => string_start(members)?,
        b'}' | b']' => container_start(members)?,
        _ => memrchr(b':', members)? + 1,
    };
    let named = members[..value_start].strip_suffix(b":")?;
    let key_start = string_start(named)?;
    let before = if key_start == 0 { &[] } else { named[..key_start].strip_suffix(b",")? };
    Some((&named[key_start + 1..named.len() - 1], &members[value_start..], before))
}

/// Return where the string begins that ends here.
fn string_start(text: &[u8]) -> Option<usize> {
    let floor = text.len().saturating_sub(SHORT_BYTES);
    let mut end = text.strip_suffix(b"\"")?.len();
    loop {
        end = floor + memrchr(b'"', text.get(floor..end)?)?;
        if is_delimiter(&text[..end]) {
            return Some(end);
        }
    }
}

/// Return where the object or array begins that ends here.
fn container_start(text: &[u8]) -> Option<usize> {
    let floor = text.len().saturating_sub(SHORT_BYTES);
    let (mut end, mut depth) = (text.len(), 0_usize);
    while end > floor {
        match text[end - 1] {
            b'"' => {
                end = string_start(&text[..end])?;
                continue;
            }
            b'}' | b']' => depth += 1,
            b'{' | b'[' if depth == 1 => return Some(end - 1),
            b'{' | b'[' => depth -= 1,
            _ => {}
        }
        end -= 1;
    }
    None
}

fn is_delimiter(before: &[u8]) -> bool {
    before.iter().rev().take_while(|&&byte| byte == b'\\').count() % 2 == 0
}

fn next_is(bytes: &[u8], at: usize, wanted: u8) -> Option<usize> {
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

fn string_end(bytes: &[u8], start: usize) -> Option<usize> {
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
    let Some(inner) = value.and_then(|value| value.strip_prefix(b"\"")) else {
        return Some(Cow::Borrowed(""));
    };
    let plain = memchr2(b'"', b'\\', inner)?;
    let head = std::str::from_utf8(&inner[..plain]).ok()?;
    if inner[plain] == b'"' {
        return Some(Cow::Borrowed(first(head, limit)));
    }
    let left = limit.saturating_sub(head.chars().count());
    if left == 0 {
        return Some(Cow::Borrowed(first(head, limit)));
    }
    let end = string_end(value?, 0)? - 2;
    let mut rest = std::str::from_utf8(&inner[plain..end]).ok()?.chars();
    let mut out = head.to_owned();
    for _ in 0..left {
        match rest.next() {
            Some('\\') => out.push(unescaped(&mut rest)?),
            Some(character) => out.push(character),
            None => break,
        }
    }
    Some(Cow::Owned(out))
}

/// Return the first `limit` characters of a text.
pub(super) fn first(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    text.char_indices().nth(limit).map_or(text, |(end, _)| &text[..end])
}

fn unescaped(rest: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        'b' => '\u{8}',
        't' => '\t',
        'n' => '\n',
        'f' => '\u{c}',
        'r' => '\r',
        'u' => {
            let digits = rest
                .as_str()
                .get(..4)
                .filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
            rest.nth(3);
            char::from_u32(u32::from_str_radix(digits, 16).ok()?)?
        }
        character @ ('"' | '\\') => character,
        _ => return None,
    })
}

/// Return a member that is an integer above 0, else 0.
pub(super) fn positive(value: Option<&[u8]>) -> Option<u64> {
    let Some(value) = value else { return Some(0) };
    let length = value.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(value.len());
    if matches!(value.get(length), Some(b'.' | b'e')) {
        return Some(0);
    }
    if length > DIGITS_MAX {
        return None;
    }
    Some(value[..length].iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
