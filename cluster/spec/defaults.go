package spec

// EndOfWords is the last word of an image's kernel command line: what is behind it came from elsewhere.
const EndOfWords = "spore.end"

// MaxSlow bounds by how much a machine is slower than others: it is enough for an emulated processor.
const MaxSlow = 20
