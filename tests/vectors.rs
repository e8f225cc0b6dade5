//! Goal: the native core reproduces the golden vectors byte for byte without Python, and its decoder finds every fault.
//!
//! Method: `tests/vectors/vectors.json` and the segments beside it are read, as `tests/core/test_vectors.py` does for
//! both cores; then every bit of a frame is flipped, each condition is broken alone, and the frame is cut at every
//! length.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test that fails may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use _native::canon::{
    compare_keys, write_float, write_integer, write_small_integer, write_string, write_units,
};
use _native::format::{HEADER_BYTES, KIND_EVENT};
use _native::frame::{
    FrameFault, FrameFields, FrameHeader, TYPE_AT, chain_next, chain_start, check_body, decode_frame_header,
    digest, encode_frame,
};
use _native::header::{DecodedHeader, decode_header, encode_header};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn vectors(name: &str) -> Vec<Value> {
    let text = fs::read_to_string(folder().join("vectors.json")).unwrap();
    let mut all: Value = serde_json::from_str(&text).unwrap();
    let Value::Array(cases) = all[name].take() else { panic!("no vectors named {name}") };
    assert!(!cases.is_empty());
    cases
}

fn hex(value: &Value) -> Vec<u8> {
    let digits = value.as_str().unwrap();
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn fixed<const N: usize>(value: &Value) -> [u8; N] {
    hex(value).try_into().unwrap()
}

fn number<T: TryFrom<u64>>(value: &Value) -> T {
    T::try_from(value.as_u64().unwrap()).ok().unwrap()
}

/// The first frame of the first segment, and that segment's id.
fn first_frame() -> (Vec<u8>, [u8; 16]) {
    let case = &vectors("segments")[0];
    let data = fs::read(folder().join(case["file"].as_str().unwrap())).unwrap();
    let end = number::<usize>(&case["frames"][1]["offset"]);
    (data[HEADER_BYTES..end].to_vec(), fixed(&case["header"]["segment_id"]))
}

fn decode(frame: &[u8], segment_id: &[u8; 16]) -> Result<FrameHeader, FrameFault> {
    let header = decode_frame_header(frame, segment_id, HEADER_BYTES as u64)?;
    check_body(frame, &header, segment_id)?;
    Ok(header)
}

/// Canonical form of a parsed document, from the pieces of `canon`.
fn canonical(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => match number.as_i64() {
            Some(small) => write_small_integer(out, small),
            None => assert!(write_float(out, number.as_f64().unwrap())),
        },
        Value::String(text) => write_string(out, text.as_bytes()),
        Value::Array(items) => {
            out.push(b'[');
            for (index, item) in items.iter().enumerate() {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                canonical(out, item);
            }
            out.push(b']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|left, right| compare_keys(left.0.as_bytes(), right.0.as_bytes()));
            out.push(b'{');
            for (index, (key, member)) in members.into_iter().enumerate() {
                out.extend_from_slice(if index > 0 { b"," } else { b"" });
                write_string(out, key.as_bytes());
                out.push(b':');
                canonical(out, member);
            }
            out.push(b'}');
        }
    }
}

#[test]
fn canonical_bytes_and_digests_are_reproduced() {
    let mut seen = 0;
    for case in vectors("canonical") {
        let text = case["json"].as_str().unwrap();
        assert_eq!(digest(&hex(&case["bytes"])), fixed(&case["digest"]));
        // serde_json holds neither lone surrogates nor integers beyond 64 bits; the Python suite covers those.
        let document =
            serde_json::from_str::<Value>(text).ok().filter(|_| !text.contains("18446744073709551617"));
        if let Some(document) = document {
            let mut out = Vec::new();
            canonical(&mut out, &document);
            assert_eq!(String::from_utf8(out).unwrap(), String::from_utf8(hex(&case["bytes"])).unwrap());
            seen += 1;
        }
    }
    assert!(seen > 10);
}

#[test]
fn doubles_are_reproduced() {
    for case in vectors("doubles") {
        let bits = u64::from_be_bytes(fixed(&case["bits"]));
        let mut out = Vec::new();
        assert!(write_float(&mut out, f64::from_bits(bits)));
        assert_eq!(String::from_utf8(out).unwrap(), case["text"].as_str().unwrap());
    }
    for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut out = Vec::new();
        assert!(!write_float(&mut out, value));
        assert!(out.is_empty());
    }
}

#[test]
fn integers_of_any_size_are_written_as_digits() {
    for value in [
        0,
        1,
        -1,
        255,
        -256,
        1_000_000_000,
        -4_294_967_296,
        i64::MAX.into(),
        i64::MIN.into(),
        i128::MAX,
        i128::MIN,
    ] {
        let mut out = Vec::new();
        let digits = write_integer(&mut out, &value.to_le_bytes());
        assert_eq!(String::from_utf8(out.clone()).unwrap(), value.to_string());
        assert_eq!(digits, out.len() - usize::from(value < 0));
        if let Ok(small) = i64::try_from(value) {
            let mut same = Vec::new();
            write_small_integer(&mut same, small);
            assert_eq!(same, out);
        }
    }
}

#[test]
fn keys_come_in_the_order_of_their_code_units() {
    let keys: Vec<Vec<u16>> =
        vectors("keys").iter().map(|key| key.as_array().unwrap().iter().map(number).collect()).collect();
    assert!(keys.is_sorted());
    let texts: Vec<String> = keys.iter().filter_map(|units| String::from_utf16(units).ok()).collect();
    assert!(texts.len() < keys.len());
    for left in &texts {
        for right in &texts {
            let by_units = left.encode_utf16().cmp(right.encode_utf16());
            assert_eq!(compare_keys(left.as_bytes(), right.as_bytes()), by_units, "{left:?} {right:?}");
        }
    }
}

