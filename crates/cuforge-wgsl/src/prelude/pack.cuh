// Numbers packed into words.
