//! Pieces of canonical JSON v1: FORMAT.md section 5.
//!
//! Owns: strings, numbers and the order of keys. Invariant: one value has one form. Must not know: where values come
//! from; the walk over Python objects is `py/value.rs`. Source: RFC 8785, and `JSON.stringify` of ECMAScript 2019 for
//! lone surrogates.

use std::cmp::Ordering;

const HEX: &[u8; 16] = b"0123456789abcdef";
const CHUNK_BYTES: usize = 32;

/// Append a string, given in UTF-8, in quotes.
pub fn write_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    write_escaped(out, text);
    out.push(b'"');
}

/// Append a string given as UTF-16 code units, in quotes; a surrogate without its partner becomes `\udxxx`.
pub fn write_units(out: &mut Vec<u8>, units: &[u16]) {
    out.push(b'"');
    for decoded in char::decode_utf16(units.iter().copied()) {
        match decoded {
            Ok(character) => write_escaped(out, character.encode_utf8(&mut [0; 4]).as_bytes()),
            Err(lone) => {
                let unit = usize::from(lone.unpaired_surrogate());
                out.extend_from_slice(b"\\ud");
                out.extend([8, 4, 0].map(|shift| HEX[unit >> shift & 15]));
            }
        }
    }
    out.push(b'"');
}

/// Append a double in the form of ECMAScript's `Number::toString`. False if it is not finite; then nothing was written.
#[must_use]
pub fn write_float(out: &mut Vec<u8>, value: f64) -> bool {
    if !value.is_finite() {
        return false;
    }
    if value == 0.0 {
        out.push(b'0');
        return true;
    }
    let mut buffer = ryu::Buffer::new();
    let (digits, point) = split_shortest(buffer.format_finite(value.abs()));
    if value < 0.0 {
        out.push(b'-');
    }
    lay_out(out, digits.as_slice(), point);
    true
}

