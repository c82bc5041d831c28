//! The values of a script: numbers, words, lists, and items such as `SACK[flgs=0, gaps=[2:2]]`.

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// `...`: anything.
    Any,
    Number(i64),
    /// A constant of the C library, or flags joined by `|`.
    Word(String),
    Text(String),
    /// An IPv4 address.
    Address([u8; 4]),
    List(Vec<Value>),
    /// `2:3`.
    Range(i64, i64),
    Item(Item),
}

/// A name with fields: a chunk, a parameter, an error cause, or (without a name) a C structure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Item {
    pub name: String,
    /// A field without a name has an empty one.
    pub fields: Vec<(String, Value)>,
}

impl Item {
    /// The field of this name; [`Value::Any`] if it is not there.
    pub fn field(&self, name: &str) -> &Value {
        let mut fields = self.fields.iter();
        let found = fields.find(|(known, _)| known == name);
        found.map_or(&Value::Any, |(_, value)| value)
    }

    /// The number in a field; None for anything.
    pub fn number(&self, name: &str) -> Result<Option<i64>, String> {
        match self.field(name) {
            Value::Any => Ok(None),
            Value::Number(number) => Ok(Some(*number)),
            other => Err(format!("{}: {name}={other:?} is no number", self.name)),
        }
    }

    /// The values of a field that is a list; None for anything.
    pub fn list(&self, name: &str) -> Result<Option<&[Value]>, String> {
        match self.field(name) {
            Value::Any => Ok(None),
            Value::List(values) => Ok(Some(values)),
            other => Err(format!("{}: {name}={other:?} is no list", self.name)),
        }
    }

    /// Parameters or causes, which have no name in front; and whether more may follow (`...`).
    pub fn parts(&self) -> (Vec<&Item>, bool) {
        let unnamed = || self.fields.iter().filter(|(name, _)| name.is_empty());
        let parts = unnamed().filter_map(|(_, value)| match value {
            Value::Item(item) => Some(item),
            _ => None,
        });
        let is_open = unnamed().any(|(_, value)| *value == Value::Any);
        (parts.collect(), is_open)
    }
}

/// Reads values from a text.
pub struct Reader<'a> {
    text: &'a str,
}

impl<'a> Reader<'a> {
    pub fn new(text: &'a str) -> Reader<'a> {
        Reader { text }
    }

    /// What is not read yet, without spaces in front.
    pub fn rest(&mut self) -> &'a str {
        self.text = self.text.trim_start();
        self.text
    }

    /// Reads `mark` if it is next.
    pub fn take(&mut self, mark: &str) -> bool {
        let rest = self.rest().strip_prefix(mark);
        self.text = rest.unwrap_or(self.text);
        rest.is_some()
    }

