//! Length-prefixed fields in a byte buffer, and a reader that never trusts a length.

/// Appends fields; every one carries its length, so no two lists of fields give the same bytes.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn with_capacity(capacity_bytes: usize) -> Self {
        Self(Vec::with_capacity(capacity_bytes))
    }

    pub(crate) fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// A field: its length as 64 bits, then its bytes.
    pub(crate) fn field(&mut self, bytes: &[u8]) -> &mut Self {
        self.u64(length(bytes.len()));
        self.0.extend_from_slice(bytes);
        self
    }

    /// One byte for whether there is a field, then the field.
    pub(crate) fn optional(&mut self, bytes: Option<&[u8]>) -> &mut Self {
        self.0.push(u8::from(bytes.is_some()));
        if let Some(bytes) = bytes {
            self.field(bytes);
        }
        self
    }

    /// A count, then that many fields.
    pub(crate) fn list<T: AsRef<[u8]>>(&mut self, items: impl ExactSizeIterator<Item = T>) -> &mut Self {
        self.u64(length(items.len()));
        for item in items {
            self.field(item.as_ref());
        }
        self
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads what [`Writer`] wrote; `None` as soon as anything does not fit.
#[derive(Debug, Clone)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    pub(crate) fn field(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.u64()?).ok()?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.field()?).ok()
    }

    /// `Some(None)` is a field that is absent, `None` is broken data.
    pub(crate) fn optional(&mut self) -> Option<Option<&'a [u8]>> {
        match self.byte()? {
            0 => Some(None),
            1 => self.field().map(Some),
            _ => None,
        }
    }

    /// A count that the remaining bytes can hold.
    pub(crate) fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.u64()?).ok()?;
        // Each field takes at least its length.
        (count <= self.0.len() / 8).then_some(count)
    }

    pub(crate) fn texts(&mut self) -> Option<Vec<String>> {
        (0..self.count()?).map(|_| self.text().map(str::to_owned)).collect()
    }

    pub(crate) fn fields(&mut self) -> Option<Vec<Vec<u8>>> {
        (0..self.count()?).map(|_| self.field().map(<[u8]>::to_vec)).collect()
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

fn length(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_and_nothing_else_is() {
        let mut writer = Writer::default();
        writer.u32(7).field(b"ab").optional(None).optional(Some(b"")).list([b"x".as_slice(), b""].iter());
        let bytes = writer.finish();
        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.u32(), Some(7));
        assert_eq!(reader.field(), Some(&b"ab"[..]));
        assert_eq!(reader.optional(), Some(None));
        assert_eq!(reader.optional(), Some(Some(&b""[..])));
        assert_eq!(reader.fields(), Some(vec![b"x".to_vec(), Vec::new()]));
        assert!(reader.is_empty());
    }

    #[test]
    fn lengths_beyond_the_data_are_refused() {
        let mut writer = Writer::default();
        writer.u64(u64::MAX);
        let bytes = writer.finish();
        assert_eq!(Reader::new(&bytes).field(), None);
        assert_eq!(Reader::new(&bytes).count(), None);
        assert_eq!(Reader::new(&[2]).optional(), None);
    }
}
