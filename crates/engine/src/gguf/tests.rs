use super::{test_file::TestFile, *};

#[test]
fn the_embedded_model_opens() {
    let file = Gguf::from_static(crate::EMBEDDED_GGUF).unwrap();
    // From the script that wrote the file.
    assert_eq!(file.tensors().count(), 56);
    assert_eq!(file.strings("tokenizer.ggml.tokens").unwrap().unwrap().len(), 2048);
}

#[test]
fn a_file_without_anything_is_sound() {
    let file = Gguf::from_bytes(TestFile::new().bytes()).unwrap();
    assert_eq!((file.keys().count(), file.tensors().count()), (0, 0));
}