#[test]
fn lone_surrogates_are_escaped_and_pairs_joined() {
    let mut out = Vec::new();
    write_units(&mut out, &[0x61, 0xDC00, 0xD83D, 0xDE00, 0x0A, 0xD83D]);
    assert_eq!(String::from_utf8(out).unwrap(), "\"a\\udc00\u{1F600}\\n\\ud83d\"");
}

#[test]
fn every_escape_is_found_at_every_place() {
    for code in 0..=0x80u8 {
        for before in 0..70 {
            let mut out = Vec::new();
            let text =
                format!("{}{}z", "\u{e9}".repeat(before / 2) + &"a".repeat(before % 2), char::from(code));
            write_string(&mut out, text.as_bytes());
            let expected = serde_json::to_string(&text).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}

#[test]
fn chain_starts_are_reproduced() {
    for case in vectors("chain_starts") {
        let parent = fixed(&case["parent_session_id"]);
        let chain = chain_start(
            &fixed(&case["session_id"]),
            &parent,
            number(&case["fork_ordinal"]),
            &fixed(&case["parent_chain"]),
        );
        assert_eq!(chain, fixed(&case["chain"]));
    }
}

#[test]
fn segments_are_reproduced() {
    for case in vectors("segments") {
        let expected = fs::read(folder().join(case["file"].as_str().unwrap())).unwrap();
        let decoded = decode_header(&expected);
        let fields = decoded.fields.clone().unwrap();
        assert_eq!(
            decoded,
            DecodedHeader { fields: Some(fields.clone()), fault: None, degraded: false, read_only: false }
        );
        assert_eq!(fields.segment_id, fixed::<16>(&case["header"]["segment_id"]));
        assert_eq!(fields.writer_name, case["header"]["writer_name"].as_str().unwrap());
        let mut data = encode_header(&fields);
        let mut chain = fields.prev_chain;
        for shown in case["frames"].as_array().unwrap() {
            let frame = encode_shown(&mut data, &fields.segment_id, shown);
            let decoded = decode_frame_header(
                &expected[data.len() - frame..],
                &fields.segment_id,
                number(&shown["offset"]),
            );
            let header = decoded.unwrap();
            assert_eq!(header.frame_length(), frame as u64);
            assert_eq!(check_body(&expected[data.len() - frame..], &header, &fields.segment_id), Ok(()));
            if header.kind == KIND_EVENT {
                let type_name = shown["type"].as_str().unwrap().as_bytes();
                chain = chain_next(
                    &chain,
                    header.ordinal,
                    &header.event_id,
                    header.time_us,
                    &header.digest,
                    type_name,
                );
                assert_eq!(chain, fixed(&shown["chain"]));
            }
        }
        assert_eq!(data, expected);
    }
}

/// Append the frame that the vectors show; return its length.
fn encode_shown(data: &mut Vec<u8>, segment_id: &[u8; 16], shown: &Value) -> usize {
    let payload = hex(&shown["payload"]);
    let before = data.len();
    assert_eq!(before, number::<usize>(&shown["offset"]));
    let fields = FrameFields {
        kind: number(&shown["kind"]),
        flags: number(&shown["flags"]),
        epoch: number(&shown["epoch"]),
        ordinal: number(&shown["ordinal"]),
        durable_off: number(&shown["durable_off"]),
        event_id: fixed(&shown["event_id"]),
        time_us: number(&shown["time_us"]),
        digest: digest(&payload),
        type_name: shown["type"].as_str().unwrap().as_bytes(),
        payload: &payload,
    };
    encode_frame(data, segment_id, before as u64, &fields);
    data.len() - before
}

#[test]
fn a_flipped_bit_anywhere_is_a_fault() {
    let (frame, segment_id) = first_frame();
    let header = decode(&frame, &segment_id).unwrap();
    assert_eq!(&frame[TYPE_AT..TYPE_AT + header.type_length], b"message.user");
    for at in 0..frame.len() {
        for bit in 0..8 {
            let mut flipped = frame.clone();
            flipped[at] ^= 1 << bit;
            assert!(decode(&flipped, &segment_id).is_err(), "byte {at}, bit {bit}");
        }
    }
}

#[test]
fn a_frame_cut_anywhere_is_short() {
    let (frame, segment_id) = first_frame();
    for length in 0..frame.len() {
        assert_eq!(decode(&frame[..length], &segment_id), Err(FrameFault::Short), "{length}");
    }
}

#[test]
fn a_frame_at_another_place_or_in_another_segment_is_a_fault() {
    let (frame, segment_id) = first_frame();
    for (offset, fault) in [
        (0, FrameFault::Place),
        (4088, FrameFault::Place),
        (4097, FrameFault::Place),
        (4104, FrameFault::HeaderChecksum),
    ] {
        assert_eq!(decode_frame_header(&frame, &segment_id, offset), Err(fault));
    }
    assert_eq!(decode(&frame, &[0; 16]), Err(FrameFault::HeaderChecksum));
}

#[test]
fn each_condition_is_named_when_it_alone_is_broken() {
    let (_, segment_id) = first_frame();
    for case in vectors("broken_frames") {
        let fault = decode(&hex(&case["frame"]), &segment_id).unwrap_err();
        assert_eq!(fault.to_string(), case["fault"].as_str().unwrap());
    }
}
