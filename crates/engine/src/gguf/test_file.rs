/// Writes GGUF files for tests, wrong ones too: nothing is checked, and every
/// number in it can be a lie.
#[derive(Clone, Debug)]
pub(crate) struct TestFile {
    pub(crate) magic: [u8; 4],
    pub(crate) version: u32,
    /// Number of tensors and of metadata values, if not the true ones.
    pub(crate) claimed: [Option<u64>; 2],
    pub(crate) alignment: usize,
    /// With names, so that they can be taken out again.
    pub(crate) values: Vec<(String, Vec<u8>)>,
    pub(crate) tensors: Vec<(String, Vec<u8>)>,
    pub(crate) data: Vec<u8>,
}

impl TestFile {
    pub(crate) fn new() -> Self {
        Self {
            magic: *b"GGUF",
            version: 3,
            claimed: [None; 2],
            alignment: 32,
            values: Vec::new(),
            tensors: Vec::new(),
            data: Vec::new(),
        }
    }

    /// A value of any type: `kind` is the format's number for it.
    pub(crate) fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Self {
        let mut entry = text(key);
        entry.extend(kind.to_le_bytes());
        entry.extend(value);
        self.values.push((key.to_owned(), entry));
        self
    }

    pub(crate) fn u32(self, key: &str, value: u32) -> Self {
        self.raw(key, 4, &value.to_le_bytes())
    }

    pub(crate) fn f32(self, key: &str, value: f32) -> Self {
        self.raw(key, 6, &value.to_le_bytes())
    }

    pub(crate) fn string(self, key: &str, value: &str) -> Self {
        self.raw(key, 8, &text(value))
    }

    /// An array whose elements have the type `kind` and are `count` many.
    pub(crate) fn array(self, key: &str, kind: u32, count: u64, elements: &[u8]) -> Self {
        let mut value = kind.to_le_bytes().to_vec();
        value.extend(count.to_le_bytes());
        value.extend(elements);
        self.raw(key, 9, &value)
    }

    pub(crate) fn strings(self, key: &str, strings: &[&str]) -> Self {
        let elements: Vec<u8> = strings.iter().flat_map(|s| text(s)).collect();
        self.array(key, 8, strings.len() as u64, &elements)
    }

    /// A tensor's entry, without data.
    pub(crate) fn entry(mut self, name: &str, shape: &[u64], kind: u32, offset: u64) -> Self {
        let mut entry = text(name);
        entry.extend((shape.len() as u32).to_le_bytes());
        entry.extend(shape.iter().flat_map(|n| n.to_le_bytes()));
        entry.extend(kind.to_le_bytes());
        entry.extend(offset.to_le_bytes());
        self.tensors.push((name.to_owned(), entry));
        self
    }

    /// A tensor with its data.
    pub(crate) fn tensor(mut self, name: &str, shape: &[u64], kind: u32, data: &[u8]) -> Self {
        self.data.resize(self.data.len().next_multiple_of(self.alignment), 0);
        let offset = self.data.len() as u64;
        self.data.extend(data);
        self.entry(name, shape, kind, offset)
    }

    /// A tensor of type `F32` with its data.
    pub(crate) fn tensor_f32(self, name: &str, shape: &[u64], data: &[f32]) -> Self {
        let data: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        self.tensor(name, shape, 0, &data)
    }

    /// Takes out the values and tensors of this name.
    pub(crate) fn without(mut self, name: &str) -> Self {
        self.values.retain(|(key, _)| key != name);
        self.tensors.retain(|(key, _)| key != name);
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let counts = [self.tensors.len() as u64, self.values.len() as u64];
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        for (claimed, count) in self.claimed.iter().zip(counts) {
            out.extend(claimed.unwrap_or(count).to_le_bytes());
        }
        for (_, entry) in self.values.iter().chain(&self.tensors) {
            out.extend(entry);
        }
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.extend(&self.data);
        out
    }
}

/// A string as the format stores it.
pub(crate) fn text(text: &str) -> Vec<u8> {
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out
}
