// Built-in functions of floats and of numbers in general.