    /// Reads `mark`, which must be next.
    pub fn expect(&mut self, mark: &str) -> Result<(), String> {
        match self.take(mark) {
            true => Ok(()),
            false => {
                let rest: String = self.rest().chars().take(30).collect();
                Err(format!("`{mark}` is missing before `{rest}`"))
            }
        }
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|symbol| !belongs(symbol)).unwrap_or(rest.len());
        self.text = &rest[end..];
        &rest[..end]
    }

    /// Reads a name; empty if none is next.
    pub fn name(&mut self) -> String {
        let starts = self
            .rest()
            .starts_with(|first: char| first.is_ascii_alphabetic());
        match starts {
            true => self
                .take_while(|symbol| symbol.is_ascii_alphanumeric() || symbol == '_')
                .to_owned(),
            false => String::new(),
        }
    }

    /// Reads values with commas between them up to `end`.
    pub fn list(&mut self, end: &str) -> Result<Vec<Value>, String> {
        let fields = self.fields(end)?;
        Ok(fields.into_iter().map(|(_, value)| value).collect())
    }

    fn fields(&mut self, end: &str) -> Result<Vec<(String, Value)>, String> {
        let mut fields = Vec::new();
        while !self.take(end) {
            if !fields.is_empty() {
                self.expect(",")?;
            }
            let before = self.text;
            let name = self.name();
            if !name.is_empty() && self.take("=") {
                fields.push((name, self.value()?));
            } else {
                self.text = before;
                fields.push((String::new(), self.value()?));
            }
        }
        Ok(fields)
    }

    /// Reads one value.
    pub fn value(&mut self) -> Result<Value, String> {
        if self.take("...") {
            return Ok(Value::Any);
        }
        if self.take("[") {
            return Ok(Value::List(self.list("]")?));
        }
        if self.take("{") {
            return Ok(Value::Item(Item {
                name: String::new(),
                fields: self.fields("}")?,
            }));
        }
        if self.take("\"") {
            let text = self.take_while(|symbol| symbol != '"').to_owned();
            self.expect("\"")?;
            return Ok(Value::Text(text));
        }
        if let Some(address) = self.bare_address() {
            return Ok(address);
        }
        match self.rest().chars().next() {
            Some(first) if first.is_ascii_digit() || first == '-' => self.numeric(),
            Some(first) if first.is_ascii_alphabetic() => self.word(),
            _ => Err(format!(
                "no value at `{}`",
                self.rest().chars().take(30).collect::<String>()
            )),
        }
    }

    /// Reads an IPv4 address.
    pub fn address(&mut self) -> Result<[u8; 4], String> {
        match self.value()? {
            Value::Address(octets) => Ok(octets),
            other => Err(format!("{other:?} is no address")),
        }
    }

    /// Reads an IPv6 address without quotes, if it is next.
    fn bare_address(&mut self) -> Option<Value> {
        let belongs = |symbol: char| symbol.is_ascii_hexdigit() || symbol == ':';
        let rest = self.rest();
        let end = rest.find(|symbol| !belongs(symbol)).unwrap_or(rest.len());
        let text = &rest[..end];
        let is_address = text.parse::<std::net::Ipv6Addr>().is_ok();
        is_address.then(|| {
            self.text = &rest[end..];
            Value::Text(text.to_owned())
        })
    }

    fn numeric(&mut self) -> Result<Value, String> {
        let is_address = self
            .rest()
            .split(|symbol: char| !(symbol.is_ascii_digit() || symbol == '.'))
            .next();
        let octets: Vec<&str> = is_address.unwrap_or_default().split('.').collect();
        if let [_, _, _, _] = octets[..] {
            let octets = octets.iter().map(|octet| octet.parse::<u8>());
            let octets = octets
                .collect::<Result<Vec<u8>, _>>()
                .map_err(|e| e.to_string())?;
            self.take_while(|symbol| symbol.is_ascii_digit() || symbol == '.');
            return octets
                .try_into()
                .map(Value::Address)
                .map_err(|_| "an address".into());
        }
        let number = self.number()?;
        match self.take(":") {
            true => Ok(Value::Range(number, self.number()?)),
            false => Ok(Value::Number(number)),
        }
    }

    /// Reads a number, decimal or hexadecimal.
    pub fn number(&mut self) -> Result<i64, String> {
        let is_negative = self.take("-");
        let digits = self.take_while(|symbol| symbol.is_ascii_alphanumeric());
        let parsed = match digits.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => digits.parse(),
        };
        let number = parsed.map_err(|_| format!("`{digits}` is no number"))?;
        Ok(if is_negative { -number } else { number })
    }

    fn word(&mut self) -> Result<Value, String> {
        let mut name = self.name();
        if self.take("[") {
            return Ok(Value::Item(Item {
                name,
                fields: self.fields("]")?,
            }));
        }
        if self.take("(") {
            // htonl(1234): numbers of scripts are in host order here.
            let value = self.value()?;
            self.expect(")")?;
            return Ok(value);
        }
        while self.take("|") {
            name = format!("{name}|{}", self.name());
        }
        Ok(Value::Word(name))
    }
}