/// Append an integer of 64 bits.
pub fn write_small_integer(out: &mut Vec<u8>, value: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Append an integer of any size, given in two's complement, low byte first; return how many digits it has.
pub fn write_integer(out: &mut Vec<u8>, bytes: &[u8]) -> usize {
    const STEP: u64 = 1_000_000_000;
    let negative = bytes.last().is_some_and(|&high| high >= 0x80);
    let sign_fill = if negative { 0xFF } else { 0 };
    let mut limbs: Vec<u32> = bytes
        .chunks(4)
        .map(|chunk| u32::from_le_bytes([0, 1, 2, 3].map(|at| chunk.get(at).copied().unwrap_or(sign_fill))))
        .collect();
    if negative {
        out.push(b'-');
        let mut carry = true;
        for limb in &mut limbs {
            (*limb, carry) = (!*limb).overflowing_add(u32::from(carry));
        }
    }
    let mut groups = Vec::new();
    while limbs.iter().any(|&limb| limb != 0) {
        let mut rest = 0u64;
        for limb in limbs.iter_mut().rev() {
            let value = rest << 32 | u64::from(*limb);
            *limb = u32::try_from(value / STEP).unwrap_or(u32::MAX);
            rest = value % STEP;
        }
        groups.push(rest);
        limbs.truncate(limbs.iter().rposition(|&limb| limb != 0).map_or(0, |last| last + 1));
    }
    let start = out.len();
    out.extend_from_slice(groups.pop().unwrap_or(0).to_string().as_bytes());
    for group in groups.iter().rev() {
        out.extend_from_slice(format!("{group:09}").as_bytes());
    }
    out.len() - start
}

/// Order of two keys, given in UTF-8, by their UTF-16 code units.
///
/// UTF-8 orders by code point, which differs in one case only: characters beyond the BMP (lead byte F0 or more) come
/// before U+E000..U+FFFF (lead byte EE or EF).
#[must_use]
pub fn compare_keys(left: &[u8], right: &[u8]) -> Ordering {
    let differing = left.iter().zip(right).find(|(a, b)| a != b);
    match differing {
        None => left.len().cmp(&right.len()),
        Some((&a, &b)) if a >= 0xEE && b >= 0xEE && (a >= 0xF0) != (b >= 0xF0) => b.cmp(&a),
        Some((a, b)) => a.cmp(b),
    }
}

/// Digits of a positive double without leading and trailing zeros, on the stack.
struct Digits {
    bytes: [u8; 24],
    length: usize,
}

impl Digits {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Split the text of a positive double into its digits and the position of the decimal point: value = 0.DIGITS x
/// 10^point.
fn split_shortest(text: &str) -> (Digits, i32) {
    let mut digits = Digits { bytes: [0; 24], length: 0 };
    let mut point = 0;
    let mut seen_point = false;
    let mut bytes = text.bytes();
    for byte in bytes.by_ref() {
        match byte {
            b'.' => seen_point = true,
            b'e' => break,
            _ => {
                let leading_zero = byte == b'0' && digits.length == 0;
                point += i32::from(!seen_point && !leading_zero) - i32::from(seen_point && leading_zero);
                if !leading_zero {
                    digits.bytes[digits.length] = byte;
                    digits.length += 1;
                }
            }
        }
    }
    let mut exponent = 0;
    let mut sign = 1;
    for byte in bytes {
        match byte {
            b'-' => sign = -1,
            _ => exponent = exponent * 10 + i32::from(byte - b'0'),
        }
    }
    while digits.length > 1 && digits.bytes[digits.length - 1] == b'0' {
        digits.length -= 1;
    }
    (digits, point + sign * exponent)
}

/// ECMAScript `Number::toString`, steps 6 to 12, with `point` as its n.
fn lay_out(out: &mut Vec<u8>, digits: &[u8], point: i32) {
    let count = i32::try_from(digits.len()).unwrap_or(i32::MAX);
    let zeros = |out: &mut Vec<u8>, many: i32| out.extend((0..many).map(|_| b'0'));
    if (count..=21).contains(&point) {
        out.extend_from_slice(digits);
        zeros(out, point - count);
    } else if (1..=21).contains(&point) {
        let (whole, fraction) = digits.split_at(usize::try_from(point).unwrap_or(0));
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else if (-5..=0).contains(&point) {
        out.extend_from_slice(b"0.");
        zeros(out, -point);
        out.extend_from_slice(digits);
    } else {
        out.push(digits[0]);
        if count > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        }
        let exponent = point - 1;
        out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
        out.extend_from_slice(exponent.unsigned_abs().to_string().as_bytes());
    }
}

const fn needs_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Append UTF-8 text with the escapes of the form. Runs without escapes are copied in one piece.
fn write_escaped(out: &mut Vec<u8>, text: &[u8]) {
    let mut copied = 0;
    let mut escape_at = |out: &mut Vec<u8>, at: usize| {
        out.extend_from_slice(&text[copied..at]);
        write_escape(out, text[at]);
        copied = at + 1;
    };
    let mut at = 0;
    while let Some(chunk) = text[at..].first_chunk::<CHUNK_BYTES>() {
        let marks = escape_marks(chunk);
        if marks.iter().fold(0, |any, word| any | word) != 0 {
            for (index, mut word) in marks.into_iter().enumerate() {
                while word != 0 {
                    escape_at(out, at + index * 8 + (word.trailing_zeros() / 8) as usize);
                    word &= word - 1;
                }
            }
        }
        at += CHUNK_BYTES;
    }
    for (index, &byte) in text[at..].iter().enumerate() {
        if needs_escape(byte) {
            escape_at(out, at + index);
        }
    }
    out.extend_from_slice(&text[copied..]);
}

/// Set the high bit of each byte that needs an escape, eight bytes a word; this loop compiles to vector instructions.
fn escape_marks(chunk: &[u8; CHUNK_BYTES]) -> [u64; CHUNK_BYTES / 8] {
    let marks = chunk.map(|byte| if needs_escape(byte) { 0x80 } else { 0 });
    let mut words = [0; CHUNK_BYTES / 8];
    for (word, bytes) in words.iter_mut().zip(marks.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    }
    words
}

fn write_escape(out: &mut Vec<u8>, byte: u8) {
    let short = match byte {
        0x08 => b"\\b",
        0x09 => b"\\t",
        0x0A => b"\\n",
        0x0C => b"\\f",
        0x0D => b"\\r",
        b'"' => b"\\\"",
        b'\\' => b"\\\\",
        _ => {
            out.extend_from_slice(b"\\u00");
            out.extend([HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            return;
        }
    };
    out.extend_from_slice(short);
}
