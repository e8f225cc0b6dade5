//! Single members of an object of canonical JSON (FORMAT.md section 5), found without reading the others.
//!
//! Theory of operation: the keys of an object rise, so what stands before its long values is read from the front and
//! what stands behind them from the end, and a long value is walked through only if a wanted key may hide behind it.
//! Owns: that search. Invariants: those of `json.rs`. Must not know: what the members mean.

use std::cmp::Ordering;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use memchr::memrchr;

use super::json::{is_delimiter, next_is, string_end, value_end};

/// A longer value is not looked through from its end.
const SHORT_BYTES: usize = 128;
/// Keys that payloads rarely hold and that stand behind long values: it is cheaper to search than to walk to them.
static RARE: LazyLock<[(&str, Finder<'static>); 2]> =
    LazyLock::new(|| [("by", Finder::new(b"\"by\":")), ("source", Finder::new(b"\"source\":"))]);

/// Return the values of the wanted members of an object, in the order of `wanted`, which rises.
///
/// An escape in a key stands for a character below the letters of `wanted`, as its backslash does, or for a lone
/// surrogate above them, and then the walk only goes on for longer.
pub(super) fn members<'a, const N: usize>(
    object: &'a [u8],
    wanted: [&str; N],
) -> Option<[Option<&'a [u8]>; N]> {
    let mut search = Search { wanted, found: [None; N], low: 0, high: N };
    let mut rest = object.strip_prefix(b"{")?.strip_suffix(b"}")?;
    if rest.is_empty() {
        return Some(search.found);
    }
    let (key, start) = first_key(rest)?;
    search.pass_first(key, &rest[start..]); // often enough to know that nothing hides behind its long value
    while search.is_open() {
        let ends_in_container = matches!(rest.last(), Some(b'}' | b']'));
        if ends_in_container && search.lacks_the_rare(rest) {
            return Some(search.found);
        }
        let Some((key, value, before)) = last_member(rest) else { break };
        search.pass_last(key, value);
        rest = before;
    }
    while search.is_open() && !rest.is_empty() {
        let (key, start) = first_key(rest)?;
        search.pass_first(key, &rest[start..]);
        if !search.is_open() || search.lacks_the_rare(&rest[start..]) {
            break;
        }
        let end = value_end(rest, start)?;
        rest = if end == rest.len() { &[] } else { &rest[next_is(rest, end, b',')?..] };
    }
    Some(search.found)
}

/// Which of the wanted members are found, and which are not decided yet: `low..high`.
struct Search<'a, 'w, const N: usize> {
    wanted: [&'w str; N],
    found: [Option<&'a [u8]>; N],
    low: usize,
    high: usize,
}

impl<'a, const N: usize> Search<'a, '_, N> {
    fn is_open(&self) -> bool {
        self.low < self.high
    }

    /// Take in the first of the members that are left.
    fn pass_first(&mut self, key: &[u8], value: &'a [u8]) {
        while self.is_open() {
            match order(self.wanted[self.low], key) {
                Ordering::Less => {}
                Ordering::Equal => self.found[self.low] = Some(value),
                Ordering::Greater => return,
            }
            self.low += 1;
        }
    }

    /// Take in the last of them.
    fn pass_last(&mut self, key: &[u8], value: &'a [u8]) {
        while self.is_open() {
            match order(self.wanted[self.high - 1], key) {
                Ordering::Greater => {}
                Ordering::Equal => self.found[self.high - 1] = Some(value),
                Ordering::Less => return,
            }
            self.high -= 1;
        }
    }

    /// Whether only a rare member is not decided, and it is certainly not there.
    fn lacks_the_rare(&self, rest: &[u8]) -> bool {
        let is_absent = |(name, finder): &(&str, Finder<'_>)| {
            *name == self.wanted[self.low] && finder.find(rest).is_none()
        };
        self.low + 1 == self.high && RARE.iter().any(is_absent)
    }
}

/// Compare a name with a key; nearly always the first letters tell.
fn order(name: &str, key: &[u8]) -> Ordering {
    let name = name.as_bytes();
    name.first().cmp(&key.first()).then_with(|| name.cmp(key))
}

/// Return the first key, and where its value begins.
fn first_key(members: &[u8]) -> Option<(&[u8], usize)> {
    let end = string_end(members, 0)?;
    Some((&members[1..end - 1], next_is(members, end, b':')?))
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
