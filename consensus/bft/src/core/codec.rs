//! Encoding of messages and records: a byte of kind, then the fields of the variant by RLP.

/// Encodes an enum, and decodes what is within its `bounds`, a method of its own that returns an RLP result.
///
/// A line gives a variant its kind and names its fields. In round brackets fields stand one after the other; in square brackets,
/// and in braces for a variant with named fields, they are one list. Kinds are on wires and disks: they never change.
macro_rules! tagged {
    ($type:ident, $what:literal, $($kind:literal => $variant:ident $fields:tt,)+) => {
        impl $type {
            const fn kind(&self) -> u8 {
                match self {
                    $(Self::$variant { .. } => $kind,)+
                }
            }
        }

        impl alloy_rlp::Encodable for $type {
            fn encode(&self, out: &mut dyn alloy_rlp::BufMut) {
                out.put_u8(self.kind());
                match self {
                    $(tagged!(@variant $variant $fields) => tagged!(@encode out $fields),)+
                }
            }

            fn length(&self) -> usize {
                1 + match self {
                    $(tagged!(@variant $variant $fields) => tagged!(@length $fields),)+
                }
            }
        }

        impl alloy_rlp::Decodable for $type {
            fn decode(bytes: &mut &[u8]) -> alloy_rlp::Result<Self> {
                let (kind, rest) = bytes.split_first().ok_or(alloy_rlp::Error::InputTooShort)?;
                *bytes = rest;
                let decoded = match kind {
                    $($kind => tagged!(@decode bytes $variant $fields),)+
                    _ => return Err(alloy_rlp::Error::Custom(concat!("unknown kind of ", $what))),
                };
                decoded.bounds()?;
                Ok(decoded)
            }
        }
    };
    (@variant $variant:ident ($($field:ident),+)) => { Self::$variant($($field),+) };
    (@variant $variant:ident [$($field:ident),+]) => { Self::$variant($($field),+) };
    (@variant $variant:ident {$($field:ident),+}) => { Self::$variant { $($field),+ } };
    (@payload $($field:ident),+) => { 0 $(+ alloy_rlp::Encodable::length($field))+ };
    (@encode $out:ident ($($field:ident),+)) => {{ $(alloy_rlp::Encodable::encode($field, $out);)+ }};
    (@encode $out:ident [$($field:ident),+]) => {{
        alloy_rlp::Header { list: true, payload_length: tagged!(@payload $($field),+) }.encode($out);
        $(alloy_rlp::Encodable::encode($field, $out);)+
    }};
    (@encode $out:ident {$($field:ident),+}) => { tagged!(@encode $out [$($field),+]) };
    (@length ($($field:ident),+)) => { tagged!(@payload $($field),+) };
    (@length [$($field:ident),+]) => {{
        let payload = tagged!(@payload $($field),+);
        payload + alloy_rlp::length_of_length(payload)
    }};
    (@length {$($field:ident),+}) => { tagged!(@length [$($field),+]) };
    (@decode $bytes:ident $variant:ident ($($field:ident),+)) => {{
        $(let $field = alloy_rlp::Decodable::decode($bytes)?;)+
        tagged!(@variant $variant ($($field),+))
    }};
    (@decode $bytes:ident $variant:ident [$($field:ident),+]) => {{
        let mut fields = alloy_rlp::Header::decode_bytes($bytes, true)?;
        $(let $field = alloy_rlp::Decodable::decode(&mut fields)?;)+
        if !fields.is_empty() {
            return Err(alloy_rlp::Error::UnexpectedLength);
        }
        tagged!(@variant $variant [$($field),+])
    }};
    (@decode $bytes:ident $variant:ident {$($field:ident),+}) => {{
        let mut fields = alloy_rlp::Header::decode_bytes($bytes, true)?;
        $(let $field = alloy_rlp::Decodable::decode(&mut fields)?;)+
        if !fields.is_empty() {
            return Err(alloy_rlp::Error::UnexpectedLength);
        }
        tagged!(@variant $variant {$($field),+})
    }};
}

pub(crate) use tagged;

/// Refuses a list that is longer than that of any correct replica.
pub(crate) const fn at_most(length: usize, most: usize, what: &'static str) -> alloy_rlp::Result<()> {
    if length <= most { Ok(()) } else { Err(alloy_rlp::Error::Custom(what)) }
}
