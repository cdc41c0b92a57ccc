use llama_cpp_sys_2 as sys;

/// The numbers that a tensor's first bytes stand for. `kind` is the file
/// format's number for their type.
///
/// # Panics
///
/// If there are too few bytes, or llama.cpp cannot read the type.
pub fn dequantize(kind: u32, bytes: &[u8], count: usize) -> Vec<f32> {
    const F32: u32 = 0;
    const TYPES: u32 = sys::GGML_TYPE_COUNT;
    assert!(kind < TYPES, "no type has the number {kind}");
    // SAFETY: the number is one of a type's.
    let (block, size, convert) = unsafe {
        let traits = &*sys::ggml_get_type_traits(kind);
        (traits.blck_size, traits.type_size, traits.to_float)
    };
    let needed = count / usize::try_from(block).expect("a size") * size;
    let bytes = &bytes[..needed];
    if kind == F32 {
        return bytes
            .chunks_exact(4)
            .map(|four| f32::from_le_bytes(four.try_into().expect("4 bytes")))
            .collect();
    }
    let convert = convert.expect("a type that can be read");
    let mut out = vec![0.0; count];
    // Blocks are read as structs of 16-bit numbers: a copy is aligned to more.
    let mut aligned = vec![0_u64; needed.div_ceil(8)];
    for (word, eight) in aligned.iter_mut().zip(bytes.chunks(8)) {
        let mut padded = [0; 8];
        padded[..eight.len()].copy_from_slice(eight);
        *word = u64::from_ne_bytes(padded);
    }
    // SAFETY: `aligned` holds all blocks of `count` numbers, and `out` has room
    // for as many.
    unsafe { convert(aligned.as_ptr().cast(), out.as_mut_ptr(), count as i64) };
    out
}

/// How many bytes a row of so many numbers takes. `kind` is the file format's
/// number for their type.
///
/// # Panics
///
/// If no type has the number.
pub fn row_size(kind: u32, columns: usize) -> usize {
    assert!(kind < sys::GGML_TYPE_COUNT, "no type has the number {kind}");
    // SAFETY: the number is one of a type's.
    unsafe { sys::ggml_row_size(kind, columns as i64) }
}

/// Rows of `columns` numbers in a type.
///
/// # Panics
///
/// If llama.cpp cannot write the type, or rows are no whole blocks.
pub fn quantize(kind: u32, numbers: &[f32], columns: usize) -> Vec<u8> {
    const F32: u32 = 0;
    if kind == F32 {
        return numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
    }
    let rows = numbers.len() / columns;
    let size = rows * row_size(kind, columns);
    // Blocks are written as structs of 16-bit numbers.
    let mut out = vec![0_u16; size.div_ceil(2)];
    // SAFETY: `row_size` checked the type; `numbers` and `out` are as long as so
    // many rows.
    let written = unsafe {
        sys::ggml_quantize_chunk(
            kind,
            numbers.as_ptr(),
            out.as_mut_ptr().cast(),
            0,
            rows as i64,
            columns as i64,
            std::ptr::null(),
        )
    };
    assert_eq!(written, size);
    let mut bytes: Vec<u8> = out.iter().flat_map(|pair| pair.to_ne_bytes()).collect();
    bytes.truncate(size);
    bytes
}
