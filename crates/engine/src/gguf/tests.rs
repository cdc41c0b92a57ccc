use proptest::prelude::*;

use super::{
    test_file::{TestFile, text},
    *,
};

fn parse(file: &TestFile) -> Result<Gguf, GgufError> {
    Gguf::from_bytes(file.bytes())
}

/// What is wrong with the file, as its user reads it: always one line.
fn complaint(file: &TestFile) -> String {
    let message = parse(file).expect_err("the file is wrong").to_string();
    assert!(!message.contains('\n') && message.len() < 250, "{message}");
    message
}

/// A sound file with every type of value and two tensors.
fn sample() -> TestFile {
    TestFile::new()
        .raw("u8", 0, &[200])
        .raw("i8", 1, &[200])
        .raw("u16", 2, &40_000_u16.to_le_bytes())
        .raw("i16", 3, &(-2_i16).to_le_bytes())
        .u32("u32", 4_000_000_000)
        .raw("i32", 5, &(-3_i32).to_le_bytes())
        .f32("f32", 0.5)
        .raw("bool", 7, &[1])
        .string("string", "Größe")
        .array("f32s", 6, 2, &[1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat())
        .array("i32s", 5, 1, &(-7_i32).to_le_bytes())
        .array("u32s", 4, 1, &7_u32.to_le_bytes())
        .array("none", 4, 0, &[])
        .strings("strings", &["a", "", "bc"])
        .raw("u64", 10, &5_000_000_000_u64.to_le_bytes())
        .raw("i64", 11, &7_i64.to_le_bytes())
        .raw("f64", 12, &0.25_f64.to_le_bytes())
        .tensor_f32("first", &[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
        .tensor_f32("second", &[1], &[7.0])
}

#[test]
fn the_embedded_model_opens() {
    let file = Gguf::from_static(crate::EMBEDDED_GGUF).unwrap();
    // From the script that wrote the file.
    assert_eq!(file.tensors().count(), 56);
    assert_eq!(file.strings("tokenizer.ggml.tokens").unwrap().unwrap().len(), 2048);
}

#[test]
fn a_file_without_anything_is_sound() {
    let file = parse(&TestFile::new()).unwrap();
    assert_eq!((file.keys().count(), file.tensors().count()), (0, 0));
}

/// Expected values are those that `sample` wrote.
#[test]
fn each_value_is_found_by_its_getter() {
    for version in [2, 3] {
        let file = parse(&TestFile { version, ..sample() }).unwrap();
        assert_eq!(file.string("string"), Ok(Some("Größe")));
        assert_eq!(file.bool("bool"), Ok(Some(true)));
        assert_eq!(file.u32("u8"), Ok(Some(200)));
        assert_eq!(file.u32("u16"), Ok(Some(40_000)));
        assert_eq!(file.u32("u32"), Ok(Some(4_000_000_000)));
        assert_eq!(file.u32("i64"), Ok(Some(7)));
        assert_eq!(file.f32("f32"), Ok(Some(0.5)));
        assert_eq!(file.f32("f64"), Ok(Some(0.25)));
        assert_eq!(file.strings("strings"), Ok(Some(vec!["a", "", "bc"])));
        assert_eq!(file.f32s("f32s"), Ok(Some(vec![1.0, 2.0])));
        assert_eq!(file.i32s("i32s"), Ok(Some(vec![-7])));
        assert_eq!(file.i32s("u32s"), Ok(Some(vec![7])));
        assert_eq!(file.i32s("none"), Ok(Some(vec![])));
        assert_eq!(file.string("nowhere"), Ok(None));
    }
}

#[test]
fn tensors_are_found_where_they_were_put() {
    let file = parse(&sample()).unwrap();
    let first = file.tensor("first").unwrap();
    assert_eq!((&first.shape[..], first.kind, first.size()), (&[2, 3][..], TensorType::F32, 24));
    let second = file.tensor("second").unwrap();
    assert_eq!(file.tensor_data(second).bytes(), 7.0_f32.to_le_bytes());
    assert_eq!(file.tensor("third"), None);
}

#[test]
fn a_value_of_another_type_is_named_with_both_types() {
    let file = parse(&sample()).unwrap();
    for (error, expected) in [
        (
            file.u32("string").unwrap_err(),
            "the metadata value 'string' is the string 'Größe'; it must be a whole number of at most 32 bits",
        ),
        (
            file.u32("i32").unwrap_err(),
            "the metadata value 'i32' is the i32 -3; it must be a whole number of at most 32 bits",
        ),
        (
            file.u32("u64").unwrap_err(),
            "the metadata value 'u64' is the u64 5000000000; it must be a whole number of at most 32 bits",
        ),
        (
            file.f32("u8").unwrap_err(),
            "the metadata value 'u8' is the u8 200; it must be a floating-point number",
        ),
        (
            file.string("strings").unwrap_err(),
            "the metadata value 'strings' is an array of 3 string; it must be a string",
        ),
        (
            file.strings("f32s").unwrap_err(),
            "the metadata value 'f32s' is an array of 2 f32; it must be an array of strings",
        ),
        (
            file.bool("f64").unwrap_err(),
            "the metadata value 'f64' is the f64 0.25; it must be a bool",
        ),
        (
            file.i32s("bool").unwrap_err(),
            "the metadata value 'bool' is the bool true; it must be an array of i32",
        ),
        (file.require("nope", Gguf::f32s).unwrap_err(), "the file lacks the metadata key 'nope'"),
    ] {
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let bytes = sample().bytes();
    for length in 0..bytes.len() {
        let error = Gguf::from_bytes(bytes[..length].to_vec()).expect_err("the file is cut");
        let right = matches!(error, GgufError::Truncated { .. } | GgufError::OutOfRange { .. });
        assert!(right, "cut at {length}: {error}");
    }
    Gguf::from_bytes(bytes).unwrap();
}

#[test]
fn other_files_are_told_apart() {
    assert_eq!(
        complaint(&TestFile { magic: *b"PK\x03\x04", ..TestFile::new() }),
        r"not a GGUF file: it begins with 'PK\x03\x04', not with 'GGUF'"
    );
    assert_eq!(
        complaint(&TestFile { version: 1, ..TestFile::new() }),
        "GGUF version 1 is not supported; versions 2 and 3 are"
    );
    assert_eq!(
        complaint(&TestFile { version: 3_u32.swap_bytes(), ..TestFile::new() }),
        "the GGUF file is big-endian; only little-endian files are supported"
    );
    assert_eq!(
        Gguf::from_bytes(Vec::new()).unwrap_err().to_string(),
        "the file ends too early: the magic number needs 4 bytes at byte 0, 0 are left"
    );
}

/// Each would need more memory than there is, were it believed.
#[test]
fn counts_that_lie_are_refused_at_once() {
    let huge = u64::MAX;
    let file = TestFile { alignment: 1, ..TestFile::new() };
    assert_eq!(
        complaint(&TestFile { claimed: [Some(huge), None], ..file.clone() }),
        "the file ends too early: the name of tensor 0 needs 8 bytes at byte 24, 0 are left"
    );
    assert_eq!(
        complaint(&TestFile { claimed: [None, Some(huge)], ..file.clone() }),
        "the file ends too early: the key of metadata value 0 needs 8 bytes at byte 24, 0 are left"
    );
    assert_eq!(
        complaint(&file.clone().raw("s", 8, &(1_u64 << 60).to_le_bytes())),
        "the file ends too early: the metadata value 's' needs 1152921504606846976 bytes at byte 45, 0 are left"
    );
    assert_eq!(
        complaint(&file.clone().array("a", 12, huge, &[])),
        "the file ends too early: the metadata value 'a' needs 18446744073709551615 bytes at byte 49, 0 are left"
    );
    assert_eq!(
        complaint(&file.array("a", 8, huge, &text("x"))),
        "the file ends too early: the metadata value 'a'[1] needs 8 bytes at byte 58, 0 are left"
    );
}

#[test]
fn values_that_make_no_sense_are_refused() {
    let file = TestFile::new;
    for (file, expected) in [
        (
            file().raw("k", 13, &[]),
            "the metadata value 'k' has the unknown type 13; types are 0 to 12",
        ),
        (
            file().array("k", 99, 0, &[]),
            "the metadata value 'k' has the unknown type 99; types are 0 to 12",
        ),
        (
            file().array("k", 9, 1, &[0; 12]),
            "the metadata value 'k' is an array of arrays, which is not supported",
        ),
        (
            file().raw("k", 7, &[2]),
            "the metadata value 'k' holds a bool of 2; 0 and 1 are permitted",
        ),
        (
            file().array("k", 7, 2, &[1, 3]),
            "the metadata value 'k' holds a bool of 3; 0 and 1 are permitted",
        ),
        (file().u32("k", 1).f32("k", 1.0), "the metadata key 'k' stands twice"),
        (
            file().raw("k", 8, &[1, 0, 0, 0, 0, 0, 0, 0, 0xff]),
            "the metadata value 'k' at byte 45 is not UTF-8",
        ),
        (
            file().u32("general.alignment", 0),
            "the metadata value 'general.alignment' is the u32 0; it must be a power of two",
        ),
        (
            file().u32("general.alignment", 48),
            "the metadata value 'general.alignment' is the u32 48; it must be a power of two",
        ),
        (
            file().string("general.alignment", "32"),
            "the metadata value 'general.alignment' is the string '32'; it must be a power of two",
        ),
        (
            file().u32(&"k".repeat(70_000), 1),
            "the key of metadata value 0 has 70000 bytes; at most 65535 are permitted",
        ),
    ] {
        assert_eq!(complaint(&file), expected);
    }
}

#[test]
fn tensors_that_make_no_sense_are_refused() {
    let file = TestFile::new;
    let half = 1 << 32;
    for (file, expected) in [
        (file().entry("t", &[], 0, 0), "the tensor 't' has 0 dimensions; 1 to 4 are permitted"),
        (file().entry("t", &[1; 5], 0, 0), "the tensor 't' has 5 dimensions; 1 to 4 are permitted"),
        (file().entry("t", &[2, 0], 0, 0), "the tensor 't' has the impossible shape [2, 0]"),
        (
            file().entry("t", &[half, half], 0, 0),
            "the tensor 't' has the impossible shape [4294967296, 4294967296]",
        ),
        // As many elements as a `usize` can count, but not their bytes.
        (
            file().entry("t", &[half, half / 2], 28, 0),
            "the tensor 't' has the impossible shape [4294967296, 2147483648]",
        ),
        (file().entry("t", &[32], 4, 0), "the tensor 't' has the unknown type number 4"),
        (
            file().entry("t", &[33], 8, 0),
            "the tensor 't' has rows of 33 elements; Q8_0 needs a multiple of 32",
        ),
        (
            file().tensor("t", &[1], 0, &[0; 4]).entry("u", &[1], 0, 4),
            "the tensor 'u' begins at offset 4; the file's alignment is 32",
        ),
        (
            file().tensor("t", &[1], 0, &[0; 4]).entry("u", &[1], 0, 32),
            "the tensor 'u' needs 4 bytes at offset 32; the file has 4 bytes of tensor data",
        ),
        (
            file().entry("t", &[1], 0, u64::MAX - 31),
            "the tensor 't' needs 4 bytes at offset 18446744073709551584; the file has 0 bytes of tensor data",
        ),
        (
            file().tensor("t", &[1], 0, &[0; 4]).entry("t", &[1], 0, 0),
            "the tensor 't' stands twice",
        ),
        (
            file().entry(&"t".repeat(65), &[1], 0, 0),
            "the name of tensor 0 has 65 bytes; at most 64 are permitted",
        ),
    ] {
        assert_eq!(complaint(&file), expected);
    }
}

#[test]
fn tensors_that_share_bytes_are_refused_and_neighbours_in_any_order_are_not() {
    let file = TestFile::new().tensor("a", &[12], 0, &[0; 48]).tensor("b", &[1], 0, &[0; 4]);
    assert_eq!(
        complaint(&file.clone().entry("c", &[8], 0, 32)),
        "the tensor 'c' begins at offset 32, within the tensor 'a', which ends at 48"
    );
    assert_eq!(
        complaint(&file.clone().entry("c", &[12], 0, 0)),
        "the tensor 'c' begins at offset 0, within the tensor 'a', which ends at 48"
    );
    let mut backwards = file;
    backwards.tensors.reverse();
    parse(&backwards).unwrap();
}

#[test]
fn names_from_the_file_cannot_spread_over_lines() {
    let file = TestFile::new().raw(&format!("a\nb\x1b[31m{}", "c".repeat(100)), 77, &[]);
    let message = complaint(&file);
    assert!(message.starts_with(r"the metadata value 'a\nb\u{1b}[31mccc"), "{message}");
}

#[test]
fn the_alignment_is_the_files_own() {
    let mut file = TestFile::new().u32("general.alignment", 64);
    file.alignment = 64;
    let file = file.tensor("t", &[1], 0, &[0; 4]).tensor("u", &[1], 24, &[9]);
    let file = parse(&file).unwrap();
    assert_eq!(file.tensor_data(file.tensor("u").unwrap()).bytes(), [9]);
}

#[test]
fn what_is_no_file_cannot_be_opened() {
    for path in ["/", "/no such file"] {
        let error = Gguf::open(Path::new(path)).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot open the model '{path}'"));
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[test]
fn an_empty_file_is_mapped_and_then_refused() {
    let path = std::env::temp_dir().join(format!("logitchain-empty-{}.gguf", std::process::id()));
    std::fs::write(&path, []).unwrap();
    let result = Gguf::open(&path);
    std::fs::remove_file(&path).unwrap();
    let message = result.unwrap_err().to_string();
    assert!(message.starts_with("the file ends too early: the magic number"), "{message}");
}

/// Reads all that can be read: nothing may panic, whatever it says.
fn use_everything(file: &Gguf) {
    for key in file.keys() {
        let _ = (file.string(key), file.bool(key), file.u32(key), file.f32(key));
        let _ = (file.strings(key), file.f32s(key), file.i32s(key));
    }
    for (_, info) in file.tensors() {
        let _ = file.tensor_data(info).bytes().len();
    }
}

proptest! {
    #[test]
    fn a_damaged_sample_never_panics(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6)
    ) {
        let mut bytes = sample().bytes();
        for (index, byte) in damage {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        if let Ok(file) = Gguf::from_bytes(bytes) {
            use_everything(&file);
        }
    }

    #[test]
    fn any_bytes_after_a_true_header_never_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200), counts in any::<[u8; 2]>()
    ) {
        let claimed = counts.map(|n| Some(u64::from(n % 4)));
        let mut file = TestFile { claimed, alignment: 1, ..TestFile::new() }.bytes();
        file.extend(bytes);
        if let Ok(file) = Gguf::from_bytes(file) {
            use_everything(&file);
        }
    }
}

/// A model of three parts, in a folder of its own that goes with it.
struct Parts(std::path::PathBuf);

impl Parts {
    fn new(test: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("logitchain-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let parts = Self(folder);
        for number in 0..3 {
            parts.write(number, &part(number));
        }
        parts
    }

    fn path(&self, number: u16) -> std::path::PathBuf {
        self.0.join(format!("model-{:05}-of-00003.gguf", number + 1))
    }

    fn write(&self, number: u16, file: &TestFile) {
        std::fs::write(self.path(number), file.bytes()).unwrap();
    }

    /// What is wrong, and why.
    fn complaint(&self, number: u16) -> String {
        let error = Gguf::open(&self.path(number)).unwrap_err();
        let source = std::error::Error::source(&error);
        let folder = format!("{}/", self.0.display());
        let source = source.map_or_else(String::new, |source| format!(": {source}"));
        format!("{error}{source}").replace(&folder, "")
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn part(number: u16) -> TestFile {
    TestFile::new()
        .raw("split.no", 2, &number.to_le_bytes())
        .raw("split.count", 2, &3_u16.to_le_bytes())
        .raw("split.tensors.count", 5, &3_i32.to_le_bytes())
        .string("name", if number == 0 { "first" } else { "further" })
        .tensor_f32(&format!("t{number}"), &[1], &[f32::from(number)])
}

#[test]
fn a_model_in_parts_is_opened_by_its_first() {
    let parts = Parts::new("parts");
    let file = Gguf::open(&parts.path(0)).unwrap();
    assert_eq!(file.string("name"), Ok(Some("first")));
    for number in 0..3_u16 {
        let info = file.tensor(&format!("t{number}")).unwrap();
        assert_eq!(file.tensor_data(info).bytes(), f32::from(number).to_le_bytes());
    }
}

#[test]
fn parts_that_are_missing_or_wrong_are_named() {
    let parts = Parts::new("wrong-parts");
    assert_eq!(
        parts.complaint(2),
        "the file is part 3 of 3 of a model; give the first one, 'model-00001-of-00003.gguf'"
    );
    let used = "the model's part 'model-00003-of-00003.gguf' cannot be used: ";
    for (file, expected) in [
        (part(1), format!("{used}it should be part 3 of 3 of the model, and is part 2 of 3")),
        (
            TestFile::new(),
            format!("{used}it should be part 3 of 3 of the model, and is a whole model"),
        ),
        (part(2).tensor_f32("t0", &[1], &[0.0]), format!("{used}the tensor 't0' stands twice")),
        (
            part(2).without("t2"),
            "the model's parts have 2 tensors together; the first one says 3".to_owned(),
        ),
        (
            TestFile { magic: *b"NONE", ..part(2) },
            format!("{used}not a GGUF file: it begins with 'NONE', not with 'GGUF'"),
        ),
    ] {
        parts.write(2, &file);
        assert_eq!(parts.complaint(0), expected);
    }
    std::fs::remove_file(parts.path(2)).unwrap();
    assert_eq!(
        parts.complaint(0),
        format!("{used}cannot open the model 'model-00003-of-00003.gguf'")
    );
    let renamed = parts.0.join("renamed.gguf");
    std::fs::rename(parts.path(0), &renamed).unwrap();
    assert_eq!(
        Gguf::open(&renamed).unwrap_err().to_string(),
        "the file is part 1 of 3 of a model, so its name must end in '-00001-of-00003.gguf', or the others cannot be found"
    );
    assert_eq!(
        complaint(&part(0)),
        "this is part 1 of 3 of a model; open its first file by its path"
    );
    assert_eq!(
        complaint(&part(3)),
        "the metadata value 'split.no' is 3; it must be below split.count"
    );
}
