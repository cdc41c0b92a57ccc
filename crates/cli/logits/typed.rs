use std::str::FromStr;

/// Logits from the command line.
#[derive(Clone, Debug)]
pub(super) struct TypedLogits(pub(super) Vec<f32>);

impl FromStr for TypedLogits {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let logits = text.split(',').zip(0..).map(|(word, token)| match word.trim().parse() {
            Ok(logit) if logit < f32::INFINITY => {
                let finite = word.trim().parse::<f64>().is_ok_and(f64::is_finite);
                if finite && !f32::is_finite(logit) {
                    return Err(format!("`{word}`, of token {token}, is beyond the range of f32"));
                }
                Ok(logit)
            }
            Ok(_) => {
                Err(format!("`{word}`, of token {token}, is no logit: finite numbers and -inf are"))
            }
            Err(_) => Err(format!(
                "`{word}`, of token {token}, is not a number; write numbers with commas between \
                 them, as in 2,1.5,-inf"
            )),
        });
        Ok(Self(logits.collect::<Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logits_are_numbers_with_commas_between() {
        let logits: TypedLogits = "2.0, -1e3,-inf,.5".parse().expect("logits");
        assert_eq!(logits.0, [2.0, -1000.0, f32::NEG_INFINITY, 0.5]);
        for (text, start) in [
            ("", "``, of token 0, is not a number"),
            ("1,,2", "``, of token 1, is not a number"),
            ("1;2", "`1;2`, of token 0, is not a number"),
            ("1,NaN", "`NaN`, of token 1, is no logit"),
            ("inf", "`inf`, of token 0, is no logit"),
            ("1e39", "`1e39`, of token 0, is no logit"),
            ("-1e39", "`-1e39`, of token 0, is beyond the range of f32"),
        ] {
            let error = text.parse::<TypedLogits>().expect_err("no logits");
            assert!(error.starts_with(start), "{error}");
        }
    }
}
