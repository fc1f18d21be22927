//! Records decode to what was encoded, and damaged ones are refused.

use phalanx_merkle_proof::{Entry, Shape};

use super::{
    BlockRecord, ExtentItem, ExtentWriter, Kind, Marks, Records, TipRecord,
    extent::{EXTENT_BYTES, EXTENT_ENTRIES},
    frame_body, read_extent,
};

fn entry<'a>(key: &'a [u8], value: &'a [u8], height: u64) -> Entry<'a> {
    Entry { sentinel: false, key, value, next: [4; 32], previous: Some(3), height }
}

#[test]
fn moved_entries_keep_their_heights() {
    let mut writer = ExtentWriter::new(9, 0);
    for sn in 0..70u64 {
        writer.moved(sn, sn / 2, &entry(&sn.to_be_bytes(), b"v", sn % 5));
    }
    let mut seen = 0u64;
    for frame in writer.finish().iter() {
        let (kind, body) = frame_body(frame, &Marks::PLAIN).expect("a frame");
        let head = read_extent(kind, body, |item| {
            let ExtentItem::Moved(from, found, _) = item else { panic!("{item:?}") };
            assert_eq!((from, found), (seen / 2, entry(&seen.to_be_bytes(), b"v", seen % 5)));
            seen += 1;
        });
        assert_eq!(head.map(|head| head.height), Some(9));
        assert!(read_extent(Kind::Extent, body, |_| ()).is_none() || body.is_empty());
    }
    assert_eq!(seen, 70);
}

#[test]
fn block_and_tip_records_have_one_encoding() {
    let record = BlockRecord {
        seq: 1,
        committed: true,
        id: 2,
        parent_id: 3,
        height: 4,
        parent: [5; 32],
        root: [6; 32],
        first_extent: 7,
        extents: 8,
        first_sn: 9,
        shape: Shape { next_sn: 10, floor: 11, active: 12 },
        payload: vec![13; 14],
    };
    let records = record.encode(&Marks::PLAIN);
    let (_, body) = frame_body(&records.bytes, &Marks::PLAIN).expect("a frame");
    assert_eq!(BlockRecord::decode(body, &Marks::PLAIN), Some(record));
    let mut other = body.to_vec();
    other[12] = 2;
    assert_eq!(BlockRecord::decode(&other, &Marks::PLAIN), None);
    // Counts at which the log could not go on, of a block and of its id.
    for place in [4, 13] {
        let mut other = body.to_vec();
        other[place..place + 8].copy_from_slice(&u64::MAX.to_be_bytes());
        assert_eq!(BlockRecord::decode(&other, &Marks::PLAIN), None);
    }
    for note in [&b""[..], b"where consensus stands"] {
        let tip = TipRecord { seq: 1, id: 2, note: note.to_vec() };
        let records = tip.encode(&Marks::PLAIN);
        let (_, body) = frame_body(&records.bytes, &Marks::PLAIN).expect("a frame");
        assert_eq!(TipRecord::decode(body, &Marks::PLAIN), Some(tip));
        assert_eq!(TipRecord::decode(&body[..body.len() - note.len() - 1], &Marks::PLAIN), None);
    }
}

#[test]
fn extents_decode_to_what_was_encoded_and_end_at_their_limits() {
    let mut writer = ExtentWriter::new(5, 0);
    let long = vec![9u8; 4000];
    for sn in 0..100u64 {
        let value: &[u8] = if sn % 50 == 49 { &long } else { b"value" };
        writer.entry(1000 + sn, &entry(&sn.to_be_bytes(), value, 5));
    }
    for sn in 0..700u64 {
        writer.delete(1100, sn, b"gone");
    }
    let records = writer.finish();
    let (mut entries, mut deletes) = (0u64, 0u64);
    for frame in records.iter() {
        let (kind, body) = frame_body(frame, &Marks::PLAIN).expect("a frame");
        assert_eq!(kind, Kind::Extent);
        assert!(body.len() < 2 * EXTENT_BYTES);
        let (expected, before) = (1000 + entries, entries);
        let head = read_extent(Kind::Extent, body, |item| match item {
            ExtentItem::Entry(entry, encoded) => {
                assert_eq!((entry.key, entry.height), (&entries.to_be_bytes()[..], 5));
                assert_eq!(encoded.len(), Entry::HEADER + 8 + entry.value.len());
                entries += 1;
            }
            ExtentItem::Delete(sn, key) => {
                assert_eq!((sn, key), (deletes, &b"gone"[..]));
                deletes += 1;
            }
            ExtentItem::Moved(..) | ExtentItem::Kept(..) => panic!("nothing was moved"),
        })
        .expect("an extent");
        assert_eq!(head.first_sn, expected);
        assert!(entries - before <= u64::from(EXTENT_ENTRIES));
        for cut in 0..body.len() {
            assert!(read_extent(Kind::Extent, &body[..cut], |_| ()).is_none());
        }
    }
    assert_eq!((entries, deletes), (100, 700));
}

#[test]
fn a_changed_frame_fails_its_checksum() {
    let mut records = Records::default();
    records.push(Kind::Code, |out| out.extend_from_slice(b"some code"));
    assert_eq!(frame_body(&records.bytes, &Marks::PLAIN), Some((Kind::Code, &b"some code"[..])));
    for at in 0..records.bytes.len() {
        let mut changed = records.bytes.clone();
        changed[at] ^= 0x40;
        assert_eq!(frame_body(&changed, &Marks::PLAIN), None, "byte {at}");
        assert_eq!(frame_body(&records.bytes[..at], &Marks::PLAIN), None);
    }
}
