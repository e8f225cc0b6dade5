//! Goal: the writer of the native core keeps its promises without Python.
//!
//! Method: threads append to files in a folder of their own; the files are then read frame by frame.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use _native::commit::Committer;
use _native::error::Error;
use _native::format::{HEADER_BYTES, KIND_CLOSE, KIND_EVENT};
use _native::frame::{FrameHeader, check_body, decode_frame_header};
use _native::idindex::IdIndex;
use _native::receipt::{Answer, NewEvent, Start};
use _native::writer::Writer;

const SEGMENT_ID: [u8; 16] = *b"0123456789abcdef";

/// A folder that is removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("turnlog-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn open(&self, committer: &Arc<Committer>, name: &str, ids: Option<Arc<IdIndex>>) -> (Writer, PathBuf) {
        let path = self.0.join(name);
        fs::write(&path, [0; HEADER_BYTES]).expect("a file");
        let (segment_id, end, roll_bytes) = (SEGMENT_ID, HEADER_BYTES as u64, 1 << 20);
        let start = Start { segment_id, end, ordinal: 0, chain: [0; 32], epoch: 1, roll_bytes, ids };
        (Writer::open(committer, &path, &start).expect("a writer"), path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the folder can be removed");
    }
}

fn event(payload: &[u8]) -> NewEvent<'_> {
    NewEvent { type_name: "note", payload, event_id: None, raw: true }
}

fn frames(path: &Path) -> Vec<FrameHeader> {
    let data = fs::read(path).expect("the file");
    let mut frames = Vec::new();
    let mut offset = HEADER_BYTES;
    while data.get(offset).is_some_and(|byte| *byte != 0) {
        let header = decode_frame_header(&data[offset..], &SEGMENT_ID, offset as u64).expect("a frame");
        check_body(&data[offset..], &header, &SEGMENT_ID).expect("a whole frame");
        offset += usize::try_from(header.frame_length()).expect("a length");
        frames.push(header);
    }
    assert!(data[offset..].iter().all(|byte| *byte == 0));
    frames
}

#[test]
fn threads_on_many_writers_get_contiguous_ordinals_that_are_durable() {
    let folder = Folder::new("threads");
    let committer = Committer::new(&folder.0, Duration::from_secs(60), true).expect("a committer");
    let writers: Vec<_> =
        (0..8).map(|number| folder.open(&committer, &format!("{number}.seg"), None)).collect();
    thread::scope(|scope| {
        for (writer, _) in writers.iter().cycle().take(16) {
            scope.spawn(|| {
                for _ in 0..50 {
                    let answers = writer.append(&[event(b"payload")], true, false).expect("space");
                    let ordinal = answers.expect("not full")[0].ordinal();
                    assert!(writer.head().expect("same process").durable_ordinal >= ordinal);
                }
            });
        }
    });
    for (writer, path) in &writers {
        writer.close().expect("a sync");
        let frames = frames(path);
        assert_eq!(frames.iter().filter(|frame| frame.kind == KIND_EVENT).count(), 100);
        assert!(frames.iter().zip(1..).take(100).all(|(frame, ordinal)| frame.ordinal == ordinal));
        assert_eq!(frames.last().map(|frame| frame.kind), Some(KIND_CLOSE));
    }
    committer.close().expect("same process");
}

#[test]
fn a_known_id_a_full_segment_and_a_closed_writer_have_their_own_answers() {
    let folder = Folder::new("answers");
    let committer = Committer::new(&folder.0, Duration::from_secs(60), true).expect("a committer");
    let (writer, path) = folder.open(&committer, "a.seg", Some(Arc::default()));
    let known = NewEvent { event_id: Some([7; 16]), ..event(b"1") };
    assert!(
        matches!(writer.append(&[known], false, false), Ok(Some(answers)) if matches!(answers[0], Answer::New(_)))
    );
    assert_eq!(writer.append(&[known], true, false), Ok(Some(vec![Answer::Known(1)])));
    assert!(matches!(writer.append(&[known, event(b"2")], true, true), Err(Error::Conflict(_))));
    let large = vec![0; 1 << 20];
    assert!(matches!(writer.append(&[event(&large)], false, false), Ok(Some(_))));
    assert_eq!(writer.append(&[event(b"3")], false, false), Ok(None));
    assert!(matches!(
        writer.append(&[NewEvent { type_name: "", ..known }], true, false),
        Err(Error::InvalidType(_))
    ));
    writer.close().expect("a sync");
    assert!(matches!(writer.append(&[known], true, false), Err(Error::Closed(_))));
    assert_eq!(frames(&path).len(), 3);
}
