// Built-in functions of bits.
