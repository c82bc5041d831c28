//! Measures made from others: numbers, names, `+ - * /` and parentheses.
//!
//! A name has letters, digits, underscores and dots and begins with a letter:
//! `circuits.0.exchange.min_us`.

/// A formula.
#[derive(Clone, Debug, PartialEq)]
pub enum Formula {
    /// A number.
    Number(f64),
    /// A measure, factor or column.
    Name(String),
    /// Two formulas joined.
    Join(Box<Formula>, Operator, Box<Formula>),
}

/// What joins two formulas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `+`
    Plus,
    /// `-`
    Minus,
    /// `*`
    Times,
    /// `/`
    Over,
}

/// Most octets of a formula.
const OCTETS_MAX: usize = 500;

/// Most parentheses open at once: parsing recurses once for each.
const DEPTH_MAX: u32 = 20;

impl Formula {
    /// Reads a formula.
    ///
    /// # Errors
    ///
    /// What is wrong; what would be right.
    pub fn parse(text: &str) -> Result<Formula, String> {
        if text.len() > OCTETS_MAX {
            return Err(format!(
                "it is longer than {OCTETS_MAX} octets; name its parts"
            ));
        }
        let mut parser = Parser {
            rest: text.trim_start(),
            depth: 0,
        };
        let formula = parser.sum()?;
        match parser.rest.is_empty() {
            true => Ok(formula),
            false => Err(format!("{:?} joins nothing; use + - * /", parser.rest)),
        }
    }

    /// Its value; None where a name has none, or it is not finite.
    pub fn value(&self, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        let value = match self {
            Formula::Number(value) => *value,
            Formula::Name(name) => of(name)?,
            Formula::Join(left, operator, right) => {
                let (left, right) = (left.value(of)?, right.value(of)?);
                match operator {
                    Operator::Plus => left + right,
                    Operator::Minus => left - right,
                    Operator::Times => left * right,
                    Operator::Over => left / right,
                }
            }
        };
        value.is_finite().then_some(value)
    }

    /// The names in it.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Formula::Number(_) => Vec::new(),
            Formula::Name(name) => vec![name],
            Formula::Join(left, _, right) => [left.names(), right.names()].concat(),
        }
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: u32,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Formula, String> {
        let mut left = self.product()?;
        while let Some(operator) = self.operator(&[('+', Operator::Plus), ('-', Operator::Minus)]) {
            left = Formula::Join(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Formula, String> {
        let mut left = self.atom()?;
        while let Some(operator) = self.operator(&[('*', Operator::Times), ('/', Operator::Over)]) {
            left = Formula::Join(Box::new(left), operator, Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn operator(&mut self, known: &[(char, Operator)]) -> Option<Operator> {
        let first = self.rest.chars().next()?;
        let (_, operator) = known.iter().find(|(sign, _)| *sign == first)?;
        self.skip(1);
        Some(*operator)
    }

    fn atom(&mut self) -> Result<Formula, String> {
        let Some(first) = self.rest.chars().next() else {
            return Err("it ends early; a number or a name is missing".to_owned());
        };
        if first == '(' {
            return self.parentheses();
        }
        let is_name = first.is_ascii_alphabetic();
        let end = match is_name {
            true => self.end_of(|c, _| c.is_ascii_alphanumeric() || "_.".contains(c)),
            // The sign of an exponent belongs to the number.
            false => self.end_of(|c, before| {
                c.is_ascii_digit() || "_.eE".contains(c) || ("+-".contains(c) && before == 'e')
            }),
        };
        let word = self.rest[..end].to_owned();
        self.skip(end);
        if is_name {
            return Ok(Formula::Name(word));
        }
        let number = word.replace('_', "").parse().ok();
        let number = number.filter(|number: &f64| number.is_finite());
        number
            .map(Formula::Number)
            .ok_or_else(|| format!("{first:?} begins no number and no name; use a name or 1.5"))
    }

    fn parentheses(&mut self) -> Result<Formula, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("more than {DEPTH_MAX} parentheses; name its parts"));
        }
        self.skip(1);
        let inner = self.sum()?;
        self.depth -= 1;
        if !self.rest.starts_with(')') {
            return Err("a parenthesis is not closed; close it".to_owned());
        }
        self.skip(1);
        Ok(inner)
    }

    /// Where the characters end that are `kept`, given the one before.
    fn end_of(&self, kept: impl Fn(char, char) -> bool) -> usize {
        let mut before = ' ';
        for (place, c) in self.rest.char_indices() {
            if !kept(c, before) {
                return place;
            }
            before = c;
        }
        self.rest.len()
    }

    fn skip(&mut self, octets: usize) {
        self.rest = self.rest[octets..].trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        let of = |name: &str| match name {
            "a" => Some(6.0),
            "b.0.c_us" => Some(3.0),
            _ => None,
        };
        Formula::parse(text).expect("a formula").value(&of)
    }

    #[test]
    fn products_bind_closer_than_sums_and_left_first() {
        assert_eq!(value("a - 1 - 2 * b.0.c_us"), Some(-1.0));
        assert_eq!(value("100 * (a + b.0.c_us) / 2 / 1e2"), Some(4.5));
        assert_eq!(value("2e-1*a"), Some(1.2000000000000002));
    }

    #[test]
    fn unknown_name_and_division_by_zero_have_no_value() {
        assert_eq!(value("a + z"), None);
        assert_eq!(value("a / 0"), None);
        let names = Formula::parse("a*(z+1)").expect("a formula");
        assert_eq!(names.names(), ["a", "z"]);
    }

    #[test]
    fn wrong_formula_is_refused() {
        let deep = "(".repeat(2000);
        for text in ["", "1 +", "(a", "a b", "a $ b", "1.2.3", "é", &deep] {
            assert!(Formula::parse(text).is_err(), "{text:?}");
        }
    }
}
